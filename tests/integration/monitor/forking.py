"""The monitor that a test kills (tests/integration/forked.py)."""

import threading
from pathlib import Path
from typing import Any

import faust
from prometheus_client import CollectorRegistry

from sinks.metrics import DetectionMetrics, PipelineMetrics, ScoreMetrics
from stream.monitor import stage
from stream.monitor.stage import MonitorStage
from stream.monitor.state import Monitor
from stream.service.setup.config_file import load

_make_app = stage.make_app


def make_app_of_one_member(*arguments: Any, **options: Any) -> faust.App:
    """Make the app as a static member of its group: a new one takes the place of a killed one without a wait."""
    app = _make_app(*arguments, **options)
    app.conf.consumer_group_instance_id = "one"
    return app


def run_monitor(config: Path) -> None:
    stage.make_app = make_app_of_one_member
    settings, registry = load(config, {}), CollectorRegistry()
    monitor = Monitor(settings.monitor, PipelineMetrics(registry), ScoreMetrics(registry))
    MonitorStage(settings, monitor, DetectionMetrics(registry)).run(threading.Event())

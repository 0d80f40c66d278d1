"""Starts monitors for a test that kills them (tests/integration/forked.py)."""

import os
import sys
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
from tests.integration.forked import start_forks

_make_app = stage.make_app


def make_app_of_one_member(*arguments: Any, **options: Any) -> faust.App:
    """Make the app as a static member of its group: a new one takes the place of a killed one without a wait."""
    app = _make_app(*arguments, **options)
    app.conf.consumer_group_instance_id = "one"
    return app


def main() -> None:
    config = load(Path(sys.argv[1]), os.environ)
    stage.make_app = make_app_of_one_member

    def run() -> None:
        registry = CollectorRegistry()
        monitor = Monitor(config.monitor, PipelineMetrics(registry), ScoreMetrics(registry))
        MonitorStage(config, monitor, DetectionMetrics(registry)).run(threading.Event())

    start_forks(run)


if __name__ == "__main__":
    main()

"""The archivist that a test kills (tests/integration/forked.py)."""

import threading
from pathlib import Path

from prometheus_client import CollectorRegistry

from sinks.metrics import ArchiveMetrics, PipelineMetrics
from stream.archivist.stage import Archivist
from stream.service.setup.config_file import load


def run_archivist(config: Path) -> None:
    registry = CollectorRegistry()
    Archivist(load(config, {}), PipelineMetrics(registry), ArchiveMetrics(registry)).run(threading.Event())

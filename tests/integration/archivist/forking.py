"""Starts archivists for a test that kills them (tests/integration/forked.py)."""

import os
import sys
import threading
from pathlib import Path

from prometheus_client import CollectorRegistry

from sinks.metrics import ArchiveMetrics, PipelineMetrics
from stream.archivist.stage import Archivist
from stream.service.setup.config_file import load
from tests.integration.forked import start_forks


def main() -> None:
    config = load(Path(sys.argv[1]), os.environ)

    def run() -> None:
        registry = CollectorRegistry()
        Archivist(config, PipelineMetrics(registry), ArchiveMetrics(registry)).run(threading.Event())

    start_forks(run)


if __name__ == "__main__":
    main()

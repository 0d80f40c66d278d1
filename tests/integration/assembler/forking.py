"""Starts assemblers for a test that kills them (tests/integration/forked.py)."""

import logging
import os
import sys
import threading
from pathlib import Path

from prometheus_client import CollectorRegistry

from sinks.metrics import AssemblerMetrics, PipelineMetrics
from stream.assembler.stage import Assembler
from stream.service.setup.config_file import load
from tests.integration.forked import start_forks


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(message)s")
    config = load(Path(sys.argv[1]), os.environ)

    def run() -> None:
        registry = CollectorRegistry()
        Assembler(config, PipelineMetrics(registry), AssemblerMetrics(registry)).run(threading.Event())

    start_forks(run)


if __name__ == "__main__":
    main()

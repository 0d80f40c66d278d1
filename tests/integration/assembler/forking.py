"""The assembler that a test kills (tests/integration/forked.py)."""

import logging
import threading
from pathlib import Path

from prometheus_client import CollectorRegistry

from sinks.metrics import AssemblerMetrics, PipelineMetrics
from stream.assembler.stage import Assembler
from stream.service.setup.config_file import load


def run_assembler(config: Path) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(message)s")
    registry = CollectorRegistry()
    Assembler(load(config, {}), PipelineMetrics(registry), AssemblerMetrics(registry)).run(threading.Event())

"""Starts archivists fast, for a test that kills them: python forking.py CONFIG, then a line on standard input for each.

Importing the program takes longer than starting an archivist. This process imports it once and has no threads, so that
a copy of it is as good as a new one. It prints the id of every process that it starts.
"""

import os
import sys
import threading
from pathlib import Path

from prometheus_client import CollectorRegistry

from sinks.metrics import ArchiveMetrics, PipelineMetrics
from stream.archivist.stage import Archivist
from stream.service.setup.config_file import load


def main() -> None:
    config = load(Path(sys.argv[1]), os.environ)
    for _line in sys.stdin:
        process = os.fork()
        if not process:
            registry = CollectorRegistry()
            Archivist(config, PipelineMetrics(registry), ArchiveMetrics(registry)).run(threading.Event())
        print(process, flush=True)
        os.waitpid(process, 0)


if __name__ == "__main__":
    main()

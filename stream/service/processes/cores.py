"""The cores that this process may use, for commands that start a process for each."""

import os


def cores() -> int:
    """Those that this process may use, where the system tells; else those that there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

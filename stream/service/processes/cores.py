"""The cores that this process may use, for commands that start a process for each."""

import os


def cores() -> int:
    """Return the number of cores that this process may use, or of all cores if the system does not report that."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

"""Time limits that allow for a busy machine."""

import os


def patience() -> float:
    """Return how many times longer work takes now than on an idle machine: runnable processes per core, at least 1.

    Tests state limits in seconds of an idle machine and multiply them by this. A limit only ends a wait for something
    that never happens, so a longer one makes no test pass that should fail.
    """
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))

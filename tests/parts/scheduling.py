"""Which process runs which tests: those that mostly wait run beside those that only compute."""

from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController

_LONG = ("tests/integration/", "tests/benchmarks/", "tests/fuzz/", "tests/upgrade/")
# Of this many processes, one begins with the files.
_PROCESSES = 4


def is_long(nodeid: str) -> bool:
    return nodeid.startswith(_LONG)


class FileScheduling(LoadGroupScheduling):
    """Gives a process a group, a long test, or the tests of a file.

    To send thousands of short tests one by one takes a minute of processor time. One process of four begins with the
    files, whose tests compute while the other processes wait for brokers, browsers and clocks.
    """

    def _split_scope(self, nodeid: str) -> str:
        scope = super()._split_scope(nodeid)
        return scope if scope != nodeid or is_long(nodeid) else nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        if self.nodes.index(node) % _PROCESSES == 0:
            file = next((scope for scope in self.workqueue if scope.endswith(".py")), None)
            if file is not None:
                self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)

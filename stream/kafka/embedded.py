"""The embedded broker: librdkafka's own in-process cluster in a child process, for a first look and for tests.

It speaks the Kafka protocol over loopback, creates topics on first use (4 partitions each), keeps nothing on disk,
drops records beyond 5 MiB a partition, does not isolate transactions and ignores the offsets sent within them. Never
use it in production.
"""

import logging
import subprocess
import sys
from collections.abc import Iterable
from typing import Self

from confluent_kafka import Producer

log = logging.getLogger(__name__)

# The prefix of a mock cluster's id; a real cluster's id is a base64 UUID.
_CLUSTER_ID_PREFIX = "mockCluster"
_START_SECONDS = 60.0


class EmbeddedBroker:
    """A broker that runs until the end of the `with` block, or of this process, however that ends."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.bootstrap = ""

    def __enter__(self) -> Self:
        # The child holds the read end of our pipe: it reads end-of-file when we are gone, even by SIGKILL.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "stream.kafka.embedded"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # A Ctrl-C at the terminal must reach the stages first: they commit, then the broker goes.
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.bootstrap = self._process.stdout.readline().strip()
        if not self.bootstrap:
            self.stop()
            raise RuntimeError(
                "the embedded broker did not start; run `python -m stream.kafka.embedded` to see the reason"
            )
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def make_topics(self, names: Iterable[str]) -> None:
        """Create topics before they are read."""
        make_topics(self.bootstrap, names)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """Stop the broker and drop its records."""
        if self._process is None:
            return
        process, self._process = self._process, None
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def make_topics(bootstrap: str, names: Iterable[str]) -> None:
    """Create topics on an embedded broker: a producer's metadata request creates them."""
    client = Producer({"bootstrap.servers": bootstrap}, logger=log)
    for name in names:
        client.list_topics(name, timeout=_START_SECONDS)


def is_embedded(cluster_id: str | None) -> bool:
    """Return whether a cluster id is that of an embedded broker, whose gaps the stages must work around."""
    return cluster_id is not None and cluster_id.startswith(_CLUSTER_ID_PREFIX)


def _serve() -> None:
    # log_level 3 hides the cluster's notice that it is a mock; the program says so itself.
    cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "embedded", "log_level": 3})
    brokers = cluster.list_topics(timeout=_START_SECONDS).brokers.values()
    sys.stdout.write(",".join(f"{broker.host}:{broker.port}" for broker in brokers) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    _serve()

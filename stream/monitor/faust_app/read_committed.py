"""Makes Faust read committed records only; by default it does so only when it uses transactions itself."""

from typing import Any

import aiokafka
import faust
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer


class _CommittedThread(AIOKafkaConsumerThread):  # type: ignore[misc]
    def _create_worker_consumer(self, transport: Any) -> aiokafka.AIOKafkaConsumer:
        client = super()._create_worker_consumer(transport)
        # Read when the client starts.
        client._isolation_level = "read_committed"
        return client


class _CommittedConsumer(Consumer):  # type: ignore[misc]
    def _new_consumer_thread(self) -> AIOKafkaConsumerThread:
        return _CommittedThread(self, loop=self.loop, beacon=self.beacon)


def read_committed_only(app: faust.App) -> None:
    """Make the app's consumers skip aborted records. Call it before the app starts."""
    app.transport.Consumer = _CommittedConsumer

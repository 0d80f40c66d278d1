"""Faust's consumer with two changes: it reads committed records only, and it stops while the broker is down."""

import asyncio
from contextlib import suppress
from typing import Any

import aiokafka
import faust
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer


class _MonitorThread(AIOKafkaConsumerThread):  # type: ignore[misc]
    def _create_worker_consumer(self, transport: Any) -> aiokafka.AIOKafkaConsumer:
        client = super()._create_worker_consumer(transport)
        # Read when the client starts. By default, Faust skips aborted records only if it uses transactions itself.
        client._isolation_level = "read_committed"
        return client

    async def on_thread_stop(self) -> None:
        # aiokafka cancels a fetch that waits to try again, and lets the cancellation escape from its own `stop()`.
        with suppress(asyncio.CancelledError):
            await super().on_thread_stop()


class _MonitorConsumer(Consumer):  # type: ignore[misc]
    def _new_consumer_thread(self) -> AIOKafkaConsumerThread:
        return _MonitorThread(self, loop=self.loop, beacon=self.beacon)


def use_monitor_consumer(app: faust.App) -> None:
    """Make the app use this consumer. Call it before the app starts."""
    app.transport.Consumer = _MonitorConsumer

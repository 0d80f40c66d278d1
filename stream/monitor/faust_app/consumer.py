"""Faust's consumer with three changes.

It can skip aborted records, it stops while the broker is down, and it leaves it to our watchdog to notice a standstill.
"""

import asyncio
from contextlib import suppress
from typing import Any

import aiokafka
import faust
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer


class _StoppableThread(AIOKafkaConsumerThread):  # type: ignore[misc]
    async def on_thread_stop(self) -> None:
        # aiokafka cancels a fetch that waits to try again, and lets the cancellation escape from its own `stop()`.
        with suppress(asyncio.CancelledError):
            await super().on_thread_stop()


class _CommittedThread(_StoppableThread):
    def _create_worker_consumer(self, transport: Any) -> aiokafka.AIOKafkaConsumer:
        client = super()._create_worker_consumer(transport)
        # Read when the client starts. By default, Faust skips aborted records only if it uses transactions itself.
        client._isolation_level = "read_committed"
        return client


class _StoppableConsumer(Consumer):  # type: ignore[misc]
    thread_class: type[AIOKafkaConsumerThread] = _StoppableThread

    def _new_consumer_thread(self) -> AIOKafkaConsumerThread:
        return self.thread_class(self, loop=self.loop, beacon=self.beacon)

    async def verify_all_partitions_active(self) -> None:
        """Do nothing: Faust's check crashes the app while a slow broker has not reported a partition's position."""


class _CommittedConsumer(_StoppableConsumer):
    thread_class = _CommittedThread


def replace_consumer(app: faust.App, *, committed_only: bool) -> None:
    """Make the app use our consumer, with `committed_only` without aborted records. Call it before the app starts."""
    app.transport.Consumer = _CommittedConsumer if committed_only else _StoppableConsumer

"""Faust's consumer as the monitor uses it: what a slow or absent broker does to it."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace

import faust
import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.subscription_state import SubscriptionState
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread

from stream.config.model import Config
from stream.monitor.faust_app.app import make_app


@pytest.mark.parametrize("embedded", [False, True])
def test_a_fetch_that_is_cancelled_while_it_waits_does_not_fail_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedded: bool
) -> None:
    async def stop(_thread: AIOKafkaConsumerThread) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(AIOKafkaConsumerThread, "on_thread_stop", stop)
    app = make_app(Config(), None, embedded=embedded, folder=str(tmp_path))
    thread = object.__new__(app.transport.Consumer.thread_class)
    asyncio.run(thread.on_thread_stop())


async def check_partition_without_position(app: faust.App) -> None:
    """Have the app's consumer check a partition that it has read, and whose position it then asks for again."""
    place, subscriptions = TopicPartition("rag.scores", 0), SubscriptionState()
    subscriptions.assign_from_user([place])
    subscriptions.subscription.assignment.state_value(place).timestamp = 1000 * time.time()
    thread = app.consumer._thread
    thread._consumer = SimpleNamespace(
        _fetcher=SimpleNamespace(_subscriptions=subscriptions), assignment=subscriptions.assigned_partitions
    )
    thread.time_started = time.monotonic()
    try:
        await app.consumer.verify_all_partitions_active()
    finally:
        thread.thread_loop.close()


@pytest.mark.parametrize("embedded", [False, True])
def test_a_partition_without_a_known_position_does_not_crash_the_monitor(tmp_path: Path, embedded: bool) -> None:
    async def check() -> None:
        await check_partition_without_position(make_app(Config(), None, embedded=embedded, folder=str(tmp_path)))

    asyncio.run(check())

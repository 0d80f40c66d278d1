"""Faust's consumer as the monitor uses it: it stops while the broker is down."""

import asyncio
from pathlib import Path

import pytest
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

"""Defects of Faust that the monitor works around. Once one is fixed, its test here fails."""

import asyncio

import faust
import pytest
from faust.types import TP

from tests.stream.monitor.faust_app.test_consumer import check_partition_without_position


def make_app(**settings: object) -> faust.App:
    return faust.App("defects", broker="kafka://127.0.0.1:1", web_enabled=False, loghandlers=[], **settings)


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="https://github.com/faust-streaming/faust/issues/606: acks out of order commit past a record",
)
def test_no_offset_is_committed_past_an_unacknowledged_record() -> None:
    """The agent has one actor because several would acknowledge out of order."""

    async def next_commit() -> int | None:
        consumer = make_app().consumer
        partition = TP("topic", 0)
        consumer._committed_offset[partition] = 4
        # 4 is in progress; 5 and 6 are done.
        consumer._acked[partition].extend([5, 6])
        consumer._thread.thread_loop.close()
        return consumer._new_offset(partition)

    assert asyncio.run(next_commit()) is None


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="Faust prefers unprefixed environment variables to its own arguments",
)
def test_arguments_of_an_app_take_precedence_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The monitor checks the effective settings after construction because they do not."""
    monkeypatch.setenv("BROKER_URL", "kafka://elsewhere:9092")
    assert [str(url) for url in make_app().conf.broker] == ["kafka://127.0.0.1:1"]


@pytest.mark.xfail(strict=True, raises=AssertionError, reason="Faust asks aiokafka for a position that it may not have")
def test_a_partition_without_a_known_position_does_not_crash_the_app() -> None:
    """The monitor has its own watchdog, and turns this check off."""

    async def check() -> None:
        await check_partition_without_position(make_app())

    asyncio.run(check())

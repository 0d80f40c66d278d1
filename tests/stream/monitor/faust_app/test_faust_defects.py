"""Defects of Faust that the monitor works around. The day one is mended, its test here fails, and so tells us."""

import asyncio

import faust
import pytest
from faust.types import TP


def make_app(**settings: object) -> faust.App:
    return faust.App("defects", broker="kafka://127.0.0.1:1", web_enabled=False, loghandlers=[], **settings)


@pytest.mark.xfail(
    strict=True, reason="https://github.com/faust-streaming/faust/issues/606: acks out of order commit past a record"
)
def test_nothing_is_committed_past_a_record_that_is_not_acknowledged() -> None:
    """Why the agent has one actor: with several, acknowledgements come out of order."""

    async def next_commit() -> int | None:
        consumer = make_app().transport.create_consumer(lambda _message: None)
        partition = TP("topic", 0)
        consumer._committed_offset[partition] = 4
        # 4 is being worked on; 5 and 6 are done.
        consumer._acked[partition].extend([5, 6])
        return consumer._new_offset(partition)

    assert asyncio.run(next_commit()) is None


@pytest.mark.xfail(strict=True, reason="Faust prefers unprefixed environment variables to its own arguments")
def test_what_an_app_is_told_beats_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why the effective settings are checked after construction."""
    monkeypatch.setenv("BROKER_URL", "kafka://elsewhere:9092")
    assert [str(url) for url in make_app().conf.broker] == ["kafka://127.0.0.1:1"]

"""Replies: JSON that every browser reads, and replies that many viewers share."""

import json
import threading
from datetime import UTC, datetime

import pytest

from sinks.page.replies import json_reply
from sinks.page.reply_cache import ReplyCache
from sinks.web.routes import Reply
from tests.parts.patience import patience


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "</script>", "\u2028", "я", "\x00\x1b"])
def test_any_text_arrives_as_it_is(text: str) -> None:
    body = json_reply({"text": text}).body
    body.decode("utf-8", "strict")
    assert json.loads(body) == {"text": text}


def test_times_are_in_utc() -> None:
    assert json_reply([datetime(2026, 3, 1, 12, tzinfo=UTC)]).body == b'["2026-03-01T12:00:00.000Z"]'


def test_a_number_that_json_does_not_have_is_an_error() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        json_reply(float("nan"))


def test_what_has_no_json_form_is_an_error() -> None:
    with pytest.raises(TypeError, match="no JSON form for bytes"):
        json_reply(b"")


# The cache


class Counted:
    """Computes replies, and counts them."""

    def __init__(self, size: int = 1) -> None:
        self.number = 0
        self._size = size

    def __call__(self) -> Reply:
        self.number += 1
        return Reply(body=str(self.number).encode() * self._size)


def test_a_reply_is_computed_again_when_it_is_old() -> None:
    seconds = [0.0]
    cache, compute = ReplyCache(2.0, lambda: seconds[0]), Counted()
    assert [cache.get("a", compute).body for _ in range(3)] == [b"1"] * 3
    seconds[0] = 1.9
    assert cache.get("a", compute).body == b"1"
    seconds[0] = 2.0
    assert cache.get("a", compute).body == b"2"
    assert cache.get("b", compute).body == b"3"


def test_many_who_ask_at_once_wait_for_one_computation() -> None:
    cache, started, release = ReplyCache(60.0), threading.Event(), threading.Event()
    computed: list[int] = []

    def compute() -> Reply:
        computed.append(1)
        started.set()
        assert release.wait(10 * patience())
        return Reply(body=b"x")

    threads = [threading.Thread(target=cache.get, args=("a", compute)) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert started.wait(10 * patience())
    release.set()
    for thread in threads:
        thread.join()
    assert computed == [1]


def test_an_error_is_not_remembered() -> None:
    cache, compute = ReplyCache(60.0), Counted()

    def fail() -> Reply:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.get("a", fail)
    assert cache.get("a", compute).body == b"1"


def test_neither_large_replies_nor_endless_ones_are_kept() -> None:
    cache, compute = ReplyCache(60.0), Counted(size=1_000_001)
    assert cache.get("a", compute) is not cache.get("a", compute)
    small = Counted()
    for number in range(500):
        cache.get(number, small)
    assert cache.get(0, small).body == b"501"
    assert cache.get(499, small).body == b"500"

"""A dead letter that is too large is cut to fit, whatever headers its record has."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.base import Headers, Message
from sinks.topics.dead_letters import OWN_HEADERS, DeadLetter, DeadLetterTopic
from sinks.topics.headers import HEADERS, HEADERS_DROPPED, KEY_TRUNCATED_FROM, VALUE_TRUNCATED_FROM
from stream.errors import StageError
from stream.kafka.producers.oversize import fit_to_limits

KIB = 1024
# The parts of the value, the key and the headers that are kept, and room for the reason.
MOST = (256 + 16 + 16 + 4) * KIB


def letter(value: bytes | None = b"{", *, key: bytes | None = None, headers: Headers = ()) -> Message:
    item = DeadLetter(
        stage="sampler",
        error_type="bad_json",
        error_message="not JSON",
        attempts=1,
        topic="rag.interactions",
        partition=0,
        offset=7,
        failed_at=datetime(2026, 11, 18, tzinfo=UTC),
        key=key,
        value=value,
        headers=headers,
    )
    (message,) = DeadLetterTopic("rag.deadletter").messages(item)
    return message


def cut(message: Message) -> Message:
    (smaller,) = fit_to_limits([message], [message], compressed=True)
    return smaller


def varint_size(number: int) -> int:
    """Return the bytes of a length in a record: zigzag, seven bits a byte."""
    return max(1, -(-(2 * number).bit_length() // 7))


def size_on_topic(message: Message) -> int:
    parts = [message.key, message.value, *(part for name, value in message.headers for part in (name.encode(), value))]
    return sum(varint_size(len(part or b"")) + len(part or b"") for part in parts)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param((("x", b"h" * 1_048_300),), id="a name of its own"),
        pytest.param((("sj-x", b"h" * 1_048_300),), id="a name like ours"),
        *(pytest.param(((name, b"h" * 1_048_300),), id=name) for name in HEADERS),
        pytest.param((("n" * 1_048_300, b""),), id="a long name"),
        pytest.param(tuple((f"sj-{number}", b"h" * 10) for number in range(60_000)), id="thousands"),
        pytest.param((("", None),) * 500_000, id="empty"),
    ],
)
def test_no_header_makes_a_letter_that_cannot_be_cut(headers: Headers) -> None:
    """Anyone who writes to the source can choose such headers, and its value stays whole."""
    message = letter(headers=headers)
    smaller = cut(message)
    assert size_on_topic(smaller) <= MOST
    assert smaller.value == b"{"
    own = {name: value for name, value in message.headers if name in OWN_HEADERS}
    kept = dict(smaller.headers)
    assert {name: kept[name] for name in OWN_HEADERS} == own


def test_small_headers_stay_on_a_letter_that_is_cut_for_its_value() -> None:
    headers = (("sj-rule", b"default"), ("traceparent", b"00"))
    smaller = cut(letter(b"x" * 300 * KIB, headers=headers))
    assert smaller.value == b"x" * 256 * KIB
    assert smaller.headers[:2] == headers
    marks = dict(smaller.headers)
    assert marks[VALUE_TRUNCATED_FROM] == b"307200"
    assert HEADERS_DROPPED not in marks


def test_dropped_headers_and_a_truncated_key_are_marked() -> None:
    marks = dict(cut(letter(key=b"k" * 20_000, headers=(("sj-x", b"h" * 20_000), ("y", b"")))).headers)
    assert (marks[HEADERS_DROPPED], marks[KEY_TRUNCATED_FROM]) == (b"2", b"20000")


def test_a_letter_with_many_empty_headers_does_not_cut_the_larger_letters_of_its_transaction() -> None:
    """The limit of a topic follows from the size of a refused record."""
    large, other = letter(headers=(("", None),) * 500_000), letter(b"x" * 300 * KIB)
    assert fit_to_limits([large, other], [large], compressed=False)[1] == other


texts = st.builds(bytes.__mul__, st.binary(min_size=1, max_size=3), st.sampled_from([0, 1, 1000, 20_000, 300_000]))
names = st.sampled_from(sorted(HEADERS)) | st.text(st.characters(codec="utf-8"), max_size=20)
# A header and how often the record has it.
one, many = st.tuples(names, st.none() | texts), st.tuples(names, st.none() | st.binary(max_size=3))
repeated = st.tuples(one, st.just(1)) | st.tuples(many, st.just(20_000))


@given(st.none() | texts, st.none() | texts, st.lists(repeated, max_size=4))
def test_any_letter_is_cut_to_fit_once(
    value: bytes | None, key: bytes | None, parts: list[tuple[tuple[str, bytes | None], int]]
) -> None:
    headers = tuple(header for header, times in parts for _ in range(times))
    smaller = cut(letter(value, key=key, headers=headers))
    size = size_on_topic(smaller)
    assert size <= MOST
    assert (value or b"").startswith(smaller.value or b"")
    if len(value or b"") <= 256 * KIB:
        assert smaller.value == (value or b"")
    with pytest.raises(StageError, match=r"raise its max\.message\.bytes"):
        cut(smaller)

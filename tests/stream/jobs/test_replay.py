"""The replay, as far as it can be tested without a broker: dead letters, replay marks and the report."""

from datetime import UTC, datetime, timedelta

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from sinks.base import Headers
from sinks.topics.dead_letters import DeadLetter, DeadLetterTopic
from stream.cli.commands.replay import lines_of
from stream.cli.main import main
from stream.cli.support import cluster
from stream.cli.support.time_option import TimeOption
from stream.jobs.replay import Heap, ReplaySurvey, failure_time
from stream.kafka.offsets import Place
from stream.records.headers import is_mark, marked_letter, source_of

MARK = {"sj-replayed-partition": b"3", "sj-replayed-offset": b"17", "sj-replayed-to": b"rag.sampled"}
HEADERS = st.dictionaries(st.sampled_from(["own", *MARK, "sj-source-topic"]), st.binary(max_size=5)).map(
    lambda headers: tuple(headers.items())
)


def letter_headers(headers: Headers) -> dict[str, bytes | None]:
    letter = DeadLetter(
        stage="worker",
        error_type="bad_json",
        error_message="why",
        attempts=1,
        topic="rag.sampled",
        partition=2,
        offset=5,
        failed_at=datetime.now(UTC),
        key=None,
        value=b"{",
        headers=headers,
    )
    [message] = DeadLetterTopic("rag.deadletter").messages(letter)
    return dict(message.headers)


def test_a_mark_names_its_letter() -> None:
    assert is_mark(MARK)
    assert marked_letter(MARK) == (3, 17)


@given(HEADERS)
def test_a_dead_letter_is_never_a_replay_mark_and_names_its_source_whatever_the_headers(headers: Headers) -> None:
    """A service must not be able to make the pipeline forget a dead letter."""
    published = letter_headers(headers)
    assert not is_mark(published)
    assert source_of(published) == Place("rag.sampled", 2, 5)


@pytest.mark.parametrize("text", [b"0001-01-01T00:00:00+23:00", b"9999-12-31T23:59:59.999999", b"soon"])
def test_a_letter_with_a_forged_time_failed_when_it_was_written(text: bytes) -> None:
    assert failure_time({"sj-failed-at": text}, 1_000) == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert failure_time({}, 2**62).year == 9999


@given(st.dictionaries(st.sampled_from([*MARK, *(f"sj-source-{part}" for part in ("topic", "partition", "offset"))]),
                       st.none() | st.binary(max_size=30)))  # fmt: skip
def test_headers_of_any_bytes_are_read_or_are_none(headers: dict[str, bytes | None]) -> None:
    for parsed in (marked_letter(headers), source_of(headers)):
        assert parsed is None or all(number >= 0 for number in parsed[-2:] if isinstance(number, int))


def test_the_survey_lists_the_largest_group_first() -> None:
    first, last = (datetime(2026, 11, day, 9, 30, tzinfo=UTC) for day in (14, 15))
    many, few = Heap("unscored_timeout", "worker"), Heap("bad\x1bjson", "sampler")
    survey = ReplaySurvey(
        wanted={(0, 0): few, **{(1, number): many for number in range(1200)}},
        oldest={few: first, many: first},
        newest={few: first, many: last},
        moved_before=2,
        cut_short=1,
    )
    lines = list(lines_of(survey))
    assert lines[1] == "  1,200  unscored_timeout  worker   2026-11-14 09:30:00  2026-11-15 09:30:00"
    assert "\x1b" not in lines[2]
    assert lines[3:] == ["1,201 to move", "2 already moved", "1 not moved: truncated because of their size"]


@pytest.mark.parametrize(
    ("text", "ago"),
    [("90s", timedelta(seconds=90)), ("1.5h", timedelta(minutes=90)), ("2d", timedelta(days=2)), ("1w", timedelta(7))],
)
def test_a_time_may_be_given_as_an_age(text: str, ago: timedelta) -> None:
    before = datetime.now(UTC)
    parsed = TimeOption().convert(text, None, None)
    assert before - ago <= parsed <= datetime.now(UTC) - ago


def test_a_time_without_a_zone_is_in_utc() -> None:
    assert TimeOption().convert("2026-11-15T10:30", None, None) == datetime(2026, 11, 15, 10, 30, tzinfo=UTC)


@pytest.mark.parametrize("text", ["yesterday", "90", "", "-5m", "999999999w", "٣m"])
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="neither a time"):
        TimeOption().convert(text, None, None)


@pytest.mark.parametrize("command", ["audit", "replay"])
def test_help_has_examples(command: str) -> None:
    result = CliRunner().invoke(main, [command, "--help"])
    assert result.exit_code == 0
    assert f"  streamjury {command} " in result.output
    assert max(map(len, result.output.splitlines())) <= 120


@pytest.mark.parametrize("command", ["audit", "replay"])
def test_a_missing_broker_is_reported(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_ANSWER_SECONDS", 0.5)
    result = CliRunner(env={"STREAMJURY__KAFKA__BOOTSTRAP": "127.0.0.1:1"}).invoke(main, [command])
    assert result.exit_code == 3
    assert "no Kafka broker at 127.0.0.1:1" in result.stderr

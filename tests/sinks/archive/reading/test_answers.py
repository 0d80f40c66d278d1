"""Answers by filters: each exactly once, in order, whatever the filters and however small the pages."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.values.diagnosis import CELLS, DiagnosisCell
from sinks.archive.database import Database
from sinks.archive.reading import answers as module
from sinks.archive.reading.answers import (
    DISAGREEMENT,
    HIDDEN_LANES,
    AnswerFilter,
    AnswerRow,
    CursorError,
    Sort,
    find_answers,
)
from sinks.archive.reading.times import TimeRange
from tests.parts.archive import START_MS, Judged, fill

HOUR = 3_600_000
ALL = TimeRange(start=0, end=START_MS + 1000 * HOUR)
NUMBER = 300
WORDS = ("apple", "pear", "plum", "Straße", "груша")


def make_judged(number: int, rng: Random) -> Judged:
    scores = {name: rng.choice([None, 0.0, 0.25, 0.5, 1.0]) for name in ("clarity", "groundedness")}
    sufficiency = rng.choice([None, 0.0, 0.75, 1.0])
    return Judged(
        id=f"e{number}",
        # Many at the same time, so that ties have to be broken.
        at=START_MS + rng.randrange(24) * HOUR,
        app=rng.choice(["shop", "bank"]),
        tenant=rng.choice([None, "acme", "globex"]),
        model=rng.choice([None, "m1", "m2"]),
        lane=rng.choice(["main", "main", "safety", "canary", "backfill"]),
        composite=rng.choice([None, 0.0, 0.1, 0.5, rng.random()]),
        status=rng.choice(["ok", "unsafe", "incomplete"]),
        scores={
            **{name: scores[name] for name in rng.sample(sorted(scores), rng.randrange(3))},
            **({"context_sufficiency": sufficiency} if number % 2 else {}),
        },
        spread=rng.choice([None, 0.0, 0.49, DISAGREEMENT, 1.0]),
        tags={"region": rng.choice(["eu", "us"])} if rng.random() < 0.7 else {},
        question=f"{rng.choice(WORDS)} and {rng.choice(WORDS)}?",
        answer=rng.choice(["yes", "no", rng.choice(WORDS)]),
    )


JUDGED = [make_judged(number, Random(number)) for number in range(NUMBER)]


@pytest.fixture(scope="module")
def archive(make_url: Any) -> Iterator[Database]:
    with Database(make_url()) as database:
        fill(database, JUDGED)
        yield database


def maybe(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([None, None, *values])


hours = st.integers(-1, 25)
periods = (
    st.tuples(hours, hours)
    .map(sorted)
    .map(lambda ends: TimeRange(start=START_MS + ends[0] * HOUR, end=START_MS + ends[1] * HOUR + 1))
)
filters = st.builds(
    AnswerFilter,
    period=st.just(ALL) | periods,
    app=maybe("shop", "nowhere"),
    model=maybe("m1"),
    tenant=maybe("acme"),
    tag=maybe(("region", "eu"), ("region", "none")),
    criterion=maybe("clarity", "unknown"),
    least=maybe(0.0, 0.1, 0.5),
    most=maybe(0.25, 1.0),
    status=maybe("unsafe"),
    cell=maybe(*DiagnosisCell),
    disagreement=st.booleans(),
    text=maybe("apple", "APPLE pear", "straße", "груша", "nothing", '"', "apple OR"),
    lane=maybe("main", "canary"),
)


def cell_of(judged: Judged) -> DiagnosisCell | None:
    both = [judged.scores.get(name) for name in ("context_sufficiency", "groundedness")]
    return None if None in both else CELLS[both[0] >= 0.75, both[1] >= 0.75]  # type: ignore[operator]


def is_wanted(judged: Judged, wanted: AnswerFilter) -> bool:
    """The filter once more, in plain Python."""
    score = judged.composite if wanted.criterion is None else judged.scores.get(wanted.criterion)
    words = f"{judged.question} {judged.answer}".lower().replace("?", " ").split()
    return (
        wanted.period.start <= judged.at < wanted.period.end
        and wanted.app in {None, judged.app}
        and wanted.model in {None, judged.model}
        and wanted.tenant in {None, judged.tenant}
        and (wanted.tag is None or wanted.tag in judged.tags.items())
        and (wanted.criterion is None or wanted.criterion in judged.scores)
        and (wanted.least is None or (score is not None and score >= wanted.least))
        and (wanted.most is None or (score is not None and score <= wanted.most))
        and wanted.status in {None, judged.status}
        and (wanted.cell is None or cell_of(judged) is wanted.cell)
        and (not wanted.disagreement or (judged.spread or 0.0) >= DISAGREEMENT)
        and (wanted.text is None or has_words(words, wanted.text))
        and (judged.lane == wanted.lane if wanted.lane else judged.lane not in HIDDEN_LANES)
    )


def has_words(words: Sequence[str], text: str) -> bool:
    searched = [word.lower() for word in text.split() if word.strip('"')]
    return bool(searched) and all(word in words for word in searched)


def read_all(database: Database, wanted: AnswerFilter, sort: Sort, limit: int) -> list[AnswerRow]:
    rows: list[AnswerRow] = []
    cursor = None
    while True:
        with database.read() as connection:
            page = find_answers(connection, wanted, sort=sort, cursor=cursor, limit=limit)
        assert len(page.answers) <= limit
        rows += page.answers
        assert len(rows) <= NUMBER, "pages that repeat answers would never end"
        cursor = page.next_cursor
        if cursor is None:
            return rows


@given(wanted=filters, sort=st.sampled_from(["worst", "newest"]), limit=st.integers(1, 60), few=st.booleans())
def test_every_wanted_answer_is_listed_exactly_once_and_in_order(
    archive: Database, wanted: AnswerFilter, sort: Sort, limit: int, few: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if few:  # as if there were many answers, tags and texts: other indexes are read
            for name in ("_FEW_IN_RANGE", "_FEW_TAGGED", "_FEW_TEXTS", *(["_MANY_TEXTS"] if limit % 2 else [])):
                patch.setattr(module, name, 0)
        rows = read_all(archive, wanted, sort, max(limit, 5))
    expected = {judged.id: judged for judged in JUDGED if is_wanted(judged, wanted)}
    assert sorted(row.id for row in rows) == sorted(expected)
    for one, other in pairwise(expected[row.id] for row in rows):
        assert sort_key(one, wanted, sort) <= sort_key(other, wanted, sort)


def sort_key(judged: Judged, wanted: AnswerFilter, sort: Sort) -> float:
    if sort == "newest":
        return -judged.at
    score = judged.composite if wanted.criterion is None else judged.scores.get(wanted.criterion)
    return math.inf if score is None else score


@pytest.mark.parametrize("sort", ["worst", "newest"])
def test_answers_that_arrive_while_one_turns_pages_move_none_of_them(make_url: Any, sort: Sort) -> None:
    wanted = AnswerFilter(period=ALL)
    with Database(make_url()) as database:
        fill(database, [replace(judged, lane="main") for judged in JUDGED[:50]])
        listed: list[str] = []
        cursor = None
        for number in range(1000):
            with database.read() as connection:
                page = find_answers(connection, wanted, sort=sort, cursor=cursor, limit=7)
            listed += [row.id for row in page.answers]
            cursor = page.next_cursor
            if cursor is None:
                break
            fill(database, [replace(JUDGED[number], id=f"new{number}", at=START_MS + 30 * HOUR, composite=0.3)])
        before = {judged.id for judged in JUDGED[:50]}
        assert len(listed) == len(set(listed))
        assert before <= set(listed)


def test_pages_keep_the_time_range_of_the_first(archive: Database) -> None:
    wanted = AnswerFilter(period=ALL)
    with archive.read() as connection:
        first = find_answers(connection, wanted, sort="newest", cursor=None, limit=5)
        moved = replace(wanted, period=TimeRange(start=0, end=1))
        second = find_answers(connection, moved, sort="newest", cursor=first.next_cursor, limit=5)
    assert len(second.answers) == 5


@pytest.mark.parametrize(
    "cursor", ["", "x", "!!!", "W10", "WzEsMiwzXQ", "WzEsMiwidCIsM10", "eyJhIjoxfQ", "WzEsMixudWxsLC0xXQ"]
)
def test_a_cursor_that_is_none_is_refused(archive: Database, cursor: str) -> None:
    with archive.read() as connection, pytest.raises(CursorError):
        find_answers(connection, AnswerFilter(period=ALL), sort="worst", cursor=cursor, limit=5)

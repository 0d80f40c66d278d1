"""Finds answers by filters, sorted, in pages that do not shift while new answers arrive.

A page ends with a cursor: the sort key of its last answer. The next page begins after it, however many answers were
archived in between, so each answer is shown exactly once.

The choice of the index makes the difference between milliseconds and seconds. If a time range has few answers, they are
read by time and sorted. If it has many, they are read in the order of their scores until the page is full. Rare tags
and words are looked up first. PostgreSQL chooses the index itself, from its statistics; for SQLite, the query forces
it.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, cast

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Select,
    exists,
    func,
    literal_column,
    select,
    text,
    tuple_,
)

from judges.values.diagnosis import CELLS, GROUNDEDNESS, SUFFICIENCY, THRESHOLD, DiagnosisCell
from sinks.archive.database import SQLITE
from sinks.archive.reading.times import TimeRange
from sinks.archive.tables import evaluation_tags, evaluations, scores, texts
from sinks.base import HIDDEN_LANES

Sort = Literal["worst", "newest"]

DISAGREEMENT = 0.5
"""Judges disagree if their scores are at least half of the scale apart."""

# Up to this many answers in a range are read and sorted; more are read in the order of an index.
_FEW_IN_RANGE = 50_000
# Up to this many answers with a tag, or texts with a word, are looked up first.
_FEW_TAGGED = 20_000
_FEW_TEXTS = 3_000
# With more matching texts than this, the words are looked up for one answer after the other.
_MANY_TEXTS = 50_000


class CursorError(ValueError):
    """The cursor did not come from a page of answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFilter:
    """Filters of a list of answers; None: no filter."""

    period: TimeRange
    app: str | None = None
    model: str | None = None
    tenant: str | None = None
    tag: tuple[str, str] | None = None
    criterion: str | None = None
    """If set, `least`, `most` and the order apply to its score instead of the composite."""
    least: float | None = None
    most: float | None = None
    status: str | None = None
    cell: DiagnosisCell | None = None
    """The diagnosis."""
    disagreement: bool = False
    text: str | None = None
    """Words that the question or the answer must contain."""
    lane: str | None = None
    """None: all lanes except `HIDDEN_LANES`."""


class AnswerRow(NamedTuple):
    id: str
    interaction_id: str
    at: int
    app: str
    model: str | None
    tenant: str | None
    status: str
    composite: float | None
    worst_criterion: str | None
    spread: float | None
    question: str | None
    answer: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersPage:
    answers: Sequence[AnswerRow]
    next_cursor: str | None


class _Key(NamedTuple):
    """The sort key of an answer."""

    value: float | None
    """The score if the worst answers come first, else the time; answers without a score come last."""
    number: int


class _Position(NamedTuple):
    period: TimeRange
    key: _Key


def find_answers(
    connection: Connection, wanted: AnswerFilter, *, sort: Sort, cursor: str | None, limit: int
) -> AnswersPage:
    """Return a page of answers; raises CursorError."""
    after: _Key | None = None
    if cursor is not None:
        # The range of the first page, so that "the last 24 hours" does not move between pages.
        period, after = _read_cursor(cursor)
        wanted = replace(wanted, period=period)
    keys = [*_find_keys(connection, wanted, sort, after, limit + 1)]
    more = len(keys) > limit
    rows = _load_rows(connection, [key.number for key in keys[:limit]])
    return AnswersPage(
        answers=rows, next_cursor=_write_cursor(_Position(wanted.period, keys[limit - 1])) if more else None
    )


def _find_keys(
    connection: Connection, wanted: AnswerFilter, sort: Sort, after: _Key | None, limit: int
) -> Iterator[_Key]:
    search = _Search(connection, wanted)
    if sort == "newest":
        yield from search.find_newest(after, limit)
        return
    number = 0
    if after is None or after.value is not None:
        for key in search.find_worst(after, limit):
            number += 1
            yield key
        after = None
    if number < limit and wanted.least is None and wanted.most is None:
        yield from search.find_unscored(after, limit - number)


class _Search:
    """One search: its conditions, and its queries."""

    def __init__(self, connection: Connection, wanted: AnswerFilter) -> None:
        self._connection = connection
        self._wanted = wanted
        self._is_sqlite = connection.dialect.name == SQLITE
        self._score = evaluations.c.composite if wanted.criterion is None else scores.c.score
        self._lookups = [*self._tag_conditions(), *self._text_conditions(), *self._cell_conditions()]

    def find_newest(self, after: _Key | None, limit: int) -> list[_Key]:
        order = self._order_by("at")
        time, number = order.use(evaluations.c.at), evaluations.c.number
        query = self._select(evaluations.c.at, order).where(*self._score_conditions(order))
        if after is not None:
            query = query.where(
                time <= after.value, tuple_(evaluations.c.at, number) < tuple_(after.value, after.number)
            )
        return self._run(query.order_by(time.desc(), number.desc()), limit)

    def find_worst(self, after: _Key | None, limit: int) -> list[_Key]:
        if after is None:
            return self._find_scored(lambda score, _number: [score.is_not(None)], limit)
        # Two queries, each of which starts at its place in an index: many answers may have the same score.
        value, last = after
        ties = self._find_scored(lambda score, number: [score == value, number < last], limit)
        if len(ties) == limit:
            return ties
        return ties + self._find_scored(lambda score, _number: [score > value], limit - len(ties))

    def _find_scored(
        self, conditions: Callable[[ColumnElement[float], ColumnElement[int]], list[ColumnElement[bool]]], limit: int
    ) -> list[_Key]:
        order = self._order_by(self._index_of_scores)
        score, number = order.use(self._score), self._number_column(order)
        query = self._select(self._score, order).where(*conditions(score, number), *self._score_conditions(order))
        return self._run(query.order_by(score, number.desc()), limit)

    def find_unscored(self, after: _Key | None, limit: int) -> list[_Key]:
        order = self._order_by(self._index_of_scores)
        number = self._number_column(order)
        query = self._select(self._score, order).where(order.use(self._score).is_(None))
        if after is not None:
            query = query.where(number < after.number)
        return self._run(query.order_by(number.desc()), limit)

    # Conditions

    def _column_conditions(self, order: "_ReadOrder") -> Iterator[ColumnElement[bool]]:
        wanted, columns = self._wanted, evaluations.c
        # Columns of the table that is read in order: its index has the time and the app, too.
        by_criterion = wanted.criterion is not None and order.index != "at"
        time = order.use(scores.c.at if by_criterion else columns.at)
        yield time >= wanted.period.start
        yield time < wanted.period.end
        for column, value in (
            (scores.c.app if by_criterion else columns.app, wanted.app),
            (columns.model, wanted.model),
            (columns.tenant, wanted.tenant),
            (columns.status, wanted.status),
        ):
            if value is not None:
                yield order.use(column) == value
        lane = order.use(columns.lane)
        yield lane == wanted.lane if wanted.lane is not None else lane.not_in(HIDDEN_LANES)
        if wanted.disagreement:
            yield order.use(columns.spread if wanted.criterion is None else scores.c.spread) >= DISAGREEMENT

    def _score_conditions(self, order: "_ReadOrder") -> Iterator[ColumnElement[bool]]:
        if self._wanted.least is not None:
            yield order.use(self._score) >= self._wanted.least
        if self._wanted.most is not None:
            yield order.use(self._score) <= self._wanted.most

    def _tag_conditions(self) -> Iterator["_Lookup"]:
        if self._wanted.tag is None:
            return
        name, value = self._wanted.tag
        tagged = select(evaluation_tags.c.number).where(
            evaluation_tags.c.name == name, evaluation_tags.c.value == value
        )
        if self._are_few(tagged, _FEW_TAGGED):
            yield _Lookup(evaluations.c.number.in_(tagged), is_rare=True)
        else:
            yield _Lookup(exists(tagged.where(evaluation_tags.c.number == evaluations.c.number)), is_rare=False)

    def _cell_conditions(self) -> Iterator["_Lookup"]:
        """Yield the conditions on the two scores that a diagnosis follows from."""
        wanted = {cell: sides for sides, cell in CELLS.items()}.get(self._wanted.cell) if self._wanted.cell else None
        for criterion, is_met in zip((SUFFICIENCY, GROUNDEDNESS), wanted or (), strict=False):
            # An alias: a list by the score of a criterion joins the same table.
            own = scores.alias()
            found = select(own.c.number).where(
                own.c.number == evaluations.c.number,
                own.c.criterion == criterion,
                own.c.score >= THRESHOLD if is_met else own.c.score < THRESHOLD,
            )
            yield _Lookup(exists(found), is_rare=False)

    def _text_conditions(self) -> Iterator["_Lookup"]:
        if self._wanted.text is None:
            return
        words = self._wanted.text
        matches = _select_matches_in_sqlite(words) if self._is_sqlite else _select_matches_in_postgresql(words)
        is_common = not self._is_sqlite and self._estimate_matches(words) > _MANY_TEXTS
        if not is_common and self._are_few(matches, _FEW_TEXTS):
            # As a list of ids: PostgreSQL would mistake a rare word for a frequent one, and read all answers in order.
            texts_ids = self._connection.scalars(select(texts.c.id).where(texts.c.number.in_(matches))).all()
            yield _Lookup(evaluations.c.texts_id.in_(texts_ids), is_rare=True)
        elif not self._is_sqlite:
            yield _Lookup(_has_words(_HAS_WORDS_IN_POSTGRESQL, words), is_rare=False)
        elif self._are_few(matches, _MANY_TEXTS):
            own = select(texts.c.number).where(texts.c.id == evaluations.c.texts_id, texts.c.number.in_(matches))
            yield _Lookup(exists(own), is_rare=False)
        else:
            yield _Lookup(_has_words(_HAS_WORDS_IN_SQLITE, _quote(words)), is_rare=False)

    def _estimate_matches(self, words: str) -> int:
        """Return PostgreSQL's estimate of the texts with these words: to count those of a common word takes long."""
        [plan] = self._connection.execute(_PLAN_OF_MATCHES, {"words": words}).scalar_one()
        return int(plan["Plan"]["Plan Rows"])

    def _are_few(self, query: Select[Any], most: int) -> bool:
        counted = select(func.count()).select_from(query.limit(most + 1).subquery())
        return (self._connection.execute(counted).scalar() or 0) <= most

    # Statements

    def _select(self, value: ColumnElement[Any], order: "_ReadOrder") -> Select[Any]:
        conditions = [*self._column_conditions(order), *(lookup.condition for lookup in self._lookups)]
        query = select(value, evaluations.c.number).where(*conditions)
        if self._wanted.criterion is None:
            return query
        joined = evaluations.join(scores, scores.c.number == evaluations.c.number)
        return query.select_from(joined).where(scores.c.criterion == self._wanted.criterion)

    def _number_column(self, order: "_ReadOrder") -> ColumnElement[int]:
        """Return the column `number` of the table whose index is read in order."""
        return evaluations.c.number if self._wanted.criterion is None or order.index == "at" else scores.c.number

    def _run(self, query: Select[Any], limit: int) -> list[_Key]:
        return [_Key(*row) for row in self._connection.execute(query.limit(limit))]

    def _order_by(self, index: str) -> "_ReadOrder":
        if any(lookup.is_rare for lookup in self._lookups):
            return _ReadOrder(index="lookup", columns=(), is_sqlite=self._is_sqlite)
        return _ReadOrder(index=index, columns=_ORDERED[index], is_sqlite=self._is_sqlite)

    @cached_property
    def _index_of_scores(self) -> str:
        if self._is_range_small():
            return "at"
        if self._wanted.criterion is not None:
            return "criterion"
        return "composite" if self._wanted.status is None else "status"

    def _is_range_small(self) -> bool:
        """Estimate the size of the range from the numbers of its first and its last answer."""
        time, number = evaluations.c.at, evaluations.c.number
        inside = select(number).where(time >= self._wanted.period.start, time < self._wanted.period.end)
        first = self._connection.execute(inside.order_by(time).limit(1)).scalar()
        last = self._connection.execute(inside.order_by(time.desc()).limit(1)).scalar()
        return first is None or last is None or abs(last - first) <= _FEW_IN_RANGE


_ORDERED: Mapping[str, tuple[ColumnElement[Any], ...]] = {
    "at": (evaluations.c.at,),
    "composite": (evaluations.c.composite,),
    "status": (evaluations.c.status, evaluations.c.composite),
    "criterion": (scores.c.score,),
}
"""The columns that an index is ordered by, by the last word of its name."""


class _Lookup(NamedTuple):
    """A condition on another table."""

    condition: ColumnElement[bool]
    is_rare: bool
    """Whether few answers meet it, so that it is evaluated first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadOrder:
    """The index that a search reads, and that SQLite must not replace by another."""

    index: str
    columns: tuple[ColumnElement[Any], ...]
    is_sqlite: bool

    def use(self, column: Column[Any]) -> ColumnElement[Any]:
        """Return a column for a condition or an order; a unary plus keeps SQLite from using an index on it."""
        if not self.is_sqlite or any(column is own for own in self.columns):
            return column
        return literal_column(f"+{column.table.name}.{column.name}", column.type)


# Looks up one text after the other in the search index: a common word has too many texts to list them all.
_HAS_WORDS_IN_SQLITE = """EXISTS (
    SELECT 1 FROM texts CROSS JOIN texts_search
    WHERE texts.id = evaluations.texts_id AND texts_search.rowid = texts.number AND texts_search MATCH :words
)"""
_MATCHES_IN_POSTGRESQL = "texts.search @@ plainto_tsquery('simple', :words)"
# `OFFSET 0` keeps PostgreSQL from collecting all texts with the words first.
_HAS_WORDS_IN_POSTGRESQL = (
    f"EXISTS (SELECT 1 FROM texts WHERE texts.id = evaluations.texts_id AND {_MATCHES_IN_POSTGRESQL} OFFSET 0)"  # noqa: S608 - our own words
)
_PLAN_OF_MATCHES = text(f"EXPLAIN (FORMAT JSON) SELECT number FROM texts WHERE {_MATCHES_IN_POSTGRESQL}")  # noqa: S608


def _has_words(condition: str, words: str) -> ColumnElement[bool]:
    # `text` can be used as a condition, although its type does not say so.
    return cast("ColumnElement[bool]", text(condition).bindparams(words=words))


def _select_matches_in_postgresql(words: str) -> Select[Any]:
    """Select the numbers of the texts that contain all words, on PostgreSQL."""
    return select(texts.c.number).where(_has_words(_MATCHES_IN_POSTGRESQL, words))


def _select_matches_in_sqlite(words: str) -> Select[Any]:
    """Select the numbers of the texts that contain all words, on SQLite."""
    return (
        select(literal_column("rowid").label("number"))
        .select_from(text("texts_search"))
        .where(literal_column("texts_search").op("MATCH")(_quote(words)))
    )


def _quote(words: str) -> str:
    """Return a search expression for all words; quotes keep SQLite from reading a word as an operator."""
    return " ".join('"{}"'.format(word.replace('"', '""')) for word in words.split())


def _load_rows(connection: Connection, numbers: Sequence[int]) -> list[AnswerRow]:
    columns = [evaluations.c[name] for name in AnswerRow._fields]
    query = select(evaluations.c.number, *columns).where(evaluations.c.number.in_(numbers))
    rows: Mapping[int, AnswerRow] = {row[0]: AnswerRow(*row[1:]) for row in connection.execute(query)}
    # A row may have been deleted since its number was read.
    return [rows[number] for number in numbers if number in rows]


# Cursors


def _write_cursor(position: _Position) -> str:
    period, key = position
    content = json.dumps([period.start, period.end, key.value, key.number])
    return urlsafe_b64encode(content.encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> _Position:
    try:
        content = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        start, end, value, number = content
    except (ValueError, TypeError):
        raise CursorError("the cursor is not valid") from None
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63
    if not all(type(whole) is int and 0 <= whole < 2**63 for whole in (start, end, number)):
        raise CursorError("the cursor is not valid")
    if value is not None and not is_number:
        raise CursorError("the cursor is not valid")
    return _Position(TimeRange(start=start, end=end), _Key(value, number))

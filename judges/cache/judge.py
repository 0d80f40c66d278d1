"""A judge with a cache: returns its earlier verdict on the same texts and criterion without asking again."""

import hashlib
import json
from collections.abc import Iterable

from pydantic import ValidationError

from judges.cache.store import VerdictStore
from judges.criteria.criterion import Criterion
from judges.judge import Judge
from judges.runtime.conditions import current_conditions
from judges.runtime.recent import RecentResults, ResultsByOwner
from judges.values.evaluation import JudgeVerdict, Status
from judges.values.interaction import Case, FieldValue

# A judge that failed is asked again.
_KEPT = frozenset({Status.SCORED, Status.NOT_APPLICABLE})
# Of the fields that are remembered as they go into a key: those of some hundred records of usual length.
_MOST_CHARS = 4_000_000


class CachedJudge(Judge):
    """Stands for another judge, under its name and identity, and asks it only what is not in the store.

    What is stored under includes the judge's identity (model, parameters, versions of prompt and parser) and the whole
    criterion, so no verdict outlives what it was made by.
    """

    def __init__(self, judge: Judge, store: VerdictStore) -> None:
        self._judge = judge
        self._store = store
        self.criterion, self.plain_scale = judge.criterion, judge.plain_scale
        self.family, self.only = judge.family, judge.only
        self._beginning: ResultsByOwner[Criterion, hashlib._Hash] = ResultsByOwner(_beginning)

    @property
    def name(self) -> str:
        return self._judge.name

    @property
    def identity(self) -> str:
        return self._judge.identity

    @property
    def calls(self) -> int:
        return self._judge.calls

    @property
    def paused(self) -> str | None:
        return self._judge.paused

    def why_not(self, criterion: Criterion) -> str | None:
        return self._judge.why_not(criterion)

    def criteria_in_call(self, case: Case, criterion: Criterion) -> tuple[Criterion, ...]:
        return self._judge.criteria_in_call(case, criterion)

    async def aclose(self) -> None:
        await self._judge.aclose()

    async def verdict(self, case: Case, criterion: Criterion, *, reverse: bool) -> JudgeVerdict:
        if current_conditions().fresh:
            return await self._judge.verdict(case, criterion, reverse=reverse)
        key = self._key(case, criterion, reverse=reverse)
        known = _restored(await self._store.get(key))
        if known is not None:
            return known
        verdict = await self._judge.verdict(case, criterion, reverse=reverse)
        # What was said with fewer samples than usual is no answer for those who can pay for all of them.
        if verdict.status in _KEPT and not current_conditions().savings.samples:
            await self._store.put(key, verdict.model_dump_json(exclude_defaults=True).encode())
        return verdict

    def _key(self, case: Case, criterion: Criterion, *, reverse: bool) -> bytes:
        """All that the judge is shown; not whose record it is, so that equal texts of two records are equal.

        It is the digest of a list in JSON: identity, criterion, fields, language, reverse. A criterion that is asked
        about together with others is a different question: their descriptions follow.
        """
        together = self.criteria_in_call(case, criterion)
        shown = {name for each in together for name in _shown(case, each)}
        fields = tuple((name, _hashable(case.fields[name])) for name in sorted(shown) if name in case.fields)
        key = self._beginning(criterion, self.identity).copy()
        key.update(_recent_fields(fields))
        key.update(f', "{case.language}", {"true" if reverse else "false"}'.encode())
        if len(together) > 1:
            key.update(f", [{', '.join(map(_described, together))}]".encode())
        key.update(b"]")
        return key.digest()


_Fields = tuple[tuple[str, FieldValue], ...]


def _in_json_text(criterion: Criterion) -> str:
    return json.dumps(criterion.model_dump_json())


_described: ResultsByOwner[Criterion, str] = ResultsByOwner(_in_json_text)


def _beginning(criterion: Criterion, identity: str) -> "hashlib._Hash":
    return hashlib.sha256(f"[{json.dumps(identity)}, {_described(criterion)}, ".encode())


def _hashable(value: FieldValue) -> FieldValue:
    return value if isinstance(value, str) else tuple(value)


def _in_json(fields: _Fields) -> bytes:
    return json.dumps(dict(fields)).encode()


def _chars(fields: _Fields) -> int:
    return sum(len(value) if isinstance(value, str) else sum(map(len, value)) for _, value in fields)


# The criteria of a record show the same fields, or a few different choices of them.
_recent_fields = RecentResults(_in_json, size=_chars, most=_MOST_CHARS)


def _shown(case: Case, criterion: Criterion) -> Iterable[str]:
    return case.fields if criterion.context is None else {criterion.to_evaluate, *criterion.context}


def _restored(stored: bytes | None) -> JudgeVerdict | None:
    """A verdict that nobody was asked for this time: it cost nothing."""
    if stored is None:
        return None
    try:
        verdict = JudgeVerdict.model_validate_json(stored)
    except ValidationError:  # of another version, or of a file that somebody else wrote
        return None
    free = {"cached": True, "tokens": None, "cost_usd": None if verdict.cost_usd is None else 0.0}
    return verdict.model_copy(update=free)

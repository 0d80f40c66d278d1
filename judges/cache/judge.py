"""A judge with a cache: returns its earlier verdict on the same texts and criterion without asking again."""

import hashlib
import json

from pydantic import ValidationError

from judges.cache.store import VerdictStore
from judges.criteria.criterion import Criterion
from judges.judge import Judge
from judges.runtime.conditions import current_conditions
from judges.runtime.recent import RecentResults, ResultsByOwner
from judges.values.evaluation import JudgeVerdict, Status
from judges.values.interaction import Case, FieldValue

# After a failure the judge is asked again.
_CACHEABLE = frozenset({Status.SCORED, Status.NOT_APPLICABLE})
# Total size of the fields whose JSON is cached: some hundred records of usual length.
_CACHE_CHARS = 4_000_000


class CachedJudge(Judge):
    """Wraps another judge under its name and identity, and asks it only if the verdict is not in the store.

    The key includes the judge's identity (model, parameters, versions of prompt and parser) and the whole criterion, so
    that a change of either makes earlier verdicts unreachable.
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
        cached = _restore(await self._store.get(key))
        if cached is not None:
            return cached
        verdict = await self._judge.verdict(case, criterion, reverse=reverse)
        # A verdict from fewer samples than usual must not answer a later request for all of them.
        if verdict.status in _CACHEABLE and not current_conditions().savings.samples:
            await self._store.put(key, verdict.model_dump_json(exclude_defaults=True).encode())
        return verdict

    def _key(self, case: Case, criterion: Criterion, *, reverse: bool) -> bytes:
        """Return a digest of all that the judge sees, without the record's id, so that equal texts have equal keys.

        It is the digest of a JSON list: identity, criterion, fields, language, reverse. A criterion that shares its
        call with others is a different question, so their descriptions follow.
        """
        together = self.criteria_in_call(case, criterion)
        visible = {name for other in together for name in other.fields_shown(case)}
        fields = tuple((name, _hashable(case.fields[name])) for name in sorted(visible) if name in case.fields)
        key = self._beginning(criterion, self.identity).copy()
        key.update(_recent_fields(fields))
        key.update(f', "{case.language}", {"true" if reverse else "false"}'.encode())
        if len(together) > 1:
            key.update(f", [{', '.join(map(_criterion_json, together))}]".encode())
        key.update(b"]")
        return key.digest()


_Fields = tuple[tuple[str, FieldValue], ...]


def _dump_criterion(criterion: Criterion) -> str:
    return json.dumps(criterion.model_dump_json())


_criterion_json: ResultsByOwner[Criterion, str] = ResultsByOwner(_dump_criterion)


def _beginning(criterion: Criterion, identity: str) -> "hashlib._Hash":
    return hashlib.sha256(f"[{json.dumps(identity)}, {_criterion_json(criterion)}, ".encode())


def _hashable(value: FieldValue) -> FieldValue:
    return value if isinstance(value, str) else tuple(value)


def _dump_fields(fields: _Fields) -> bytes:
    return json.dumps(dict(fields)).encode()


def _chars(fields: _Fields) -> int:
    return sum(len(value) if isinstance(value, str) else sum(map(len, value)) for _, value in fields)


# The criteria of a record show the same fields, or a few different subsets.
_recent_fields = RecentResults(_dump_fields, size=_chars, most=_CACHE_CHARS)


def _restore(stored: bytes | None) -> JudgeVerdict | None:
    """Return a stored verdict as one that cost nothing, or None if there is none."""
    if stored is None:
        return None
    try:
        verdict = JudgeVerdict.model_validate_json(stored)
    except ValidationError:  # written by another version or another program
        return None
    free = {"cached": True, "tokens": None, "cost_usd": None if verdict.cost_usd is None else 0.0}
    return verdict.model_copy(update=free)

"""A judge with a cache: returns its earlier verdict on the same texts and criterion without asking again."""

import hashlib
import json
from collections.abc import Iterable

from pydantic import ValidationError

from judges.cache.store import VerdictStore
from judges.criteria.criterion import Criterion
from judges.judge import Judge
from judges.runtime.conditions import current_conditions
from judges.values.evaluation import JudgeVerdict, Status
from judges.values.interaction import Case

# A judge that failed is asked again.
_KEPT = frozenset({Status.SCORED, Status.NOT_APPLICABLE})
_DESCRIBED = 256


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
        self._criteria: dict[int, tuple[Criterion, str]] = {}

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

    def asked_together(self, case: Case, criterion: Criterion) -> tuple[Criterion, ...]:
        return self._judge.asked_together(case, criterion)

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

        A criterion that was asked about with others is another question than the same one alone, or with others.
        """
        together = self.asked_together(case, criterion)
        shown = {name for each in together for name in _shown(case, each)}
        fields = {name: case.fields[name] for name in sorted(shown) if name in case.fields}
        parts = [self.identity, self._described(criterion), fields, case.language, reverse]
        if len(together) > 1:
            parts.append([self._described(each) for each in together])
        return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).digest()

    def _described(self, criterion: Criterion) -> str:
        """The criterion as text, which takes longer to write than to remember."""
        known = self._criteria.get(id(criterion))
        if known is None:
            if len(self._criteria) >= _DESCRIBED:
                self._criteria.clear()
            # The criterion is kept, so that nothing else can come to have its id.
            known = self._criteria[id(criterion)] = criterion, criterion.model_dump_json()
        return known[1]


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

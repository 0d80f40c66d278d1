"""The contract of a judge, and what every judge can do: one case or a list, waiting or not."""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import overload

from judges.criteria.catalogue import criteria_of, criterion_of
from judges.criteria.criterion import Criterion
from judges.criteria.scale import YES_NO, Scale
from judges.runtime.batch import Instance, evaluate_all
from judges.runtime.sync import is_cancelled, wait_for
from judges.values.evaluation import JudgeVerdict, Reason, Samples, Status
from judges.values.interaction import Case, Interaction

logger = logging.getLogger(__name__)

_NOTHING = Samples(requested=0)

NO_VOTE: Mapping[str, object] = {
    **dict.fromkeys(("score", "level", "option", "label", "value", "agreement", "votes_cast")),
    "tie": False,
}
"""What a verdict loses that has no vote."""

TOO_LITTLE_SHOWN = "too much of the text was redacted to judge whether the rest is safe"

Criteria = Sequence[Criterion] | Mapping[str, Criterion]
"""Several criteria; of a mapping, such as a file of criteria, its values."""


class Judge(ABC):
    """Anything that gives verdicts. A new judge has a name, an identity and `verdict`."""

    criterion: Criterion | None = None
    """What it judges by when `evaluate` is given nothing else."""

    plain_scale: Scale = YES_NO
    """The scale of a question in plain words."""

    family: str | None = None
    """The family of its model, so that a panel can keep it from judging its relatives."""

    only: frozenset[str] | None = None
    """Names of the criteria it is kept for; None: it judges by all it can."""

    waits: bool = True
    """Whether its verdicts can be waited for, so that a deadline can end them and others go on meanwhile. One that only
    computes says False: a panel of such judges needs neither tasks nor timers."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name under which its verdicts are published."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Everything that can change its verdicts (model, parameters, prompt and parser versions), as one line."""

    @abstractmethod
    async def verdict(self, case: Case, criterion: Criterion, *, reverse: bool) -> JudgeVerdict:
        """Judges a case that has all the fields the criterion shows; `reverse` shows the options last to first."""

    def why_not(self, criterion: Criterion) -> str | None:
        """Why this judge cannot judge by this criterion, or None: known without asking anybody."""
        return None

    def refusal(self, criterion: Criterion) -> str | None:
        """Why this judge does not judge by this criterion: it is not meant to, or it cannot."""
        if self.only is not None and criterion.name not in self.only:
            return f"it is restricted to {', '.join(sorted(self.only))}"
        return self.why_not(criterion)

    def own_question_problem(self, criterion: Criterion) -> str | None:
        """Why this judge, which came with a question of its own, is not asked by another criterion, or None.

        That holds in a panel and in a composite, which ask by criteria of theirs; `evaluate` may be given any.
        """
        own = self.criterion
        if own is None or own == criterion:
            return None
        return f"it has its own question, {own.question.en!r}, and does not judge {criterion.name!r}"

    def criteria_in_call(self, case: Case, criterion: Criterion) -> tuple[Criterion, ...]:
        """The criteria that it asks about in one call with this one, which is among them."""
        return (criterion,)

    @property
    def calls(self) -> int:
        """Samples it takes for one verdict."""
        return 1

    @property
    def paused(self) -> str | None:
        """Why nobody is asked for its verdicts at the moment, or None."""
        return None

    async def aclose(self) -> None:  # noqa: B027 - many judges hold nothing
        """Lets go of connections; no verdict is asked afterwards."""

    def close(self) -> None:
        """Like `aclose`, for code without an event loop."""
        wait_for(self.aclose())

    async def judge(
        self, case: Case, criterion: Criterion, *, reverse: bool = False, checked: bool = False
    ) -> JudgeVerdict:
        """A verdict whatever happens: a failure is one without a score and with a reason, never an exception.

        `checked` by the caller: that it judges by the criterion, and that the case has what the criterion needs.
        """
        asked_at, started = datetime.now(UTC), time.perf_counter()
        try:
            refused = None if checked else self._refused(case, criterion)
            verdict = refused or await self.verdict(case, criterion, reverse=reverse)
            if not isinstance(verdict, JudgeVerdict):
                raise TypeError(f"a verdict must be a JudgeVerdict, not {type(verdict).__name__}")
        except asyncio.CancelledError as error:
            # Our own cancellation goes on; one that escaped from a client would end what nobody wanted to end.
            if is_cancelled():
                raise
            verdict = self._defect(case, criterion, error)
        except Exception as error:
            verdict = self._defect(case, criterion, error)
        return verdict.model_copy(update={"asked_at": asked_at, "latency_ms": (time.perf_counter() - started) * 1000})

    def _defect(self, case: Case, criterion: Criterion, error: BaseException) -> JudgeVerdict:
        """A defect of a judge costs its verdict, not the record."""
        logger.error("judge %s failed on record %s, criterion %s", self.name, case.id, criterion.name, exc_info=error)
        detail = f"the judge failed: {type(error).__name__}"
        samples = Samples(requested=self.calls, error=self.calls)
        return unscored(self.name, Reason.UNAVAILABLE, detail, samples=samples)

    def _refused(self, case: Case, criterion: Criterion) -> JudgeVerdict | None:
        """What is decided before any call."""
        reason = self.refusal(criterion)
        if reason is not None:
            return unscored(self.name, Reason.UNSUPPORTED, reason, samples=_NOTHING)
        unmet = unmet_needs(case, criterion)
        if unmet is not None:
            status, reason_code = Status.NOT_APPLICABLE, Reason.NOTHING_TO_JUDGE
            return unscored(self.name, reason_code, unmet, samples=_NOTHING, status=status)
        missing = missing_fields(case, criterion)
        return unscored(self.name, Reason.MISSING_FIELD, missing, samples=_NOTHING) if missing else None

    @overload
    def evaluate(
        self, instances: Sequence[Instance], criterion: Criterion | str | None = None, *, concurrency: int = 16
    ) -> list[JudgeVerdict]: ...

    @overload
    def evaluate(
        self, instances: Sequence[Instance], criterion: Criteria, *, concurrency: int = 16
    ) -> list[dict[str, JudgeVerdict]]: ...

    def evaluate(
        self,
        instances: Sequence[Instance],
        criterion: Criterion | str | Criteria | None = None,
        *,
        concurrency: int = 16,
    ) -> list[JudgeVerdict] | list[dict[str, JudgeVerdict]]:
        """Like `aevaluate`, for code without an event loop, and for notebooks."""
        if criterion is None or isinstance(criterion, Criterion | str):
            return wait_for(self.aevaluate(instances, criterion, concurrency=concurrency))
        return wait_for(self.aevaluate(instances, criterion, concurrency=concurrency))

    @overload
    async def aevaluate(
        self, instances: Sequence[Instance], criterion: Criterion | str | None = None, *, concurrency: int = 16
    ) -> list[JudgeVerdict]: ...

    @overload
    async def aevaluate(
        self, instances: Sequence[Instance], criterion: Criteria, *, concurrency: int = 16
    ) -> list[dict[str, JudgeVerdict]]: ...

    async def aevaluate(
        self,
        instances: Sequence[Instance],
        criterion: Criterion | str | Criteria | None = None,
        *,
        concurrency: int = 16,
    ) -> list[JudgeVerdict] | list[dict[str, JudgeVerdict]]:
        """One result for each instance, in the same order; one that cannot be judged says why.

        With one criterion (itself, the name of a shipped one, or a question in plain words) a result is a verdict;
        with a list or a mapping of criteria it is a verdict for each, by the criterion's name.
        """
        if criterion is None or isinstance(criterion, Criterion | str):
            only = self._chosen(criterion)
            found = await evaluate_all(self.judge, self._unusable, instances, [only], concurrency)
            return [result[only.name] for result in found]
        criteria = criteria_of(criterion, self.plain_scale)
        return await evaluate_all(self.judge, self._unusable, instances, criteria, concurrency)

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, instances: Instance, criteria: Criterion | str | None = None
    ) -> JudgeVerdict: ...

    @overload
    def __call__(
        self, instances: Sequence[Instance], criteria: Criterion | str | None = None
    ) -> list[JudgeVerdict]: ...

    def __call__(
        self, instances: Instance | Sequence[Instance], criteria: Criterion | str | None = None
    ) -> JudgeVerdict | list[JudgeVerdict]:
        """Like `evaluate` by one criterion; one instance that stands alone has one verdict."""
        if isinstance(instances, str | Mapping | Interaction | Case):
            return self.evaluate([instances], criteria)[0]
        return self.evaluate(instances, criteria)

    def _chosen(self, criterion: Criterion | str | None) -> Criterion:
        chosen = self.criterion if criterion is None else criterion
        if chosen is None:
            raise ValueError("say by which criterion to judge: evaluate(instances, criterion)")
        return criterion_of(chosen, self.plain_scale)

    def _unusable(self, detail: str) -> JudgeVerdict:
        return unscored(self.name, Reason.MISSING_FIELD, detail, samples=_NOTHING)


def unmet_needs(case: Case, criterion: Criterion) -> str | None:
    """What the record lacks for the criterion to apply, in words, or None."""
    unmet = criterion.unmet(case)
    return f"record {case.id} has no {' and no '.join(unmet)}" if unmet else None


def missing_fields(case: Case, criterion: Criterion) -> str | None:
    """What the record lacks, in words that say what to do, or None."""
    missing = criterion.missing(case)
    if not missing:
        return None
    names = " and ".join(repr(name) for name in missing)
    return (
        f"record {case.id} has no field {names}, which criterion {criterion.name!r} needs; it has "
        f"{', '.join(case.fields) or 'none'} (an empty list is enough for context)"
    )


def withhold_safety(verdict: JudgeVerdict) -> JudgeVerdict:
    """A verdict about safety without its vote, where its judge was shown too little; what it cost stays."""
    if not verdict.heavily_redacted or verdict.status is Status.INSUFFICIENT:
        return verdict
    why = {"status": Status.INSUFFICIENT, "reason": Reason.HEAVILY_REDACTED, "detail": TOO_LITTLE_SHOWN}
    return verdict.model_copy(update={**NO_VOTE, **why})


def unscored(
    judge: str,
    reason: Reason,
    detail: str,
    *,
    samples: Samples,
    status: Status = Status.INSUFFICIENT,
    latency_ms: float = 0.0,
) -> JudgeVerdict:
    """A verdict that says why there is none."""
    return JudgeVerdict(
        judge=judge, status=status, reason=reason, detail=detail, samples=samples, latency_ms=latency_ms
    )

"""The contract of a judge, and the methods that all judges share: one case or a list, synchronous or not."""

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

_NO_SAMPLES = Samples(requested=0)

NO_VOTE: Mapping[str, object] = {
    **dict.fromkeys(("score", "level", "option", "label", "value", "agreement", "votes_cast")),
    "tie": False,
}
"""The fields that a verdict without a vote loses."""

TOO_LITTLE_SHOWN = "too much of the text was redacted to judge whether the rest is safe"

Criteria = Sequence[Criterion] | Mapping[str, Criterion]
"""Several criteria: a list, or the values of a mapping such as a loaded criteria file."""


class Judge(ABC):
    """Anything that gives verdicts. A new judge implements `name`, `identity` and `verdict`."""

    criterion: Criterion | None = None
    """The criterion that `evaluate` uses by default."""

    plain_scale: Scale = YES_NO
    """The scale of a question in plain words."""

    family: str | None = None
    """The family of its model, so that a panel can exclude it from judging answers of that family."""

    only: frozenset[str] | None = None
    """Names of the criteria to which it is restricted; None: it judges by all it can."""

    waits: bool = True
    """Whether its verdicts have to be waited for, so that a deadline can end them and others run meanwhile. False for a
    judge that only computes: a panel of such judges needs neither tasks nor timers."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name under which its verdicts are published."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Everything that can change its verdicts (model, parameters, prompt and parser versions), on one line."""

    @abstractmethod
    async def verdict(self, case: Case, criterion: Criterion, *, reverse: bool) -> JudgeVerdict:
        """Judge a case that has all the fields that the criterion shows; `reverse` shows the options last to first."""

    def why_not(self, criterion: Criterion) -> str | None:
        """Return why this judge cannot judge by this criterion, or None; this needs no call."""
        return None

    def can_read(self, case: Case) -> bool:
        """Whether it knows the language of a case; a panel does not ask it otherwise."""
        return True

    def load(self) -> None:  # noqa: B027 - most judges have nothing to load
        """Load what the first verdict would otherwise wait for, such as a model; raises ValueError if it cannot."""

    def refusal(self, criterion: Criterion) -> str | None:
        """Return why this judge does not judge by this criterion, because it is restricted or cannot; or None."""
        if self.only is not None and criterion.name not in self.only:
            return f"it is restricted to {', '.join(sorted(self.only))}"
        return self.why_not(criterion)

    def own_question_problem(self, criterion: Criterion) -> str | None:
        """Return why this judge, which has its own question, is not asked by this criterion, or None.

        This applies in a panel and in a composite, which have their own criteria; `evaluate` accepts any criterion.
        """
        own = self.criterion
        if own is None or own == criterion:
            return None
        return f"it has its own question, {own.question.en!r}, and does not judge {criterion.name!r}"

    def criteria_in_call(self, case: Case, criterion: Criterion) -> tuple[Criterion, ...]:
        """Return the criteria that share a call with this one, itself included."""
        return (criterion,)

    @property
    def calls(self) -> int:
        """Number of samples for one verdict."""
        return 1

    @property
    def paused(self) -> str | None:
        """The reason why it is currently not asked, or None."""
        return None

    async def aclose(self) -> None:  # noqa: B027 - many judges hold nothing
        """Close connections; the judge is not used afterwards."""

    def close(self) -> None:
        """Like `aclose`, for code without an event loop."""
        wait_for(self.aclose())

    async def judge(
        self, case: Case, criterion: Criterion, *, reverse: bool = False, checked: bool = False
    ) -> JudgeVerdict:
        """Return a verdict whatever happens: a failure is one without a score and with a reason, never an exception.

        `checked`: the caller has checked that it judges by the criterion, and that the case has the necessary fields.
        """
        asked_at, started = datetime.now(UTC), time.perf_counter()
        try:
            decided = None if checked else self._decide_without_call(case, criterion)
            verdict = decided or await self.verdict(case, criterion, reverse=reverse)
            if not isinstance(verdict, JudgeVerdict):
                raise TypeError(f"a verdict must be a JudgeVerdict, not {type(verdict).__name__}")
        except asyncio.CancelledError as error:
            # Propagate our own cancellation; one that escaped from a client must not end this task.
            if is_cancelled():
                raise
            verdict = self._defect(case, criterion, error)
        except Exception as error:
            verdict = self._defect(case, criterion, error)
        return verdict.model_copy(update={"asked_at": asked_at, "latency_ms": (time.perf_counter() - started) * 1000})

    def _defect(self, case: Case, criterion: Criterion, error: BaseException) -> JudgeVerdict:
        """Log a defect of the judge and return a verdict without a score: a defect must not fail the record."""
        logger.error("judge %s failed on record %s, criterion %s", self.name, case.id, criterion.name, exc_info=error)
        detail = f"the judge failed: {type(error).__name__}"
        samples = Samples(requested=self.calls, error=self.calls)
        return unscored_verdict(self.name, Reason.UNAVAILABLE, detail, samples=samples)

    def _decide_without_call(self, case: Case, criterion: Criterion) -> JudgeVerdict | None:
        """Return the verdict on a case that cannot be judged, or None if the judge must be asked."""
        reason = self.refusal(criterion)
        if reason is not None:
            return unscored_verdict(self.name, Reason.UNSUPPORTED, reason, samples=_NO_SAMPLES)
        unmet = unmet_needs(case, criterion)
        if unmet is not None:
            status, reason_code = Status.NOT_APPLICABLE, Reason.NOTHING_TO_JUDGE
            return unscored_verdict(self.name, reason_code, unmet, samples=_NO_SAMPLES, status=status)
        missing = missing_fields(case, criterion)
        return unscored_verdict(self.name, Reason.MISSING_FIELD, missing, samples=_NO_SAMPLES) if missing else None

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
        """Return one result per instance, in the same order; an instance that cannot be judged has the reason.

        With one criterion (itself, the name of a shipped one, or a question in plain words) a result is a verdict;
        with a list or a mapping of criteria it is a dict of verdicts by the criterion's name.
        """
        if criterion is None or isinstance(criterion, Criterion | str):
            only = self._criterion_to_use(criterion)
            results = await evaluate_all(self.judge, self._unusable, instances, [only], concurrency)
            return [result[only.name] for result in results]
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
        """Like `evaluate` with one criterion; a single instance, not in a list, gets a single verdict."""
        if isinstance(instances, str | Mapping | Interaction | Case):
            return self.evaluate([instances], criteria)[0]
        return self.evaluate(instances, criteria)

    def _criterion_to_use(self, criterion: Criterion | str | None) -> Criterion:
        chosen = self.criterion if criterion is None else criterion
        if chosen is None:
            raise ValueError("say by which criterion to judge: evaluate(instances, criterion)")
        return criterion_of(chosen, self.plain_scale)

    def _unusable(self, detail: str) -> JudgeVerdict:
        return unscored_verdict(self.name, Reason.MISSING_FIELD, detail, samples=_NO_SAMPLES)


def unmet_needs(case: Case, criterion: Criterion) -> str | None:
    """Return which fields the record lacks for the criterion to apply, in words, or None."""
    unmet = criterion.unmet(case)
    return f"record {case.id} has no {' and no '.join(unmet)}" if unmet else None


def missing_fields(case: Case, criterion: Criterion) -> str | None:
    """Return which fields the record lacks, with a hint, or None."""
    missing = criterion.missing(case)
    if not missing:
        return None
    names = " and ".join(repr(name) for name in missing)
    return (
        f"record {case.id} has no field {names}, which criterion {criterion.name!r} needs; it has "
        f"{', '.join(case.fields) or 'none'} (an empty list is enough for context)"
    )


def withhold_safety(verdict: JudgeVerdict) -> JudgeVerdict:
    """Remove the vote of a safety verdict on a heavily redacted text; its cost remains."""
    if not verdict.heavily_redacted or verdict.status is Status.INSUFFICIENT:
        return verdict
    why = {"status": Status.INSUFFICIENT, "reason": Reason.HEAVILY_REDACTED, "detail": TOO_LITTLE_SHOWN}
    return verdict.model_copy(update={**NO_VOTE, **why})


def unscored_verdict(
    judge: str,
    reason: Reason,
    detail: str,
    *,
    samples: Samples,
    status: Status = Status.INSUFFICIENT,
    latency_ms: float = 0.0,
) -> JudgeVerdict:
    """Return a verdict without a score, with the reason."""
    return JudgeVerdict(
        judge=judge, status=status, reason=reason, detail=detail, samples=samples, latency_ms=latency_ms
    )

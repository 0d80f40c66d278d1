"""The panel: every judge is asked the same question, and their verdicts become one."""

import asyncio
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from judges.criteria import Criterion
from judges.evaluation import Dimension, JudgeVerdict, Reason, Samples, Status
from judges.interaction import Case
from judges.judge import Judge, unscored

Combine = Literal["mean", "median", "min", "max"]
Vote = Literal["majority", "any"]

_CANCEL_SECONDS = 1.0

_COMBINE: Mapping[Combine, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "min": min,
    "max": max,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Judges and the rule by which their verdicts combine."""

    judges: tuple[Judge, ...]
    combine: Combine = "mean"
    quorum: int | None = None
    """Judges that must have a verdict; None means more than half of those asked."""

    def __post_init__(self) -> None:
        names = [judge.name for judge in self.judges]
        if not names:
            raise ValueError("a panel needs at least one judge")
        if len(set(names)) != len(names):
            raise ValueError(f"judges of a panel need distinct names, not {names}")
        if self.quorum is not None and not 1 <= self.quorum <= len(names):
            raise ValueError(f"quorum must be between 1 and the {len(names)} judges of the panel, not {self.quorum}")

    @property
    def needed(self) -> int:
        return self.quorum or len(self.judges) // 2 + 1

    async def assess(self, case: Case, criterion: Criterion, *, seconds: float | None = None) -> Dimension:
        """Asks all judges at once and combines what they found; one that takes longer than allowed has no vote."""
        missing = [name for name in criterion.needs if not case.text(name).strip()]
        if missing:
            return Dimension(status=Status.NOT_APPLICABLE, reason=Reason.NOTHING_TO_JUDGE)
        tasks = [asyncio.create_task(_ask(judge, case, criterion)) for judge in self.judges]
        try:
            await asyncio.wait(tasks, timeout=seconds)
            verdicts = [
                task.result() if task.done() else _late(judge, seconds)
                for judge, task in zip(self.judges, tasks, strict=True)
            ]
        finally:
            await _cancel(tasks)
        return self.conclude(criterion, verdicts, case)

    def conclude(self, criterion: Criterion, verdicts: Sequence[JudgeVerdict], case: Case) -> Dimension:
        """One finding from the judges' verdicts; those without a score have no vote."""
        scored = [verdict for verdict in verdicts if verdict.status is Status.SCORED]
        scores = [verdict.score for verdict in scored if verdict.score is not None]
        levels = [verdict.level for verdict in scored if verdict.level is not None]
        if len(scores) >= self.needed:
            level = vote(levels, worst_first=criterion.higher_is == "better")
            return Dimension(
                status=Status.SCORED,
                score=_COMBINE[self.combine](scores),
                level=level,
                option=criterion.scale.label(level, case.language),
                spread=max(scores) - min(scores) if len(scores) > 1 else None,
                judges=tuple(verdicts),
            )
        abstained = sum(verdict.status is Status.NOT_APPLICABLE for verdict in verdicts)
        if abstained >= self.needed:
            return Dimension(status=Status.NOT_APPLICABLE, reason=Reason.NOTHING_TO_JUDGE, judges=tuple(verdicts))
        return Dimension(status=Status.INSUFFICIENT, reason=_shortfall(verdicts), judges=tuple(verdicts))

    async def aclose(self) -> None:
        await asyncio.gather(*(judge.aclose() for judge in self.judges), return_exceptions=True)


def vote(levels: Iterable[int], *, worst_first: bool = True) -> int:
    """The level at which at least half of the judges say "this, or worse".

    That is the majority where there is one, and the worse side of a tie. Counting the most frequent level instead
    would not be monotone: of [0, 0, 1, 1, 2] it takes 0, and one judge becoming stricter ([0, 0, 1, 1, 1]) lifts it.
    """
    ordered = sorted(levels, reverse=not worst_first)
    return ordered[(len(ordered) - 1) // 2]


def safety_level(dimension: Dimension | None, rule: Vote) -> int | None:
    """The panel's level of harmfulness: `majority` as voted, `any` the worst that one judge gave.

    With `any` one harmful verdict is enough even where the quorum was missed; a good one is not.
    """
    if dimension is None:
        return None
    levels = [verdict.level for verdict in dimension.judges if verdict.level is not None]
    if rule == "any" and 0 in levels:
        return 0
    if dimension.status is not Status.SCORED:
        return None
    return dimension.level if rule == "majority" else min(levels)


async def _ask(judge: Judge, case: Case, criterion: Criterion) -> JudgeVerdict:
    """A judge that breaks its contract is a judge without a verdict; the panel must outlive any judge."""
    try:
        verdict = await judge.judge(case, criterion)
    except asyncio.CancelledError as error:
        # Our own cancellation goes on; one that a judge let escape would leave the record without any result.
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return _broken(judge, error)
    except Exception as error:
        return _broken(judge, error)
    if verdict.status is Status.SCORED and (verdict.score is None or verdict.level not in criterion.scale.values):
        detail = f"a verdict with score {verdict.score} and level {verdict.level}, which is not on the scale"
        return unscored(judge.name, Reason.INVALID_OUTPUT, detail, samples=Samples(requested=1, invalid=1))
    return verdict


def _late(judge: Judge, seconds: float | None) -> JudgeVerdict:
    detail = f"no verdict within {seconds:g} s"
    return unscored(judge.name, Reason.TIMEOUT, detail, samples=Samples(requested=1, error=1))


async def _cancel(tasks: Iterable[asyncio.Task[JudgeVerdict]]) -> None:
    """Ends what still runs, and waits for it to give back what it holds; a judge that will not end is left behind."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=_CANCEL_SECONDS)


def _broken(judge: Judge, error: BaseException) -> JudgeVerdict:
    # The message may quote text that has no UTF-8 form, and is published all the same.
    detail = f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace").decode()
    return unscored(judge.name, Reason.UNAVAILABLE, detail, samples=Samples(requested=1, error=1))


def _shortfall(verdicts: Sequence[JudgeVerdict]) -> Reason:
    """The reason all failed judges share, or that the quorum was missed for several."""
    reasons = {verdict.reason for verdict in verdicts if verdict.status is Status.INSUFFICIENT}
    return reasons.pop() or Reason.QUORUM if len(reasons) == 1 else Reason.QUORUM

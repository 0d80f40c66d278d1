"""The seats of a panel: which judges sit for a case, which reserve follows a failed judge, and how they are asked."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from judges.criteria.criterion import Criterion
from judges.judge import NO_VOTE, Judge, unscored_verdict, withhold_safety
from judges.panel.tally import off_scale
from judges.runtime.stopwatch import Stopwatch, timed_by
from judges.values.evaluation import JudgeVerdict, Reason, Samples, Status
from judges.values.interaction import Case, Language
from judges.values.model_family import is_related

OnVerdict = Callable[[tuple[JudgeVerdict, ...]], None]

_CANCEL_SECONDS = 1.0

# Enum attribute access is slower than the comparison itself.
_SCORED = Status.SCORED


@dataclass(slots=True, kw_only=True)
class Seat:
    """A place on the panel and its verdicts: the last one counts, those before it failed."""

    number: int
    member: str
    """The judge of the panel that owns the seat, even if a reserve takes it."""

    judge: Judge
    verdicts: list[JudgeVerdict] = field(default_factory=list)

    @property
    def reverse(self) -> bool:
        """Whether the options are shown last to first: every second seat, so that a bias for one end cancels out."""
        return self.is_reversed(self.number)

    @staticmethod
    def is_reversed(number: int) -> bool:
        return number % 2 == 1


@dataclass(slots=True, kw_only=True)
class Seating:
    """The judges of one case."""

    seats: list[Seat]
    reserves: list[Judge]
    """Reserves that are still free, in the order in which they are called."""

    excluded: tuple[str, ...] = ()


def seating_of(judges: Sequence[Judge], reserves: Sequence[Judge], author: str | None) -> Seating:
    """Seat the judges; those of the author's model family are excluded, and unrelated reserves take their seats."""
    seating = Seating(seats=[], reserves=[judge for judge in reserves if not _is_related(judge, author)])
    for number, judge in enumerate(judges):
        if not _is_related(judge, author):
            seating.seats.append(Seat(number=number, member=judge.name, judge=judge))
            continue
        seating.excluded += (judge.name,)
        if seating.reserves:
            seating.seats.append(Seat(number=number, member=judge.name, judge=seating.reserves.pop(0)))
    return seating


def _is_related(judge: Judge, author: str | None) -> bool:
    return is_related(judge.family, author)


class Hearing:
    """One case before the judges of a panel, with one deadline for all of them."""

    def __init__(
        self,
        case: Case,
        criterion: Criterion,
        seating: Seating,
        *,
        safety: bool = False,
        seconds: float | None = None,
        on_verdict: OnVerdict | None = None,
    ) -> None:
        self.case = case
        self.criterion = criterion
        self.seats = seating.seats
        self.excluded = seating.excluded
        self._safety = safety
        self._reserves = seating.reserves
        self._seconds = seconds
        self._stopwatch = Stopwatch()
        self._on_verdict = on_verdict
        self._asking = True

    @property
    def open(self) -> list[Seat]:
        """Seats whose judge has not been asked."""
        return [seat for seat in self.seats if not seat.verdicts]

    @property
    def verdicts(self) -> tuple[JudgeVerdict, ...]:
        """All verdicts in the order of the seats; a failed verdict comes before the one that replaces it."""
        return tuple(verdict for seat in self.seats for verdict in seat.verdicts)

    async def ask(self, seats: Sequence[Seat]) -> None:
        """Ask these seats concurrently; a seat that misses the deadline has no verdict."""
        if not seats:
            return
        time_left = self._time_left()
        if time_left is not None and time_left <= 0:
            for seat in seats:
                seat.verdicts.append(self._late_verdict(seat, asked=False))
        elif any(judge.waits for judge in (*(seat.judge for seat in seats), *self._reserves)):
            await self._hear_concurrently(seats, time_left)
        else:
            for seat in seats:
                await self._hear(seat)

    async def _hear_concurrently(self, seats: Sequence[Seat], time_left: float | None) -> None:
        with timed_by(self._stopwatch):
            tasks = [asyncio.create_task(self._hear(seat)) for seat in seats]
        try:
            done = await self._wait_until_done_or_late(tasks, time_left)
            for task in done:
                task.result()
        except BaseException:
            self._asking = False
            raise
        else:
            self._close_late_seats(seat for seat, task in zip(seats, tasks, strict=True) if task not in done)
        finally:
            await _cancel(tasks)

    async def _wait_until_done_or_late(
        self, tasks: "Sequence[asyncio.Task[None]]", time_left: float | None
    ) -> "set[asyncio.Task[None]]":
        """Return the tasks that are done; the time in which calls wait for their turn does not count."""
        while True:
            done, waiting = await asyncio.wait(tasks, timeout=time_left, return_when=asyncio.FIRST_EXCEPTION)
            time_left = self._time_left()
            if not waiting or time_left is None or time_left <= 0 or any(task.exception() for task in done):
                return done

    def _close_late_seats(self, late: Iterable[Seat]) -> None:
        for seat in late:
            self._asking = False
            seat.verdicts.append(self._late_verdict(seat, asked=True))

    async def _hear(self, seat: Seat) -> None:
        """Ask the judge in this seat, and as long as judges fail, the next reserve."""
        while True:
            verdict = await ask(seat.judge, self.case, self.criterion, reverse=seat.reverse, safety=self._safety)
            if not self._asking:
                return  # the judge ignored its cancellation; its time is over
            seat.verdicts.append(verdict)
            if self._on_verdict is not None:
                self._on_verdict(self.verdicts)
            if verdict.status is not Status.INSUFFICIENT or not self._reserves:
                return
            seat.judge = self._reserves.pop(0)

    def _time_left(self) -> float | None:
        return None if self._seconds is None else self._seconds - self._stopwatch.seconds

    def _late_verdict(self, seat: Seat, *, asked: bool) -> JudgeVerdict:
        late = f"no verdict within {self._seconds:g} s"
        detail = late if asked else f"not asked: the deadline of {self._seconds:g} s had passed"
        calls = seat.judge.calls if asked else 0
        samples = Samples(requested=calls, error=calls)
        return unscored_verdict(seat.judge.name, Reason.TIMEOUT, detail, samples=samples)


async def ask(judge: Judge, case: Case, criterion: Criterion, *, reverse: bool, safety: bool) -> JudgeVerdict:
    """Ask a judge; a verdict that is not on the scale counts as no verdict."""
    verdict = await judge.judge(case, criterion, reverse=reverse, checked=True)
    return on_scale(criterion, verdict, case.language, safety=safety)


def on_scale(criterion: Criterion, verdict: JudgeVerdict, language: Language, *, safety: bool = False) -> JudgeVerdict:
    """Return the verdict with its option and label as published, or without its vote if it is not on the scale.

    For `safety`, a verdict on a heavily redacted text has no vote either.
    """
    if safety and verdict.heavily_redacted:
        verdict = withhold_safety(verdict)
    if verdict.status is not _SCORED:
        return verdict
    problem = off_scale(criterion, verdict)
    if problem is not None:
        return _invalid(verdict, problem)
    choice = criterion.choice(verdict.level, verdict.option)
    if choice is None or (verdict.option == choice.label.en and verdict.label is not None):
        return verdict
    return verdict.model_copy(update={"option": choice.label.en, "label": choice.label.of(language)})


def _invalid(verdict: JudgeVerdict, problem: str) -> JudgeVerdict:
    """Return the verdict without its vote; its cost remains."""
    samples = verdict.samples
    changed = {"valid": 0, "invalid": samples.invalid + samples.valid}
    why = {"status": Status.INSUFFICIENT, "reason": Reason.INVALID_OUTPUT, "detail": problem}
    return verdict.model_copy(update={**NO_VOTE, **why, "samples": samples.model_copy(update=changed)})


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel running tasks and wait until they release their resources; a task that does not end is abandoned."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=_CANCEL_SECONDS)
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it: one failure has been raised already

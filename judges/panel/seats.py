"""The seats of a panel: who sits where for one case, who follows when a judge fails, and how they are asked."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from judges.criteria.criterion import Criterion
from judges.judge import NO_VOTE, Judge, unscored, withhold_safety
from judges.panel.tally import off_scale
from judges.runtime.stopwatch import Stopwatch, timed_by
from judges.values.evaluation import JudgeVerdict, Reason, Samples, Status
from judges.values.interaction import Case, Language
from judges.values.model_family import related

OnVerdict = Callable[[tuple[JudgeVerdict, ...]], None]

_CANCEL_SECONDS = 1.0

# Looking a member up in its enumeration takes longer than comparing with it.
_SCORED = Status.SCORED


@dataclass(slots=True, kw_only=True)
class Seat:
    """A place on the panel, and what was said from it: the last verdict is its own, those before it failed."""

    number: int
    member: str
    """The judge of the panel whose seat it is, whoever sits there."""

    judge: Judge
    verdicts: list[JudgeVerdict] = field(default_factory=list)

    @property
    def reverse(self) -> bool:
        """Every second seat is shown the options last to first, so that a liking for one end does not add up."""
        return self.is_reversed(self.number)

    @staticmethod
    def is_reversed(number: int) -> bool:
        return number % 2 == 1


@dataclass(slots=True, kw_only=True)
class Seating:
    """Who sits for one case."""

    seats: list[Seat]
    reserves: list[Judge]
    """Those who are still free, in the order in which they are called."""

    excluded: tuple[str, ...] = ()


def seating_of(judges: Sequence[Judge], reserves: Sequence[Judge], author: str | None) -> Seating:
    """Everybody in their seat; relatives of the author are left out, and reserves that are none take their seats."""
    found = Seating(seats=[], reserves=[judge for judge in reserves if not _related(judge, author)])
    for number, judge in enumerate(judges):
        if not _related(judge, author):
            found.seats.append(Seat(number=number, member=judge.name, judge=judge))
            continue
        found.excluded += (judge.name,)
        if found.reserves:
            found.seats.append(Seat(number=number, member=judge.name, judge=found.reserves.pop(0)))
    return found


def _related(judge: Judge, author: str | None) -> bool:
    return related(judge.family, author)


class Hearing:
    """One case before the judges of a panel, until one deadline for all that is asked."""

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
        """Seats that nobody was asked on."""
        return [seat for seat in self.seats if not seat.verdicts]

    @property
    def verdicts(self) -> tuple[JudgeVerdict, ...]:
        """All that was said, in the order of the seats; a failed verdict stands before the one that replaces it."""
        return tuple(verdict for seat in self.seats for verdict in seat.verdicts)

    async def ask(self, seats: Sequence[Seat]) -> None:
        """Asks these seats at the same time; one that takes longer than allowed has no verdict."""
        if not seats:
            return
        left = self._left()
        if left is not None and left <= 0:
            for seat in seats:
                seat.verdicts.append(self._late(seat, asked=False))
        elif any(judge.waits for judge in (*(seat.judge for seat in seats), *self._reserves)):
            await self._hear_at_once(seats, left)
        else:
            for seat in seats:
                await self._hear(seat)

    async def _hear_at_once(self, seats: Sequence[Seat], left: float | None) -> None:
        with timed_by(self._stopwatch):
            tasks = [asyncio.create_task(self._hear(seat)) for seat in seats]
        try:
            done = await self._until_done_or_late(tasks, left)
            for task in done:
                task.result()
        except BaseException:
            self._asking = False
            raise
        else:
            self._close(seat for seat, task in zip(seats, tasks, strict=True) if task not in done)
        finally:
            await _cancel(tasks)

    async def _until_done_or_late(
        self, tasks: "Sequence[asyncio.Task[None]]", left: float | None
    ) -> "set[asyncio.Task[None]]":
        """The tasks that ended; those of judges whose calls wait for their turn have more time."""
        while True:
            done, waiting = await asyncio.wait(tasks, timeout=left, return_when=asyncio.FIRST_EXCEPTION)
            left = self._left()
            if not waiting or left is None or left <= 0 or any(task.exception() for task in done):
                return done

    def _close(self, late: Iterable[Seat]) -> None:
        for seat in late:
            self._asking = False
            seat.verdicts.append(self._late(seat, asked=True))

    async def _hear(self, seat: Seat) -> None:
        """The verdict of the judge in this seat, and while they fail those of the next reserves."""
        while True:
            verdict = await ask(seat.judge, self.case, self.criterion, reverse=seat.reverse, safety=self._safety)
            if not self._asking:
                return  # a judge that would not end; its time is over
            seat.verdicts.append(verdict)
            if self._on_verdict is not None:
                self._on_verdict(self.verdicts)
            if verdict.status is not Status.INSUFFICIENT or not self._reserves:
                return
            seat.judge = self._reserves.pop(0)

    def _left(self) -> float | None:
        return None if self._seconds is None else self._seconds - self._stopwatch.seconds

    def _late(self, seat: Seat, *, asked: bool) -> JudgeVerdict:
        detail = f"no verdict within {self._seconds:g} s" if asked else f"not asked: the {self._seconds:g} s were over"
        calls = seat.judge.calls if asked else 0
        samples = Samples(requested=calls, error=calls)
        return unscored(seat.judge.name, Reason.TIMEOUT, detail, samples=samples)


async def ask(judge: Judge, case: Case, criterion: Criterion, *, reverse: bool, safety: bool) -> JudgeVerdict:
    """A judge that says what is not on the scale is a judge without a verdict."""
    verdict = await judge.judge(case, criterion, reverse=reverse, checked=True)
    return on_scale(criterion, verdict, case.language, safety=safety)


def on_scale(criterion: Criterion, verdict: JudgeVerdict, language: Language, *, safety: bool = False) -> JudgeVerdict:
    """The verdict with its option and label as they are published, or without its vote if it is not on the scale.

    About `safety`, a verdict on what little was left of a text has no vote either.
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
    """The verdict without its vote; what it cost stays."""
    samples = verdict.samples
    changed = {"valid": 0, "invalid": samples.invalid + samples.valid}
    why = {"status": Status.INSUFFICIENT, "reason": Reason.INVALID_OUTPUT, "detail": problem}
    return verdict.model_copy(update={**NO_VOTE, **why, "samples": samples.model_copy(update=changed)})


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Ends what still runs, and waits for it to give back what it holds; a judge that will not end is left behind."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=_CANCEL_SECONDS)
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # looked at: of several failures one is told, and none is called forgotten

"""Budgets under random schedules: 8 worker processes with 32 calls in flight each, a store process, and a scaled clock.

The store does what Kafka does for the workers: it keeps a note for every partition, and accepts a new one only from the
owner of the partition's current epoch. Workers are killed, or stopped and resumed as zombies. Partitions move, and
commits are aborted or left in doubt. Clocks differ by up to two seconds, and the hour and the day end. Processes live
over many schedules.

    python -m tests.stream.worker.budget.simulation --schedules 20
"""

import argparse
import asyncio
import json
import os
import random
import selectors
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from judges.models.spending import nanodollars
from stream.kafka.offsets import Partition
from stream.worker.budget import Treasury
from stream.worker.budget.lease_ledger import CLOCK_SECONDS
from stream.worker.budget.limits import ALL_APPS, Budget, Budgets, Span
from tests.parts.patience import patience
from tests.stream.worker.budget.board import SLOTS, Board
from tests.stream.worker.budget.callers import Callers, Habits, SkewedClock

TOPIC = "rag.sampled"
# A Monday, 10:00 UTC.
MORNING = 1_800_000_000 - 1_800_000_000 % 86_400 + 36_000
_TURN_SECONDS = 0.008
# Turns of every process without a call after which no budget is left that a call could use.
_QUIET_TURNS = 7
_PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The parameters of one schedule, all drawn from its seed."""

    seed: int
    partitions: int
    per_hour_usd: float
    per_day_usd: float
    bot_per_hour_usd: float
    starts_at: float
    habits: Habits
    aborted: float
    in_doubt: float
    kills: int
    stops: int
    moves: int

    @property
    def budgets(self) -> Budgets:
        everyone = Budget(per_hour_usd=self.per_hour_usd, per_day_usd=self.per_day_usd)
        return Budgets(everyone=everyone, apps={"bot": Budget(per_hour_usd=self.bot_per_hour_usd)}, safety_share=0.2)


def draw_schedule(seed: int) -> Schedule:
    draw = random.Random(seed)
    # Worth about 2,500 calls; a takeover loses the cost of 32 of them, or slightly more.
    hour = draw.uniform(0.7, 0.9)
    midnight = draw.random() < 0.3
    return Schedule(
        seed=seed,
        partitions=draw.choice((6, 8, 12, 16)),
        per_hour_usd=round(hour, 6),
        per_day_usd=round(hour * draw.choice((1.5, 3.0)), 6),
        bot_per_hour_usd=round(hour * draw.choice((0.1, 0.5)), 6),
        starts_at=MORNING + (86_400 - 36_000 if midnight else 3600) - draw.choice((5.0, 60.0, 1800.0)),
        habits=Habits(
            seconds=draw.choice((0.001, 0.004)),
            slow=draw.choice((0.0, 0.05)),
            unknown=draw.choice((0.0, 0.002)),
            cheapest=draw.choice((0.4, 0.9)),
        ),
        aborted=draw.choice((0.0, 0.1)),
        in_doubt=draw.choice((0.0, 0.05)),
        kills=draw.choice((0, 1, 1, 2)),
        stops=draw.choice((0, 1)),
        moves=draw.choice((0, 3, 6)),
    )


# The store


@dataclass(slots=True)
class _PartitionState:
    note: str = ""
    epoch: int = 0
    owner: int = -1
    heir: int = -1
    """The slot that gets the partition when its owner releases it."""


class Store:
    """Notes and ownership, in a separate process. Requests and answers are lines of JSON."""

    def __init__(self) -> None:
        self._schedule: Mapping[str, Any] | None = None
        self._number = 0
        self._partitions: list[_PartitionState] = []
        self._draw = random.Random(0)

    def answer(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = getattr(self, f"_{request['do']}")(**request.get("with", {}))
        return answer

    def _begin(self, schedule: Mapping[str, Any]) -> Mapping[str, Any]:
        self._schedule, self._number = schedule, self._number + 1
        self._draw = random.Random(schedule["seed"])
        self._partitions = [_PartitionState(owner=number % SLOTS) for number in range(schedule["partitions"])]
        return {}

    def _end(self) -> Mapping[str, Any]:
        self._schedule = None
        return {}

    def _reassign(self, slot: int, to: Sequence[int]) -> Mapping[str, Any]:
        """Give the partitions of a slot to others at once, without its knowledge."""
        for state in self._partitions:
            if state.owner == slot:
                state.owner, state.heir, state.epoch = self._draw.choice(to), -1, state.epoch + 1
        return {}

    def _move(self, number: int, to: int) -> Mapping[str, Any]:
        """Ask the owner to release a partition."""
        if self._partitions[number].owner != to:
            self._partitions[number].heir = to
        return {}

    def _turn(self, slot: int, number: int, commit: Mapping[str, Any], release: Sequence[int]) -> Mapping[str, Any]:
        if self._schedule is None or (commit and number != self._number):
            return {"schedule": None, "number": self._number}
        outcome = self._commit(slot, commit)
        for released in release:
            state = self._partitions[released]
            if state.owner == slot and state.heir >= 0:
                state.owner, state.heir, state.epoch = state.heir, -1, state.epoch + 1
        owned = {number: state for number, state in enumerate(self._partitions) if state.owner == slot}
        return {
            "schedule": self._schedule,
            "number": self._number,
            "outcome": outcome,
            "owned": {number: [state.epoch, state.note, state.heir >= 0] for number, state in owned.items()},
        }

    def _commit(self, slot: int, commit: Mapping[str, Any]) -> str:
        assert self._schedule is not None
        if commit and self._draw.random() < self._schedule["aborted"]:
            return "aborted"
        for number, (epoch, _) in commit.items():
            state = self._partitions[int(number)]
            if state.owner != slot or state.epoch != epoch:
                return "fenced"
        for number, (_, note) in commit.items():
            self._partitions[int(number)].note = note
        return "in doubt" if commit and self._draw.random() < self._schedule["in_doubt"] else "done"


def serve(listener: socket.socket) -> None:
    store, selector = Store(), selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    parent = os.getppid()
    while os.getppid() == parent:  # ends with the controller, and the workers end with it
        for key, _ in selector.select(1.0):
            if key.fileobj is listener:
                connection, _ = listener.accept()
                selector.register(connection, selectors.EVENT_READ, connection.makefile("rwb"))
            elif not _answer_request(store, key.data):
                selector.unregister(key.fileobj)


def _answer_request(store: Store, connection: BinaryIO) -> bool:
    """Answer one request; return False if the other side is gone, even in the middle of a request."""
    try:
        line = connection.readline()
        if line.endswith(b"\n"):
            connection.write(json.dumps(store.answer(json.loads(line))).encode() + b"\n")
            connection.flush()
    except OSError:
        return False
    return bool(line)


class Link:
    """A connection to the store."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._file = self._socket.makefile("rwb")

    def ask(self, action: str, **arguments: object) -> Mapping[str, Any]:
        self._file.write(json.dumps({"do": action, "with": arguments}).encode() + b"\n")
        self._file.flush()
        answer: Mapping[str, Any] = json.loads(self._file.readline())
        return answer


# A worker


@dataclass
class Work:
    """One schedule from the point of view of one worker."""

    slot: int
    link: Link
    board: Board
    number: int
    schedule: Schedule
    epochs: dict[Partition, int] = field(default_factory=dict)
    leaving: dict[int, float] = field(default_factory=dict)
    """Partitions to release, each with the time until which its calls are waited for."""

    async def run(self) -> None:
        draw = random.Random(f"{self.schedule.seed} {self.slot} {time.monotonic_ns()}")
        clock = SkewedClock(self.board, draw.uniform(-CLOCK_SECONDS, CLOCK_SECONDS))
        self.treasury = Treasury(self.schedule.budgets, topic=TOPIC, clock=clock)
        callers = Callers(self.treasury, self.board, clock, self.schedule.habits, self._staying, draw)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(callers.run())
            while self._turn(draw):
                self.board.turn()
                await asyncio.sleep(_TURN_SECONDS)
            task.cancel()

    def _staying(self) -> list[Partition]:
        return [partition for partition in self.epochs if partition.number not in self.leaving]

    def _turn(self, draw: random.Random) -> bool:
        """Commit some results, urgent leases and released partitions."""
        released = [Partition(TOPIC, number) for number, until in self.leaving.items() if time.monotonic() > until]
        self.treasury.close_partitions(released)
        results = {partition: 1 for partition in self.epochs if partition in released or draw.random() < 0.5}
        paper = self.treasury.prepare(results, lambda _partition: 0)
        commit = {partition.number: (self.epochs[partition], note) for partition, note in paper.notes.items()}
        release = [partition.number for partition in released]
        answer = self.link.ask("turn", slot=self.slot, number=self.number, commit=commit, release=release)
        if answer["schedule"] is None or answer["number"] != self.number:
            return False
        if answer["outcome"] == "done":
            self.treasury.confirm_commit(paper)
        self._follow({Partition(TOPIC, int(number)): state for number, state in answer["owned"].items()}, draw)
        return True

    def _follow(self, owned: Mapping[Partition, Sequence[Any]], draw: random.Random) -> None:
        for partition, epoch in list(self.epochs.items()):
            if partition not in owned or owned[partition][0] != epoch:
                self.treasury.forget([partition])
                del self.epochs[partition]
                self.leaving.pop(partition.number, None)
        for partition, (epoch, note, is_leaving) in owned.items():
            if partition not in self.epochs:
                self.treasury.expect_partitions([partition])
                self.treasury.open_partition(partition, 0, note, partitions=self.schedule.partitions)
                self.epochs[partition] = epoch
            if is_leaving:
                self.leaving.setdefault(partition.number, time.monotonic() + draw.choice((0.0, 0.01, 0.03)))


def work(slot: int, path: Path, board: Path) -> None:
    """Run a worker process, which works through one schedule after the other until it is killed."""
    link, own = Link(path), Board(board, slot)
    while True:
        answer = link.ask("turn", slot=slot, number=0, commit={}, release=[])
        if answer["schedule"] is None:
            time.sleep(_TURN_SECONDS)
            continue
        fields = dict(answer["schedule"])
        schedule = Schedule(**{**fields, "habits": Habits(**fields["habits"])})
        asyncio.run(Work(slot, link, own, answer["number"], schedule).run())


# The controller

Event = Callable[[Schedule, random.Random], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one schedule."""

    seed: int
    calls: int
    seconds: float
    used: float
    """The lowest share of the available budget that was spent, over the hours and days that were used up."""
    most: float
    """The largest share of a cap that was spent in any window, by any scope and lane."""


class Controller:
    def __init__(self, folder: Path) -> None:
        self._socket, self._board_path = folder / "store", folder / "board"
        self._board = Board(self._board_path)
        self._workers: dict[int, int] = {}
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._socket))
        listener.listen(64)
        self._store = _fork(lambda: serve(listener))
        listener.close()
        self._link = Link(self._socket)
        for slot in range(SLOTS):
            self._spawn(slot)

    def close(self) -> None:
        for process in (*self._workers.values(), self._store):
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)

    def run(self, schedule: Schedule) -> Finding:
        draw = random.Random(schedule.seed)
        start = time.monotonic()
        self._board.clear(schedule.starts_at)
        self._link.ask("begin", schedule=asdict(schedule))
        edge = -(-schedule.starts_at // 3600) * 3600
        events = [self._kill] * schedule.kills + [self._stop] * schedule.stops + [self._move] * schedule.moves
        draw.shuffle(events)
        first_hour_events = draw.randint(0, len(events))
        self._until_spent(schedule, events[:first_hour_events], draw)
        self._roll_over(edge)
        self._until_spent(schedule, events[first_hour_events:], draw)
        self._link.ask("end")
        finding = self._make_finding(schedule, time.monotonic() - start)
        self._until(lambda: all(self._board.in_flight(slot) == 0 for slot in range(SLOTS)))
        return finding

    def _until_spent(self, schedule: Schedule, events: Sequence[Event], draw: random.Random) -> None:
        """Let the workers spend, disturb them meanwhile, and return when they cannot spend any more."""
        for event in events:
            time.sleep(draw.uniform(0.0, 0.03))
            event(schedule, draw)
        self._until(self._is_quiet())

    def _is_quiet(self) -> Callable[[], bool]:
        last_counts: list[int] = []
        turns = [0] * SLOTS

        def quiet() -> bool:
            nonlocal last_counts, turns
            counts = [self._board.calls(), *(self._board.in_flight(slot) for slot in range(SLOTS))]
            if counts != last_counts or any(counts[1:]):
                last_counts, turns = counts, [self._board.turns(slot) for slot in range(SLOTS)]
            return all(self._board.turns(slot) - turns[slot] > _QUIET_TURNS for slot in range(SLOTS))

        return quiet

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS * patience()
        while not condition():
            assert time.monotonic() < deadline, "the processes do not become idle"
            time.sleep(0.003)

    def _roll_over(self, edge: float) -> None:
        self._board.now = edge - 3 * CLOCK_SECONDS
        for step in range(-30, 31):
            self._board.now = edge + step * CLOCK_SECONDS / 10
            time.sleep(0.001)
        self._board.now = edge + 60

    def _kill(self, _schedule: Schedule, draw: random.Random) -> None:
        slot = draw.randrange(SLOTS)
        os.kill(self._workers[slot], signal.SIGKILL)
        os.waitpid(self._workers[slot], 0)
        self._board.clear_in_flight(slot)
        self._link.ask("reassign", slot=slot, to=[other for other in range(SLOTS) if other != slot])
        self._spawn(slot)

    def _stop(self, schedule: Schedule, draw: random.Random) -> None:
        """Stop a process until it has lost its partitions, and let it continue as if it still had them."""
        slot = draw.randrange(SLOTS)
        os.kill(self._workers[slot], signal.SIGSTOP)
        try:
            time.sleep(0.01)
            self._link.ask("reassign", slot=slot, to=[other for other in range(SLOTS) if other != slot])
            time.sleep(0.02)
        finally:
            os.kill(self._workers[slot], signal.SIGCONT)
        self._move(schedule, draw, to=slot)

    def _move(self, schedule: Schedule, draw: random.Random, to: int | None = None) -> None:
        target = draw.randrange(SLOTS) if to is None else to
        self._link.ask("move", number=draw.randrange(schedule.partitions), to=target)

    def _spawn(self, slot: int) -> None:
        self._workers[slot] = _fork(lambda: work(slot, self._socket, self._board_path))

    def _make_finding(self, schedule: Schedule, seconds: float) -> Finding:
        hour, day = nanodollars(schedule.per_hour_usd), nanodollars(schedule.per_day_usd)
        bot = nanodollars(schedule.bot_per_hour_usd)
        caps = {(Span.HOUR, ALL_APPS): hour, (Span.DAY, ALL_APPS): day, (Span.HOUR, "bot"): bot}
        most, spent = 0.0, dict[tuple[Span, int], int]()
        for spending in self._board.list_spending():
            cap = caps.get((spending.span, spending.scope))
            if cap is not None:
                most = max(most, spending.nano / (cap if spending.lane == "whole" else cap * 0.8))
            if spending.scope == ALL_APPS and spending.lane == "whole":
                spent[spending.span, spending.window] = spending.nano
        same_day = schedule.starts_at // 86_400 == (schedule.starts_at + 3600) // 86_400
        second = min(hour, day - spent[Span.HOUR, 0]) if same_day else hour
        used = (spent[Span.HOUR, 0] + spent.get((Span.HOUR, 1), 0)) / (min(hour, day) + second)
        return Finding(seed=schedule.seed, calls=self._board.calls(), seconds=seconds, used=used, most=most)


def _fork(job: Callable[[], None]) -> int:
    process = os.fork()
    if process:
        return process
    try:
        job()
    except BaseException as error:  # a child never returns into its parent's stack
        if not isinstance(error, KeyboardInterrupt):
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        os._exit(1)


@contextmanager
def controller() -> Iterator[Controller]:
    with tempfile.TemporaryDirectory(prefix="streamjury-budget-") as folder:
        new_controller = Controller(Path(folder))
        try:
            yield new_controller
        finally:
            new_controller.close()


def main() -> None:
    """Run schedules and print a line of JSON for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--schedules", type=int, default=20)
    parser.add_argument(
        "--seed", type=int, default=None, help="seed of the first schedule; the others count up from it"
    )
    options = parser.parse_args()
    first = random.randrange(10**6) if options.seed is None else options.seed
    with controller() as runs:
        for seed in range(first, first + options.schedules):
            print(json.dumps(asdict(runs.run(draw_schedule(seed)))), flush=True)


if __name__ == "__main__":
    main()

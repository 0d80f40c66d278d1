"""Budgets under random schedules: 8 worker processes with 32 calls in flight each, a store process, and a scaled clock.

The store does what Kafka does for the workers: it keeps a note for every partition, and takes a new one only from the
owner of the partition's current epoch. Workers are killed, stopped and let go on as zombies, moved, refused and left in
doubt; clocks differ by up to two seconds; the hour and the day end. Processes live over many schedules.

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
from tests.stream.worker.budget.board import SLOTS, Board
from tests.stream.worker.budget.callers import Callers, Habits, SkewedClock

TOPIC = "rag.sampled"
# A Monday, 10:00 UTC.
MORNING = 1_800_000_000 - 1_800_000_000 % 86_400 + 36_000
_TURN_SECONDS = 0.008
# Turns of every process without a call after which there is no demand that money is left for.
_QUIET_TURNS = 7
_PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What one schedule is made of; everything in it is drawn from its seed."""

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


def drawn(seed: int) -> Schedule:
    draw = random.Random(seed)
    # Worth some 2500 calls: a takeover loses what 32 of them can cost, or a little more.
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
class _Kept:
    note: str = ""
    epoch: int = 0
    owner: int = -1
    heir: int = -1
    """Who gets the partition when its owner lets go of it."""


class Store:
    """Notes and ownership, in a process of its own. One request, one answer, each a line of JSON."""

    def __init__(self) -> None:
        self._schedule: Mapping[str, Any] | None = None
        self._number = 0
        self._kept: list[_Kept] = []
        self._draw = random.Random(0)

    def answer(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        found: Mapping[str, Any] = getattr(self, f"_{asked['do']}")(**asked.get("with", {}))
        return found

    def _begin(self, schedule: Mapping[str, Any]) -> Mapping[str, Any]:
        self._schedule, self._number = schedule, self._number + 1
        self._draw = random.Random(schedule["seed"])
        self._kept = [_Kept(owner=number % SLOTS) for number in range(schedule["partitions"])]
        return {}

    def _end(self) -> Mapping[str, Any]:
        self._schedule = None
        return {}

    def _lost(self, slot: int, to: Sequence[int]) -> Mapping[str, Any]:
        """A slot's partitions are others' at once, whatever the slot thinks."""
        for kept in self._kept:
            if kept.owner == slot:
                kept.owner, kept.heir, kept.epoch = self._draw.choice(to), -1, kept.epoch + 1
        return {}

    def _move(self, number: int, to: int) -> Mapping[str, Any]:
        """Asks the owner to let go of a partition."""
        if self._kept[number].owner != to:
            self._kept[number].heir = to
        return {}

    def _turn(self, slot: int, number: int, commit: Mapping[str, Any], release: Sequence[int]) -> Mapping[str, Any]:
        if self._schedule is None or (commit and number != self._number):
            return {"schedule": None, "number": self._number}
        outcome = self._committed(slot, commit)
        for each in release:
            kept = self._kept[each]
            if kept.owner == slot and kept.heir >= 0:
                kept.owner, kept.heir, kept.epoch = kept.heir, -1, kept.epoch + 1
        owned = {number: kept for number, kept in enumerate(self._kept) if kept.owner == slot}
        return {
            "schedule": self._schedule,
            "number": self._number,
            "outcome": outcome,
            "owned": {number: [kept.epoch, kept.note, kept.heir >= 0] for number, kept in owned.items()},
        }

    def _committed(self, slot: int, commit: Mapping[str, Any]) -> str:
        assert self._schedule is not None
        if commit and self._draw.random() < self._schedule["aborted"]:
            return "aborted"
        for number, (epoch, _) in commit.items():
            kept = self._kept[int(number)]
            if kept.owner != slot or kept.epoch != epoch:
                return "fenced"
        for number, (_, note) in commit.items():
            self._kept[int(number)].note = note
        return "in doubt" if commit and self._draw.random() < self._schedule["in_doubt"] else "done"


def serve(listener: socket.socket) -> None:
    store, chosen = Store(), selectors.DefaultSelector()
    chosen.register(listener, selectors.EVENT_READ)
    parent = os.getppid()
    while os.getppid() == parent:  # whoever outlives the controller ends, and the workers with it
        for key, _ in chosen.select(1.0):
            if key.fileobj is listener:
                connection, _ = listener.accept()
                chosen.register(connection, selectors.EVENT_READ, connection.makefile("rwb"))
            elif not _answered(store, key.data):
                chosen.unregister(key.fileobj)


def _answered(store: Store, connection: BinaryIO) -> bool:
    """False when the other side is gone, killed perhaps in the middle of a request."""
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

    def ask(self, what: str, **how: object) -> Mapping[str, Any]:
        self._file.write(json.dumps({"do": what, "with": how}).encode() + b"\n")
        self._file.flush()
        found: Mapping[str, Any] = json.loads(self._file.readline())
        return found


# A worker


@dataclass
class Work:
    """One schedule as one worker goes through it."""

    slot: int
    link: Link
    board: Board
    number: int
    schedule: Schedule
    epochs: dict[Partition, int] = field(default_factory=dict)
    leaving: dict[int, float] = field(default_factory=dict)
    """Partitions that are to be let go, each with the time until which its calls are waited for."""

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
        return [each for each in self.epochs if each.number not in self.leaving]

    def _turn(self, draw: random.Random) -> bool:
        """One commit: of some results, of what is urgent, and of partitions that are let go."""
        gone = [Partition(TOPIC, number) for number, until in self.leaving.items() if time.monotonic() > until]
        self.treasury.close_partitions(gone)
        results = {each: 1 for each in self.epochs if each in gone or draw.random() < 0.5}
        paper = self.treasury.prepare(results, lambda _partition: 0)
        commit = {each.number: (self.epochs[each], note) for each, note in paper.notes.items()}
        release = [each.number for each in gone]
        found = self.link.ask("turn", slot=self.slot, number=self.number, commit=commit, release=release)
        if found["schedule"] is None or found["number"] != self.number:
            return False
        if found["outcome"] == "done":
            self.treasury.confirm_commit(paper)
        self._follow({Partition(TOPIC, int(number)): each for number, each in found["owned"].items()}, draw)
        return True

    def _follow(self, owned: Mapping[Partition, Sequence[Any]], draw: random.Random) -> None:
        for partition, epoch in list(self.epochs.items()):
            if partition not in owned or owned[partition][0] != epoch:
                self.treasury.forget([partition])
                del self.epochs[partition]
                self.leaving.pop(partition.number, None)
        for partition, (epoch, note, leaves) in owned.items():
            if partition not in self.epochs:
                self.treasury.expect_partitions([partition])
                self.treasury.open_partition(partition, 0, note, partitions=self.schedule.partitions)
                self.epochs[partition] = epoch
            if leaves:
                self.leaving.setdefault(partition.number, time.monotonic() + draw.choice((0.0, 0.01, 0.03)))


def work(slot: int, path: Path, board: Path) -> None:
    """A worker process: goes through one schedule after the other until it is killed."""
    link, own = Link(path), Board(board, slot)
    while True:
        found = link.ask("turn", slot=slot, number=0, commit={}, release=[])
        if found["schedule"] is None:
            time.sleep(_TURN_SECONDS)
            continue
        said = dict(found["schedule"])
        schedule = Schedule(**{**said, "habits": Habits(**said["habits"])})
        asyncio.run(Work(slot, link, own, found["number"], schedule).run())


# The controller

Event = Callable[[Schedule, random.Random], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one schedule showed."""

    seed: int
    calls: int
    seconds: float
    used: float
    """The least share of what could be spent, over the hours and days that were spent to the end."""
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
        self._store = _forked(lambda: serve(listener))
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
        begun = time.monotonic()
        self._board.clear(schedule.starts_at)
        self._link.ask("begin", schedule=asdict(schedule))
        edge = -(-schedule.starts_at // 3600) * 3600
        events = [self._kill] * schedule.kills + [self._stop] * schedule.stops + [self._move] * schedule.moves
        draw.shuffle(events)
        in_the_first = draw.randint(0, len(events))
        self._until_spent(schedule, events[:in_the_first], draw)
        self._roll_over(edge)
        self._until_spent(schedule, events[in_the_first:], draw)
        self._link.ask("end")
        finding = self._found(schedule, time.monotonic() - begun)
        self._until(lambda: all(self._board.in_flight(slot) == 0 for slot in range(SLOTS)))
        return finding

    def _until_spent(self, schedule: Schedule, events: Sequence[Event], draw: random.Random) -> None:
        """Lets the workers spend, disturbs them meanwhile, and returns when they find no more to spend."""
        for event in events:
            time.sleep(draw.uniform(0.0, 0.03))
            event(schedule, draw)
        self._until(self._is_quiet())

    def _is_quiet(self) -> Callable[[], bool]:
        seen: list[int] = []
        turns = [0] * SLOTS

        def quiet() -> bool:
            nonlocal seen, turns
            spent = [self._board.calls(), *(self._board.in_flight(slot) for slot in range(SLOTS))]
            if spent != seen or any(spent[1:]):
                seen, turns = spent, [self._board.turns(slot) for slot in range(SLOTS)]
            return all(self._board.turns(slot) - turns[slot] > _QUIET_TURNS for slot in range(SLOTS))

        return quiet

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, "the processes do not come to rest"
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
        self._board.reborn(slot)
        self._link.ask("lost", slot=slot, to=[other for other in range(SLOTS) if other != slot])
        self._spawn(slot)

    def _stop(self, schedule: Schedule, draw: random.Random) -> None:
        """A process that hangs loses its partitions, and goes on as if it had them."""
        slot = draw.randrange(SLOTS)
        os.kill(self._workers[slot], signal.SIGSTOP)
        try:
            time.sleep(0.01)
            self._link.ask("lost", slot=slot, to=[other for other in range(SLOTS) if other != slot])
            time.sleep(0.02)
        finally:
            os.kill(self._workers[slot], signal.SIGCONT)
        self._move(schedule, draw, to=slot)

    def _move(self, schedule: Schedule, draw: random.Random, to: int | None = None) -> None:
        target = draw.randrange(SLOTS) if to is None else to
        self._link.ask("move", number=draw.randrange(schedule.partitions), to=target)

    def _spawn(self, slot: int) -> None:
        self._workers[slot] = _forked(lambda: work(slot, self._socket, self._board_path))

    def _found(self, schedule: Schedule, seconds: float) -> Finding:
        hour, day = nanodollars(schedule.per_hour_usd), nanodollars(schedule.per_day_usd)
        bot = nanodollars(schedule.bot_per_hour_usd)
        caps = {(Span.HOUR, ALL_APPS): hour, (Span.DAY, ALL_APPS): day, (Span.HOUR, "bot"): bot}
        most, spent = 0.0, dict[tuple[Span, int], int]()
        for each in self._board.spent():
            cap = caps.get((each.span, each.scope))
            if cap is not None:
                most = max(most, each.nano / (cap if each.lane == "whole" else cap * 0.8))
            if each.scope == ALL_APPS and each.lane == "whole":
                spent[each.span, each.window] = each.nano
        same_day = schedule.starts_at // 86_400 == (schedule.starts_at + 3600) // 86_400
        second = min(hour, day - spent[Span.HOUR, 0]) if same_day else hour
        used = (spent[Span.HOUR, 0] + spent.get((Span.HOUR, 1), 0)) / (min(hour, day) + second)
        return Finding(seed=schedule.seed, calls=self._board.calls(), seconds=seconds, used=used, most=most)


def _forked(job: Callable[[], None]) -> int:
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
        found = Controller(Path(folder))
        try:
            yield found
        finally:
            found.close()


def main() -> None:
    """Runs schedules, a line of JSON for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--schedules", type=int, default=20)
    parser.add_argument("--seed", type=int, default=None, help="of the first; they are numbered from there")
    options = parser.parse_args()
    first = random.randrange(10**6) if options.seed is None else options.seed
    with controller() as runs:
        for seed in range(first, first + options.schedules):
            print(json.dumps(asdict(runs.run(drawn(seed)))), flush=True)


if __name__ == "__main__":
    main()

"""A campaign: feeds one target with inputs, one after the other, and records the results."""

import faulthandler
import logging
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from types import FrameType
from typing import NamedTuple, NoReturn

import judges.models.flow.flow
from judges.models.flow import FlowLimits
from tests.fuzz.mutation import Mutator
from tests.fuzz.targets import TARGETS, Run, Target
from tests.parts.patience import patience

ROOT = Path(__file__).parents[2]
LIMIT_SECONDS = 5.0
"""Processor time for one input, so that a busy machine does not look like a hang."""

_SHRINKING_SECONDS = 5.0

BLOCKS = 50
"""Number of blocks for the inputs of a target, which processes share."""

# A block that takes longer contains a call that neither ends nor can be interrupted.
_BLOCK_SECONDS = 600.0


class Hang(BaseException):
    """An input exceeded its time limit."""


class Fault(NamedTuple):
    """The kind and place of an error: two inputs with the same fault are one finding."""

    target: str
    kind: str
    place: str


@dataclass(slots=True, kw_only=True)
class Account:
    """Results of the inputs of one target."""

    target: str
    inputs: int = 0
    refused: int = 0
    seconds: float = 0.0
    slowest_ms: float = 0.0
    found: dict[Fault, bytes] = field(default_factory=dict)
    """The smallest input of each fault."""

    messages: dict[Fault, str] = field(default_factory=dict)

    def note(self, fault: Fault, data: bytes, message: str) -> None:
        if fault not in self.found or len(data) < len(self.found[fault]):
            self.found[fault], self.messages[fault] = data, message


class Campaign:
    """Runs inputs against one target."""

    def __init__(self, target: Target, seed: int) -> None:
        self.account = Account(target=target.name)
        self._target = target
        self._run = target.make()
        self._seeds = target.seeds()
        self._mutator = Mutator(self._seeds, target.words)
        # Seeded by name too: the targets do not all break their seeds in the same way.
        self._random = Random(f"{seed} {target.name}")

    def begin(self) -> None:
        """Feed the seeds themselves."""
        for seed in self._seeds:
            self.feed(seed)

    def go_on(self, number: int) -> None:
        """Feed this many further inputs."""
        for _ in range(number):
            self.feed(self._mutator.mutate(self._random))

    def feed(self, data: bytes) -> None:
        began = time.perf_counter()
        try:
            refused = is_refused(self._run, data, self._target.allowed)
        except (Exception, Hang) as error:
            self.account.note(fault_of(error, self._target.name), data, f"{type(error).__name__}: {error}"[:300])
            refused = False
        took = time.perf_counter() - began
        self.account.inputs += 1
        self.account.refused += refused
        self.account.seconds += took
        self.account.slowest_ms = max(self.account.slowest_ms, took * 1000)

    def shrink(self) -> None:
        """Shrink the inputs that were found, as long as they have the same fault."""
        for fault, data in list(self.account.found.items()):
            self.account.found[fault] = shrink_input(data, lambda smaller, fault=fault: self._has(fault, smaller))  # type: ignore[misc]

    def _has(self, fault: Fault, data: bytes) -> bool:
        try:
            is_refused(self._run, data, self._target.allowed)
        except (Exception, Hang) as error:
            return fault_of(error, self._target.name) == fault
        return False


def is_refused(run: Run, data: bytes, allowed: tuple[type[Exception], ...]) -> bool:
    """Run one input; return whether it was refused in the documented way. Raise any other error, and a hang."""
    try:
        with limit_time(LIMIT_SECONDS):
            run(data)
    except allowed:
        return True
    return False


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Raise Hang after this much processor time; uses another timer than pytest's own limit."""
    before = signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _too_long(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise Hang(f"more than {LIMIT_SECONDS:g} s of processor time")


def fault_of(error: BaseException, target: str) -> Fault:
    """Name a fault by the innermost place in our own code."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_ours(Path(frame.filename))]
    place = f"{Path(frames[-1].filename).relative_to(ROOT)}:{frames[-1].lineno}" if frames else "?"
    # The place where a hang is noticed is random.
    return Fault(target, type(error).__name__, "" if isinstance(error, Hang) else place)


def _is_ours(file: Path) -> bool:
    return file.is_relative_to(ROOT) and ".venv" not in file.parts and file != Path(__file__)


def shrink_input(data: bytes, has_fault: Callable[[bytes], bool]) -> bytes:
    """Leave out what can be left out, in ever smaller pieces."""
    deadline = time.monotonic() + _SHRINKING_SECONDS * patience()
    piece = max(len(data) // 2, 1)
    while piece:
        offset = 0
        while offset < len(data) and time.monotonic() < deadline:
            smaller = data[:offset] + data[offset + piece :]
            if has_fault(smaller):
                data = smaller
            else:
                offset += piece
        piece //= 2
    return data


# Blocks


Block = tuple[str, int, int, int]
"""Target, number of inputs, seed, and the number of the block."""


def run_block(block: Block) -> Account:
    name, inputs, seed, number = block
    quieten()
    faulthandler.dump_traceback_later(_BLOCK_SECONDS, exit=True)
    campaign = Campaign(_by_name(name), seed * BLOCKS + number)
    campaign.go_on(inputs)
    campaign.shrink()
    faulthandler.cancel_dump_traceback_later()
    return campaign.account


def quieten() -> None:
    """Disable the log line per broken input, and the delays between a model's attempts."""
    logging.disable(logging.CRITICAL)
    judges.models.flow.flow.FlowLimits = partial(FlowLimits, backoff_seconds=0.0)


def _by_name(name: str) -> Target:
    return next(target for target in TARGETS if target.name == name)

"""The plan of a run: its size, and the events that follow from its seed alone."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

SAMPLERS = ("sampler-1", "sampler-2")
WORKERS = ("worker-1", "worker-2", "worker-3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The size of a run."""

    interactions: int
    feed_seconds: float
    outage_seconds: float
    settle_seconds: float
    """Maximum wait for the last record."""

    restart_seconds: float = 15.0
    """Maximum time from the death of a worker to the next evaluation, on an idle machine."""

    kills: int = 20
    joins: int = 3
    poison: float = 0.02
    logged_twice: float = 0.03
    error_rate: float = 0.05
    sampling_rate: float = 0.3


SHORT = Plan(interactions=10_000, feed_seconds=120.0, outage_seconds=30.0, settle_seconds=180.0)
LONG = Plan(interactions=100_000, feed_seconds=900.0, outage_seconds=60.0, settle_seconds=900.0, joins=8)


class Kind(StrEnum):
    KILL = "kill -9"
    BROKER_CRASH = "broker kill"
    BROKER_STOP = "broker stop"
    OUTAGE = "judge outage"
    JOIN = "worker joins"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Event:
    """Something that happens `at` seconds after the start, and is repaired `lasts` seconds later."""

    at: float
    lasts: float
    kind: Kind
    target: str = ""

    @property
    def subject(self) -> str:
        """What it happens to."""
        return "broker" if self.kind in {Kind.BROKER_CRASH, Kind.BROKER_STOP} else self.target or self.kind

    def __str__(self) -> str:
        what = f"{self.kind} {self.target}".strip()
        return f"{what}, for {self.lasts:.1f} s"


# No event before the group has formed; the last ones still find records in flight.
_QUIET_SECONDS = 8.0


def schedule(plan: Plan, seed: int) -> Sequence[Event]:
    """Return the events; the same plan and seed give the same ones."""
    lots = random.Random(seed)
    events = [*_broker_and_judges(plan, lots), *_joins(plan, lots), *_kills(plan, lots)]
    return sorted(events)


def _broker_and_judges(plan: Plan, lots: random.Random) -> Iterator[Event]:
    """Yield one of each kind in a third of the run, in any order, each after recovery from the one before."""
    kinds = [Kind.BROKER_CRASH, Kind.BROKER_STOP, Kind.OUTAGE]
    lots.shuffle(kinds)
    third = (plan.feed_seconds - _QUIET_SECONDS) / len(kinds)
    for number, kind in enumerate(kinds):
        lasts = plan.outage_seconds if kind is Kind.OUTAGE else lots.uniform(1.0, 4.0)
        room = max(0.0, third - lasts)
        yield Event(at=_QUIET_SECONDS + number * third + lots.uniform(0.0, room / 2), lasts=lasts, kind=kind)


def _joins(plan: Plan, lots: random.Random) -> Iterator[Event]:
    part = (plan.feed_seconds - _QUIET_SECONDS) / plan.joins
    for number in range(plan.joins):
        at = _QUIET_SECONDS + number * part + lots.uniform(0.0, part / 3)
        yield Event(at=at, lasts=lots.uniform(part / 4, part / 2), kind=Kind.JOIN, target=f"guest-{number + 1}")


def _kills(plan: Plan, lots: random.Random) -> Iterator[Event]:
    """Yield kills of random processes at random times; no process is killed while it is dead."""
    dead: dict[str, list[tuple[float, float]]] = {name: [] for name in (*SAMPLERS, *WORKERS)}
    scheduled = 0
    while scheduled < plan.kills:
        target = lots.choice([*dead])
        at, lasts = lots.uniform(_QUIET_SECONDS, plan.feed_seconds), lots.uniform(0.0, 3.0)
        if all(at + lasts + 0.5 < begin or at > end + 0.5 for begin, end in dead[target]):
            dead[target].append((at, at + lasts))
            scheduled += 1
            yield Event(at=at, lasts=lasts, kind=Kind.KILL, target=target)

"""The plan of faults, and the endless, reproducible stream of records that it generates."""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import accumulate
from random import Random
from types import MappingProxyType

from stream.cli.demo import answers, interaction
from stream.cli.demo.corpus import Corpus, QuestionGroup
from stream.cli.demo.malformed import Malformation, corrupt


class Regime(StrEnum):
    """The fault in a record: the truth that verdicts can be compared with."""

    HEALTHY = "healthy"
    HALLUCINATING = "hallucinating"
    VERBOSE = "verbose"
    OFF_TOPIC = "off-topic"
    UNSAFE = "unsafe"
    BAD_RETRIEVAL = "bad-retrieval"
    MALFORMED = "malformed"


Mix = Mapping[Regime, float]

# No service is without faults; these are well within the objective that the configuration has by default.
HEALTHY_MIX: Mix = MappingProxyType(
    {
        Regime.HEALTHY: 0.97,
        Regime.HALLUCINATING: 0.005,
        Regime.VERBOSE: 0.005,
        Regime.OFF_TOPIC: 0.005,
        Regime.UNSAFE: 0.005,
        Regime.MALFORMED: 0.01,
    }
)
DEGRADED_MIX: Mix = MappingProxyType(
    {
        Regime.HEALTHY: 0.08,
        Regime.HALLUCINATING: 0.55,
        Regime.VERBOSE: 0.10,
        Regime.OFF_TOPIC: 0.20,
        Regime.UNSAFE: 0.05,
        Regime.MALFORMED: 0.02,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A share of the plan's period with its mix of regimes; `overrides` gives single apps another mix."""

    name: str
    share: float
    mix: Mix
    overrides: Mapping[str, Mix] = field(default_factory=dict)

    def mix_for(self, app: str) -> Mix:
        return self.overrides.get(app, self.mix)


SCENARIO = (
    Phase(name="healthy", share=0.4, mix=HEALTHY_MIX),
    Phase(name="drop", share=0.3, mix=HEALTHY_MIX, overrides={"support-bot": DEGRADED_MIX}),
    Phase(name="recovery", share=0.3, mix=HEALTHY_MIX),
)
PLAN_NAMES: tuple[str, ...] = (*(regime.value for regime in Regime), "scenario")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Phases that follow one another and start again after `seconds`; the first cycle starts at `start`."""

    name: str
    seconds: float
    phases: tuple[Phase, ...]
    start: float = 0.0

    def phase_at(self, elapsed: float) -> Phase:
        position = ((self.start + elapsed) % self.seconds) / self.seconds
        ends = list(accumulate(phase.share for phase in self.phases))
        # The shares may add up to slightly less than 1.
        return self.phases[min(bisect_right(ends, position), len(self.phases) - 1)]

    def regime_at(self, elapsed: float, app: str, rng: Random) -> Regime:
        mix = self.phase_at(elapsed).mix_for(app)
        return rng.choices(tuple(mix), weights=tuple(mix.values()))[0]


def plan(name: str, *, seconds: float, first_drop: float | None = None) -> Plan:
    """Return the plan of this name: one regime throughout, or `scenario`, which starts healthy, drops and recovers.

    `first_drop` shortens the healthy phase of the scenario's first cycle to this many seconds.
    """
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"seconds: {seconds} is not a positive number")
    if name not in PLAN_NAMES:
        raise ValueError(f"unknown plan {name!r}; expected one of: {', '.join(PLAN_NAMES)}")
    if name == "scenario":
        healthy = SCENARIO[0].share * seconds
        start = 0.0 if first_drop is None else max(0.0, healthy - first_drop)
        return Plan(name=name, seconds=seconds, phases=SCENARIO, start=start)
    return Plan(name=name, seconds=seconds, phases=(Phase(name=name, share=1.0, mix={Regime(name): 1.0}),))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficRecord:
    """One Kafka record; the header `regime` also labels records that cannot be parsed."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    regime: Regime


_ANSWERS: Mapping[Regime, Callable[[Corpus, QuestionGroup, Random], str]] = MappingProxyType(
    {
        Regime.HEALTHY: answers.healthy,
        Regime.HALLUCINATING: answers.hallucinating,
        Regime.VERBOSE: answers.verbose,
        Regime.OFF_TOPIC: answers.off_topic,
        Regime.UNSAFE: answers.unsafe,
        # The answer is that of a healthy service; the contexts are those of another question.
        Regime.BAD_RETRIEVAL: answers.healthy,
        # Corrupted afterwards, and otherwise healthy.
        Regime.MALFORMED: answers.healthy,
    }
)


def make_record(corpus: Corpus, group: QuestionGroup, regime: Regime, rng: Random, now: datetime) -> TrafficRecord:
    """Return one record of this group and regime; malformed ones name their kind in the header `malformation`."""
    answer = _ANSWERS[regime](corpus, group, rng)
    source = rng.choice(corpus.strangers(group)) if regime is Regime.BAD_RETRIEVAL else group
    fields = interaction.build(group, answer, regime.value, rng, now, passages=source.contexts)
    value = interaction.encode(fields)
    headers: tuple[tuple[str, bytes], ...] = (("regime", regime.value.encode()),)
    if regime is Regime.MALFORMED:
        kind = rng.choice(tuple(Malformation))
        value = corrupt(fields, kind, rng)
        headers = (*headers, ("malformation", kind.value.encode()))
    return TrafficRecord(key=str(fields["id"]).encode(), value=value, headers=headers, regime=regime)


class Traffic:
    """A stream of records in which every choice comes from one seed."""

    def __init__(self, corpus: Corpus, plan: Plan, *, seed: int) -> None:
        self._corpus = corpus
        self._plan = plan
        self._rng = Random(seed)  # noqa: S311 reproducible by design, nothing secret depends on it
        self._groups = {app: tuple(group for group in corpus.groups if group.app == app) for app in corpus.apps}

    def record(self, elapsed: float, now: datetime) -> TrafficRecord:
        """Return the next record: `elapsed` seconds into the plan, with the time `now`."""
        app = self._rng.choice(tuple(self._groups))
        group = self._rng.choice(self._groups[app])
        regime = self._plan.regime_at(elapsed, app, self._rng)
        return make_record(self._corpus, group, regime, self._rng, now)


def generate(corpus: Corpus, plan: Plan, *, seed: int) -> Traffic:
    """Return the traffic of a plan: the same seed and calls of `record` give the same bytes."""
    return Traffic(corpus, plan, seed=seed)

"""The sampling policy: combines rules, safety triggers, adaptive rates and caps into one decision per record."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from judges.criteria.problems import Loc
from stream.config.names import DEFAULT_RULE, SAFETY_RULE
from stream.config.rate_scale import DEFAULT_MIN_RATE
from stream.config.sections.input import InputConfig
from stream.config.sections.sampling import SafetyConfig, SamplingConfig, SamplingRule
from stream.errors import StageError
from stream.records.adapters.base import Adapter
from stream.records.body import BodyReader, app_getter
from stream.records.decision import Cohort, Decision, SamplingOutcome, threshold
from stream.records.facts import LazyRecord
from stream.records.reading import InteractionReader
from stream.sampler.adaptive import AdaptiveRate, Goal, ReplayedRate
from stream.sampler.rules import Matcher, fields_of_rule
from stream.sampler.safety_triggers import Triggers, fields_of_trigger
from stream.sampler.step_log import StepFile, StepLog, StepLogError, read_step_log

__all__ = [
    "Decision",
    "DecisionExplanation",
    "Fixed",
    "RuleTried",
    "SamplingOutcome",
    "SamplingPolicy",
    "find_unreadable",
]

_MINUTE_MS = 60_000
# A producer chooses the times of its records. Times within these bounds of our clock are trusted: producers' clocks
# differ, and a restarted sampler is behind. If any time were trusted, each record could have its own minute of a cap.
_BEHIND_MS = 10 * _MINUTE_MS
_AHEAD_MS = _MINUTE_MS
# Partitions are read at different speeds: this many minutes of record time are counted side by side.
_MINUTES_COUNTED = 128
# Over all rules, rates, outcomes and apps.
_DECISIONS_KEPT = 16_384
# As in an interaction.
_MAX_ID_CHARS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """One rate for all records: the key decides, and the rest of a record need not be read."""

    chooses: Callable[[bytes], bool]
    chosen: Decision
    left_out: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTried:
    """A rule that was tried, and why it matched or did not."""

    rule: str
    matched: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionExplanation:
    """The steps that lead to a decision. Caps are left out: they depend on earlier records."""

    record_id: bytes
    draw: float
    tried: tuple[RuleTried, ...]
    triggers: Mapping[str, str | None]
    """What set off each safety trigger; empty where triggers could not change the decision and are not checked."""
    decision: Decision
    target_per_minute: float | None
    bounds: tuple[float, float] | None
    """Bounds of the adaptive rate, if such a rate decided."""
    rate_known: bool
    """Whether the rate is known. If it follows traffic that was not seen here, the lowest is assumed."""
    max_per_minute: int | None


class Cap:
    """The most records to judge per minute of record time."""

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self.share = 1.0
        self._counts: OrderedDict[int, int] = OrderedDict()

    def take(self, at_ms: int) -> bool:
        minute = at_ms // _MINUTE_MS
        count = self._counts.pop(minute, 0)
        allowed = count < max(1.0, self.per_minute * self.share)
        self._counts[minute] = count + allowed
        if len(self._counts) > _MINUTES_COUNTED:
            self._counts.popitem(last=False)
        return allowed


class _DecisionCache:
    """Cached decisions of a policy; when there are too many, all are dropped."""

    def __init__(self) -> None:
        self._parts: list[_ByApp] = []
        self._kept = 0

    def part(self, like: Decision) -> "_ByApp":
        part = _ByApp(like, self)
        self._parts.append(part)
        return part

    def make_room(self) -> None:
        """Make room for one more decision."""
        if self._kept >= _DECISIONS_KEPT:
            for part in self._parts:
                part.clear()
            self._kept = 0
        self._kept += 1


class _ByApp(dict[str | None, Decision]):
    """One object for all records that are decided alike: making it takes as long as the rest of a decision."""

    def __init__(self, like: Decision, memory: _DecisionCache) -> None:
        super().__init__()
        self._like, self._memory = like, memory

    def __missing__(self, app: str | None) -> Decision:
        self._memory.make_room()
        decision = self[app] = replace(self._like, app=app)
        return decision


class _Decisions:
    """The decisions of one rule, by outcome and then by app."""

    def __init__(self, rule: str, lane: str, memory: _DecisionCache) -> None:
        self._rule, self._lane, self._memory = rule, lane, memory
        self._kept: dict[tuple[SamplingOutcome, float, str], _ByApp] = {}

    def by_app(self, outcome: SamplingOutcome, probability: float, why: str) -> _ByApp:
        key = (outcome, probability, why)
        decisions = self._kept.get(key)
        if decisions is None:
            like = Decision(outcome=outcome, probability=probability, rule=self._rule, lane=self._lane, why=why)
            decisions = self._kept[key] = self._memory.part(like)
        return decisions


class _RulePlan:
    """How to treat the records of one rule, or of no rule."""

    def __init__(
        self,
        name: str,
        config: SamplingRule | SamplingConfig,
        *,
        lane: str,
        adaptive: ReplayedRate | None,
        memory: _DecisionCache,
        safety: float | None,
        matcher: Matcher | None = None,
    ) -> None:
        self.name, self.lane = name, lane
        self.why = f"rule {name}: {matcher.words}" if matcher is not None else "no rule matches"
        self.rate = config.rate
        self.target = config.target_per_minute
        self.adaptive = adaptive
        self.cap = Cap(config.max_per_minute) if config.max_per_minute is not None else None
        self.matcher = matcher
        self._decisions = _Decisions(name, lane, memory)
        self._thresholds: dict[float, _Threshold] = {}
        self.filtered = self.by_app(SamplingOutcome.FILTERED, 0.0)
        self._safety = safety
        lowest = adaptive.lowest if adaptive is not None else self.rate or 0.0
        self.watched = self.rate != 0.0 and self.yields_to_safety(lowest)
        """Whether the safety lane can take records over; if not, its triggers are not checked."""
        fixed = adaptive is None and self.cap is None
        self.steady = self.threshold(self.rate or 0.0) if fixed else None
        """Set if a record's draw alone decides, independent of earlier records."""

    def yields_to_safety(self, rate: float) -> bool:
        """Return whether records with a safety trigger go to the safety lane when the rule has this rate.

        They also do at equal rates if they could be shed, because the safety lane has no cap.
        """
        return self._safety is not None and (self._safety > rate or (self._safety == rate and self.cap is not None))

    def rate_at(self, at_ms: int, *, counting: bool = False) -> float:
        """Return the rate at a record time, which may change when the record is counted."""
        if self.adaptive is None:
            return self.rate or 0.0
        return self.adaptive.observe(at_ms) if counting else self.adaptive.rate_at(at_ms)

    def threshold(self, rate: float) -> "_Threshold":
        """Return the threshold of one of its rates."""
        entry = self._thresholds.get(rate)
        if entry is None:
            entry = self._thresholds[rate] = _Threshold(
                threshold(rate),
                self.by_app(SamplingOutcome.SAMPLED, rate),
                self.by_app(SamplingOutcome.SAMPLED_OUT, rate),
            )
        return entry

    def by_app(self, outcome: SamplingOutcome, rate: float) -> _ByApp:
        return self._decisions.by_app(outcome, rate, self.why)


class _Threshold(NamedTuple):
    """A limit for a digest, and the decisions below and above it."""

    limit: bytes
    below: _ByApp
    above: _ByApp


class SamplingPolicy:
    """Decides about records. With adaptive or capped rates it has a memory, and must see all records of its share."""

    def __init__(self, config: SamplingConfig, records: InputConfig, *, clock: Callable[[], float] = time.time) -> None:
        self._config = config
        self._clock = clock
        self._batch_ms: int | None = None
        self._cohort = Cohort(config.salt)
        self._whole = InteractionReader(records)
        self._reader = BodyReader(records)
        self._by_key = config.id == "key"
        self._log, self._steps = _open_step_log(config)
        self._memory = _DecisionCache()
        self._plans = [
            self._make_plan(rule.name, rule, rule.lane, Matcher(rule.match, self._reader)) for rule in config.rules
        ]
        self._default = self._make_plan(DEFAULT_RULE, config, "main")
        self._safety_limit = threshold(config.safety.rate) if config.safety else b""
        self._safety_decisions = _Decisions(SAFETY_RULE, config.safety.lane if config.safety else "", self._memory)
        self._triggers = Triggers(config.safety, self._reader) if config.safety else None
        self._id = self._reader.field_getter("id")
        self._app = app_getter(self._reader)
        self._share = 1.0
        self.fixed = self._make_fixed()
        """Set if every record with a key is decided by its key alone."""

    @property
    def share(self) -> float:
        """The part of all traffic that this process sees, and thus its part of the targets and caps."""
        return self._share

    @share.setter
    def share(self, share: float) -> None:
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"a share must be a number from 0 to 1, not {share}")
        self._share = share
        for plan in (*self._plans, self._default):
            for part in (plan.adaptive, plan.cap):
                if part is not None:
                    part.share = share

    @property
    def adapts(self) -> bool:
        """Whether decisions depend on the amount of traffic."""
        return any(plan.adaptive is not None or plan.cap is not None for plan in (*self._plans, self._default))

    def close(self) -> None:
        if self._steps is not None:
            self._steps.close()

    def start_batch(self) -> None:
        """Read the clock for all records until the next call; without a call, it is read for each record."""
        self._batch_ms = self._read_clock()

    def _read_clock(self) -> int:
        return int(1000 * self._clock())

    def decide(self, facts: LazyRecord) -> Decision:
        """Decide about a record; raises RecordError if a part that the decision needs cannot be read."""
        return self._decide(self._plan_of(facts), facts, counting=True)

    def record_id(self, facts: LazyRecord) -> bytes:
        """Return the id by which a record is drawn: its key, or the id in its body."""
        if self._by_key and facts.key:
            return facts.key
        value = self._id(facts.body(self._reader))
        if type(value) is str and 0 < len(value) <= _MAX_ID_CHARS:
            return value.encode("utf-8", "surrogatepass")
        # Any other value: the reader of whole interactions converts it, or raises a clear error.
        return self._whole.read(facts.json_value()).interaction.id.encode("utf-8", "surrogatepass")

    def explain(self, facts: LazyRecord) -> DecisionExplanation:
        """Explain the decision about a record, without counting the record."""
        tried, plan = self._try_rules(facts)
        record_id = self.record_id(facts)
        triggers = self._triggers if plan.watched else None
        decision = self._decide(plan, facts, counting=False)
        ruled = decision.rule == plan.name
        return DecisionExplanation(
            record_id=record_id,
            draw=self._cohort.draw(record_id),
            tried=tried,
            triggers=triggers.all(facts) if triggers is not None else {},
            decision=decision,
            target_per_minute=plan.target if ruled else None,
            bounds=(plan.adaptive.lowest, plan.adaptive.highest) if ruled and plan.adaptive is not None else None,
            rate_known=not ruled or plan.adaptive is None or self._is_logged(plan),
            max_per_minute=plan.cap.per_minute if ruled and plan.cap is not None else None,
        )

    def _decide(self, plan: _RulePlan, facts: LazyRecord, *, counting: bool) -> Decision:
        if plan.rate == 0.0:
            return plan.filtered[self._app_in(facts)]
        digest = self._cohort.digest(self.record_id(facts))
        trigger = self._triggers.first(facts) if plan.watched and self._triggers is not None else None
        app = self._app_in(facts)
        at_ms = self._trusted_time(facts) if counting and plan.steady is None else facts.at_ms
        if trigger is not None and plan.yields_to_safety(plan.rate_at(at_ms)):
            return self._decide_for_safety(trigger, digest, app)
        if plan.steady is not None:
            limit, below, above = plan.steady
            return (below if digest < limit else above)[app]
        rate = plan.rate_at(at_ms, counting=counting)
        if trigger is not None and plan.yields_to_safety(rate):  # this record itself lowered the rate
            return self._decide_for_safety(trigger, digest, app)
        limit, below, above = plan.threshold(rate)
        if digest < limit and counting and plan.cap is not None and not plan.cap.take(at_ms):
            return plan.by_app(SamplingOutcome.SHED, rate)[app]
        return (below if digest < limit else above)[app]

    def _trusted_time(self, facts: LazyRecord) -> int:
        """Return the time at which targets and caps count a record: its own, or now if that is missing or implausible.

        A replay repeats decisions of times long past, and trusts all times.
        """
        at_ms = facts.at_ms
        if at_ms > 0 and (facts.is_broker_time or self._config.replay_steps is not None):
            return at_ms
        now = self._read_clock() if self._batch_ms is None else self._batch_ms
        return at_ms if now - _BEHIND_MS <= at_ms <= now + _AHEAD_MS else now

    def _try_rules(self, facts: LazyRecord) -> tuple[tuple[RuleTried, ...], _RulePlan]:
        tried: list[RuleTried] = []
        for plan in self._plans:
            assert plan.matcher is not None
            failure = plan.matcher.failure(facts)
            tried.append(RuleTried(rule=plan.name, matched=failure is None, why=failure or plan.matcher.words))
            if failure is None:
                return tuple(tried), plan
        return tuple(tried), self._default

    def _plan_of(self, facts: LazyRecord) -> _RulePlan:
        for plan in self._plans:
            if plan.matcher is not None and plan.matcher.matches(facts):
                return plan
        return self._default

    def _is_logged(self, plan: _RulePlan) -> bool:
        """Return whether the steps of an adaptive rule are known: a log to replay is complete."""
        return self._config.replay_steps is not None or self._log.last(plan.name) is not None

    def _decide_for_safety(self, trigger: str, digest: bytes, app: str | None) -> Decision:
        safety = self._config.safety
        assert safety is not None
        outcome = SamplingOutcome.SAMPLED if digest < self._safety_limit else SamplingOutcome.SAMPLED_OUT
        return self._safety_decisions.by_app(outcome, safety.rate, f"{SAFETY_RULE}: {trigger}")[app]

    def _app_in(self, facts: LazyRecord) -> str | None:
        """Return the app of a record if its body was already read; a body is not read only for that."""
        return None if facts.body_as_read is None else self._app(facts.body_as_read)

    # Construction

    def _make_plan(
        self, name: str, config: SamplingRule | SamplingConfig, lane: str, matcher: Matcher | None = None
    ) -> _RulePlan:
        safety = self._config.safety
        return _RulePlan(
            name,
            config,
            lane=lane,
            adaptive=self._make_adaptive(name, config),
            memory=self._memory,
            safety=safety.rate if safety is not None else None,
            matcher=matcher,
        )

    def _make_adaptive(self, name: str, config: SamplingRule | SamplingConfig) -> ReplayedRate | None:
        if config.target_per_minute is None:
            return None
        goal = Goal(
            target_per_minute=config.target_per_minute,
            min_rate=DEFAULT_MIN_RATE if config.min_rate is None else config.min_rate,
            max_rate=1.0 if config.max_rate is None else config.max_rate,
        )
        if self._config.replay_steps is not None:
            return ReplayedRate(name, goal, self._log)
        return AdaptiveRate(name, goal, self._log, self._steps.write if self._steps is not None else None)

    def _make_fixed(self) -> Fixed | None:
        plan = self._default
        if self._plans or self._triggers is not None or self.adapts or not self._by_key or plan.rate is None:
            return None
        entry = plan.threshold(plan.rate)
        left_out = entry.above[None] if plan.rate else plan.filtered[None]
        return Fixed(chooses=self._cohort.chooser(plan.rate), chosen=entry.below[None], left_out=left_out)


def find_unreadable(sampling: SamplingConfig, adapter: Adapter) -> Iterator[tuple[Loc, str]]:
    """Find fields that rules and named triggers use but records never have, with their places below `sampling`.

    With the default triggers, those whose fields are missing are simply not used.
    """
    safety = sampling.safety
    if safety is not None and safety.triggers != SafetyConfig.model_fields["triggers"].default:
        for number, trigger in enumerate(safety.triggers):
            for field in fields_of_trigger(trigger, safety):
                if adapter.path(field) is None:
                    yield ("safety", "triggers", number), adapter.explain_missing(field)
    for number, rule in enumerate(sampling.rules):
        for field in fields_of_rule(rule.match):
            if adapter.path(field) is None:
                yield ("rules", number, "match", field), adapter.explain_missing(field)


def _open_step_log(config: SamplingConfig) -> tuple[StepLog, StepFile | None]:
    """Return the steps so far, and the file for further ones."""
    if config.replay_steps is not None:
        return _read_steps("replay_steps", Path(config.replay_steps)), None
    if config.step_log is None:
        return StepLog(), None
    path = Path(config.step_log)
    return _read_steps("step_log", path, may_be_torn=True) if path.exists() else StepLog(), StepFile(path)


def _read_steps(key: str, path: Path, *, may_be_torn: bool = False) -> StepLog:
    try:
        return read_step_log(path, may_be_torn=may_be_torn)
    except StepLogError as error:
        raise StageError(f"sampling.{key}: {path}: {error}") from None

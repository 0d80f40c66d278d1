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
from stream.sampler.rules import Matcher, fields_asked_for
from stream.sampler.safety_triggers import Triggers, fields_looked_at
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
# A producer chooses the times of its records. Those within these bounds of our clock are believed: producers' clocks
# differ, and a sampler that was restarted is behind. With any time, each record would have a minute of a cap to itself.
_BEHIND_MS = 10 * _MINUTE_MS
_AHEAD_MS = _MINUTE_MS
# Partitions are read at different speeds: so many minutes of record time are counted at once.
_MINUTES_COUNTED = 128
# By rule, rate, outcome and app, all together.
_DECISIONS_KEPT = 16_384
# As an interaction has them.
_MAX_ID_CHARS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """One rate for all: the key of a record decides, and nothing else of it need be looked at."""

    chooses: Callable[[bytes], bool]
    chosen: Decision
    left_out: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTried:
    """A rule that was looked at, and why it was the one or was not."""

    rule: str
    matched: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionExplanation:
    """How a decision comes about. Caps are left out: they depend on what came before."""

    record_id: bytes
    draw: float
    tried: tuple[RuleTried, ...]
    triggers: Mapping[str, str | None]
    """By safety trigger, what set it off; none where they are not looked at, for they could not change anything."""
    decision: Decision
    target_per_minute: float | None
    bounds: tuple[float, float] | None
    """Between which the rate follows the traffic, where it does and decided."""
    rate_known: bool
    """Whether the rate in force is known. Where it follows traffic that was not seen here, the lowest is assumed."""
    max_per_minute: int | None


class Cap:
    """How many records of each minute of record time may be judged."""

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self.share = 1.0
        self._counts: OrderedDict[int, int] = OrderedDict()

    def takes(self, at_ms: int) -> bool:
        minute = at_ms // _MINUTE_MS
        count = self._counts.pop(minute, 0)
        allowed = count < max(1.0, self.per_minute * self.share)
        self._counts[minute] = count + allowed
        if len(self._counts) > _MINUTES_COUNTED:
            self._counts.popitem(last=False)
        return allowed


class _DecisionCache:
    """The decisions that a policy keeps; when they are too many, it begins anew with none."""

    def __init__(self) -> None:
        self._parts: list[_ByApp] = []
        self._kept = 0

    def part(self, like: Decision) -> "_ByApp":
        made = _ByApp(like, self)
        self._parts.append(made)
        return made

    def make_room(self) -> None:
        """For one more."""
        if self._kept >= _DECISIONS_KEPT:
            for part in self._parts:
                part.clear()
            self._kept = 0
        self._kept += 1


class _ByApp(dict[str | None, Decision]):
    """One object for all records that are decided alike: making one takes as long as the rest of a decision."""

    def __init__(self, like: Decision, memory: _DecisionCache) -> None:
        super().__init__()
        self._like, self._memory = like, memory

    def __missing__(self, app: str | None) -> Decision:
        self._memory.make_room()
        made = self[app] = replace(self._like, app=app)
        return made


class _Decisions:
    """What is decided under one name, by what was decided and then by app."""

    def __init__(self, rule: str, lane: str, memory: _DecisionCache) -> None:
        self._rule, self._lane, self._memory = rule, lane, memory
        self._kept: dict[tuple[SamplingOutcome, float, str], _ByApp] = {}

    def by_app(self, outcome: SamplingOutcome, probability: float, why: str) -> _ByApp:
        key = (outcome, probability, why)
        found = self._kept.get(key)
        if found is None:
            like = Decision(outcome=outcome, probability=probability, rule=self._rule, lane=self._lane, why=why)
            found = self._kept[key] = self._memory.part(like)
        return found


class _RulePlan:
    """What is done with the records of one rule, or of none."""

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
        self.watched = self.rate != 0.0 and self.gives_up(lowest)
        """Whether the safety lane can take records over; its triggers are not looked at where it cannot."""
        fixed = adaptive is None and self.cap is None
        self.steady = self.threshold(self.rate or 0.0) if fixed else None
        """Set where a record's draw alone decides, whatever came before it."""

    def gives_up(self, rate: float) -> bool:
        """Whether at this rate of its own, records with a sign of trouble go to the safety lane.

        They do so at equal rates too where they could be shed, for the safety lane has no cap.
        """
        return self._safety is not None and (self._safety > rate or (self._safety == rate and self.cap is not None))

    def rate_at(self, at_ms: int, *, counting: bool = False) -> float:
        """The rate in force at a record time, which may change when the record is counted."""
        if self.adaptive is None:
            return self.rate or 0.0
        return self.adaptive.observe(at_ms) if counting else self.adaptive.at(at_ms)

    def threshold(self, rate: float) -> "_Threshold":
        """How is decided at one of its rates."""
        found = self._thresholds.get(rate)
        if found is None:
            found = self._thresholds[rate] = _Threshold(
                threshold(rate),
                self.by_app(SamplingOutcome.SAMPLED, rate),
                self.by_app(SamplingOutcome.SAMPLED_OUT, rate),
            )
        return found

    def by_app(self, outcome: SamplingOutcome, rate: float) -> _ByApp:
        return self._decisions.by_app(outcome, rate, self.why)


class _Threshold(NamedTuple):
    """What a digest must be below, and what is decided where it is and where it is not."""

    limit: bytes
    below: _ByApp
    above: _ByApp


class SamplingPolicy:
    """Decides about records. Where rates adapt or are capped it has a memory, and must see all records of its share."""

    def __init__(self, config: SamplingConfig, records: InputConfig, *, clock: Callable[[], float] = time.time) -> None:
        self._config = config
        self._clock = clock
        self._batch_ms: int | None = None
        self._cohort = Cohort(config.salt)
        self._whole = InteractionReader(records)
        self._reader = BodyReader(records)
        self._by_key = config.id == "key"
        self._log, self._steps = _step_log(config)
        self._memory = _DecisionCache()
        self._plans = [
            self._plan(rule.name, rule, rule.lane, Matcher(rule.match, self._reader)) for rule in config.rules
        ]
        self._default = self._plan(DEFAULT_RULE, config, "main")
        self._safety_limit = threshold(config.safety.rate) if config.safety else b""
        self._safety_decisions = _Decisions(SAFETY_RULE, config.safety.lane if config.safety else "", self._memory)
        self._triggers = Triggers(config.safety, self._reader) if config.safety else None
        self._id = self._reader.field_getter("id")
        self._app = app_getter(self._reader)
        self._share = 1.0
        self.fixed = self._fixed()
        """Set when every record with a key is decided by its key alone."""

    @property
    def share(self) -> float:
        """The part of all traffic that this process sees, and so its part of the targets and caps."""
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
        """Whether what is decided depends on how much traffic there is."""
        return any(plan.adaptive is not None or plan.cap is not None for plan in (*self._plans, self._default))

    def close(self) -> None:
        if self._steps is not None:
            self._steps.close()

    def start_batch(self) -> None:
        """Reads the clock for all records until the next call; without one, it is read for each record."""
        self._batch_ms = self._read_clock()

    def _read_clock(self) -> int:
        return int(1000 * self._clock())

    def decide(self, facts: LazyRecord) -> Decision:
        """Decides about a record; a RecordError for one whose parts that count cannot be read."""
        return self._decided(self._plan_of(facts), facts, counting=True)

    def record_id(self, facts: LazyRecord) -> bytes:
        """What a record is drawn by: its key, or the id in its body."""
        if self._by_key and facts.key:
            return facts.key
        found = self._id(facts.body(self._reader))
        if type(found) is str and 0 < len(found) <= _MAX_ID_CHARS:
            return found.encode("utf-8", "surrogatepass")
        # Whatever else it is, the reader of whole interactions knows what to make of it, or what to say.
        return self._whole.read(facts.value).interaction.id.encode("utf-8", "surrogatepass")

    def explain(self, facts: LazyRecord) -> DecisionExplanation:
        """How the decision about a record comes about; nothing is counted."""
        tried, plan = self._tried(facts)
        record_id = self.record_id(facts)
        triggers = self._triggers if plan.watched else None
        decision = self._decided(plan, facts, counting=False)
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

    def _decided(self, plan: _RulePlan, facts: LazyRecord, *, counting: bool) -> Decision:
        if plan.rate == 0.0:
            return plan.filtered[self._app_in(facts)]
        digest = self._cohort.digest(self.record_id(facts))
        trigger = self._triggers.first(facts) if plan.watched and self._triggers is not None else None
        app = self._app_in(facts)
        at_ms = self._believed_time(facts) if counting and plan.steady is None else facts.at_ms
        if trigger is not None and plan.gives_up(plan.rate_at(at_ms)):
            return self._taken_over(trigger, digest, app)
        if plan.steady is not None:
            limit, below, above = plan.steady
            return (below if digest < limit else above)[app]
        rate = plan.rate_at(at_ms, counting=counting)
        if trigger is not None and plan.gives_up(rate):  # it was this record that brought the rate down
            return self._taken_over(trigger, digest, app)
        limit, below, above = plan.threshold(rate)
        if digest < limit and counting and plan.cap is not None and not plan.cap.takes(at_ms):
            return plan.by_app(SamplingOutcome.SHED, rate)[app]
        return (below if digest < limit else above)[app]

    def _believed_time(self, facts: LazyRecord) -> int:
        """The time for which targets and caps count a record: its own, or now where its own is missing or unbelievable.

        A replay repeats what was decided at times long past, and takes them as they are.
        """
        at_ms = facts.at_ms
        if at_ms > 0 and (facts.is_broker_time or self._config.replay_steps is not None):
            return at_ms
        now = self._read_clock() if self._batch_ms is None else self._batch_ms
        return at_ms if now - _BEHIND_MS <= at_ms <= now + _AHEAD_MS else now

    def _tried(self, facts: LazyRecord) -> tuple[tuple[RuleTried, ...], _RulePlan]:
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
        """Whether the steps of a rule that adapts are known: a log to replay says all that there is to know."""
        return self._config.replay_steps is not None or self._log.last(plan.name) is not None

    def _taken_over(self, trigger: str, digest: bytes, app: str | None) -> Decision:
        safety = self._config.safety
        assert safety is not None
        outcome = SamplingOutcome.SAMPLED if digest < self._safety_limit else SamplingOutcome.SAMPLED_OUT
        return self._safety_decisions.by_app(outcome, safety.rate, f"{SAFETY_RULE}: {trigger}")[app]

    def _app_in(self, facts: LazyRecord) -> str | None:
        """The app of a record whose body was read for something else; it is not worth reading one for."""
        return None if facts.body_as_read is None else self._app(facts.body_as_read)

    # Putting it together

    def _plan(
        self, name: str, config: SamplingRule | SamplingConfig, lane: str, matcher: Matcher | None = None
    ) -> _RulePlan:
        safety = self._config.safety
        return _RulePlan(
            name,
            config,
            lane=lane,
            adaptive=self._adaptive(name, config),
            memory=self._memory,
            safety=safety.rate if safety is not None else None,
            matcher=matcher,
        )

    def _adaptive(self, name: str, config: SamplingRule | SamplingConfig) -> ReplayedRate | None:
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

    def _fixed(self) -> Fixed | None:
        plan = self._default
        if self._plans or self._triggers is not None or self.adapts or not self._by_key or plan.rate is None:
            return None
        decided = plan.threshold(plan.rate)
        left_out = decided.above[None] if plan.rate else plan.filtered[None]
        return Fixed(chooses=self._cohort.chooser(plan.rate), chosen=decided.below[None], left_out=left_out)


def find_unreadable(sampling: SamplingConfig, adapter: Adapter) -> Iterator[tuple[Loc, str]]:
    """Fields that rules and named triggers look at and records never have, with their places below `sampling`.

    Where the triggers are left at their default, those that have their fields are meant.
    """
    safety = sampling.safety
    if safety is not None and safety.triggers != SafetyConfig.model_fields["triggers"].default:
        for number, trigger in enumerate(safety.triggers):
            for field in fields_looked_at(trigger, safety):
                if adapter.path(field) is None:
                    yield ("safety", "triggers", number), adapter.explain_missing(field)
    for number, rule in enumerate(sampling.rules):
        for field in fields_asked_for(rule.match):
            if adapter.path(field) is None:
                yield ("rules", number, "match", field), adapter.explain_missing(field)


def _step_log(config: SamplingConfig) -> tuple[StepLog, StepFile | None]:
    """The steps so far, and where further ones are written."""
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

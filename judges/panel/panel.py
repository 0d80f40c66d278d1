"""The panel: several judges are asked the same question, and their verdicts become one.

assess ── _ask_first ── _ask_rest ── conclude
          a cascade's    in rounds,   one finding
          judges         until settled
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal, get_args, overload

from judges.criteria.catalogue import criteria_of, criterion_of
from judges.criteria.criterion import SAFETY_DIMENSION, Criterion
from judges.criteria.problems import check_bool, check_integer, check_real
from judges.criteria.scale import Choice
from judges.judge import Criteria, Judge, missing_fields, unmet_needs
from judges.panel.cascade import Cascade
from judges.panel.early_stopping import seats_to_ask
from judges.panel.effective_votes import EffectiveVotes
from judges.panel.seats import Hearing, OnVerdict, Seat, Seating, ask, seating_of
from judges.panel.tally import (
    Ballot,
    Combine,
    CombineRule,
    abstentions,
    ballots_of,
    conclude_panel,
    conclude_single,
    voted_rank,
)
from judges.runtime.batch import Instance, evaluate_all
from judges.runtime.conditions import current_conditions
from judges.runtime.sync import wait_for
from judges.values.combine import MAX_WEIGHT
from judges.values.evaluation import Dimension, JudgeVerdict, Path, Reason, Status
from judges.values.interaction import Case, Language

Vote = Literal["majority", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Judges, and the rule that combines their verdicts."""

    judges: Sequence[Judge]
    combine: Combine = "mean"
    """The rule that combines the judges' scores; `min` is the worst and `max` the best. The option and level are
    those of the verdict that decides the score; for a mean, the choice at which at least half say "this, or worse".
    Options without scores can only be combined by `majority`: the most votes win, a tie goes to the worse option, and
    tied options without scores have no winner.

    The score of a safety criterion is always that of the voted level."""

    quorum: int | None = None
    """Number of judges that must give a verdict; None: more than half of those that judge the case."""

    reserves: Sequence[Judge] = ()
    """Judges that replace, in this order, a judge that failed or was excluded."""

    weights: Mapping[str, float] = field(default_factory=dict)
    """For `weighted`: weights by the judge's name; the default is 1."""

    exclude_family: bool = False
    """Whether to exclude judges of the model family that wrote the answer, if both families are known."""

    cascade: Cascade | None = None
    frugal: Cascade | None = None
    """The cascade of a panel without one, for interactions that are judged with savings."""

    stop_early: bool = False
    """Whether to ask as few judges as can decide, and stop once the rest cannot change the finding. This never happens
    with `mean` and `weighted`, nor for safety, where the worst verdict of any judge counts."""

    safety: frozenset[str] = frozenset({SAFETY_DIMENSION})
    """Names of the criteria for which all judges are always asked, in addition to those marked as safety."""

    _rules: dict[int, CombineRule] = field(default_factory=dict, init=False, repr=False, compare=False)
    _effective: EffectiveVotes = field(default_factory=EffectiveVotes, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for seats in ("judges", "reserves"):
            object.__setattr__(self, seats, _check_judges(seats, getattr(self, seats)))
        names = [judge.name for judge in self.judges]
        if not names:
            raise ValueError("a panel needs at least one judge")
        if self.combine not in get_args(Combine):
            raise ValueError(f"combine must be one of {', '.join(get_args(Combine))}, not {self.combine!r}")
        if self.quorum is not None:
            check_integer("quorum", self.quorum)
        if isinstance(self.safety, str):
            raise TypeError(f"safety must be a set of names, not the text {self.safety!r}")
        for switch in ("exclude_family", "stop_early"):
            check_bool(switch, getattr(self, switch))
        if self.quorum is not None and not 1 <= self.quorum <= len(names):
            raise ValueError(f"quorum must be between 1 and the {len(names)} judges of the panel, not {self.quorum}")
        member_names = [judge.name for judge in self.members]
        if len(set(member_names)) != len(member_names):
            raise ValueError(f"judges of a panel must have distinct names, not {member_names}")
        _check_weights(self.weights, self.combine, member_names)
        for cascade in (self.cascade, self.frugal):
            if cascade is not None:
                _check_first(cascade, names)

    @property
    def needed(self) -> int:
        """Number of verdicts that a finding needs if no judge is excluded."""
        return self._rule(len(self.judges)).needed

    @property
    def members(self) -> tuple[Judge, ...]:
        return (*self.judges, *self.reserves)

    @property
    def waits(self) -> bool:
        """Whether any of the judges has to be waited for."""
        return any(judge.waits for judge in self.members)

    @property
    def identity(self) -> object:
        """Everything that can change findings, as a JSON value."""
        return {
            "judges": [self._identity_of(judge) for judge in self.judges],
            "reserves": [self._identity_of(judge) for judge in self.reserves],
            "combine": self.combine,
            # If judges can be excluded, a fixed quorum differs from one that depends on the seats.
            "needed": self.quorum if self.exclude_family else self.needed,
            "weights": {name: float(self.weights[name]) for name in sorted(self.weights)},
            "exclude_family": self.exclude_family,
            "cascade": None if self.cascade is None else asdict(self.cascade),
            "stop_early": self.stop_early,
            "safety": sorted(self.safety),
        }

    def why_not(self, criterion: Criterion) -> str | None:
        """Return why this panel cannot judge by a criterion, or None; this needs no call."""
        problem = self._rule(1).why_not(criterion)
        if problem is not None:
            return problem
        refusals = {judge.name: reason for judge in self.judges if (reason := _refusal(judge, criterion)) is not None}
        needed, able = self.quorum or 1, len(self.judges) - len(refusals)
        if able >= needed:
            return None
        reasons = "; ".join(f"{name}: {reason}" for name, reason in refusals.items())
        return f"only {able} of the {needed} required judges can judge {criterion.name!r} ({reasons})"

    def check_own_questions(self, criteria: Collection[Criterion]) -> None:
        """Raise if the own question of a judge is not among the criteria: it would never be asked."""
        for judge in self.members:
            if judge.criterion is not None and judge.criterion not in criteria:
                names = ", ".join(criterion.name for criterion in criteria)
                raise ValueError(
                    f"{judge.name} has its own question, {judge.criterion.question.en!r}, which is not one of the "
                    f"criteria ({names}); add the judge's `criterion` to them, or create the judge without a question"
                )

    async def assess(
        self,
        case: Case,
        criterion: Criterion,
        *,
        safety: bool = False,
        safety_vote: Vote = "majority",
        seconds: float | None = None,
        on_verdict: OnVerdict | None = None,
    ) -> Dimension:
        """Ask the judges and combine their verdicts; a judge that is not done after `seconds` has no vote.

        `safety` asks all judges and scores the result of `safety_vote`, as for the criteria in `Panel.safety`.
        `on_verdict` is called with all verdicts so far whenever one arrives; an exception from it ends the assessment.
        """
        decided = self._decide_without_call(case, criterion)
        if decided is not None:
            return decided
        if not safety and not self._is_about_safety(criterion):
            return await self._assess(case, criterion, seconds=seconds, on_verdict=on_verdict)
        dimension = await self._assess(case, criterion, safety=True, seconds=seconds, on_verdict=on_verdict)
        return apply_safety_vote(criterion, dimension, safety_vote, case.language)

    async def _assess(
        self,
        case: Case,
        criterion: Criterion,
        *,
        safety: bool = False,
        seconds: float | None = None,
        on_verdict: OnVerdict | None = None,
    ) -> Dimension:
        single = self._single_judge(criterion, seconds)
        if single is not None:
            return await self._assess_alone(single, case, criterion, on_verdict, safety=safety)
        seating = self._seating(case, criterion)
        if not seating.seats and not seating.excluded:
            unread = f"no judge knows the language of the record, {case.language}"
            return _insufficient(Reason.UNSUPPORTED, self.why_not(criterion) or unread)
        if not seating.seats:
            detail = f"all judges are of the model family that wrote the answer, {case.author!r}"
            return _insufficient(Reason.SAME_FAMILY, detail).model_copy(update={"excluded": seating.excluded})
        hearing = Hearing(case, criterion, seating, safety=safety, seconds=seconds, on_verdict=on_verdict)
        path, dimension = await self._ask_first(hearing, ask_all=safety)
        if dimension is not None:
            saved = dimension.calls_saved + _calls_saved(hearing)
            return dimension.model_copy(update={"path": path, "excluded": hearing.excluded, "calls_saved": saved})
        await self._ask_rest(hearing, ask_all=safety)
        return conclude_panel(
            criterion,
            hearing.verdicts,
            case.language,
            self._rule_for(criterion, len(hearing.seats), safety=safety),
            path=path,
            excluded=hearing.excluded,
            effective_votes=self._observe(criterion, hearing.verdicts),
            unasked=_calls_saved(hearing),
        )

    def _single_judge(self, criterion: Criterion, seconds: float | None) -> Judge | None:
        """Return the judge of a panel of one without reserves or waiting; the general way gives the same result."""
        judge = self.judges[0]
        if len(self.judges) > 1 or self.reserves or self.exclude_family or judge.waits:
            return None
        return judge if (seconds is None or seconds > 0) and _refusal(judge, criterion) is None else None

    async def _assess_alone(
        self, judge: Judge, case: Case, criterion: Criterion, on_verdict: OnVerdict | None, *, safety: bool
    ) -> Dimension:
        """Ask without seats, rounds and a deadline, which cost more than the verdict of a judge that only computes."""
        verdict = await ask(judge, case, criterion, reverse=False, safety=safety)
        if on_verdict is not None:
            on_verdict((verdict,))
        return conclude_single(criterion, verdict, case.language, self._rule_for(criterion, 1, safety=safety))

    def conclude(
        self, criterion: Criterion, verdicts: Sequence[JudgeVerdict], case: Case, *, safety_vote: Vote | None = None
    ) -> Dimension:
        """Combine the verdicts of the whole panel into one finding; verdicts without a score have no vote.

        `safety_vote` is given if they are about safety.
        """
        seats = len(self._seating(case, criterion).seats)
        rule = self._rule_for(criterion, seats, safety=safety_vote is not None)
        dimension = conclude_panel(criterion, verdicts, case.language, rule)
        return dimension if safety_vote is None else apply_safety_vote(criterion, dimension, safety_vote, case.language)

    def is_certainly_worst(self, criterion: Criterion, verdicts: Sequence[JudgeVerdict], rule: Vote) -> bool:
        """Whether the safety choice will be the worst, whatever the remaining judges say."""
        seats = len(_willing(self.judges, criterion))
        needed = self._rule(seats).needed
        return is_certainly_worst(criterion, verdicts, seats, rule, needed=needed, weights=self.weights)

    @overload
    def evaluate(
        self, instances: Sequence[Instance], criterion: Criterion | str, *, concurrency: int = 16
    ) -> list[Dimension]: ...

    @overload
    def evaluate(
        self, instances: Sequence[Instance], criterion: Criteria, *, concurrency: int = 16
    ) -> list[dict[str, Dimension]]: ...

    def evaluate(
        self,
        instances: Sequence[Instance],
        criterion: Criterion | str | Criteria,
        *,
        concurrency: int = 16,
    ) -> list[Dimension] | list[dict[str, Dimension]]:
        """Like `aevaluate`, for code without an event loop, and for notebooks."""
        if isinstance(criterion, Criterion | str):
            return wait_for(self.aevaluate(instances, criterion, concurrency=concurrency))
        return wait_for(self.aevaluate(instances, criterion, concurrency=concurrency))

    @overload
    async def aevaluate(
        self, instances: Sequence[Instance], criterion: Criterion | str, *, concurrency: int = 16
    ) -> list[Dimension]: ...

    @overload
    async def aevaluate(
        self, instances: Sequence[Instance], criterion: Criteria, *, concurrency: int = 16
    ) -> list[dict[str, Dimension]]: ...

    async def aevaluate(
        self,
        instances: Sequence[Instance],
        criterion: Criterion | str | Criteria,
        *,
        concurrency: int = 16,
    ) -> list[Dimension] | list[dict[str, Dimension]]:
        """Return one finding per instance, in the same order; with several criteria, one for each by its name.

        A judge with its own question is asked only that one; it is an error if the question is not among the criteria.
        """
        if isinstance(criterion, Criterion | str):
            only = criterion_of(criterion)
            self.check_own_questions([only])
            results = await evaluate_all(self.assess, _unusable, instances, [only], concurrency)
            return [result[only.name] for result in results]
        criteria = criteria_of(criterion)
        self.check_own_questions(criteria)
        return await evaluate_all(
            self.assess, _unusable, instances, criteria, concurrency, is_reversed=self.is_reversed
        )

    def load(self) -> None:
        """Load the models of all judges; raises ValueError if one cannot be loaded."""
        for judge in self.members:
            judge.load()

    async def aclose(self) -> None:
        await asyncio.gather(*(judge.aclose() for judge in self.members), return_exceptions=True)

    def close(self) -> None:
        """Like `aclose`, for code without an event loop."""
        wait_for(self.aclose())

    def _decide_without_call(self, case: Case, criterion: Criterion) -> Dimension | None:
        """Return the finding on a case that cannot be judged, or None if the judges must be asked."""
        unmet = unmet_needs(case, criterion)
        if unmet is not None:
            return Dimension(status=Status.NOT_APPLICABLE, reason=Reason.NOTHING_TO_JUDGE, detail=unmet)
        missing = missing_fields(case, criterion)
        if missing:
            return _insufficient(Reason.MISSING_FIELD, missing)
        problem = self._rule(1).why_not(criterion)
        return _insufficient(Reason.UNSUPPORTED, problem) if problem else None

    def _seating(self, case: Case, criterion: Criterion) -> Seating:
        """Seat the judges of a case; the quorum ignores judges that do not use the criterion or know the language."""
        spares = current_conditions().savings.reserves and not self._is_about_safety(criterion)
        judges, reserves = _willing(self.judges, criterion), _willing(() if spares else self.reserves, criterion)
        judges, reserves = ([judge for judge in group if judge.can_read(case)] for group in (judges, reserves))
        return seating_of(judges, reserves, case.author if self.exclude_family else None)

    def is_reversed(self, judge: str, criterion: Criterion) -> bool:
        """Whether a judge, in its own seat, is shown the options of a criterion last to first."""
        names = [member.name for member in _willing(self.judges, criterion)]
        return judge in names and Seat.is_reversed(names.index(judge))

    def _is_about_safety(self, criterion: Criterion) -> bool:
        return criterion.safety or criterion.name in self.safety

    def _rule(self, seats: int) -> CombineRule:
        """Return the rule for a number of seats, creating it once."""
        rule = self._rules.get(seats)
        if rule is None:
            needed = self.quorum or seats // 2 + 1
            rule = self._rules[seats] = CombineRule(combine=self.combine, needed=needed, weights=self.weights)
        return rule

    def _rule_for(self, criterion: Criterion, seats: int, *, safety: bool) -> CombineRule:
        """Return the rule of the panel, or the safety vote if safety is judged on ordered choices."""
        rule = self._rule(seats)
        return rule._replace(combine="safety_vote") if safety and criterion.worst_first else rule

    def _identity_of(self, judge: Judge) -> list[object]:
        who: list[object] = [judge.name, judge.identity, None if judge.only is None else sorted(judge.only)]
        return [*who, judge.family] if self.exclude_family else who

    async def _ask_first(self, hearing: Hearing, *, ask_all: bool) -> tuple[Path | None, Dimension | None]:
        """Ask the first judges of the cascade; return its path, and their finding if it is not in doubt."""
        cascade = self.cascade or (self.frugal if current_conditions().savings.cascade else None)
        if cascade is None:
            return None, None
        if ask_all:
            return Path.FULL_SAFETY, None
        first = [seat for seat in hearing.seats if seat.member in cascade.first]
        if not first:
            return Path.FULL_UNABLE, None
        await hearing.ask(first)
        rule = CombineRule(combine=self.combine, needed=len(first) // 2 + 1, weights=self.weights)
        dimension = conclude_panel(hearing.criterion, hearing.verdicts, hearing.case.language, rule)
        doubt = cascade.doubt(dimension)
        return (Path.FIRST, dimension) if doubt is None else (doubt, None)

    async def _ask_rest(self, hearing: Hearing, *, ask_all: bool) -> None:
        """Ask the open seats, in rounds of as few as may settle the finding, or all at once if only all can."""
        while hearing.open:
            count = self._seats_to_ask(hearing) if self.stop_early and not ask_all else len(hearing.open)
            if count == 0:
                return
            await hearing.ask(hearing.open[:count])

    def _seats_to_ask(self, hearing: Hearing) -> int:
        rule = self._rule(len(hearing.seats))
        ballots = ballots_of(hearing.criterion, hearing.verdicts, rule)
        return seats_to_ask(hearing.criterion, ballots, abstentions(hearing.verdicts), len(hearing.open), rule)

    def _observe(self, criterion: Criterion, verdicts: Sequence[JudgeVerdict]) -> float | None:
        """Add a case that all judges scored to the statistics, and return the effective number of votes."""
        judges = _willing(self.judges, criterion) if len(self.judges) > 1 else ()
        if len(judges) < 2:
            return None
        # Two criteria may have the same name and different judges.
        series = (criterion.name, *(judge.name for judge in judges))
        scores = {verdict.judge: verdict.score for verdict in verdicts if verdict.score is not None}
        if all(judge.name in scores for judge in judges):
            self._effective.add(series, [scores[judge.name] for judge in judges])
        return self._effective.votes(series)


def safety_choice(criterion: Criterion, dimension: Dimension | None, rule: Vote) -> Choice | None:
    """Return the panel's choice about safety: with `majority` the voted one, with `any` the worst of any judge.

    With `any`, one worst verdict is enough even without a quorum; a good verdict is not.
    """
    if dimension is None or not criterion.worst_first:
        return None
    if rule == "any":
        choices = _choices(criterion, dimension.judges)
        worst = next((choice for choice in criterion.worst_first if choice in choices), None)
        if worst is not None and (criterion.score(worst) == 0.0 or dimension.status is Status.SCORED):
            return worst
    return criterion.choice(dimension.level, dimension.option) if dimension.status is Status.SCORED else None


def apply_safety_vote(criterion: Criterion, dimension: Dimension, rule: Vote, language: Language) -> Dimension:
    """Give a finding about safety the score, level and option of the vote; `majority` needs no change."""
    choice = safety_choice(criterion, dimension, rule) if rule == "any" else None
    if choice is None or dimension.status is not Status.SCORED:
        return dimension
    vote = {"level": criterion.level(choice), "option": choice.label.en, "label": choice.label.of(language)}
    return dimension.model_copy(update={**vote, "score": criterion.score(choice), "value": choice.value})


def is_certainly_worst(
    criterion: Criterion,
    verdicts: Sequence[JudgeVerdict],
    seats: int,
    rule: Vote,
    *,
    needed: int | None = None,
    weights: Mapping[str, float] | None = None,
) -> bool:
    """Whether the safety choice will be the worst, whatever the judges of the other seats say, even if they fail.

    `needed` and `weights` are those of the panel; the defaults are more than half of the seats and equal weights.
    """
    if not any(_is_worst(criterion, choice) for choice in _choices(criterion, verdicts)):
        return False
    if rule == "any":
        return True
    panel = CombineRule(combine="weighted", needed=needed or seats // 2 + 1, weights=weights or {})
    ballots = ballots_of(criterion, verdicts, panel)
    # A reserve may take an open seat, so assume the largest weight.
    best = Ballot(
        rank=len(criterion.worst_first) - 1, score=None, value=None, weight=max([1.0, *panel.weights.values()])
    )
    at_best = voted_rank([*ballots, *[best] * (seats - len(ballots))])
    # The others could say that the criterion does not apply, and outnumber these.
    is_decided = len(ballots) >= panel.needed and 2 * len(ballots) >= seats
    return is_decided and _is_worst(criterion, criterion.worst_first[at_best])


def _is_worst(criterion: Criterion, choice: Choice | None) -> bool:
    """Whether a choice is one of the worst; several options may have the same score."""
    return choice is not None and choice.value is not None and criterion.place(choice.value) == 0.0


def _choices(criterion: Criterion, verdicts: Sequence[JudgeVerdict]) -> list[Choice | None]:
    scored = (verdict for verdict in verdicts if verdict.status is Status.SCORED)
    return [criterion.choice(verdict.level, verdict.option) for verdict in scored]


def _calls_saved(hearing: Hearing) -> int:
    """Return the number of samples that the judges of open seats would have taken."""
    return sum(seat.judge.calls for seat in hearing.open)


def _willing(judges: Sequence[Judge], criterion: Criterion) -> list[Judge]:
    return [judge for judge in judges if _refusal(judge, criterion) is None]


def _refusal(judge: Judge, criterion: Criterion) -> str | None:
    """Return why a judge has no seat for a criterion, or None; a judge with its own question is asked no other."""
    return judge.own_question_problem(criterion) or judge.refusal(criterion)


def _insufficient(reason: Reason, detail: str) -> Dimension:
    return Dimension(status=Status.INSUFFICIENT, reason=reason, detail=detail)


def _unusable(detail: str) -> Dimension:
    return _insufficient(Reason.MISSING_FIELD, detail)


def _check_judges(seats: str, judges: object) -> tuple[Judge, ...]:
    if isinstance(judges, str | Mapping) or not isinstance(judges, Iterable):
        raise TypeError(f"{seats} must be a list of judges, not {type(judges).__name__}")
    checked_judges = tuple(judges)
    for index, judge in enumerate(checked_judges):
        if not isinstance(judge, Judge):
            hint = "; for a model write DirectJudge(model)" if hasattr(judge, "complete") else ""
            raise TypeError(f"{seats}[{index}] must be a judge, not {type(judge).__name__}{hint}")
    return checked_judges


def _check_weights(weights: Mapping[str, float], combine: Combine, names: Sequence[str]) -> None:
    if not isinstance(weights, Mapping):
        raise TypeError(f"weights must map names of judges to numbers, not {weights!r}")
    if weights and combine != "weighted":
        raise ValueError(f"weights of judges require combine weighted, not {combine}")
    for name, weight in weights.items():
        if name not in names:
            raise ValueError(f"weights name {name!r}, which is not a judge of the panel ({', '.join(names)})")
        check_real(f"the weight of {name}", weight)
        if not 0.0 < weight <= MAX_WEIGHT:
            raise ValueError(f"the weight of {name} must be above 0 and at most {MAX_WEIGHT:g}, not {weight}")


def _check_first(cascade: Cascade, names: Sequence[str]) -> None:
    if not isinstance(cascade, Cascade):
        raise TypeError(f"cascade must be a Cascade, such as Cascade(first=({names[0]!r},)), not {cascade!r}")
    unknown = [name for name in cascade.first if name not in names]
    if unknown:
        raise ValueError(f"the cascade names {unknown}, which are not judges of the panel ({', '.join(names)})")
    if len(cascade.first) == len(names):
        raise ValueError("the cascade's first judges are the whole panel: no judges are left to ask when in doubt")

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
from judges.criteria.problems import check_real, check_truth, check_whole
from judges.criteria.scale import Choice
from judges.judge import Criteria, Judge, missing_fields, unmet_needs
from judges.panel.cascade import Cascade
from judges.panel.early_stopping import wanted
from judges.panel.effective_votes import EffectiveVotes
from judges.panel.seats import Hearing, OnVerdict, Seat, Seating, ask, seating_of
from judges.panel.tally import Ballot, Combine, CombineRule, abstentions, ballots_of, concluded, concluded_by_one, voted
from judges.runtime.batch import Instance, evaluate_all
from judges.runtime.conditions import current_conditions
from judges.runtime.sync import wait_for
from judges.values.combine import MAX_WEIGHT
from judges.values.evaluation import Dimension, JudgeVerdict, Path, Reason, Status
from judges.values.interaction import Case, Language

Vote = Literal["majority", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Judges and the rule by which their verdicts combine."""

    judges: Sequence[Judge]
    combine: Combine = "mean"
    """How the judges' scores become one; `min` is the worst of them and `max` the best. The option and level are those
    of the verdict that decides the score; for a mean, the choice at which at least half say "this, or worse". Options
    without scores can only be voted, by `majority`: most votes win, a tie goes to the worse option, and options without
    scores that tie have no winner.

    The score of a safety criterion is that of the voted level, whatever is said here."""

    quorum: int | None = None
    """Judges that must have a verdict; None means more than half of those who sit."""

    reserves: Sequence[Judge] = ()
    """Asked in this order, each in place of a judge that failed or was left out."""

    weights: Mapping[str, float] = field(default_factory=dict)
    """For `weighted`, by the judge's name; a judge that is not named weighs 1."""

    exclude_family: bool = False
    """Leaves out judges whose model is of the family of the answer's author, where both are known."""

    cascade: Cascade | None = None
    frugal: Cascade | None = None
    """The cascade of a panel without one, for interactions that are judged with savings."""

    stop_early: bool = False
    """Asks as few judges as can decide, and no more once the rest cannot change the finding. That never happens by
    `mean` and `weighted`, and where safety is judged, whose worst verdict counts whoever gives it."""

    safety: frozenset[str] = frozenset({SAFETY_DIMENSION})
    """Names of the criteria about which all judges are always asked, beside those that are marked as safety."""

    _rules: dict[int, CombineRule] = field(default_factory=dict, init=False, repr=False, compare=False)
    _effective: EffectiveVotes = field(default_factory=EffectiveVotes, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for seats in ("judges", "reserves"):
            object.__setattr__(self, seats, _seated(seats, getattr(self, seats)))
        names = [judge.name for judge in self.judges]
        if not names:
            raise ValueError("a panel needs at least one judge")
        if self.combine not in get_args(Combine):
            raise ValueError(f"combine must be one of {', '.join(get_args(Combine))}, not {self.combine!r}")
        if self.quorum is not None:
            check_whole("quorum", self.quorum)
        if isinstance(self.safety, str):
            raise TypeError(f"safety must be a set of names, not the text {self.safety!r}")
        for switch in ("exclude_family", "stop_early"):
            check_truth(switch, getattr(self, switch))
        if self.quorum is not None and not 1 <= self.quorum <= len(names):
            raise ValueError(f"quorum must be between 1 and the {len(names)} judges of the panel, not {self.quorum}")
        everybody = [judge.name for judge in self.members]
        if len(set(everybody)) != len(everybody):
            raise ValueError(f"judges of a panel must have distinct names, not {everybody}")
        _check_weights(self.weights, self.combine, everybody)
        for cascade in (self.cascade, self.frugal):
            if cascade is not None:
                _check_first(cascade, names)

    @property
    def needed(self) -> int:
        """Verdicts that a finding takes when all judges sit."""
        return self._rule(len(self.judges)).needed

    @property
    def members(self) -> tuple[Judge, ...]:
        return (*self.judges, *self.reserves)

    @property
    def waits(self) -> bool:
        """Whether one of the judges can be waited for."""
        return any(judge.waits for judge in self.members)

    @property
    def identity(self) -> object:
        """Everything that can change findings, as JSON can hold it."""
        return {
            "judges": [self._who(judge) for judge in self.judges],
            "reserves": [self._who(judge) for judge in self.reserves],
            "combine": self.combine,
            # With judges left out, a quorum that is given and one that follows the seats are not the same.
            "needed": self.quorum if self.exclude_family else self.needed,
            "weights": {name: float(self.weights[name]) for name in sorted(self.weights)},
            "exclude_family": self.exclude_family,
            "cascade": None if self.cascade is None else asdict(self.cascade),
            "stop_early": self.stop_early,
            "safety": sorted(self.safety),
        }

    def why_not(self, criterion: Criterion) -> str | None:
        """Why this panel cannot judge by a criterion, or None: known without asking anybody."""
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
        """Refuses judges whose own question is not among the criteria: it would never be asked."""
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
        """Asks the judges and combines what they found; what takes longer than `seconds` in all has no vote.

        `safety` asks all of them, and scores what they vote by `safety_vote`, as for the criteria that the panel knows
        to be about safety.
        `on_verdict` is given all verdicts so far whenever one comes in; what it raises ends the assessment.
        """
        refused = self._refused(case, criterion)
        if refused is not None:
            return refused
        if not safety and not self._is_about_safety(criterion):
            return await self._assess(case, criterion, seconds=seconds, on_verdict=on_verdict)
        found = await self._assess(case, criterion, safety=True, seconds=seconds, on_verdict=on_verdict)
        return as_voted(criterion, found, safety_vote, case.language)

    async def _assess(
        self,
        case: Case,
        criterion: Criterion,
        *,
        safety: bool = False,
        seconds: float | None = None,
        on_verdict: OnVerdict | None = None,
    ) -> Dimension:
        alone = self._alone(criterion, seconds)
        if alone is not None:
            return await self._assess_alone(alone, case, criterion, on_verdict, safety=safety)
        seating = self._seating(case, criterion)
        if not seating.seats and not seating.excluded:
            return _unfound(Reason.UNSUPPORTED, self.why_not(criterion) or "no judge supports it")
        if not seating.seats:
            detail = f"all judges are of the model family that wrote the answer, {case.author!r}"
            return _unfound(Reason.SAME_FAMILY, detail).model_copy(update={"excluded": seating.excluded})
        hearing = Hearing(case, criterion, seating, safety=safety, seconds=seconds, on_verdict=on_verdict)
        path, found = await self._ask_first(hearing, everybody=safety)
        if found is not None:
            saved = found.calls_saved + _calls_of_open(hearing)
            return found.model_copy(update={"path": path, "excluded": hearing.excluded, "calls_saved": saved})
        await self._ask_rest(hearing, everybody=safety)
        return concluded(
            criterion,
            hearing.verdicts,
            case.language,
            self._rule_for(criterion, len(hearing.seats), safety=safety),
            path=path,
            excluded=hearing.excluded,
            effective_votes=self._observe(criterion, hearing.verdicts),
            unasked=_calls_of_open(hearing),
        )

    def _alone(self, criterion: Criterion, seconds: float | None) -> Judge | None:
        """The judge of a panel of one, where nobody can follow or be waited for; the general way gives the same."""
        judge = self.judges[0]
        if len(self.judges) > 1 or self.reserves or self.exclude_family or judge.waits:
            return None
        return judge if (seconds is None or seconds > 0) and _refusal(judge, criterion) is None else None

    async def _assess_alone(
        self, judge: Judge, case: Case, criterion: Criterion, on_verdict: OnVerdict | None, *, safety: bool
    ) -> Dimension:
        """Without seats, rounds and a deadline, which cost more than the verdict of a judge that only computes."""
        verdict = await ask(judge, case, criterion, reverse=False, safety=safety)
        if on_verdict is not None:
            on_verdict((verdict,))
        return concluded_by_one(criterion, verdict, case.language, self._rule_for(criterion, 1, safety=safety))

    def conclude(
        self, criterion: Criterion, verdicts: Sequence[JudgeVerdict], case: Case, *, safety_vote: Vote | None = None
    ) -> Dimension:
        """One finding from the whole panel's verdicts; those without a score have no vote.

        `safety_vote` is given where they are about safety.
        """
        seats = len(self._seating(case, criterion).seats)
        rule = self._rule_for(criterion, seats, safety=safety_vote is not None)
        found = concluded(criterion, verdicts, case.language, rule)
        return found if safety_vote is None else as_voted(criterion, found, safety_vote, case.language)

    def surely_worst(self, criterion: Criterion, verdicts: Sequence[JudgeVerdict], rule: Vote) -> bool:
        """Whether the safety choice will be the worst, whatever the judges say who have not spoken yet."""
        seats = len(_willing(self.judges, criterion))
        needed = self._rule(seats).needed
        return surely_worst(criterion, verdicts, seats, rule, needed=needed, weights=self.weights)

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
        """One finding for each instance, in the same order; with several criteria, one for each by its name.

        A judge that brings a question of its own along is asked that one, and refused where it is not among the
        criteria.
        """
        if isinstance(criterion, Criterion | str):
            only = criterion_of(criterion)
            self.check_own_questions([only])
            found = await evaluate_all(self.assess, _unusable, instances, [only], concurrency)
            return [result[only.name] for result in found]
        criteria = criteria_of(criterion)
        self.check_own_questions(criteria)
        return await evaluate_all(
            self.assess, _unusable, instances, criteria, concurrency, is_reversed=self.is_reversed
        )

    async def aclose(self) -> None:
        await asyncio.gather(*(judge.aclose() for judge in self.members), return_exceptions=True)

    def close(self) -> None:
        """Like `aclose`, for code without an event loop."""
        wait_for(self.aclose())

    def _refused(self, case: Case, criterion: Criterion) -> Dimension | None:
        """What is decided before any call."""
        unmet = unmet_needs(case, criterion)
        if unmet is not None:
            return Dimension(status=Status.NOT_APPLICABLE, reason=Reason.NOTHING_TO_JUDGE, detail=unmet)
        missing = missing_fields(case, criterion)
        if missing:
            return _unfound(Reason.MISSING_FIELD, missing)
        problem = self._rule(1).why_not(criterion)
        return _unfound(Reason.UNSUPPORTED, problem) if problem else None

    def _seating(self, case: Case, criterion: Criterion) -> Seating:
        """Those who do not judge by the criterion have no seat, so that they are not missed either."""
        spares = current_conditions().savings.reserves and not self._is_about_safety(criterion)
        judges, reserves = _willing(self.judges, criterion), _willing(() if spares else self.reserves, criterion)
        return seating_of(judges, reserves, case.author if self.exclude_family else None)

    def is_reversed(self, judge: str, criterion: Criterion) -> bool:
        """Whether a judge, in the seat of its own, is shown the options of a criterion last to first."""
        names = [member.name for member in _willing(self.judges, criterion)]
        return judge in names and Seat.is_reversed(names.index(judge))

    def _is_about_safety(self, criterion: Criterion) -> bool:
        return criterion.safety or criterion.name in self.safety

    def _rule(self, seats: int) -> CombineRule:
        """Made once for each number of seats, of which there are few."""
        rule = self._rules.get(seats)
        if rule is None:
            needed = self.quorum or seats // 2 + 1
            rule = self._rules[seats] = CombineRule(combine=self.combine, needed=needed, weights=self.weights)
        return rule

    def _rule_for(self, criterion: Criterion, seats: int, *, safety: bool) -> CombineRule:
        """The rule of the panel, or the vote where safety is judged on ordered choices."""
        rule = self._rule(seats)
        return rule._replace(combine="safety_vote") if safety and criterion.worst_first else rule

    def _who(self, judge: Judge) -> list[object]:
        who: list[object] = [judge.name, judge.identity, None if judge.only is None else sorted(judge.only)]
        return [*who, judge.family] if self.exclude_family else who

    async def _ask_first(self, hearing: Hearing, *, everybody: bool) -> tuple[Path | None, Dimension | None]:
        """How far the cascade goes, and the first judges' finding where that does."""
        cascade = self.cascade or (self.frugal if current_conditions().savings.cascade else None)
        if cascade is None:
            return None, None
        if everybody:
            return Path.FULL_SAFETY, None
        first = [seat for seat in hearing.seats if seat.member in cascade.first]
        if not first:
            return Path.FULL_UNABLE, None
        await hearing.ask(first)
        rule = CombineRule(combine=self.combine, needed=len(first) // 2 + 1, weights=self.weights)
        found = concluded(hearing.criterion, hearing.verdicts, hearing.case.language, rule)
        doubt = cascade.doubt(found)
        return (Path.FIRST, found) if doubt is None else (doubt, None)

    async def _ask_rest(self, hearing: Hearing, *, everybody: bool) -> None:
        """In rounds of as few as could settle the finding, or all at once where nothing can."""
        while hearing.open:
            count = self._wanted(hearing) if self.stop_early and not everybody else len(hearing.open)
            if count == 0:
                return
            await hearing.ask(hearing.open[:count])

    def _wanted(self, hearing: Hearing) -> int:
        rule = self._rule(len(hearing.seats))
        ballots = ballots_of(hearing.criterion, hearing.verdicts, rule)
        return wanted(hearing.criterion, ballots, abstentions(hearing.verdicts), len(hearing.open), rule)

    def _observe(self, criterion: Criterion, verdicts: Sequence[JudgeVerdict]) -> float | None:
        """The effective number of votes, to which a case adds what all judges of the panel scored."""
        judges = _willing(self.judges, criterion) if len(self.judges) > 1 else ()
        if len(judges) < 2:
            return None
        # Two criteria may bear the same name and be judged by different judges.
        series = (criterion.name, *(judge.name for judge in judges))
        scores = {verdict.judge: verdict.score for verdict in verdicts if verdict.score is not None}
        if all(judge.name in scores for judge in judges):
            self._effective.add(series, [scores[judge.name] for judge in judges])
        return self._effective.votes(series)


def safety_choice(criterion: Criterion, dimension: Dimension | None, rule: Vote) -> Choice | None:
    """What a panel found about safety: `majority` as voted, `any` the worst that one judge gave.

    With `any` one worst verdict is enough even where the quorum was missed; a good one is not.
    """
    if dimension is None or not criterion.worst_first:
        return None
    if rule == "any":
        given = _choices(criterion, dimension.judges)
        worst = next((choice for choice in criterion.worst_first if choice in given), None)
        if worst is not None and (criterion.score(worst) == 0.0 or dimension.status is Status.SCORED):
            return worst
    return criterion.choice(dimension.level, dimension.option) if dimension.status is Status.SCORED else None


def as_voted(criterion: Criterion, dimension: Dimension, rule: Vote, language: Language) -> Dimension:
    """A finding about safety with the score, level and option of the vote; `majority` is what a panel finds itself."""
    choice = safety_choice(criterion, dimension, rule) if rule == "any" else None
    if choice is None or dimension.status is not Status.SCORED:
        return dimension
    voted_for = {"level": criterion.level(choice), "option": choice.label.en, "label": choice.label.of(language)}
    return dimension.model_copy(update={**voted_for, "score": criterion.score(choice), "value": choice.value})


def surely_worst(
    criterion: Criterion,
    verdicts: Sequence[JudgeVerdict],
    seats: int,
    rule: Vote,
    *,
    needed: int | None = None,
    weights: Mapping[str, float] | None = None,
) -> bool:
    """Whether the safety choice will be the worst, whatever the judges of the other seats say, or fail to.

    `needed` and `weights` are the panel's: more than half of the seats, and all alike, where they are not given.
    """
    if not any(_is_worst(criterion, choice) for choice in _choices(criterion, verdicts)):
        return False
    if rule == "any":
        return True
    panel = CombineRule(combine="weighted", needed=needed or seats // 2 + 1, weights=weights or {})
    ballots = ballots_of(criterion, verdicts, panel)
    # Nobody knows which reserve will sit there: the most that an open seat can weigh.
    best = Ballot(
        rank=len(criterion.worst_first) - 1, score=None, value=None, weight=max([1.0, *panel.weights.values()])
    )
    at_best = voted([*ballots, *[best] * (seats - len(ballots))])
    # The others could say that the criterion does not apply, and be the most.
    is_decided = len(ballots) >= panel.needed and 2 * len(ballots) >= seats
    return is_decided and _is_worst(criterion, criterion.worst_first[at_best])


def _is_worst(criterion: Criterion, choice: Choice | None) -> bool:
    """One of the worst: several options may have the same score."""
    return choice is not None and choice.value is not None and criterion.place(choice.value) == 0.0


def _choices(criterion: Criterion, verdicts: Sequence[JudgeVerdict]) -> list[Choice | None]:
    scored = (verdict for verdict in verdicts if verdict.status is Status.SCORED)
    return [criterion.choice(verdict.level, verdict.option) for verdict in scored]


def _calls_of_open(hearing: Hearing) -> int:
    """Samples that the judges who were not asked would have taken."""
    return sum(seat.judge.calls for seat in hearing.open)


def _willing(judges: Sequence[Judge], criterion: Criterion) -> list[Judge]:
    return [judge for judge in judges if _refusal(judge, criterion) is None]


def _refusal(judge: Judge, criterion: Criterion) -> str | None:
    """Why a judge has no seat for a criterion; one with a question of its own is asked no other."""
    return judge.own_question_problem(criterion) or judge.refusal(criterion)


def _unfound(reason: Reason, detail: str) -> Dimension:
    return Dimension(status=Status.INSUFFICIENT, reason=reason, detail=detail)


def _unusable(detail: str) -> Dimension:
    return _unfound(Reason.MISSING_FIELD, detail)


def _seated(seats: str, given: object) -> tuple[Judge, ...]:
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"{seats} must be a list of judges, not {type(given).__name__}")
    judges = tuple(given)
    for index, judge in enumerate(judges):
        if not isinstance(judge, Judge):
            hint = "; for a model write DirectJudge(model)" if hasattr(judge, "complete") else ""
            raise TypeError(f"{seats}[{index}] must be a judge, not {type(judge).__name__}{hint}")
    return judges


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

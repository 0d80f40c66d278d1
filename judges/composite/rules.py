"""The composite: combines any set of criteria into one score and one status, which a safety failure overrides."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from types import EllipsisType, MappingProxyType
from typing import Any, Literal, Protocol, Self

from pydantic import BaseModel, TypeAdapter

from judges.criteria.catalogue import criteria_of, criterion_of, load_catalogue
from judges.criteria.criterion import SAFETY_DIMENSION, Criterion
from judges.criteria.problems import check_bool, check_real, check_text
from judges.criteria.scale import Choice
from judges.judge import Judge
from judges.panel import Panel, Vote, safety_choice
from judges.panel.seats import on_scale
from judges.runtime.batch import Instance, evaluate_all
from judges.runtime.sync import wait_for
from judges.values.combine import MAX_WEIGHT
from judges.values.evaluation import (
    Composite,
    CompositeStatus,
    Dimension,
    JudgeVerdict,
    Reason,
    Safety,
    SafetyStatus,
    Status,
)
from judges.values.interaction import Case

# Enum attribute access is slower than the comparison itself.
_SCORED = Status.SCORED
# Weight of a questionable safety verdict, whatever its usual weight.
QUESTIONABLE_WEIGHT = 1.5
# Share of the quality criteria's weight that needs a verdict: a mean over less would cover only the easy part.
MIN_COVERAGE = 0.6
# In floating point a share of 0.6 may come out slightly below it.
_COVERAGE_TOLERANCE = 1e-9
# Far above any useful value, and far below where sums of weighted raw values lose precision.
MAX_RAW = 1e9


class CriterionFinding(Protocol):
    """The finding on one criterion, by a judge (`JudgeVerdict`) or a panel (`Dimension`)."""

    @property
    def status(self) -> Status: ...
    @property
    def score(self) -> float | None: ...
    @property
    def option(self) -> str | None: ...
    @property
    def level(self) -> int | None: ...
    @property
    def value(self) -> float | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One criterion's part in the composite."""

    criterion: Criterion
    """A question in words and the name of a shipped criterion are converted."""

    weight: float = 1.0
    """Its weight in the mean; with 0 it does not count, but may still be required or decide about safety."""

    target_option: str | None = None
    """Counts 1 if this option won, else 0; a label in either language."""

    threshold: float | None = None
    """Counts 1 if the score is greater than this, else 0. It must be below 1, which no score exceeds."""

    required: bool = False
    """The composite is 0 unless the best option won, or the target won, or the score is above the threshold.

    The winning option decides, not the mean of the votes: two of three votes for the best option are enough. On a range
    only the full score is enough. Without a verdict there is no composite, unless the criterion does not apply.
    """

    normalize: bool = True
    """False counts the value on the criterion's own scale; the composite is then a mean in mixed units."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "criterion", criterion_of(self.criterion))
        self._check_types()
        problems = [*self._weighing_problems(), *self._target_problems(), *self._raw_problems()]
        if problems:
            raise ValueError(f"{self.criterion.name}: {'; '.join(problems)}")

    @property
    def target(self) -> Choice | None:
        return None if self.target_option is None else self.criterion.scale.find(self.target_option, "en")

    @property
    def identity(self) -> Mapping[str, object]:
        """Everything that can change its part, as JSON values; the same for equivalent definitions."""
        target = self.target
        return {
            # Whether it overrides is a property of the composite, whose identity names the safety criterion.
            "criterion": self.criterion.model_dump(mode="json", exclude={"safety"}),
            "weight": abs(float(self.weight)),
            "target": None if target is None else target.label.en,
            "threshold": None if self.threshold is None else abs(float(self.threshold)),
            "required": self.required,
            "normalize": self.normalize,
        }

    def part(self, finding: CriterionFinding | None) -> float | None:
        """Return the number that a finding adds to the mean; None without a verdict."""
        if self.target_option is not None:
            won = self.winner(finding)
            return None if won is None else float(won == self.target)
        score = _score(finding)
        if score is None:
            return None
        if self.threshold is not None:
            return float(score > self.threshold)
        return score if self.normalize else self._raw(score)

    def met(self, finding: CriterionFinding | None) -> bool | None:
        """Whether a finding is good enough for a required criterion; None without a verdict."""
        if self.target_option is not None or self.threshold is not None:
            part = self.part(finding)
            return None if part is None else part == 1.0
        if self.criterion.scale.kind == "range":
            score = _score(finding)
            return None if score is None else score == 1.0
        won = self.winner(finding)
        return None if won is None else won.value == self.criterion.worst_first[-1].value

    def winner(self, finding: CriterionFinding | None) -> Choice | None:
        """Return the choice that won; None without a verdict, and for a range."""
        if finding is None or finding.status is not Status.SCORED:
            return None
        return self.criterion.choice(finding.level, finding.option)

    def _raw(self, score: float) -> float:
        # From the score, not the value, so that the rule that combined the votes applies here too.
        assert self.criterion.scale.bounds is not None
        low, high = self.criterion.scale.bounds
        return (1.0 - score) * low + score * high

    def _check_types(self) -> None:
        """Check types: not every caller does, and values may come from a file."""
        name = self.criterion.name
        check_real(f"{name}: weight", self.weight)
        if self.threshold is not None:
            check_real(f"{name}: threshold", self.threshold)
        if self.target_option is not None:
            check_text(f"{name}: target_option", self.target_option)
        for field in ("required", "normalize"):
            check_bool(f"{name}: {field}", getattr(self, field))

    def _weighing_problems(self) -> Iterator[str]:
        if not 0.0 <= self.weight <= MAX_WEIGHT:
            yield f"the weight must be between 0 and {MAX_WEIGHT:g}, not {self.weight}"
        if self.threshold is None:
            return
        if not 0.0 <= self.threshold < 1.0:
            reason = "; a score must be greater than it, and none is above 1" if self.threshold == 1.0 else ""
            yield f"the threshold must be at least 0 and below 1, not {self.threshold}{reason}"
        if self.target_option is not None:
            yield "threshold and target_option exclude each other"
        elif self.criterion.scale.bounds is None:
            yield "options without scores have none to compare with a threshold; name a target_option"

    def _target_problems(self) -> Iterator[str]:
        scale = self.criterion.scale
        if scale.kind == "options" and any(scale.find(choice.label.ru, "en") != choice for choice in scale.choices):
            yield "an option has a name in one language that is another option's in the other"
        if self.target_option is not None:
            if scale.kind == "range":
                yield f"a range has no options, so {self.target_option!r} cannot be the target_option"
            elif self.target is None:
                labels = ", ".join(sorted({text for c in scale.choices for text in (c.label.en, c.label.ru)}))
                yield f"{self.target_option!r}, the target_option, is not an option; expected one of {labels}"
        elif scale.bounds is None and self.threshold is None and (self.weight or self.required):
            yield "options without scores count only by a target_option"

    def _raw_problems(self) -> Iterator[str]:
        if self.normalize:
            return
        bounds = self.criterion.scale.bounds
        if self.target_option is not None or self.threshold is not None:
            yield "normalize: false has no meaning with a target_option or a threshold, which count 0 or 1"
        if self.criterion.higher_is == "worse":
            yield "normalize: false would count a high value as good, but higher is worse here"
        if bounds is not None and max(abs(bounds[0]), abs(bounds[1])) > MAX_RAW:
            yield f"normalize: false needs values of at most {MAX_RAW:g}, not {bounds[0]:g} to {bounds[1]:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiResult:
    """The combined result of several criteria, and the finding on each."""

    score: float | None
    """None if withheld: `safety_unknown`, or `incomplete`, which includes that no quality criterion applies."""

    status: CompositeStatus
    coverage: float
    """Share of the quality criteria's weight that has a verdict. The safety criterion is not one of them, and criteria
    that do not apply are left out."""

    safety: Safety
    """Also `unknown` if there is no safety criterion; then nothing overrides."""

    failed: tuple[str, ...]
    """Required criteria that were judged but not met."""

    findings: Mapping[str, CriterionFinding]
    """Findings by criterion: verdicts of a judge, or dimensions of a panel with its judges' verdicts."""

    @property
    def passed(self) -> bool | None:
        """Whether the score is 1, which implies that every required criterion was met; None if it is withheld."""
        return None if self.score is None else self.score == 1.0

    @property
    def explanations(self) -> dict[str, tuple[str, ...]]:
        """Every judge's explanation, by criterion."""
        return {name: tuple(_explanations(finding)) for name, finding in self.findings.items()}

    def model_dump(self, *, mode: Literal["json", "python"] = "python") -> dict[str, Any]:
        """Return everything as plain values, like the other results; `mode="json"` returns only JSON types."""
        plain: dict[str, Any] = _RESULT.dump_python(self._plain(mode), mode=mode)
        return plain

    def model_dump_json(self, *, indent: int | None = None) -> str:
        """Return everything as JSON, like the other results."""
        return _RESULT.dump_json(self._plain("json"), indent=indent).decode()

    def _plain(self, mode: Literal["json", "python"]) -> dict[str, Any]:
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "findings"}
        return {**own, "findings": {name: _dump_finding(finding, mode) for name, finding in self.findings.items()}}

    @property
    def composite(self) -> Composite:
        """The composite as published, where raw values outside 0 to 1 are an error."""
        return Composite(score=self.score, status=self.status, coverage=self.coverage, safety=self.safety)


_RESULT = TypeAdapter(dict[str, Any])


def _score_by_choice(criterion: Criterion, verdict: JudgeVerdict) -> JudgeVerdict:
    """Give a safety verdict the score of the choice that won, as a panel does, so that no mean softens it."""
    choice = criterion.choice(verdict.level, verdict.option) if verdict.status is Status.SCORED else None
    if choice is None:
        return verdict
    return verdict.model_copy(update={"score": criterion.score(choice), "value": choice.value})


def _dump_finding(finding: CriterionFinding, mode: Literal["json", "python"]) -> dict[str, Any]:
    """Return a finding as plain values; of a class that is not ours, the fields that every finding has."""
    if isinstance(finding, BaseModel):
        return finding.model_dump(mode=mode)
    return {name: getattr(finding, name) for name in ("status", "score", "option", "level", "value")}


class MultiCriteria:
    """Combines several criteria into one number: the weighted mean of their parts, then the overrides.

    The first override that applies decides: unsafe (0); safety unknown (withheld); a required criterion or too much of
    the weight missing, or no quality criterion that applies (withheld, `incomplete`); a required criterion not met (0,
    `failed`); questionable (more weight, but never above the plain mean: without that cap the extra weight of a
    middling safety score would raise the composite of a bad answer).

    An answer that is unsafe, incomplete or of unknown safety never passes, and a worse finding never makes the
    composite better. For a `target_option` the latter holds only if it is the best option: a finding that misses a
    lower target is not necessarily worse.
    """

    def __init__(
        self,
        items: Iterable[Item | Criterion | str] | Mapping[str, Item | Criterion | str],
        *,
        safety: str | EllipsisType | None = ...,
        min_coverage: float = MIN_COVERAGE,
    ) -> None:
        """`safety` is the name of the criterion that overrides the rest; its choices must be ordered.

        The default is the criterion that is marked as safety, such as `rag.harmfulness`. None: no override.
        Below `min_coverage` the composite is withheld, so that missing verdicts do not improve the score.
        """
        item_list = _items(items)
        self.items: Mapping[str, Item] = MappingProxyType({item.criterion.name: item for item in item_list})
        self.criteria: Mapping[str, Criterion] = MappingProxyType(
            {name: item.criterion for name, item in self.items.items()}
        )
        if not isinstance(safety, EllipsisType) and safety is not None:
            check_text("safety", safety)
        self.safety = self._marked_safety() if isinstance(safety, EllipsisType) else safety
        self.min_coverage = min_coverage
        problems = [*self._list_problems(item_list), *self._safety_problems(), *self._negative_value_problems()]
        if problems:
            raise ValueError("; ".join(problems))

    @classmethod
    def of(
        cls,
        criteria: Iterable[Criterion] | Mapping[str, Criterion],
        *,
        weights: Mapping[str, float] | None = None,
        required: Collection[str] = (),
        safety: str | EllipsisType | None = ...,
        min_coverage: float = MIN_COVERAGE,
    ) -> Self:
        """Create a composite from criteria, with weights and requirements by name; the default weight is 1."""
        criterion_list, known_weights = criteria_of(criteria), weights or {}
        unknown = (known_weights.keys() | set(required)) - {criterion.name for criterion in criterion_list}
        if unknown:
            raise ValueError(f"the composite names {sorted(unknown)}, which are not criteria")
        items = [
            Item(
                criterion=criterion, weight=known_weights.get(criterion.name, 1.0), required=criterion.name in required
            )
            for criterion in criterion_list
        ]
        return cls(items, safety=safety, min_coverage=min_coverage)

    @property
    def identity(self) -> Mapping[str, object]:
        """Everything that can change a composite, as JSON values; the order of the criteria cannot."""
        return {
            "items": {name: self.items[name].identity for name in sorted(self.items)},
            "safety": self.safety,
            "min_coverage": abs(float(self.min_coverage)),
        }

    @cached_property
    def asking_order(self) -> tuple[Criterion, ...]:
        """Criteria that show the most fields first, so that an endpoint has cached the common prefix for the others."""
        return tuple(sorted(self.criteria.values(), key=_fields_shown, reverse=True))

    def safety_of(self, choice: Choice | None) -> Safety:
        """Return the meaning of a verdict of the safety criterion; None means unknown, which is never safe."""
        if choice is None:
            return Safety(level=None, status=SafetyStatus.UNKNOWN)
        if self.safety is None:
            raise ValueError("no safety criterion is set")
        criterion = self.criteria[self.safety]
        is_known = any(other is choice for other in criterion.scale.choices)  # faster than comparing their texts
        if not is_known and choice not in criterion.scale.choices:
            raise ValueError(f"{criterion.name}: {choice.label.en!r} is not on its scale")
        level = criterion.level(choice)
        if choice.value == criterion.worst_first[0].value:
            return Safety(level=level, status=SafetyStatus.UNSAFE)
        best = choice.value == criterion.worst_first[-1].value
        return Safety(level=level, status=SafetyStatus.SAFE if best else SafetyStatus.QUESTIONABLE)

    def compose(
        self, findings: Mapping[str, CriterionFinding | None], *, safety: Choice | EllipsisType | None = ...
    ) -> MultiResult:
        """Combine findings into one result; None and a missing key both mean no verdict.

        `safety` is the overriding verdict, if it differs from the one that won in the findings (None: there is none).
        """
        unknown = findings.keys() - self.items.keys()
        if unknown:
            raise ValueError(f"findings on {sorted(unknown)}, which are not criteria")
        present_findings = {name: finding for name in self.items if (finding := findings.get(name)) is not None}
        parts = {
            name: part
            for name, item in self.items.items()
            if (part := item.part(present_findings.get(name))) is not None
        }
        met = {name: item.met(present_findings.get(name)) for name, item in self.items.items() if item.required}
        failed = tuple(name for name, fulfilled in met.items() if fulfilled is False)
        safety_state = self.safety_of(
            self._safety_winner(present_findings) if isinstance(safety, EllipsisType) else safety
        )
        coverage = self._coverage(parts, present_findings)
        missing = any(
            fulfilled is None and not _is_not_applicable(present_findings.get(name)) for name, fulfilled in met.items()
        )
        missing = (
            missing
            or coverage < self.min_coverage - _COVERAGE_TOLERANCE
            or self._has_nothing_to_judge(present_findings)
        )
        score, status = self._decide(parts, safety_state.status, missing=missing, failed=bool(failed))
        return MultiResult(
            score=score,
            status=status,
            coverage=coverage,
            safety=safety_state,
            failed=failed,
            findings=MappingProxyType(present_findings),
        )

    def evaluate(
        self,
        judge: Judge | Panel,
        instances: Sequence[Instance],
        *,
        safety_vote: Vote = "majority",
        concurrency: int = 16,
    ) -> list[MultiResult]:
        """Like `aevaluate`, for code without an event loop, and for notebooks."""
        return wait_for(self.aevaluate(judge, instances, safety_vote=safety_vote, concurrency=concurrency))

    async def aevaluate(
        self,
        judge: Judge | Panel,
        instances: Sequence[Instance],
        *,
        safety_vote: Vote = "majority",
        concurrency: int = 16,
    ) -> list[MultiResult]:
        """Return one result per instance, in the same order; the findings say why an instance could not be judged.

        A judge with its own question is asked only that one; it is an error if the question is not among the criteria.
        """
        _check_own_questions(judge, self.criteria.values())

        async def ask(case: Case, criterion: Criterion) -> JudgeVerdict | Dimension:
            safety = criterion.name == self.safety
            if isinstance(judge, Panel):
                return await judge.assess(case, criterion, safety=safety, safety_vote=safety_vote)
            verdict = on_scale(criterion, await judge.judge(case, criterion), case.language, safety=safety)
            return _score_by_choice(criterion, verdict) if safety else verdict

        order = judge.is_reversed if isinstance(judge, Panel) else None
        results = await evaluate_all(
            ask, _unusable, instances, self.asking_order, concurrency, safety=self.safety, is_reversed=order
        )
        return [self.compose(result, safety=self._safety_verdict(result, safety_vote)) for result in results]

    def _safety_verdict(self, findings: Mapping[str, JudgeVerdict | Dimension], vote: Vote) -> Choice | None:
        finding = None if self.safety is None else findings[self.safety]
        if self.safety is not None and isinstance(finding, Dimension):
            return safety_choice(self.criteria[self.safety], finding, vote)
        return self._safety_winner(findings)

    def _safety_winner(self, findings: Mapping[str, CriterionFinding]) -> Choice | None:
        return None if self.safety is None else self.items[self.safety].winner(findings.get(self.safety))

    def _decide(
        self, present: Mapping[str, float], safety: SafetyStatus, *, missing: bool, failed: bool
    ) -> tuple[float | None, CompositeStatus]:
        if safety is SafetyStatus.UNSAFE:
            return 0.0, CompositeStatus.UNSAFE
        if safety is SafetyStatus.UNKNOWN and self.safety is not None:
            return None, CompositeStatus.SAFETY_UNKNOWN
        plain = _weighted_mean(present, self._weight)
        if plain is None or missing:
            return None, CompositeStatus.INCOMPLETE
        if failed:
            return 0.0, CompositeStatus.FAILED
        if safety is SafetyStatus.QUESTIONABLE:
            heavier = _weighted_mean(present, self._weight_in_doubt)
            return plain if heavier is None else min(plain, heavier), CompositeStatus.QUESTIONABLE
        return plain, CompositeStatus.OK

    def _coverage(self, present: Collection[str], findings: Mapping[str, CriterionFinding]) -> float:
        """Return the share, by weight, of the applicable quality criteria that have a verdict; 1 if none applies."""
        applicable = [name for name in self._quality if not _is_not_applicable(findings.get(name))]
        weight = math.fsum(map(self._weight, applicable))
        return math.fsum(self._weight(name) for name in applicable if name in present) / weight if weight else 1.0

    def _has_nothing_to_judge(self, findings: Mapping[str, CriterionFinding]) -> bool:
        """Whether no quality criterion applies: the safety score alone would look like one of quality."""
        weighted = [name for name in self._quality if self._weight(name)]
        return bool(weighted) and all(_is_not_applicable(findings.get(name)) for name in weighted)

    @cached_property
    def _quality(self) -> tuple[str, ...]:
        return tuple(name for name in self.items if name != self.safety)

    def _weight(self, name: str) -> float:
        return self.items[name].weight

    def _weight_in_doubt(self, name: str) -> float:
        return QUESTIONABLE_WEIGHT if name == self.safety else self.items[name].weight

    def _marked_safety(self) -> str | None:
        """Return the criterion that is marked as safety, if any."""
        marked = [name for name, criterion in self.criteria.items() if criterion.safety]
        if len(marked) > 1:
            raise ValueError(f"{' and '.join(marked)} are both about safety; choose one: safety={marked[0]!r}")
        return marked[0] if marked else None

    def _list_problems(self, items: Sequence[Item]) -> Iterator[str]:
        names = [item.criterion.name for item in items]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            yield f"criteria must have distinct names; {twice} occur more than once"
        if not names:
            yield "a composite needs at least one criterion"
        elif not any(item.weight for item in items):
            yield f"at least one of {names} must weigh more than 0"
        check_real("min_coverage", self.min_coverage)
        if not 0.0 <= self.min_coverage <= 1.0:
            yield f"min_coverage must be between 0 and 1, not {self.min_coverage}"

    def _safety_problems(self) -> Iterator[str]:
        if self.safety is None:
            return
        if self.safety not in self.items:
            yield f"the safety criterion {self.safety!r} is not one of the criteria {list(self.items)}"
        elif not self.criteria[self.safety].worst_first:
            yield (
                f"{self.safety} cannot be the safety criterion: its scale must be levels, pass/fail, or options with "
                "scores"
            )

    def _negative_value_problems(self) -> Iterator[str]:
        if self.safety is None and not any(item.required for item in self.items.values()):
            return
        for name, item in self.items.items():
            bounds = item.criterion.scale.bounds
            if not item.normalize and bounds is not None and bounds[0] < 0:
                yield (
                    f"{name}: normalize: false needs values from 0 up; otherwise the 0 of a failed criterion would "
                    "not be the worst"
                )


def _check_own_questions(judge: Judge | Panel, criteria: Collection[Criterion]) -> None:
    """Raise if a judge's own question would not be asked, or would be replaced by another one."""
    if isinstance(judge, Panel):
        judge.check_own_questions(criteria)
        return
    problems = [problem for criterion in criteria if (problem := judge.own_question_problem(criterion)) is not None]
    if problems:
        raise ValueError(f"{judge.name}: {problems[0]}")


def rag_composite(
    levels: Mapping[str, int | None],
    *,
    weights: Mapping[str, float] | None = None,
    required: Collection[str] = (),
    min_coverage: float = MIN_COVERAGE,
) -> Composite:
    """Return the composite of one judge's levels on the six RAG dimensions; a missing key means no verdict.

    >>> rag_composite({"answer_relevance": 3, "clarity": 4, "completeness": 2, "conciseness": 2, "groundedness": 2,
    ...                "harmfulness": 1}).status.value
    'questionable'
    """
    criteria = load_catalogue("rag")
    unknown = levels.keys() - criteria.keys()
    if unknown:
        raise ValueError(f"unknown dimensions {sorted(unknown)}; expected {list(criteria)}")
    multi = MultiCriteria.of(
        criteria.values(), weights=weights, required=required, safety=SAFETY_DIMENSION, min_coverage=min_coverage
    )
    return multi.compose(
        {name: _dimension_for_level(criteria[name], level) for name, level in levels.items()}
    ).composite


def _items(value: object) -> list[Item]:
    # Iterating a criterion would yield its fields, a text its letters and a mapping its keys.
    if isinstance(value, Item | Criterion | str | bytes) or not isinstance(value, Iterable):
        raise TypeError(f"items must be a list or a mapping, not {type(value).__name__}; for one item write [item]")
    items = value.values() if isinstance(value, Mapping) else value
    return [item if isinstance(item, Item) else Item(criterion=criterion_of(item)) for item in items]


def _dimension_for_level(criterion: Criterion, level: int | None) -> Dimension | None:
    if level is None:
        return None
    return Dimension(status=Status.SCORED, score=criterion.normalise(level), level=level, value=level)


def _score(finding: CriterionFinding | None) -> float | None:
    """Return the score of a scored finding; a finding of another class may have NaN, which does not count."""
    if finding is None or finding.status is not _SCORED or finding.score is None:
        return None
    return finding.score if 0.0 <= finding.score <= 1.0 else None


def _is_not_applicable(finding: CriterionFinding | None) -> bool:
    return finding is not None and finding.status is Status.NOT_APPLICABLE


def _weighted_mean(parts: Mapping[str, float], weight: Callable[[str], float]) -> float | None:
    # fsum rounds once: a plain sum depends on the order, and could rise by a rounding error when a part falls.
    total = math.fsum(weight(name) for name in parts)
    return math.fsum(weight(name) * part for name, part in parts.items()) / total if total > 0 else None


def _fields_shown(criterion: Criterion) -> float:
    return math.inf if criterion.context is None else len(criterion.context)


def _explanations(finding: CriterionFinding) -> Iterator[str]:
    verdicts = finding.judges if isinstance(finding, Dimension) else (finding,)
    return (verdict.explanation for verdict in verdicts if isinstance(verdict, JudgeVerdict) and verdict.explanation)


def _unusable(detail: str) -> JudgeVerdict | Dimension:
    return Dimension(status=Status.INSUFFICIENT, reason=Reason.MISSING_FIELD, detail=detail)

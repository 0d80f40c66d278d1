"""The local judge: the six dimensions, the contexts, refusals, citations and the language by rules alone, for a first
look, for tests and as a cheap second opinion.
"""

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import NamedTuple

from judges.criteria.criterion import Criterion
from judges.judge import Judge, unscored_verdict
from judges.local.assessors import (
    citations,
    clarity,
    completeness,
    conciseness,
    groundedness,
    harm,
    language_match,
    recall,
    refusal,
    relevance,
    sufficiency,
)
from judges.local.case_reading import CaseReading
from judges.local.finding import Assessment, CannotJudgeError
from judges.local.language.text import Passage, forget
from judges.local.lexicon import Lexicon
from judges.values.context_verdicts import context_verdicts, rank_score
from judges.values.evaluation import JudgeVerdict, Reason, Samples, Status
from judges.values.interaction import Case

_log = logging.getLogger(__name__)

# Increased with every change to a rule, a threshold or a pattern that can change a verdict.
VERSION = "3"

# Number of cached readings. The dimensions of one case are judged together, or nearly so while other judges answer;
# more readings would only crowd the processor's caches.
_READINGS = 16

# Number of cached verdicts: most of them only report that all is well, and validating one costs as much as finding it.
_VERDICTS = 512

_ONE_VALID = Samples(requested=1, valid=1)


class _Assessor(NamedTuple):
    assess: Callable[[CaseReading], Assessment]
    levels: tuple[int, ...]
    """From 0, the worst, to the best; empty: it says which contexts are useful."""

    needs: tuple[str, ...] = ()
    """Required fields in addition to the one under evaluation."""

    reads: str | None = None
    """The field that is read as the answer; None: the field under evaluation."""

    kind: str = "levels"
    """The kind of scale that the levels are on."""

    labels: tuple[str, ...] = ()
    """English labels of the levels, where a criterion of the same name could mean the opposite; empty: any."""

    @property
    def scale(self) -> str:
        names = f" ({', '.join(self.labels)})" if self.labels else ""
        return f"{self.kind} {self.levels}{names}"

    def fits(self, criterion: Criterion) -> bool:
        scale = criterion.scale
        values = tuple(choice.value for choice in scale.choices)
        labels = tuple(choice.label.en for choice in scale.choices)
        is_alike = scale.kind == self.kind and values == self.levels and self.labels in {(), labels}
        return is_alike and criterion.higher_is == "better"


class LocalJudge(Judge):
    """Judges without a model: deterministic, offline, English and Russian."""

    waits = False

    def __init__(self, name: str = "local") -> None:
        self._name = name
        self._lexicon = Lexicon.load()
        self._harm = harm.HarmLexicon.load()
        self._assessors = _assessors(self._harm)
        self._readings: dict[tuple[int, str], CaseReading] = {}
        self._contexts: dict[str, Passage] = {}
        self._scored_verdict = lru_cache(_VERDICTS)(self._make_verdict)

    @property
    def name(self) -> str:
        return self._name

    @property
    def identity(self) -> str:
        return f"local rules={VERSION} lexicon={self._lexicon.digest}"

    def why_not(self, criterion: Criterion) -> str | None:
        assessor = self._assessors.get(criterion.name)
        if assessor is None:
            return f"no rules for {criterion.name!r}; there are rules for {', '.join(self._assessors)}"
        scale = criterion.scale
        if not assessor.levels:
            return None if criterion.ranked else f"the rules for {criterion.name!r} need `ranked: true`"
        if not assessor.fits(criterion):
            values = tuple(choice.value for choice in scale.choices)
            return (
                f"the rules for {criterion.name!r} give {assessor.scale}, higher is better; the criterion has "
                f"{scale.kind} {values}, higher is {criterion.higher_is}"
            )
        return None

    async def verdict(self, case: Case, criterion: Criterion, *, reverse: bool) -> JudgeVerdict:
        assessor = self._assessors[criterion.name]
        missing = [field for field in assessor.needs if field not in case.fields]
        if missing:
            return self._refuse(Reason.MISSING_FIELD, f"record {case.id} has no {' and no '.join(missing)}")
        return self._assess(assessor, case, criterion)

    async def aclose(self) -> None:
        self._readings.clear()
        self._contexts.clear()
        self._harm.hits_in_short.cache_clear()
        self._scored_verdict.cache_clear()
        completeness.forget()
        forget()

    def _assess(self, assessor: _Assessor, case: Case, criterion: Criterion) -> JudgeVerdict:
        try:
            reading = self._read(case, assessor.reads or criterion.to_evaluate)
            finding, cut = assessor.assess(reading), reading.cut_fields
        except CannotJudgeError as reason:
            return self._refuse(Reason.UNSUPPORTED, f"{criterion.name}: {reason}")
        except Exception as error:
            # A bug in a rule costs one verdict, not the stream.
            _log.exception("the rules for %s failed", criterion.name)
            return self._refuse(Reason.UNAVAILABLE, f"{criterion.name}: the rules failed with {type(error).__name__}")
        return self._conclude(finding, cut, assessor, criterion, case)

    def _conclude(
        self, finding: Assessment, cut: frozenset[str], assessor: _Assessor, criterion: Criterion, case: Case
    ) -> JudgeVerdict:
        score = _score_of(finding, assessor)
        if score is None:
            return JudgeVerdict(
                judge=self._name,
                status=Status.NOT_APPLICABLE,
                reason=Reason.NOTHING_TO_JUDGE,
                explanation=finding.explanation,
                samples=_ONE_VALID,
            )
        if score < 1.0 and not cut.isdisjoint(criterion.needs_whole):
            fields = " and ".join(sorted(cut.intersection(criterion.needs_whole)))
            return self._refuse(Reason.TRUNCATED, f"{criterion.name}: {fields} too long to be read whole by the rules")
        if finding.level is None:
            return self._ranked_verdict(finding, score)
        return self._level_verdict(finding, finding.level, assessor, criterion, case)

    def _level_verdict(
        self, finding: Assessment, level: int, assessor: _Assessor, criterion: Criterion, case: Case
    ) -> JudgeVerdict:
        choice = criterion.scale.choices[level]
        words = choice.label.en, choice.label.of(case.language)
        score = level / assessor.levels[-1]
        verdict = self._scored_verdict(criterion.level(choice), level, score, words, finding.explanation)
        # Spans are places in the answer, whatever other field a criterion evaluates.
        if finding.spans is None or criterion.to_evaluate != "answer":
            return verdict
        return verdict.model_copy(update={"spans": finding.spans})

    def _ranked_verdict(self, finding: Assessment, score: float) -> JudgeVerdict:
        return JudgeVerdict(
            judge=self._name,
            status=Status.SCORED,
            score=score,
            value=score,
            explanation=finding.explanation,
            contexts=context_verdicts(finding.useful or ()),
            samples=_ONE_VALID,
        )

    def _make_verdict(
        self, level: int | None, value: int, score: float, words: tuple[str, str], explanation: str
    ) -> JudgeVerdict:
        option, label = words
        return JudgeVerdict(
            judge=self._name,
            status=Status.SCORED,
            score=score,
            level=level,
            option=option,
            label=label,
            value=value,
            explanation=explanation,
            samples=_ONE_VALID,
        )

    def _read(self, case: Case, field: str) -> CaseReading:
        """Return the reading of the case, the same for all dimensions; it holds the case, so its id stays unique."""
        key = (id(case), field)
        reading = self._readings.get(key)
        if reading is None:
            if len(self._readings) >= _READINGS:
                self._readings.pop(next(iter(self._readings)))
            reading = self._readings[key] = CaseReading(case, field, self._lexicon, self._contexts)
        return reading

    def _refuse(self, reason: Reason, detail: str) -> JudgeVerdict:
        return unscored_verdict(self._name, reason, detail, samples=Samples(requested=1, error=1))


def _assessors(patterns: harm.HarmLexicon) -> Mapping[str, _Assessor]:
    return {
        "answer_relevance": _Assessor(relevance.assess, (0, 1, 2, 3), ("question",)),
        "clarity": _Assessor(clarity.assess, (0, 1, 2, 3, 4)),
        "completeness": _Assessor(completeness.assess, (0, 1, 2), ("question",)),
        "conciseness": _Assessor(conciseness.assess, (0, 1, 2)),
        "groundedness": _Assessor(groundedness.assess, (0, 1, 2)),
        "harmfulness": _Assessor(partial(harm.assess, harm=patterns), (0, 1, 2)),
        "context_sufficiency": _Assessor(sufficiency.assess, (0, 1, 2), ("question",), "answer"),
        "context_precision": _Assessor(sufficiency.assess_each, (), ("question",), "answer"),
        "context_recall": _Assessor(recall.assess, (0, 1, 2), ("question", "reference"), "reference"),
        "refusal": _Assessor(refusal.assess, (0, 1), ("question",), kind="options", labels=("refusal", "compliance")),
        "citation_accuracy": _Assessor(citations.assess, (0, 1, 2)),
        "language_match": _Assessor(language_match.assess, (0, 1), ("question",), kind="binary"),
    }


def _score_of(finding: Assessment, assessor: _Assessor) -> float | None:
    """Return the score of a finding; None if the criterion does not apply."""
    if finding.useful is not None:
        return rank_score(finding.useful)
    return None if finding.level is None else finding.level / assessor.levels[-1]

"""The local judge: six dimensions by rules alone, for a first look, for tests and as a cheap second opinion."""

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import NamedTuple

from judges.criteria.criterion import Criterion
from judges.judge import Judge, unscored_verdict
from judges.local.assessors import clarity, completeness, conciseness, groundedness, harm, relevance
from judges.local.case_reading import CaseReading
from judges.local.finding import Assessment, CannotJudgeError
from judges.local.language.text import Passage, forget
from judges.local.lexicon import Lexicon
from judges.values.evaluation import JudgeVerdict, Reason, Samples, Status
from judges.values.interaction import Case

_log = logging.getLogger(__name__)

# Increased with every change to a rule, a threshold or a pattern that can change a verdict.
VERSION = "2"

# Number of cached readings. The dimensions of one case are judged together, or nearly so while other judges answer;
# more readings would only crowd the processor's caches.
_READINGS = 16

# Number of cached verdicts: most of them only report that all is well, and validating one costs as much as finding it.
_VERDICTS = 512

_ONE_VALID = Samples(requested=1, valid=1)


class _Assessor(NamedTuple):
    assess: Callable[[CaseReading], Assessment]
    levels: tuple[int, ...]
    """From 0, the worst, to the best."""

    needs: tuple[str, ...] = ()
    """Required fields in addition to the one under evaluation."""


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
        if scale.kind != "levels" or scale.values != assessor.levels or criterion.higher_is != "better":
            values = tuple(choice.value for choice in scale.choices)
            return (
                f"the rules for {criterion.name!r} give levels {assessor.levels}, higher is better; the criterion has "
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
            reading = self._read(case, criterion.to_evaluate)
            finding, cut = assessor.assess(reading), reading.cut_fields
        except CannotJudgeError as reason:
            return self._refuse(Reason.UNSUPPORTED, f"{criterion.name}: {reason}")
        except Exception as error:
            # A bug in a rule costs one verdict, not the stream.
            _log.exception("the rules for %s failed", criterion.name)
            return self._refuse(Reason.UNAVAILABLE, f"{criterion.name}: the rules failed with {type(error).__name__}")
        if finding.level is None:
            return JudgeVerdict(
                judge=self._name,
                status=Status.NOT_APPLICABLE,
                reason=Reason.NOTHING_TO_JUDGE,
                explanation=finding.explanation,
                samples=_ONE_VALID,
            )
        if finding.level < assessor.levels[-1] and not cut.isdisjoint(criterion.needs_whole):
            fields = " and ".join(sorted(cut.intersection(criterion.needs_whole)))
            return self._refuse(Reason.TRUNCATED, f"{criterion.name}: {fields} too long to be read whole by the rules")
        label = criterion.scale.choices[finding.level].label
        option, word = label.en, label.of(case.language)
        verdict = self._scored_verdict(finding.level, assessor.levels[-1], option, word, finding.explanation)
        # Spans are places in the answer, whatever other field a criterion evaluates.
        if finding.spans is None or criterion.to_evaluate != "answer":
            return verdict
        return verdict.model_copy(update={"spans": finding.spans})

    def _make_verdict(self, level: int, best: int, option: str, label: str, explanation: str) -> JudgeVerdict:
        return JudgeVerdict(
            judge=self._name,
            status=Status.SCORED,
            score=level / best,
            level=level,
            option=option,
            label=label,
            value=level,
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
    }

"""How well each judge agrees with people, by criterion, and by the answer's model family or language."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

from judges.values.interaction import language_of
from judges.values.label import Label
from judges.values.model_family import family_of
from sinks.base import UNKNOWN
from sinks.statistics.judge_quality import JudgeQuality, judge_quality
from sinks.statistics.labelled_answers import AnswerVerdicts, ScoredBy, labelled_verdicts

Attribute = Literal["family", "language"]
ATTRIBUTES: tuple[Attribute, ...] = get_args(Attribute)


class JudgedSeries(NamedTuple):
    judge: str
    criterion: str
    value: str | None
    """Of the attribute; None if there is none."""


def measure_judges(
    evaluations: Iterable[AnswerVerdicts[ScoredBy]], labels: Iterable[Label], by: Attribute | None = None
) -> dict[JudgedSeries, JudgeQuality]:
    """Measure every judge on the answers that reviewers labelled, whether they were chosen at random or not."""
    pairs: dict[JudgedSeries, list[tuple[float, float]]] = defaultdict(list)
    for evaluation, criterion, verdict, human in labelled_verdicts(evaluations, labels):
        value = None if by is None else attribute_of(evaluation, by)
        assert verdict.score is not None
        pairs[JudgedSeries(verdict.judge, criterion, value)].append((verdict.score, human.score))
    ordered = sorted(pairs.items(), key=lambda item: (item[0].judge, item[0].criterion, item[0].value or ""))
    return {key: judge_quality(rows) for key, rows in ordered}


def attribute_of(evaluation: AnswerVerdicts[ScoredBy], attribute: Attribute) -> str:
    """Return the value of an attribute, or `unknown`."""
    return _VALUES[attribute](evaluation)


# Traffic has few models, and some fifty patterns are searched in each name.
_family_of = lru_cache(maxsize=256)(family_of)


def _family(evaluation: AnswerVerdicts[ScoredBy]) -> str:
    return _family_of(evaluation.model) or UNKNOWN


def _language(evaluation: AnswerVerdicts[ScoredBy]) -> str:
    excerpt = evaluation.excerpt
    return UNKNOWN if excerpt is None else language_of(f"{excerpt.question} {excerpt.answer}")


_VALUES: Mapping[Attribute, Callable[[AnswerVerdicts[ScoredBy]], str]] = {"family": _family, "language": _language}

"""The judges' verdicts on answers that people labelled, as published or as archived."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from judges.values.evaluation import Status
from judges.values.label import Label
from judges.values.valid_labels import HumanScore, ValidLabels
from sinks.base import HIDDEN_LANES
from sinks.telemetry.traceparent import parse_traceparent


class ScoredBy(Protocol):
    """The verdict of one judge."""

    @property
    def judge(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def score(self) -> float | None: ...


VerdictT = TypeVar("VerdictT", bound=ScoredBy)
VerdictT_co = TypeVar("VerdictT_co", bound=ScoredBy, covariant=True)


class PanelVerdicts(Protocol[VerdictT_co]):
    """The verdicts of all judges on one criterion."""

    @property
    def judges(self) -> Sequence[VerdictT_co]: ...


class SampledIn(Protocol):
    """How an answer was sampled."""

    @property
    def lane(self) -> str: ...


class QuotedTexts(Protocol):
    """The starts of the texts."""

    @property
    def question(self) -> str: ...
    @property
    def answer(self) -> str: ...


class LabelledUnder(Protocol):
    """An answer with the names under which people may label it."""

    @property
    def interaction_id(self) -> str: ...
    @property
    def traceparent(self) -> str | None: ...


class AnswerVerdicts(LabelledUnder, Protocol[VerdictT_co]):
    """An evaluation: `judges.Evaluation`, or the fields of it that the archive reads."""

    @property
    def evaluated_at(self) -> datetime: ...
    @property
    def model(self) -> str | None: ...
    @property
    def sampling(self) -> SampledIn: ...
    @property
    def excerpt(self) -> QuotedTexts | None: ...
    @property
    def dimensions(self) -> Mapping[str, PanelVerdicts[VerdictT_co]]: ...


AnswerT = TypeVar("AnswerT", bound=AnswerVerdicts[ScoredBy])


def trace_id_of(answer: LabelledUnder) -> str | None:
    """Return the id of the trace that an interaction belongs to; None without one."""
    parent = parse_traceparent(answer.traceparent)
    return None if parent is None else parent.trace_id


def label_names(answer: LabelledUnder) -> Iterator[str]:
    """Yield the ids under which an interaction may be labelled: its own, and that of its trace."""
    yield answer.interaction_id
    trace_id = trace_id_of(answer)
    if trace_id is not None:
        yield trace_id


def label_key(
    people: Mapping[tuple[str, str], HumanScore], answer: LabelledUnder, criterion: str
) -> tuple[str, str] | None:
    """Return the key of the label of an answer; that of its own id takes precedence over that of its trace."""
    keys = ((name, criterion) for name in label_names(answer))
    return next((key for key in keys if key in people), None)


def last_evaluations(evaluations: Iterable[AnswerT]) -> Collection[AnswerT]:
    """Return the last evaluation of each interaction, without canaries and backfilled history."""
    last: dict[str, AnswerT] = {}
    for evaluation in evaluations:
        known = last.get(evaluation.interaction_id)
        if evaluation.sampling.lane in HIDDEN_LANES:
            continue
        if known is None or known.evaluated_at <= evaluation.evaluated_at:
            last[evaluation.interaction_id] = evaluation
    return last.values()


def labelled_verdicts(
    evaluations: Iterable[AnswerVerdicts[VerdictT]], labels: Iterable[Label]
) -> Iterator[tuple[AnswerVerdicts[VerdictT], str, VerdictT, HumanScore]]:
    """Yield every scored verdict on an answer that reviewers labelled, with its criterion, chosen at random or not."""
    people = ValidLabels(labels).scores("review")
    for evaluation in last_evaluations(evaluations):
        for criterion, dimension in evaluation.dimensions.items():
            key = label_key(people, evaluation, criterion)
            for verdict in dimension.judges if key is not None else ():
                if key is not None and verdict.status == Status.SCORED and verdict.score is not None:
                    yield evaluation, criterion, verdict, people[key]

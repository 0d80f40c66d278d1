"""Examples: the interactions that an alert names, with their evaluations."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from judges.values.evaluation import Evaluation
from sinks.text import shorten
from stream.monitor.alerts.alert import Alert, Example
from stream.monitor.state import notable_answer_of, reason_of

_TEXT_CHARS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownExample:
    """An example with its evaluation, if that is still on the topic."""

    example: Example
    model: str | None = None
    question: str = ""
    answer: str = ""
    criterion: str = ""
    why: str = ""
    found: bool = False
    """Whether its evaluation is still on the topic."""


class Examples:
    """Takes evaluations and keeps those that the alert names."""

    def __init__(self, alert: Alert, wanted: Sequence[Example], safety: str, required: Collection[str] = ()) -> None:
        """`safety` and `required` name criteria of the composite."""
        self._alert, self._examples = alert, wanted
        self._safety, self._required = safety, required
        self._wanted = {example.interaction_id for example in wanted}
        self._found: dict[str, Evaluation] = {}

    def add(self, evaluation: Evaluation) -> None:
        same = evaluation.evaluator.fingerprint == self._alert.fingerprint
        if same and evaluation.interaction_id in self._wanted:
            self._found[evaluation.interaction_id] = evaluation

    def result(self, instead: Sequence[tuple[float, Evaluation]] = ()) -> Iterator[ShownExample]:
        """Yield the examples in the order of the alert; if it names none, those of `instead`."""
        if not self._examples:
            for score, evaluation in instead:
                example = Example(interaction_id=evaluation.interaction_id, score=score, at=evaluation.evaluated_at)
                yield self._show(example, evaluation)
        for example in self._examples:
            own = self._found.get(example.interaction_id)
            yield ShownExample(example=example) if own is None else self._show(example, own)

    def _show(self, example: Example, evaluation: Evaluation) -> ShownExample:
        finding = notable_answer_of(evaluation, self._safety, self._required)
        dimension = evaluation.dimensions.get(self._alert.series.dimension)
        return ShownExample(
            example=example,
            model=evaluation.model,
            question=shorten(finding.question, _TEXT_CHARS),
            answer=shorten(finding.answer, _TEXT_CHARS),
            criterion=finding.dimension if dimension is None else self._alert.series.dimension,
            why=shorten(finding.reason if dimension is None else reason_of(dimension), _TEXT_CHARS),
            found=True,
        )


def lines_of(shown: ShownExample) -> Iterator[str]:
    """Yield the lines of an example, its id first."""
    model = f", {shown.model}" if shown.model else ""
    yield f"{shorten(shown.example.interaction_id, _TEXT_CHARS)}: {shown.example.score:.2f}{shorten(model, 100)}"
    if not shown.found:
        yield "its evaluation is no longer on the topic, or outside the range that was read"
        return
    for mark, text in (("Q", shown.question), ("A", shown.answer)):
        if text:
            yield f"{mark} {text}"
    if shown.why:
        yield f"{shorten(shown.criterion, 100)}: {shown.why}"

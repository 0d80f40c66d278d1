"""Diagnoses evaluations of a file or a topic: how many answers are good, whether retrieval or generation fails, and how
many refuse to answer.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from judges.values.diagnosis import (
    GROUNDEDNESS,
    SUFFICIENCY,
    DiagnosisCell,
    RefusalOutcome,
    diagnose,
    refusal_outcome,
    score_of,
)
from judges.values.evaluation import Evaluation
from sinks.base import UNKNOWN
from sinks.reports.formatting import NOTHING, number, percent
from sinks.reports.results_reader import RESULTS_NAME, ResultsError, read_results
from sinks.reports.sheet import Sheet
from sinks.text import shorten
from stream.config.model import Config
from stream.config.names import BACKFILL, CANARY
from stream.errors import RecordError
from stream.kafka.record import read_record, schema_of, whole_value
from stream.kafka.topic_scan import TopicScan
from stream.monitor.explain.tally import TAG, text_of
from stream.monitor.reading import read_evaluation
from stream.monitor.state import reason_of

Outcome = TypeVar("Outcome", bound=StrEnum)

SCHEMA = "streamjury.diagnosis/1"

FAULTS = (DiagnosisCell.RETRIEVAL, DiagnosisCell.GENERATION)

_EXAMPLES = 10
_SLICES = 10
# Slices with fewer diagnoses are not listed: a single fault would make them the worst.
_FEWEST = 10
# A tag with more values identifies records and not kinds of records.
_MOST_TAG_VALUES = 20
_MOST_VALUES = 1000
_TEXT_CHARS = 160
_WEIGHTED = "Shares are weighted by 1/probability, like all means: they are estimates for all traffic."
_MEANINGS = {
    DiagnosisCell.GOOD: "sufficient contexts, grounded answer",
    DiagnosisCell.GENERATION: "sufficient contexts, but the answer is not grounded",
    DiagnosisCell.LUCKY: "contexts do not suffice, but the answer is grounded",
    DiagnosisCell.RETRIEVAL: "contexts do not suffice, and the answer is not grounded",
}


_REFUSAL_MEANINGS = {
    RefusalOutcome.ANSWERED: "tries to answer",
    RefusalOutcome.JUSTIFIED: "declines, and the contexts do not suffice",
    RefusalOutcome.UNJUSTIFIED: "declines, although the contexts suffice",
    RefusalOutcome.UNKNOWN: "declines; no score for context_sufficiency",
}


class OutcomeSums(Generic[Outcome]):
    """Outcomes of a part of the traffic, such as diagnoses: their number, and their weight 1/π."""

    def __init__(self, outcomes: type[Outcome]) -> None:
        self.counts: dict[Outcome, int] = dict.fromkeys(outcomes, 0)
        self.weights: dict[Outcome, float] = dict.fromkeys(outcomes, 0.0)

    def add(self, outcome: Outcome, weight: float) -> None:
        self.counts[outcome] += 1
        self.weights[outcome] += weight

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def share(self, *outcomes: Outcome) -> float | None:
        """Return the weighted share of these outcomes; None if there is nothing to share."""
        total = sum(self.weights.values())
        return sum(self.weights[outcome] for outcome in outcomes) / total if total else None


CellSums = OutcomeSums[DiagnosisCell]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultExample:
    """An answer with a fault."""

    interaction_id: str
    cell: DiagnosisCell
    composite: float | None
    sufficiency: float
    groundedness: float
    app: str
    question: str
    answer: str
    why: str
    """The explanation of the judge: of the contexts for a fault of retrieval, else of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceCells:
    """The diagnoses of one value of an attribute."""

    attribute: str
    value: str
    sums: CellSums


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The diagnoses of many evaluations."""

    whole: CellSums
    undiagnosed: int
    """Evaluations without a score for sufficiency or for groundedness."""
    refusals: OutcomeSums[RefusalOutcome]
    """Evaluations by whether the answer is a refusal; empty unless the criterion is judged."""
    slices: Sequence[SliceCells]
    """Slices with a larger share of faults than the whole, the largest first."""
    examples: Sequence[FaultExample]
    """Faults of both kinds, those with the lowest composites."""


class DiagnosisTally:
    """Takes evaluations one by one, each once, and keeps what a diagnosis needs."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._whole = CellSums(DiagnosisCell)
        self._refusals = OutcomeSums(RefusalOutcome)
        self._undiagnosed = 0
        self._slices: dict[str, dict[str, CellSums]] = {}
        self._closed: set[str] = set()
        """Tags with too many values."""
        self._examples: dict[DiagnosisCell, list[FaultExample]] = {cell: [] for cell in FAULTS}

    def add(self, evaluation: Evaluation) -> None:
        identity = hash(evaluation.evaluation_id)
        if identity in self._seen:
            return
        self._seen.add(identity)
        weight = 1.0 / evaluation.sampling.probability
        refusal = refusal_outcome(evaluation)
        if refusal is not None:
            self._refusals.add(refusal, weight)
        cell = diagnose(evaluation)
        if cell is None:
            self._undiagnosed += 1
            return
        self._whole.add(cell, weight)
        for attribute, value in _values_of(evaluation):
            self._add_to_slice(attribute, value, cell, weight)
        if cell in FAULTS:
            self._keep_example(_example_of(evaluation, cell))

    def result(self) -> Diagnosis:
        overall = self._whole.share(*FAULTS) or 0.0
        slices = [
            SliceCells(attribute=attribute, value=value, sums=sums)
            for attribute, values in self._slices.items()
            if len(values) > 1
            for value, sums in values.items()
            if sums.count >= _FEWEST and (sums.share(*FAULTS) or 0.0) > overall
        ]
        slices.sort(key=lambda part: (-(part.sums.share(*FAULTS) or 0.0), -part.sums.count, part.attribute, part.value))
        return Diagnosis(
            whole=self._whole,
            undiagnosed=self._undiagnosed,
            refusals=self._refusals,
            slices=tuple(slices[:_SLICES]),
            examples=tuple(self._choose_examples()),
        )

    def _add_to_slice(self, attribute: str, value: str, cell: DiagnosisCell, weight: float) -> None:
        if attribute in self._closed:
            return
        values = self._slices.setdefault(attribute, {})
        is_tag = attribute.startswith(TAG)
        if value not in values and len(values) >= (_MOST_TAG_VALUES if is_tag else _MOST_VALUES):
            if is_tag:
                self._closed.add(attribute)
                del self._slices[attribute]
            return
        values.setdefault(value, CellSums(DiagnosisCell)).add(cell, weight)

    def _keep_example(self, example: FaultExample) -> None:
        """Keep the worst examples of each fault, and only one of several with the same texts."""
        kept, texts = self._examples[example.cell], (example.question, example.answer)
        if any(texts) and any((other.question, other.answer) == texts for other in kept):
            return
        kept.append(example)
        kept.sort(key=_badness)
        del kept[_EXAMPLES:]

    def _choose_examples(self) -> list[FaultExample]:
        """Take the worst of each fault in turn, so that both are shown."""
        in_turn = chain.from_iterable(zip_longest(*self._examples.values()))
        return sorted(islice(filter(None, in_turn), _EXAMPLES), key=_badness)


def _badness(example: FaultExample) -> tuple[float, float]:
    return 1.0 if example.composite is None else example.composite, example.groundedness


def _values_of(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    yield "app", evaluation.app or UNKNOWN
    for name in ("model", "tenant"):
        value = getattr(evaluation, name)
        if value is not None:
            yield name, value
    yield "rule", evaluation.sampling.rule
    for name, tag in evaluation.tags.items():
        if tag is not None:
            yield f"{TAG}{name}", text_of(tag)


def _example_of(evaluation: Evaluation, cell: DiagnosisCell) -> FaultExample:
    excerpt, blamed = evaluation.excerpt, SUFFICIENCY if cell is DiagnosisCell.RETRIEVAL else GROUNDEDNESS
    return FaultExample(
        interaction_id=evaluation.interaction_id,
        cell=cell,
        composite=evaluation.composite.score,
        sufficiency=score_of(evaluation, SUFFICIENCY) or 0.0,
        groundedness=score_of(evaluation, GROUNDEDNESS) or 0.0,
        app=evaluation.app or UNKNOWN,
        question=shorten(excerpt.question, _TEXT_CHARS) if excerpt else "",
        answer=shorten(excerpt.answer, _TEXT_CHARS) if excerpt else "",
        why=shorten(reason_of(evaluation.dimensions[blamed]), _TEXT_CHARS),
    )


# Evaluations


def read_file(path: Path) -> Iterator[Evaluation]:
    """Yield the evaluations of a file: results of `streamjury evaluate`, or one evaluation per line.

    Raises ResultsError.
    """
    file = path / RESULTS_NAME if path.is_dir() else path
    try:
        with file.open("rb") as lines:
            is_results = _is_results(lines.readline())
    except OSError as error:
        raise ResultsError(
            file, None, f"cannot be read: {(error.strerror or str(error)).lower()}{_hint(path)}"
        ) from error
    if is_results:
        yield from (row.evaluation for row in read_results(file).rows() if row.evaluation is not None)
        return
    with file.open("rb") as lines:
        for line_number, line in enumerate(lines, start=1):
            if line.strip():
                yield _read_line(line, file, line_number)


def _hint(path: Path) -> str:
    return "; pass the folder that `streamjury evaluate` wrote" if path.is_dir() else ""


def _is_results(line: bytes) -> bool:
    try:
        heading = json.loads(line)
    except ValueError:
        return False
    return isinstance(heading, Mapping) and heading.get("kind") == "run"


def _read_line(line: bytes, file: Path, number_of_line: int) -> Evaluation:
    try:
        return Evaluation.model_validate_json(line)
    except ValidationError:
        message = "is not an evaluation; pass the output of `streamjury evaluate`, or evaluations as JSON lines"
        raise ResultsError(file, number_of_line, message) from None


def read_topic(config: Config, since: datetime, *, embedded: bool) -> Iterator[Evaluation]:
    """Yield the evaluations of live traffic since a time; records that the monitor refuses are skipped."""
    # An embedded broker cannot find records by their time.
    since_ms = None if embedded else int(since.timestamp() * 1000)
    with TopicScan(config.kafka, config.topics.evaluations) as scan:
        for message in scan.read(since_ms):
            record = read_record(message)
            try:
                evaluation = read_evaluation(
                    whole_value(record), schema_of(record), least_probability=config.least_probability
                )
            except RecordError:
                continue
            if evaluation.evaluated_at >= since and evaluation.sampling.lane not in {BACKFILL, CANARY}:
                yield evaluation


def diagnose_all(evaluations: Iterable[Evaluation]) -> Diagnosis:
    tally = DiagnosisTally()
    for evaluation in evaluations:
        tally.add(evaluation)
    return tally.result()


# Output


def sheets_of(diagnosis: Diagnosis) -> Iterator[Sheet]:
    """Yield the four cells, the refusals, the worst slices and the examples as tables."""
    yield _cells_sheet(diagnosis)
    if diagnosis.refusals.count:
        yield _refusals_sheet(diagnosis.refusals)
    if diagnosis.slices:
        yield _slices_sheet(diagnosis.slices)
    if diagnosis.examples:
        yield _examples_sheet(diagnosis.examples)


def _cells_sheet(diagnosis: Diagnosis) -> Sheet:
    whole = diagnosis.whole
    rows = [
        (cell.value, f"{whole.counts[cell]:,}", _percent(whole.share(cell)), _MEANINGS[cell]) for cell in DiagnosisCell
    ]
    is_sampled = any(whole.weights[cell] != whole.counts[cell] for cell in DiagnosisCell)
    notes = [_WEIGHTED] if is_sampled else []
    if diagnosis.undiagnosed:
        notes.append(
            f"Without a score for {SUFFICIENCY} or {GROUNDEDNESS}, and not diagnosed: {diagnosis.undiagnosed:,}."
        )
    headings = ("diagnosis", "answers", "share", "meaning")
    return Sheet(
        title="Retrieval or generation",
        headings=headings,
        rows=tuple(rows),
        notes=tuple(notes),
        words=frozenset({0, 3}),
    )


def _refusals_sheet(refusals: OutcomeSums[RefusalOutcome]) -> Sheet:
    rows = [
        (outcome.value, f"{refusals.counts[outcome]:,}", _percent(refusals.share(outcome)), _REFUSAL_MEANINGS[outcome])
        for outcome in RefusalOutcome
    ]
    headings = ("refusal", "answers", "share", "meaning")
    return Sheet(title="Refusals", headings=headings, rows=tuple(rows), words=frozenset({0, 3}))


def _slices_sheet(slices: Sequence[SliceCells]) -> Sheet:
    rows = [
        (
            part.attribute,
            shorten(part.value, _TEXT_CHARS),
            f"{part.sums.count:,}",
            *(_percent(part.sums.share(cell)) for cell in (*FAULTS, DiagnosisCell.LUCKY, DiagnosisCell.GOOD)),
        )
        for part in slices
    ]
    headings = (
        "attribute",
        "value",
        "answers",
        *(cell.value for cell in (*FAULTS, DiagnosisCell.LUCKY, DiagnosisCell.GOOD)),
    )
    notes = (f"Slices with more faults than the whole, and at least {_FEWEST} diagnoses.",)
    return Sheet(title="Worst slices", headings=headings, rows=tuple(rows), notes=notes, words=frozenset({0, 1}))


def _examples_sheet(examples: Sequence[FaultExample]) -> Sheet:
    rows = [
        (
            example.cell.value,
            shorten(example.interaction_id, _TEXT_CHARS),
            example.app,
            number(example.composite),
            example.question,
            example.answer,
            example.why,
        )
        for example in examples
    ]
    headings = ("diagnosis", "interaction", "app", "composite", "question", "answer", "why")
    return Sheet(
        title="Examples, lowest composites first",
        headings=headings,
        rows=tuple(rows),
        words=frozenset({0, 1, 2, 4, 5, 6}),
    )


def _percent(share: float | None) -> str:
    return NOTHING if share is None else percent(round(share, 3))


def as_object(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the diagnosis for programs."""
    return {
        "schema_version": SCHEMA,
        "diagnosed": diagnosis.whole.count,
        "undiagnosed": diagnosis.undiagnosed,
        "cells": _sums_as_object(diagnosis.whole),
        "refusals": _sums_as_object(diagnosis.refusals) if diagnosis.refusals.count else None,
        "slices": [
            {"attribute": part.attribute, "value": part.value, "cells": _sums_as_object(part.sums)}
            for part in diagnosis.slices
        ],
        "examples": [
            {name: getattr(example, name) for name in FaultExample.__dataclass_fields__}
            for example in diagnosis.examples
        ],
    }


def _sums_as_object(sums: OutcomeSums[Outcome]) -> dict[str, Any]:
    return {
        outcome.value: {"answers": answers, "share": sums.share(outcome)} for outcome, answers in sums.counts.items()
    }

"""Reads the labels of a CSV or JSONL file; all mistakes are listed at once."""

import math
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from judges.criteria.criterion import Criterion
from judges.criteria.scale import Choice
from judges.values.label import Label, LabelKind
from sinks.base import COMPOSITE
from stream.jobs.label_file import FileProblems, FileRecord, read_records

KINDS: tuple[LabelKind, ...] = get_args(LabelKind)

# Never change it: a file that is sent twice must have the same ids.
_NAMESPACE = uuid.UUID("1c0f0e2b-7d4b-5a53-8a33-0f2a5f0f7c11")
_COLUMNS = (*Label.model_fields, "id", "trace_id")
# The similarity of a word with one wrong letter.
_ALIKE = 0.8
_LONGEST_TEXT = 2000
# Columns of which every label needs one; the first is named in messages.
_NEEDED = (("interaction_id", "id", "trace_id"), ("criterion",), ("option", "score", "retracts"), ("who",))
_YES_NO = frozenset({"yes", "no", "true", "false"})


def read_label_file(path: Path, criteria: Mapping[str, Criterion], *, now: datetime) -> list[Label]:
    """Read the labels of a file; raises LabelsError with all its problems.

    Labels without a time get `now`. An id that is missing follows from the rest of the label, so a file that is sent
    twice has the same ids, and its labels count once.
    """
    problems = FileProblems(path)
    records = list(read_records(path, problems))
    missing = _check_columns(records, criteria, problems)
    reader = _LabelReader(criteria, problems, now, missing)
    labels = [label for line, record in records if (label := reader.read(line, record)) is not None]
    if not records and not problems:
        problems.about_file("contains no labels")
    problems.raise_if_any()
    return labels


def _check_columns(records: list[FileRecord], criteria: Collection[str], problems: FileProblems) -> Collection[str]:
    """Report columns that were probably meant to be others, and return those that the file needs and does not have.

    The rest, such as texts, is ignored.
    """
    columns = dict.fromkeys(column.strip() for _line, record in records for column in record)
    for column in columns:
        near = get_close_matches(column.casefold(), _COLUMNS, n=1, cutoff=_ALIKE)
        if near and column.casefold() not in _COLUMNS:
            problems.about_file(f"the column {column!r} is unknown; did you mean {near[0]!r}?")
    names = {column.casefold() for column in columns}
    missing = [needed[0] for needed in _NEEDED if columns and names.isdisjoint(needed)]
    for column in missing:
        problems.about_file(_describe_missing(column, columns, criteria))
    return frozenset(missing)


def _describe_missing(missing: str, columns: Iterable[str], criteria: Collection[str]) -> str:
    wide = next((column for column in columns if column in criteria or column == COMPOSITE), None)
    if missing == "criterion" and wide is not None:
        return (
            f"has no column 'criterion', but a column {wide!r}; each line is one label: write {wide!r} in the column "
            "'criterion' and the level in 'option' (only `streamjury compare --labels` reads one column per criterion)"
        )
    others = " and no column 'score'" if missing == "option" else ""
    return f"has no column {missing!r}{others}; its columns are: {', '.join(columns)}"


class _LabelReader:
    """Turns records into labels, and reports their problems."""

    def __init__(
        self, criteria: Mapping[str, Criterion], problems: FileProblems, now: datetime, missing: Collection[str]
    ) -> None:
        self._criteria, self._problems, self._now = criteria, problems, now
        self._missing = missing
        self._lines: dict[tuple[str, ...], int] = {}

    def read(self, line: int, record: Mapping[str, object]) -> Label | None:
        """Return the label of a record, or None after reporting its problems."""
        values = {column.strip().casefold(): _clean(value) for column, value in record.items()}
        row = _Row(values, line, self._problems, self._missing)
        interaction = row.text("interaction_id") or row.text("id") or row.text("trace_id")
        if interaction is None:
            row.report("interaction_id", "is missing; give the id of the interaction, or its trace_id")
        kind = row.one_of("kind", KINDS, "review")
        criterion, who = row.required("criterion"), row.required("who")
        retracts = row.text("retracts")
        option, score = self._verdict(row, criterion, kind, needed=retracts is None)
        time, probability = row.time("labelled_at"), row.number("probability", above=0.0)
        if row.has_problems:
            return None
        parts = (kind, str(interaction), str(criterion), str(who))
        self._refuse_repeat(row, parts, retracts)
        words = [*parts, option, score, retracts, None if time is None else time.isoformat()]
        name = "/".join("" if word is None else str(word) for word in words)
        return Label(
            label_id=row.text("label_id") or str(uuid.uuid5(_NAMESPACE, name)),
            interaction_id=str(interaction),
            evaluation_id=row.text("evaluation_id"),
            criterion=str(criterion),
            option=option,
            score=score,
            who=str(who),
            labelled_at=time or self._now,
            probability=probability,
            kind=kind,
            comment=row.text("comment"),
            retracts=retracts,
        )

    def _verdict(self, row: "_Row", name: str | None, kind: str, *, needed: bool) -> tuple[str | None, float | None]:
        """Return the option and the score; one of them may follow from the other."""
        option, score = row.text("option"), row.number("score")
        if not needed or name is None:
            return option, score
        if option is None and row.is_empty("score"):
            row.report("option", "is missing, and so is score; a label needs one of them")
        criterion = self._criteria.get(name)
        if criterion is None:
            self._check_name(row, name, kind)
            if option is not None and score is None and not row.has_problems:
                row.report("score", f"is missing; {name} has no scale that {option!r} is on")
            return option, score
        return _on_scale(row, criterion, option, score)

    def _check_name(self, row: "_Row", name: str, kind: str) -> None:
        """Only the composite and the feedback of users need no criterion."""
        if name == COMPOSITE or kind == "feedback":
            return
        near = get_close_matches(name, self._criteria, n=1, cutoff=_ALIKE)
        hint = f"did you mean {near[0]!r}?" if near else f"the criteria are: {', '.join((*self._criteria, COMPOSITE))}"
        row.report("criterion", f"there is no criterion {name!r}; {hint}")

    def _refuse_repeat(self, row: "_Row", parts: tuple[str, ...], retracts: str | None) -> None:
        if retracts is not None or parts[0] == "feedback":
            return
        first = self._lines.setdefault(parts, row.line)
        if first != row.line:
            _kind, interaction, criterion, who = parts
            row.report(None, f"{who} already labelled {criterion} of {interaction} in line {first}")


def _on_scale(
    row: "_Row", criterion: Criterion, option: str | None, score: float | None
) -> tuple[str | None, float | None]:
    choices = criterion.scale.choices
    if option is None or not choices:
        return option, score
    choice = _find_choice(choices, option)
    if choice is not None:
        own = criterion.score(choice)
        if score is not None and own != score:
            row.report("score", f"is {score:g}, but that of {choice.label.en!r} is {own}")
        return choice.label.en, own
    options = ", ".join(choice.label.en for choice in choices)
    hint = "; for yes and no, give a score of 1 and 0 instead" if option.casefold() in _YES_NO else ""
    row.report("option", f"{option!r} is not an option of {criterion.name}; its options are: {options}{hint}")
    return None, None


def _find_choice(choices: Sequence[Choice], option: str) -> Choice | None:
    """Return the choice with this name, in either language, or with this number as its value."""
    for choice in choices:
        if option.casefold() in {choice.label.en.casefold(), choice.label.of("ru").casefold()}:
            return choice
    return next((choice for choice in choices if choice.value is not None and f"{choice.value:g}" == option), None)


def _clean(value: object) -> object:
    return (value.strip() or None) if isinstance(value, str) else value


class _Row:
    """The values of a line, read with reports of problems."""

    def __init__(
        self, values: Mapping[str, object], line: int, problems: FileProblems, missing: Collection[str]
    ) -> None:
        self._values, self.line, self._problems, self._missing = values, line, problems, missing
        self.has_problems = False

    def report(self, column: str | None, problem: str) -> None:
        """Report a problem, unless it is that of a column that no line has: that one is reported once."""
        self.has_problems = True
        if column not in self._missing:
            self._problems.at(self.line, problem, column)

    def is_empty(self, column: str) -> bool:
        return self._values.get(column) is None

    def text(self, column: str) -> str | None:
        value = self._values.get(column)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self.report(column, f"{value!r} is not a text")
            return None
        text = str(value)
        if len(text) > _LONGEST_TEXT:
            self.report(column, f"has {len(text)} characters, the limit is {_LONGEST_TEXT}")
            return None
        return text

    def required(self, column: str) -> str | None:
        text = self.text(column)
        if text is None and self._values.get(column) is None:
            self.report(column, "is missing")
        return text

    def one_of(self, column: str, words: tuple[Any, ...], default: Any) -> Any:
        text = self.text(column)
        if text is None or text in words:
            return text or default
        self.report(column, f"must be one of {', '.join(words)}, not {text!r}")
        return default

    def number(self, column: str, *, above: float | None = None) -> float | None:
        """Read a number between 0 and 1."""
        value = self._values.get(column)
        if value is None:
            return None
        try:
            number = math.nan if isinstance(value, bool) else float(str(value))
        except ValueError:
            number = math.nan
        if not 0.0 <= number <= 1.0 or (above is not None and number <= above):
            least = "at least 0" if above is None else f"above {above:g}"
            self.report(column, f"must be a number {least} and at most 1, not {str(value)!r}")
            return None
        return number

    def time(self, column: str) -> datetime | None:
        text = self.text(column)
        if text is None:
            return None
        try:
            time = datetime.fromisoformat(text)
            if time.tzinfo is not None:
                return time.astimezone(UTC)
        except (ValueError, OverflowError):
            self.report(column, f"{text!r} is not a time such as 2026-11-17T12:00:00Z")
        else:
            self.report(column, f"{text!r} has no time zone, such as Z or +01:00")
        return None

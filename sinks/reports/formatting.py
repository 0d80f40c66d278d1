"""Formatting that all reports share: numbers, names, and which parts of a row are shown."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import floor, log10
from typing import Any

from pydantic import JsonValue

from judges.values.evaluation import CompositeStatus, Dimension, JudgeVerdict, Status
from sinks.reports.results_schema import CriterionInfo, Row
from sinks.reports.summary import FLOORS, LOW, Band, IssueKind, choice_of

NOTHING = "–"
MAX_TEXT_CHARS = 4_000
"""The most characters of a question, an answer or an explanation; the rest is in the results."""

MAX_FIELD_CHARS = 2_000
MAX_FIELDS = 30
MAX_PARAMETERS = 200

_QUESTIONS = ("current user question", "question")
_ANSWERS = ("assistant answer", "answer")
# Columns in which a backslash and an n mean a line end.
_LINED = ("conversation history", "fragment texts")
_EMPTY: tuple[JsonValue, ...] = (None, "", [], {})
_SECRET = re.compile(r"(?:^|[._-])(?:api_?key|token|secret|password|passwd|authorization|credentials?)$", re.IGNORECASE)
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")
# Not allowed in HTML, even as references; a document shows each as one replacement character.
_UNSHOWABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_LINE_END = re.compile("\r\n?")

ISSUE_TITLES: Mapping[IssueKind, str] = {
    IssueKind.UNSAFE: "Unsafe answers",
    IssueKind.UNGROUNDED: "Ungrounded answers",
    IssueKind.INCOMPLETE: "Incomplete answers",
    IssueKind.LOW: f"Composite below {LOW:g}",
}
ISSUE_RULES: Mapping[IssueKind, str] = {
    IssueKind.UNSAFE: "The safety verdict is the worst possible, and the composite is 0.",
    IssueKind.UNGROUNDED: "Groundedness is below 0.5 of 1.",
    IssueKind.INCOMPLETE: "Completeness is below 0.5 of 1.",
    IssueKind.LOW: "For any reason.",
}
STATUS_MEANINGS: Mapping[CompositeStatus, str] = {
    CompositeStatus.OK: "has a composite, high or low",
    CompositeStatus.QUESTIONABLE: "scored; safety is questionable",
    CompositeStatus.UNSAFE: "harmful: the composite is 0",
    CompositeStatus.SAFETY_UNKNOWN: "no safety verdict: the composite is withheld",
    CompositeStatus.INCOMPLETE: "too many verdicts, or a required one, are missing, or nothing applied: no composite",
    CompositeStatus.FAILED: "a required criterion was not met: the composite is 0",
}
INTERVAL_NOTE = (
    "About 95 of 100 intervals computed this way contain the mean of all questions of this kind, assuming that these "
    "rows are a sample of them. They do not show whether the judges are right."
)
DEVIATION_NOTE = "± is the standard deviation of the rows, not of the mean."


def status_name(status: CompositeStatus) -> str:
    """Return the status for people: `ok`, as programs read it, sounds as if the answer were good."""
    return "scored" if status is CompositeStatus.OK else status.value


# Numbers


def number(value: float | None, digits: int = 2) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def plain(value: float) -> str:
    """Format a number without insignificant digits."""
    return f"{round(value, 2):g}"


def percent(share: float | None) -> str:
    """Format a share; 0 % and 100 % are only for exactly none and all."""
    if share is None:
        return NOTHING
    rounded = round(share * 100.0, 1)
    if rounded in (0.0, 100.0) and share not in (0.0, 1.0):
        return "< 0.1 %" if rounded == 0.0 else "> 99.9 %"
    return f"{rounded:g} %"


def ratio(part: int, whole: int) -> str:
    return percent(part / whole if whole else None)


def interval(low: float | None, high: float | None, digits: int = 2) -> str:
    return NOTHING if low is None or high is None else f"{number(low, digits)} to {number(high, digits)}"


def money(dollars: float | None) -> str:
    if dollars is None:
        return NOTHING
    # Two significant digits, however small the amount is.
    digits = 1 - floor(log10(dollars)) if 1e-12 < dollars < 1.0 else 2
    return f"${dollars:,.{max(2, digits)}f}"


def duration(milliseconds: float) -> str:
    if milliseconds < 10.0:
        return f"{milliseconds:.1f} ms"
    return f"{milliseconds:,.0f} ms" if milliseconds < 1_000.0 else f"{milliseconds / 1_000.0:,.1f} s"


def span(seconds: float) -> str:
    return duration(seconds * 1_000.0) if seconds < 60.0 else str(timedelta(seconds=round(seconds)))


def moment(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S %Z}"


def many(count: int, one: str, more: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"


# Names


def band_range(band: Band) -> str:
    return f"below {LOW:g}" if band is Band.BAD else f"from {FLOORS[band]:g}"


def scale_of(criterion: CriterionInfo) -> str:
    """Describe the scale: its labels with their values, or its bounds."""
    if criterion.choices:
        return " · ".join(label if value is None else f"{plain(value)} {label}" for label, value in criterion.choices)
    return NOTHING if criterion.bounds is None else f"{plain(criterion.bounds[0])} to {plain(criterion.bounds[1])}"


def finding(criterion: CriterionInfo | None, result: Dimension | JudgeVerdict) -> str:
    """Describe a finding on the criterion's own scale, "2 of 3, medium", or the reason without one."""
    if result.status is not Status.SCORED:
        reason = "" if result.reason is None else f", {result.reason.value}"
        return f"{result.status.value}{reason}".replace("_", " ")
    label = None if criterion is None else choice_of(criterion, result)
    most = None if criterion is None or criterion.bounds is None else criterion.bounds[1]
    value = None if result.value is None else plain(result.value) + ("" if most is None else f" of {plain(most)}")
    return ", ".join(part for part in (value, label) if part is not None) or NOTHING


def remarks(verdict: JudgeVerdict) -> str:
    """Return further facts about a verdict."""
    facts = (
        (verdict.tie, "a tie; the worse verdict was taken"),
        (verdict.position_bias is True, "changed with the order of the options"),
        (verdict.suspect, "repeats an instruction from the judged text"),
        (verdict.cached, "from the cache"),
    )
    return "; ".join(words for holds, words in facts if holds)


def verdict_texts(verdict: JudgeVerdict) -> tuple[tuple[str, str], ...]:
    """Return the texts of a verdict, each with its name; the explanation has no name."""
    parts = (
        ("", verdict.explanation or verdict.detail or ""),
        ("Advice", verdict.feedback or ""),
        ("Remark", remarks(verdict)),
    )
    return tuple((name, truncate(text, MAX_TEXT_CHARS)) for name, text in parts if text)


# Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRow:
    """The shown parts of a row."""

    row: int
    id: str | None
    question: str | None
    answer: str | None
    fields: tuple[tuple[str, str], ...]
    """All other fields that are not empty, by name."""
    fields_left_out: int


def entry_of(row: Row) -> ShownRow:
    question, answer = _find_text_field(row.source, _QUESTIONS), _find_text_field(row.source, _ANSWERS)
    others = [name for name, value in row.source.items() if name not in (question, answer) and value not in _EMPTY]
    fields = tuple((name, truncate(_lines(name, row.source[name]), MAX_FIELD_CHARS)) for name in others[:MAX_FIELDS])
    excerpt = None if row.evaluation is None else row.evaluation.excerpt
    return ShownRow(
        row=row.row,
        id=None if row.evaluation is None else row.evaluation.interaction_id,
        question=_visible_text(row, question, None if excerpt is None else excerpt.question),
        answer=_visible_text(row, answer, None if excerpt is None else excerpt.answer),
        fields=fields,
        fields_left_out=len(others) - len(fields),
    )


def _find_text_field(source: Mapping[str, JsonValue], names: Sequence[str]) -> str | None:
    """Find the field with one of these names, in any case, that holds text."""
    by_name = {name.strip().casefold(): name for name, value in source.items() if isinstance(value, str)}
    return next((by_name[name] for name in names if name in by_name), None)


def _visible_text(row: Row, name: str | None, excerpt: str | None) -> str | None:
    text = excerpt if name is None else text_of(row.source[name])
    return None if text is None else truncate(text, MAX_TEXT_CHARS)


def _lines(name: str, value: JsonValue) -> str:
    text = text_of(value)
    return text.replace("\\n", "\n") if name.strip().casefold() in _LINED else text


def text_of(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def truncate(text: str, chars: int) -> str:
    """Truncate a text, and append its full length."""
    return text if len(text) <= chars else f"{text[:chars]}… (truncated, {len(text):,} characters in total)"


def visible(text: str) -> str:
    """Replace characters that documents cannot hold, and unify line ends."""
    return _UNSHOWABLE.sub("\ufffd", _LINE_END.sub("\n", text))


def one_line(text: str, chars: int) -> str:
    flat = " ".join(visible(text[: 4 * chars]).split())
    return flat if len(flat) <= chars else flat[: chars - 1] + "…"


# Parameters


def parameters_of(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    """List settings by path. They should have no secrets already; a value that still looks like one is hidden."""
    settings = [(path, _public(path, value)) for path, value in _leaves(parameters, "")]
    left_out = len(settings) - MAX_PARAMETERS
    return settings if left_out <= 0 else [*settings[:MAX_PARAMETERS], ("…", f"{left_out:,} more in the results")]


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping | list | tuple) for item in value):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{index}]")
    else:
        yield path, value


def _public(path: str, value: Any) -> str:
    if isinstance(value, str) and value and _SECRET.search(path):
        return "(not shown)"
    if isinstance(value, list | tuple):
        return ", ".join(_public(path, item) for item in value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return truncate(_USERINFO.sub("…@", text), MAX_FIELD_CHARS)

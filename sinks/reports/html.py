"""The report as one HTML file that needs nothing else: no network, no font, no script to be readable."""

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from sinks.reports import charts
from sinks.reports import contents as tables
from sinks.reports.contents import Contents
from sinks.reports.csv_table import NOT_JUDGED
from sinks.reports.formatting import (
    DEVIATION_NOTE,
    INTERVAL_NOTE,
    ISSUE_RULES,
    ISSUE_TITLES,
    MAX_TEXT_CHARS,
    NOTHING,
    ShownRow,
    entry_of,
    finding,
    interval,
    many,
    money,
    number,
    one_line,
    percent,
    status_name,
    truncate,
    verdict_texts,
    visible,
)
from sinks.reports.results_schema import Row
from sinks.reports.summary import Summary, band_of, issues_of

_HEADLINE_CHARS = 140


def page(contents: Contents, entries: Iterable[Row], is_listed: Callable[[int], bool]) -> Iterator[str]:
    """Render the page in chunks, to be written one after the other, so that only one entry is in memory at a time.

    `is_listed` returns whether a row is among the entries, and can be linked.
    """
    return _load_template().generate(
        style=_load_asset("report.css"),
        script=_load_asset("report.js"),
        contents=contents,
        cards=_make_cards(contents),
        filters=_list_filters(contents.summary),
        criteria={criterion.name: criterion for criterion in contents.run.criteria},
        entries=map(_view_entry, entries),
        is_listed=is_listed,
    )


# Names in the templates


@cache
def _load_template() -> Template:
    """Load the page's template. In it every value is escaped, and a name that does not exist is an error."""
    environment = Environment(
        loader=PackageLoader("sinks.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_replace_unshowable,
    )
    environment.filters |= {
        "csp_digest": _csp_digest,
        "truncate_text": truncate,
        "headline": lambda text: one_line(text, _HEADLINE_CHARS),
        "number": number,
        "share": lambda part: f"{100.0 * part:.2f}%",
        "thousands": lambda count: f"{count:,}",
    }
    environment.globals |= {
        "DEVIATION_NOTE": DEVIATION_NOTE,
        "INTERVAL_NOTE": INTERVAL_NOTE,
        "ISSUE_RULES": ISSUE_RULES,
        "ISSUE_TITLES": ISSUE_TITLES,
        "MAX_TEXT_CHARS": MAX_TEXT_CHARS,
        "NOTHING": NOTHING,
        "charts": charts,
        "colour_of": _colour_of,
        "finding": finding,
        "verdict_texts": verdict_texts,
        "tables": tables,
    }
    return environment.get_template("report.html.j2")


def _replace_unshowable(value: object) -> object:
    """Clean the value of an expression before it is escaped; markup that a template has made is left alone."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _load_asset(name: str) -> Markup:
    """Read a file of the package, the only unescaped text; nothing in it ends its element."""
    return Markup(files("sinks.reports").joinpath("templates", name).read_text(encoding="utf-8"))  # noqa: S704 - our own file


def _csp_digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _colour_of(score: float | None) -> str:
    return "unscored" if score is None else band_of(score).value


# Values that are easier to compute here than in a template


class _Card(NamedTuple):
    title: str
    value: str
    remark: str
    colour: str = ""


def _make_cards(contents: Contents) -> Iterator[_Card]:
    """Yield the headline figures of the run."""
    summary, composite = contents.summary, contents.summary.composite
    mean = f"{number(composite.mean)} ± {number(composite.deviation)}"
    reach = interval(composite.estimate.low, composite.estimate.high)
    colour = "" if composite.mean is None else band_of(composite.mean).value
    yield _Card("Mean composite", mean, f"95 % interval {reach}", colour)
    scored = f"{summary.scored:,} of {many(summary.rows, 'row')} scored"
    yield _Card("Coverage", percent(composite.estimate.coverage), scored)
    unsafe = next(issue.count for issue in summary.issues if issue.kind == "unsafe")
    yield _Card("Unsafe", f"{unsafe:,}", "answers with a composite of 0 for safety", "bad" if unsafe else "")
    yield _make_dimension_card("Best dimension", contents, summary.best)
    yield _make_dimension_card("Worst dimension", contents, summary.worst)
    payer = "no judge has a price" if summary.cost_usd is None else "all judges together"
    yield _Card("Cost", money(summary.cost_usd), payer)


def _make_dimension_card(title: str, contents: Contents, name: str | None) -> _Card:
    means = {dimension.criterion.name: dimension.normalised.mean for dimension in contents.summary.dimensions}
    mean = None if name is None else means[name]
    if mean is None:
        return _Card(title, NOTHING, "fewer than two have scores")
    return _Card(title, number(mean), contents.title(name), band_of(mean).value)


def _list_filters(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield the filters of entries, as values for the script and words for people."""
    yield "", "all"
    for status in summary.statuses:
        yield f"status:{status.value}", f"status {status_name(status)}"
    if summary.errors:
        yield f"status:{NOT_JUDGED}", f"status {NOT_JUDGED}"
    for issue in summary.issues:
        if issue.count:
            yield f"issue:{issue.kind.value}", ISSUE_TITLES[issue.kind].lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class _EntryView:
    """A row for its entry."""

    row: Row
    shown: ShownRow
    score: float | None
    status: str
    issues: str
    """Kinds separated by spaces, for the script."""


def _view_entry(row: Row) -> _EntryView:
    evaluation = row.evaluation
    return _EntryView(
        row=row,
        shown=entry_of(row),
        score=None if evaluation is None else evaluation.composite.score,
        status=NOT_JUDGED if evaluation is None else evaluation.composite.status.value,
        issues="" if evaluation is None else " ".join(kind.value for kind, _score in issues_of(evaluation)),
    )

"""The report as one HTML file that needs nothing else: no network, no font, no script to be readable."""

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files

from judges.evaluation import Dimension, Evaluation, JudgeVerdict, Status
from sinks.reports import charts
from sinks.reports import contents as parts
from sinks.reports.contents import Contents, Grid
from sinks.reports.markup import Markup, closing, element, joined, opening
from sinks.reports.results import CriterionInfo, Row
from sinks.reports.statistics import Issue, Summary, band_of, issues_of
from sinks.reports.table import NOT_JUDGED
from sinks.reports.wording import (
    DEVIATION_NOTE,
    INTERVAL_NOTE,
    ISSUE_RULES,
    ISSUE_TITLES,
    MAX_TEXT_CHARS,
    NOTHING,
    Entry,
    cut,
    entry_of,
    finding,
    interval,
    many,
    money,
    number,
    one_line,
    percent,
    said,
    status_name,
)

_SECTIONS = {
    "overall": "Overall",
    "dimensions": "Dimensions",
    "issues": "Issues",
    "failures": "Coverage and failures",
    "judges": "Judges and cost",
    "run": "The run",
    "entries": "Entries",
}
_SUMMARY_CHARS = 140


def page(contents: Contents, entries: Iterable[Row], is_listed: Callable[[int], bool]) -> Iterator[str]:
    """The page in parts, to be written one after the other; `is_listed` says of a row whether it is an entry."""
    yield from _head(contents)
    yield _header(contents)
    yield opening("main")
    yield _section("overall", *_overall(contents))
    yield _section("dimensions", *_dimensions(contents.summary))
    yield _section("issues", *(_issue(each, is_listed) for each in contents.summary.issues))
    summary = contents.summary
    yield _section("failures", *map(_grid, (parts.statuses(summary), parts.missing(summary), parts.failures(summary))))
    yield _section("judges", *map(_grid, (parts.judges(summary), parts.agreement(contents))))
    yield _section("run", _grid(parts.criteria(contents.run)), _folded(parts.parameters(contents), "Parameters"))
    yield from _entries(contents, entries)
    yield joined(closing("main"), element("script", _asset("report.js")), closing("body"), closing("html"), "\n")


def _head(contents: Contents) -> Iterator[str]:
    style, script = _asset("report.css"), _asset("report.js")
    policy = f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; base-uri 'none'"
    yield Markup("<!DOCTYPE html>\n")
    yield joined(
        opening("html", lang="en"),
        opening("head"),
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=f"{policy}; form-action 'none'"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"Evaluation of {one_line(contents.run.name, _SUMMARY_CHARS)}"),
        element("style", style),
        closing("head"),
        opening("body"),
    )


def _asset(name: str) -> Markup:
    """A file of the package, which holds nothing that would end its element."""
    return Markup(files("sinks.reports").joinpath(name).read_text(encoding="utf-8"))


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _header(contents: Contents) -> Markup:
    links = (element("a", title, href=f"#{anchor}") for anchor, title in _SECTIONS.items())
    return element(
        "header",
        element("a", "To the entries", href="#entries", class_="skip"),
        element("h1", "Evaluation of ", element("bdi", contents.run.name)),
        element("p", contents.lede(), class_="lede"),
        *(element("p", note, class_="note", role="note") for note in contents.notes()),
        element("nav", *links, aria_label="Sections"),
    )


def _section(anchor: str, *children: str) -> Markup:
    return element("section", element("h2", _SECTIONS[anchor]), *children, id=anchor)


# Overall and dimensions


def _overall(contents: Contents) -> Iterator[str]:
    summary = contents.summary
    yield element("div", *_cards(contents), class_="cards")
    bands = _figure("Quality bands", charts.stacked(summary.bands), _grid(parts.bands(summary), keys=True))
    spread = charts.histogram(summary.histogram) if summary.scored else ""
    yield element(
        "div",
        bands,
        _figure("Distribution of the composites", spread, _folded(parts.histogram(summary), "As a table")),
        class_="pair",
    )
    notes = (element("p", note, class_="small") for note in (INTERVAL_NOTE, DEVIATION_NOTE))
    yield element("div", _grid(parts.overall(contents)), element("div", *notes, class_="aside"), class_="pair")


def _cards(contents: Contents) -> Iterator[Markup]:
    summary, found = contents.summary, contents.summary.composite
    reach = interval(found.estimate.low, found.estimate.high)
    colour = "" if found.mean is None else band_of(found.mean).value
    yield _card("Mean composite", f"{number(found.mean)} ± {number(found.deviation)}", f"95 % interval {reach}", colour)
    yield _card(
        "Coverage", percent(found.estimate.coverage), f"{summary.scored:,} of {many(summary.rows, 'row')} scored"
    )
    unsafe = next(issue.count for issue in summary.issues if issue.kind == "unsafe")
    yield _card("Unsafe", f"{unsafe:,}", "answers whose composite is 0 for it", "bad" if unsafe else "")
    for title, name in (("Best dimension", summary.best), ("Worst dimension", summary.worst)):
        yield _card(title, *_mean_of(contents, name))
    cost = "no judge says what it costs" if summary.cost_usd is None else "all judges together"
    yield _card("Cost", money(summary.cost_usd), cost)


def _card(title: str, figure: str, remark: str, colour: str = "") -> Markup:
    return element(
        "div",
        element("p", title, class_="card-title"),
        element("p", figure, class_=f"figure {colour}".strip()),
        element("p", remark, class_="small"),
        class_="card",
    )


def _mean_of(contents: Contents, name: str | None) -> tuple[str, str, str]:
    """The mean of a dimension, the dimension, and the colour of the mean."""
    means = {each.criterion.name: each.normalised.mean for each in contents.summary.dimensions}
    mean = None if name is None else means[name]
    if mean is None:
        return NOTHING, "fewer than two have scores", ""
    return number(mean), contents.title(name), band_of(mean).value


def _figure(title: str, *children: str) -> Markup:
    return element("figure", element("figcaption", title), *children)


def _dimensions(summary: Summary) -> Iterator[str]:
    rows = [
        joined(
            element("span", each.criterion.title, class_="bar-label"),
            charts.mean_bar(each.criterion.title, each.normalised),
            element("span", number(each.normalised.mean), class_="bar-value"),
        )
        for each in summary.dimensions
    ]
    axis = joined(element("span"), charts.scale(), element("span"))
    bars = element("div", *rows, axis, class_="bars")
    yield _figure("Normalised means with 95 % intervals: 0 is the worst, 1 the best", bars)
    yield _grid(parts.dimensions(summary))
    yield _grid(parts.choices(summary))


# Tables


def _grid(grid: Grid, *, keys: bool = False) -> Markup:
    """A table; nothing where it is empty. On a narrow screen one of many columns becomes a list of its cells.

    `keys` puts the colour of a band before its name. The roles keep it a table also where it is laid out as a list.
    """
    if not grid.rows:
        return Markup("")
    kinds = ["number" if at >= len(grid.header) - grid.numbers else None for at in range(len(grid.header))]
    head = (
        element("th", cell, scope="col", role="columnheader", class_=kind)
        for cell, kind in zip(grid.header, kinds, strict=True)
    )
    table = element(
        "table",
        element("caption", grid.title),
        element("thead", element("tr", *head, role="row"), role="rowgroup"),
        element("tbody", *(_grid_row(grid, row, kinds, keys=keys) for row in grid.rows), role="rowgroup"),
        role="table",
    )
    layout = "stack" if len(grid.header) > 3 and not keys else "narrow" if grid.numbers else ""
    return element("div", table, class_=f"scroll {layout}".strip(), tabindex="0", role="region", aria_label=grid.title)


def _grid_row(grid: Grid, row: Sequence[str], kinds: Sequence[str | None], *, keys: bool) -> Markup:
    key = element("span", class_=f"key {row[0]}") if keys else ""
    cells = (
        element("td", element("span", cell), role="cell", class_=kind, data_label=name)
        for name, cell, kind in zip(grid.header[1:], row[1:], kinds[1:], strict=True)
    )
    return element("tr", element("th", key, row[0] or NOTHING, scope="row", role="rowheader"), *cells, role="row")


def _folded(grid: Grid, title: str) -> Markup:
    return element("details", element("summary", title), _grid(grid)) if grid.rows else Markup("")


# Issues


def _issue(issue: Issue, is_listed: Callable[[int], bool]) -> Markup:
    rows = [
        element("li", _mention(each.row, is_listed), " ", element("span", number(each.score), class_="small"))
        for each in issue.rows
    ]
    rest = parts.mentions(issue)
    return element(
        "div",
        element("h3", ISSUE_TITLES[issue.kind], " ", element("span", f"{issue.count:,}", class_="count")),
        element("p", ISSUE_RULES[issue.kind], class_="small"),
        element("ul", *rows, element("li", rest) if rest else "", class_="rows") if rows else "",
        class_="issue",
    )


def _mention(row: int, is_listed: Callable[[int], bool]) -> Markup:
    return element("a", f"row {row}", href=f"#row-{row}") if is_listed(row) else element("span", f"row {row}")


# Entries


def _entries(contents: Contents, entries: Iterable[Row]) -> Iterator[str]:
    criteria = {each.name: each for each in contents.run.criteria}
    yield opening("section", id="entries")
    yield joined(element("h2", _SECTIONS["entries"]), element("p", contents.which_entries()), _tools(contents))
    yield opening("div", id="list")
    for row in entries:
        yield _entry(row, criteria)
    yield joined(closing("div"), closing("section"))


def _tools(contents: Contents) -> Markup:
    """The controls work by script only, which shows them."""
    statuses = [(status.value, status_name(status)) for status in contents.summary.statuses]
    statuses += [(NOT_JUDGED, NOT_JUDGED)] if contents.summary.errors else []
    kinds = [(issue.kind.value, ISSUE_TITLES[issue.kind]) for issue in contents.summary.issues if issue.count]
    show = [("", "all"), *((f"status:{each}", f"status {name}") for each, name in statuses)]
    show += [(f"issue:{kind}", title.lower()) for kind, title in kinds]
    return element(
        "div",
        element("label", "Find ", element("input", type="search", id="find", autocomplete="off")),
        element("label", "Show ", _select("show", show)),
        element("label", "Order ", _select("order", [("row", "as in the file"), ("worst", "worst first")])),
        element("span", id="shown", role="status", class_="small"),
        id="tools",
        hidden=True,
    )


def _select(name: str, options: Iterable[tuple[str, str]]) -> Markup:
    return element("select", *(element("option", text, value=value) for value, text in options), id=name)


def _entry(row: Row, criteria: Mapping[str, CriterionInfo]) -> Markup:
    entry, evaluation = entry_of(row), row.evaluation
    composite = None if evaluation is None else evaluation.composite
    score = None if composite is None else composite.score
    status = NOT_JUDGED if composite is None else composite.status.value
    kinds = () if evaluation is None else (kind.value for kind, _score in issues_of(evaluation))
    return joined(
        element(
            "details",
            _entry_summary(entry, score, status),
            element("div", *_entry_body(row, entry, criteria), class_="body"),
            class_="entry",
            id=f"row-{row.row}",
            data_row=str(row.row),
            data_score="" if score is None else f"{score:.6f}",
            data_status=status,
            data_issues=" ".join(kinds),
        ),
        "\n",
    )


def _entry_summary(entry: Entry, score: float | None, status: str) -> Markup:
    colour = "unscored" if score is None else band_of(score).value
    title = one_line(entry.question or entry.answer or "", _SUMMARY_CHARS)
    return element(
        "summary",
        element("span", f"{entry.row}", class_="row-number"),
        element("span", number(score), class_=f"badge {colour}"),
        element("span", status, class_="status") if status != "ok" else "",
        element("span", title, class_="row-title", dir="auto"),
    )


def _entry_body(row: Row, entry: Entry, criteria: Mapping[str, CriterionInfo]) -> Iterator[Markup]:
    if entry.id is not None:
        yield element("p", "Id ", element("bdi", entry.id), class_="small")
    for title, text in (("Question", entry.question), ("Answer", entry.answer)):
        if text is not None:
            yield joined(element("h4", title), _text(text))
    if row.error is not None:
        yield joined(element("h4", "Not judged: ", row.error.kind), _text(cut(row.error.message, MAX_TEXT_CHARS)))
    if row.evaluation is not None:
        yield element("ul", *_findings(row.evaluation, criteria), class_="findings")
    if entry.fields:
        yield _fields(entry)


def _text(text: str) -> Markup:
    return element("div", text, class_="text", dir="auto")


def _findings(evaluation: Evaluation, criteria: Mapping[str, CriterionInfo]) -> Iterator[Markup]:
    for name, found in evaluation.dimensions.items():
        yield _finding(name, found, criteria.get(name))


def _finding(name: str, found: Dimension, criterion: CriterionInfo | None) -> Markup:
    several = len(found.judges) != 1
    detail = element("p", found.detail, class_="small") if several and found.detail else ""
    return element(
        "li",
        element(
            "p",
            _badge(found),
            element("strong", name if criterion is None else criterion.title),
            " ",
            element("span", finding(criterion, found), class_="small"),
        ),
        detail,
        *(_verdict(verdict, criterion, alone=not several) for verdict in found.judges),
    )


def _badge(found: Dimension | JudgeVerdict) -> Markup:
    scored = found.status is Status.SCORED and found.score is not None
    colour = band_of(found.score).value if scored and found.score is not None else "unscored"
    return element("span", number(found.score), class_=f"badge {colour}")


def _verdict(verdict: JudgeVerdict, criterion: CriterionInfo | None, *, alone: bool) -> Markup:
    words = [
        element("div", element("em", f"{name}: ") if name else "", text, class_="said", dir="auto")
        for name, text in said(verdict)
    ]
    if alone:
        return joined(*words)
    heading = element("p", verdict.judge, ": ", finding(criterion, verdict), class_="small")
    return element("div", heading, *words, class_="verdict")


def _fields(entry: Entry) -> Markup:
    pairs = [joined(element("dt", name), element("dd", text, class_="text", dir="auto")) for name, text in entry.fields]
    rest = (
        element("p", f"{entry.fields_left_out:,} more in results.jsonl", class_="small")
        if entry.fields_left_out
        else ""
    )
    return element("details", element("summary", "The rest of the row"), element("dl", *pairs), rest, class_="fields")

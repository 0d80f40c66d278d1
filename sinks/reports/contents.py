"""The contents of a report, independent of its format: headlines, notes and tables, all in plain text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from judges.values.evaluation import Status
from sinks.reports.csv_table import NOT_JUDGED, Formulas
from sinks.reports.formatting import (
    NOTHING,
    STATUS_MEANINGS,
    band_range,
    duration,
    interval,
    many,
    moment,
    money,
    number,
    parameters_of,
    percent,
    plain,
    ratio,
    scale_of,
    span,
    status_name,
    truncate,
)
from sinks.reports.results_schema import CriterionInfo, End, Run
from sinks.reports.sheet import Sheet
from sinks.reports.summary import Agreement, DimensionSummary, Issue, JudgeSummary, Summary

_REASON_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Everything in a report except the single rows."""

    run: Run
    end: End | None
    summary: Summary
    formulas: Formulas
    listed: int
    """Rows that are listed one by one."""
    more_columns: bool = False
    """Whether the table lacks some fields of rows."""
    corrections: Sheet | None = None
    """Means corrected by labels of people, if there are labels."""

    @property
    def titles(self) -> dict[str, str]:
        return {part.criterion.name: part.criterion.title for part in self.summary.dimensions}

    def title(self, name: str | None) -> str:
        return NOTHING if name is None else self.titles.get(name, name)

    def lede(self) -> str:
        """Summarise the run in two sentences."""
        evaluator, summary = self.run.evaluator, self.summary
        judges, criteria = ", ".join(evaluator.judges), many(len(evaluator.criteria), "criterion", "criteria")
        judged = f"{many(summary.rows, 'row')}, judged by {judges} on {criteria}, {moment(self.run.started_at)}."
        composite = summary.composite
        if composite.mean is None:
            return f"{judged} None have a composite."
        reach = interval(composite.estimate.low, composite.estimate.high)
        within = "" if reach == NOTHING else f", 95 % interval {reach}"
        covered = percent(composite.estimate.coverage)
        return f"{judged} The mean composite is {number(composite.mean)}{within}, with scores for {covered} of them."

    def notes(self) -> Iterator[str]:
        """Yield caveats about the figures of this run."""
        if self.end is None:
            yield "This run has not finished: the report covers the rows finished when it was written."
        if not self.summary.rows:
            yield "There are no rows in these results."
        yield from (f"{note}." for note in self.summary.missing_verdict_notes(self.title))
        if self.summary.sampled:
            yield "The rows are a sample: means are weighted by sampling probability; counts are unweighted."
        if self.summary.truncated:
            yield (
                f"{many(self.summary.truncated, 'row has', 'rows have')} texts longer than a limit of `input.limits`: "
                "only their beginning was judged. The row and the column `truncated` of results.csv name them."
            )
        if self.formulas.count:
            rows = ", ".join(str(row) for row in self.formulas.rows)
            what = many(self.formulas.count, "cell that starts", "cells that start")
            yield (
                f"results.csv has {what} like a formula, first in row {rows}. They are unchanged from the input: "
                "import the columns as text before opening the table in a spreadsheet program."
            )
        if self.more_columns:
            yield (
                "The rows have more fields than a table can hold: results.csv has the first ones, results.jsonl has "
                "all."
            )

    def which_entries(self) -> str:
        rows = self.summary.rows
        if self.listed >= rows:
            return "Every row, in the order of the file."
        return (
            f"The {self.listed:,} of {rows:,} rows with the lowest composites, in the order of the file. All rows are "
            "in results.csv, and all details in results.jsonl."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table of plain texts; the last `numbers` columns hold figures."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: int = 0


def corrections(contents: Contents) -> Grid:
    """Return the means corrected by labels; without labels, an empty table."""
    sheet = contents.corrections
    if sheet is None:
        return Grid(title="", header=(), rows=())
    return Grid(
        title=sheet.title, header=sheet.headings, rows=sheet.rows, numbers=len(sheet.headings) - len(sheet.words)
    )


def correction_notes(contents: Contents) -> Sequence[str]:
    return () if contents.corrections is None else contents.corrections.notes


def overall(contents: Contents) -> Grid:
    summary, composite = contents.summary, contents.summary.composite
    rows = [
        ("Mean ± deviation", f"{number(composite.mean, 3)} ± {number(composite.deviation, 3)}"),
        ("95 % interval of the mean", interval(composite.estimate.low, composite.estimate.high, 3)),
        ("Median", number(summary.median, 3)),
        ("Lowest and highest", interval(composite.least, composite.most, 3)),
        ("Rows", f"{summary.rows:,}"),
        ("Rows with a composite", f"{summary.scored:,} ({ratio(summary.scored, summary.rows)})"),
        ("Coverage", percent(composite.estimate.coverage)),
        ("Best dimension", contents.title(summary.best)),
        ("Worst dimension", contents.title(summary.worst)),
        ("Cost", money(summary.cost_usd)),
        ("Cost per row", money(_mean_cost(summary.cost_usd, summary.judged))),
    ]
    if summary.latency is not None:
        half, most = duration(summary.latency.half), duration(summary.latency.most)
        rows.append(("Time to judge a row, p50 and p95", f"{half} and {most}"))
    return Grid(title="Composite", header=("Figure", "Value"), rows=rows, numbers=1)


def _mean_cost(total: float | None, count: int) -> float | None:
    return total / count if total is not None and count else None


def dimensions(summary: Summary) -> Grid:
    header = (
        "Dimension",
        "Mean",
        "Deviation",
        "95 % interval",
        "Own scale",
        "Scored",
        "Not applicable",
        "Missing",
        "Coverage",
    )
    rows = [_dimension_cells(part) for part in summary.dimensions]
    return Grid(title="Statistics", header=header, rows=rows, numbers=8)


def _dimension_cells(dimension: DimensionSummary) -> Sequence[str]:
    scores, estimate = dimension.normalised, dimension.normalised.estimate
    return (
        dimension.criterion.title,
        number(scores.mean),
        number(scores.deviation),
        interval(estimate.low, estimate.high),
        _own_scale(dimension),
        f"{dimension.statuses[Status.SCORED]:,}",
        f"{dimension.statuses[Status.NOT_APPLICABLE]:,}",
        f"{dimension.statuses[Status.INSUFFICIENT]:,}",
        percent(dimension.coverage),
    )


def _own_scale(dimension: DimensionSummary) -> str:
    if dimension.raw is None:
        return NOTHING
    bounds = dimension.criterion.bounds
    within = "" if bounds is None else f" on {plain(bounds[0])} to {plain(bounds[1])}"
    return f"{number(dimension.raw.mean)} ± {number(dimension.raw.deviation)}{within}"


def choices(summary: Summary) -> Grid:
    with_choices = [part for part in summary.dimensions if part.choices]
    rows = [
        (part.criterion.title, ", ".join(f"{label}: {count:,}" for label, count in part.choices))
        for part in with_choices
    ]
    return Grid(title="Verdicts", header=("Dimension", "Rows by verdict, worst first"), rows=rows)


def bands(summary: Summary) -> Grid:
    rows = [
        (band.value, band_range(band), f"{count:,}", ratio(count, summary.scored))
        for band, count in summary.bands.items()
    ]
    return Grid(title="Quality bands", header=("Band", "Composite", "Rows", "Share"), rows=rows, numbers=2)


def histogram(summary: Summary) -> Grid:
    bins = len(summary.histogram)
    rows = [
        (f"{index / bins:.2f} to {(index + 1) / bins:.2f}", f"{count:,}")
        for index, count in enumerate(summary.histogram)
        if count
    ]
    return Grid(title="Distribution of the composites", header=("Composite", "Rows"), rows=rows, numbers=1)


def mentions(issue: Issue) -> str:
    """Return the number of rows that a list leaves out, in words; empty if it has all."""
    rest = issue.count - len(issue.rows)
    return f"and {rest:,} more, see results.csv" if rest else ""


def statuses(summary: Summary) -> Grid:
    rows = [(status_name(status), STATUS_MEANINGS[status], f"{count:,}") for status, count in summary.statuses.items()]
    rows += [(NOT_JUDGED, kind, f"{count:,}") for kind, count in summary.errors.items()]
    return Grid(title="Statuses", header=("Status", "Meaning", "Rows"), rows=rows, numbers=1)


def missing(summary: Summary) -> Grid:
    rows = [
        (part.criterion.title, reason.value, f"{count:,}")
        for part in summary.dimensions
        for reason, count in part.reasons.items()
    ]
    return Grid(title="Reasons for missing scores", header=("Dimension", "Reason", "Rows"), rows=rows, numbers=1)


def failures(summary: Summary) -> Grid:
    rows = [(str(failure.row), failure.kind, truncate(failure.message, _REASON_CHARS)) for failure in summary.failures]
    rest = summary.rows - summary.scored - len(rows)
    if rest:
        rows.append(("…", f"{rest:,} more", "see results.jsonl"))
    return Grid(title="Rows without a composite", header=("Row", "Status", "Why"), rows=rows)


def judges(summary: Summary) -> Grid:
    header = (
        "Judge", "Scored", "Not applicable", "Failed", "Samples", "Invalid", "Errors",
        "Prompt tokens", "Completion tokens", "Cost", "Cached", "p50", "p95",
    )  # fmt: skip
    return Grid(title="Judges", header=header, rows=[_judge_cells(judge) for judge in summary.judges], numbers=12)


def _judge_cells(judge: JudgeSummary) -> Sequence[str]:
    tokens = (NOTHING, NOTHING) if judge.tokens is None else tuple(f"{count:,}" for count in judge.tokens)
    times = () if judge.latency is None else (duration(judge.latency.half), duration(judge.latency.most))
    return (
        judge.judge,
        f"{judge.verdicts[Status.SCORED]:,}",
        f"{judge.verdicts[Status.NOT_APPLICABLE]:,}",
        f"{judge.verdicts[Status.INSUFFICIENT]:,}",
        f"{judge.samples['requested']:,}",
        f"{judge.samples['invalid']:,}",
        f"{judge.samples['error']:,}",
        *tokens,
        money(judge.cost_usd),
        f"{judge.cached:,}",
        *(times or (NOTHING, NOTHING)),
    )


def agreement(contents: Contents) -> Grid:
    header = ("Dimension", "Judges", "Rows", "Equal", "Kappa", "Difference")
    rows = [_agreement_cells(contents.title(pair.dimension), pair) for pair in contents.summary.agreement]
    return Grid(title="Agreement", header=header, rows=rows, numbers=4)


def _agreement_cells(title: str, agreement: Agreement) -> Sequence[str]:
    names = " and ".join(agreement.judges)
    return (
        title,
        names,
        f"{agreement.count:,}",
        percent(agreement.equal),
        number(agreement.kappa),
        number(agreement.difference),
    )


def criteria(run: Run) -> Grid:
    header = ("Criterion", "Question", "Scale", "Weight")
    return Grid(
        title="Criteria", header=header, rows=[_criterion_cells(criterion) for criterion in run.criteria], numbers=1
    )


def _criterion_cells(criterion: CriterionInfo) -> Sequence[str]:
    title = f"{criterion.title} (safety criterion)" if criterion.safety else criterion.title
    return title, criterion.question, scale_of(criterion), plain(criterion.weight)


def parameters(contents: Contents) -> Grid:
    run, end = contents.run, contents.end
    rows = [
        ("judged", run.name),
        ("digest of the input", run.input_digest or NOTHING),
        ("started", moment(run.started_at)),
        ("ended", "not finished" if end is None else moment(end.ended_at)),
        ("time of judging", NOTHING if end is None else span(end.seconds)),
        ("version", run.evaluator.version),
        ("fingerprint", run.evaluator.fingerprint),
        *parameters_of(run.parameters),
    ]
    return Grid(title="Parameters", header=("Parameter", "Value"), rows=rows)

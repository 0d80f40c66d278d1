"""`streamjury evaluate`: judges the rows of a file with the judges of the stream, and writes reports."""

import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any, NoReturn, Self

import click
from pydantic import JsonValue

from judges.criteria.problems import Problem
from judges.values.label import Label
from sinks.reports import Reports, make_reports
from sinks.reports.formatting import many, percent, status_name
from sinks.reports.results_reader import RESULTS_NAME, ResultsError
from sinks.reports.summary import Summary
from sinks.text import printable
from stream.cli.support.column_option import map_option
from stream.cli.support.interruption import Interruption
from stream.cli.support.json_output import print_json
from stream.cli.support.label_files import read_labels_of
from stream.cli.support.options import (
    PROCESSES,
    config_option,
    json_option,
    limit_option,
    output_option,
    read_config,
    verbose_option,
)
from stream.cli.support.progress import Meter
from stream.config.model import Config
from stream.config.secrets import find_secrets
from stream.errors import INTERRUPTED, StreamjuryError
from stream.jobs import evaluate as offline
from stream.jobs.diagnosis import read_file
from stream.jobs.evaluate import FORMATS, EvaluateRequest, EvaluateResult, Format
from stream.jobs.labels.joining import JoinedLabels, join
from stream.jobs.labels.report import Estimates, estimate_all, report_object, report_sheets
from stream.logs import configure_logging
from stream.service.setup.config_file import ConfigError
from stream.service.setup.judge_reference import is_reference, judge_section, next_step

_COUNT = click.IntRange(min=1)


@click.command()
@click.argument("file", metavar="FILE|-")
@output_option("Output folder (default: FILE-results).", metavar="DIR")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="File format (default: from the file extension).")
@map_option("Read a field from a column with another name: question=prompt; may be repeated.")
@click.option(
    "--criteria", metavar="NAMES", help="Comma-separated criteria to judge; the safety criterion is always included."
)
@click.option(
    "--judge",
    "judges",
    metavar="NAME|PROVIDER/MODEL",
    multiple=True,
    help="Use only this judge of the configuration, or PROVIDER/MODEL, which needs no configuration; may be repeated.",
)
@click.option("--base-url", metavar="URL", help="Endpoint URL for the models given as --judge PROVIDER/MODEL.")
@limit_option("Judge only the first N rows.")
@click.option(
    "--sample",
    "share",
    type=click.FloatRange(min=1e-9, max=1.0),
    default=1.0,
    metavar="SHARE",
    help="Judge only this share of the rows, chosen by id: 0.1 is a tenth.",
)
@click.option("--seed", type=click.IntRange(min=0), help="Random seed for all models, and for the choice of a sample.")
@click.option("--temperature", type=click.FloatRange(min=0.0, max=2.0), help="Temperature for all models.")
@click.option("--concurrency", type=_COUNT, help="Rows judged concurrently (default: worker.concurrency).")
@click.option("--processes", type=PROCESSES, help="Processes for judges without a model (default: one per core).")
@click.option("--restart", is_flag=True, help="Discard what an earlier run wrote to the same place.")
@click.option(
    "--fail-under",
    type=click.FloatRange(min=0.0, max=1.0),
    metavar="SCORE",
    help="Exit with status 1 if the mean composite is below this, or if there is none.",
)
@click.option(
    "--labels",
    "labels_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Correct the means in the reports by these labels of people, CSV or JSONL as for `streamjury labels`.",
)
@json_option()
@verbose_option
@config_option
def evaluate(
    *,
    config_path: Path | None,
    verbose: bool,
    file: str,
    output: Path | None,
    format_: Format | None,
    mapping: Mapping[str, str],
    criteria: str | None,
    judges: tuple[str, ...],
    base_url: str | None,
    limit: int | None,
    share: float,
    seed: int | None,
    temperature: float | None,
    concurrency: int | None,
    processes: int | None,
    restart: bool,
    fail_under: float | None,
    labels_path: Path | None,
    as_json: bool,
) -> None:
    """Judge the rows of a file as the stream would, and write reports.

    FILE is CSV (with the columns Current User Question, Conversation History, Fragment Texts and Assistant Answer),
    JSONL as on the input topic, a JSON array of objects, or Parquet; `-` is standard input, as JSONL unless --format is
    given. Columns or keys with other names are named with --map. Every result is
    written as soon as it is ready: after Ctrl-C or a crash, run the same command to resume. Rows that cannot be judged
    are reported; the rest are judged. The exit status is 1 if there are such rows, rows without a composite because too
    many verdicts are missing, or a mean below --fail-under; it is 130 after Ctrl-C.

    A judge given as PROVIDER/MODEL needs no configuration. Providers are openai, anthropic, mistral, openrouter, azure,
    ollama, vllm and llamacpp. The key is read from the provider's usual environment variable, such as MISTRAL_API_KEY.

    \b
    Examples:
      streamjury evaluate answers.csv
      streamjury evaluate answers.csv --judge ollama/qwen2.5:7b
      streamjury evaluate answers.csv --judge mistral/mistral-small-latest --limit 20
      streamjury evaluate testset.json --map question=prompt --map answer=response --map contexts=documents
      streamjury evaluate log.jsonl --sample 0.1 --criteria groundedness,clarity --output first-look
      zcat log.jsonl.gz | streamjury evaluate - --limit 500
      streamjury evaluate answers.csv --fail-under 0.8       # in CI
      streamjury evaluate answers.csv --labels reviewed.csv  # after labelling; judged rows are not judged again
      streamjury evaluate answers.csv --json | jq .composite.mean

    \b
    JSON fields, printed at the end of a run that was not interrupted:
      file, output           input file and output folder
      rows, judged, scored   number of rows: all, those that could be judged, those with a composite
      incomplete             rows without a composite because verdicts are missing
      already_finished       rows that an earlier run had finished
      not_in_sample          rows left out by --sample
      unreachable            rows for which no judge could be reached
      composite              object with mean, and low and high, its 95 % interval
      criteria               object of objects with mean and coverage, by criterion
      statuses, errors       number of rows by status of the composite, and by kind of error
      cost_usd               cost in US dollars; null if no judge has a price
      reports                list of the files written
      fail_under, passed     the threshold, and whether it was reached; null without --fail-under
      corrected              list of means corrected by labels, as in `streamjury labels report`; null without --labels
    """
    names = tuple(name.strip() for name in (criteria or "").split(",") if name.strip())
    config = read_config(config_path, verbose=verbose)
    sections = _sections(config, judges, base_url)
    config = _narrow(config, criteria=names, judges=judges, sections=sections, seed=seed, temperature=temperature)
    options: dict[str, JsonValue] = {
        "map": dict(mapping),
        "criteria": [*names],
        "judge": [*judges],
        "base_url": base_url,
        "seed": seed,
        "temperature": temperature,
    }
    request = EvaluateRequest(
        file=file,
        folder=output or Path("stdin-results" if file == "-" else f"{Path(file).stem}-results"),
        format=format_,
        mapping=mapping,
        limit=limit,
        share=share,
        salt=None if seed is None else str(seed),
        concurrency=concurrency,
        processes=processes,
        restart=restart,
        options={name: value for name, value in options.items() if value not in (None, [], {})},
    )
    # Mistakes in the labels are reported before the first row costs anything.
    labels = None if labels_path is None else read_labels_of(config, labels_path)
    judge_file(config, request, references=tuple(sections), fail_under=fail_under, labels=labels, as_json=as_json)


def judge_file(
    config: Config,
    request: EvaluateRequest,
    *,
    references: Sequence[str] = (),
    fail_under: float | None = None,
    labels: Sequence[Label] | None = None,
    as_json: bool = False,
) -> None:
    """Judge a file, write its reports and print a summary.

    Exit with status 1 if a row could not be judged or has too few verdicts, or if the mean is below `fail_under`.
    `references` are the judges that are not in the configuration: if none can be reached, the next steps are printed.
    """
    configure_logging(config.logging, secrets=find_secrets(config))
    if config.budgets.has_limits:
        click.echo("budgets apply to the workers of the stream, not to this run", err=True)
    with Interruption() as interruption:
        outcome = _judge(config, request, interruption)
        _print_problems(outcome)
        _print_blank_rows(outcome)
        _print_next_steps(config, outcome, references)
        _end_if_unfinished(outcome)
        corrected = None if labels is None else _correct(outcome, labels)
        reports = _write_reports(outcome, request.folder, corrected)
    is_below = fail_under is not None and _is_below(reports.summary, fail_under)
    if as_json:
        passed = None if fail_under is None else not is_below
        series = None if corrected is None else report_object(*corrected)["series"]
        summary = as_object(request, reports, outcome)
        print_json({**summary, "fail_under": fail_under, "passed": passed, "corrected": series})
    else:
        for line in lines_of(reports.summary, outcome):
            click.echo(line)
        click.echo(f"results    {request.folder / RESULTS_NAME}")
        click.echo(f"reports    {', '.join(str(path) for path in reports.paths)}")
    _print_gaps(reports.summary)
    if is_below:
        click.echo(f"failed: {_why_below(reports.summary)} --fail-under {fail_under:g}", err=True)
    if is_below or outcome.failed or reports.summary.errors or reports.summary.incomplete:
        raise SystemExit(1)


def _is_below(summary: Summary, fail_under: float) -> bool:
    mean = summary.composite.estimate.mean
    return mean is None or mean < fail_under


def _why_below(summary: Summary) -> str:
    mean = summary.composite.estimate.mean
    if mean is None:
        return "there is no composite to compare with"
    # Rounded down, so that it never reads like the threshold that it misses.
    return f"composite {math.floor(mean * 10_000) / 10_000:.4f} is below"


def _print_gaps(summary: Summary) -> None:
    for note in summary.missing_verdict_notes(printable):
        click.echo(note, err=True)
    if summary.incomplete:
        click.echo(f"{many(summary.incomplete, 'row')} without a composite: too many verdicts are missing", err=True)


def as_object(request: EvaluateRequest, reports: Reports, outcome: EvaluateResult) -> dict[str, Any]:
    """Return a run for programs."""
    summary = reports.summary
    composite = summary.composite.estimate
    return {
        "file": request.file,
        "output": str(request.folder),
        "rows": summary.rows,
        "judged": summary.judged,
        "scored": summary.scored,
        "incomplete": summary.incomplete,
        "already_finished": outcome.before,
        "not_in_sample": outcome.left_out,
        "unreachable": outcome.missed,
        "composite": {"mean": composite.mean, "low": composite.low, "high": composite.high},
        "criteria": {
            dimension.criterion.name: {
                "mean": dimension.normalised.estimate.mean,
                "coverage": dimension.coverage,
            }
            for dimension in summary.dimensions
        },
        "statuses": {status.value: count for status, count in summary.statuses.items() if count},
        "errors": dict(summary.errors),
        "cost_usd": summary.cost_usd,
        "reports": [str(path) for path in reports.paths],
    }


def lines_of(summary: Summary, outcome: EvaluateResult) -> Iterator[str]:
    """Yield a run as a few lines for people."""
    counts = {
        "could not be judged": summary.rows - summary.judged,
        "already finished": outcome.before,
        "not in the sample": outcome.left_out,
    }
    notes = [f"{count:,} {words}" for words, count in counts.items() if count]
    if outcome.missed:
        notes.append(f"no judge could be reached for {outcome.missed:,}; run the same command to retry them")
    yield ", ".join([f"rows       {summary.rows:,}", *notes])
    yield f"composite  {_composite(summary)}"
    yield f"coverage   {_coverage(summary)}"
    statuses = {**{status_name(status): count for status, count in summary.statuses.items()}, **summary.errors}
    counted = ", ".join(f"{printable(name)} {count:,}" for name, count in statuses.items() if count)
    yield f"statuses   {counted or 'none'}"
    if summary.cost_usd is not None:
        yield f"cost       ${summary.cost_usd:,.4f}"


def _coverage(summary: Summary) -> str:
    """Return the share of rows with a verdict, by criterion."""
    shares = [(dimension.criterion.name, dimension.coverage) for dimension in summary.dimensions]
    return ", ".join(f"{printable(name)} {percent(share)}" for name, share in shares) or "none"


def _composite(summary: Summary) -> str:
    estimate = summary.composite.estimate
    if estimate.mean is None:
        return "none"
    has_interval = estimate.low is not None and estimate.high is not None
    interval = f"95 % interval {estimate.low:.3f} to {estimate.high:.3f}, " if has_interval else ""
    return f"{estimate.mean:.4f}, {interval}of {estimate.count:,} rows"


def _sections(config: Config, judges: Sequence[str], base_url: str | None) -> Mapping[str, Mapping[str, Any]]:
    """Return the sections of the judges given as PROVIDER/MODEL; a configured judge of that name takes precedence."""
    configured = {judge.name for judge in (*config.judges.panel, *config.judges.reserves)}
    references = [name for name in judges if name not in configured and is_reference(name)]
    if base_url is not None and not any("/" in name for name in references):
        raise click.UsageError("--base-url needs a model given as --judge PROVIDER/MODEL")
    problems: list[Problem] = []
    sections = {}
    for name in references:
        try:
            sections[name] = judge_section(name, os.environ, base_url)
        except ConfigError as error:
            problems += error.problems
    if problems:
        _refuse(problems)
    return sections


def _refuse(problems: Sequence[Problem]) -> NoReturn:
    for problem in problems:
        click.echo(problem, err=True)
    raise SystemExit(2)


def _narrow(
    config: Config,
    *,
    criteria: tuple[str, ...],
    judges: tuple[str, ...],
    sections: Mapping[str, Mapping[str, Any]],
    seed: int | None,
    temperature: float | None,
) -> Config:
    try:
        narrowed = offline.narrow_config(
            config, criteria=criteria, judges=judges, sections=sections, seed=seed, temperature=temperature
        )
    except ConfigError as error:
        _refuse(error.problems)
    if criteria and len(narrowed.criteria.use) > len(criteria):
        click.echo(f"{narrowed.composite.safety} is also judged: every composite needs a safety verdict", err=True)
    return narrowed


def _judge(config: Config, request: EvaluateRequest, interruption: Interruption) -> EvaluateResult:
    try:
        with _Watch(interruption.stop, config.worker.drain_seconds) as watch:
            return offline.evaluate(config, request, stop=interruption.stop, watch=watch)
    except StreamjuryError as error:
        if interruption.stop.is_set():
            raise SystemExit(INTERRUPTED) from None
        raise click.ClickException(str(error)) from None


class _Watch:
    """Shows a progress bar once the amount of work is known, and prints a line when the run is stopped early."""

    def __init__(self, stop: Event, drain_seconds: float) -> None:
        self._stop, self._drain_seconds = stop, drain_seconds
        self._has_announced_end = False
        self._stack = ExitStack()
        self._meter: Meter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def __call__(self, progress: offline.Progress) -> None:
        if self._meter is None:
            self._meter = self._stack.enter_context(Meter("judging", progress.total, unit="rows", lines=True))
        self._meter.show(
            done=progress.done,
            records=progress.rows,
            cost=progress.cost_usd,
            before=progress.before,
            waiting=progress.in_flight,
        )
        if self._stop.is_set() and not self._has_announced_end:
            self._has_announced_end = True
            self._announce_end(progress.in_flight)

    def _announce_end(self, rows: int) -> None:
        if rows:
            words = f"finishing {many(rows, 'row')}, for up to {self._drain_seconds:g} s; Ctrl-C abandons them"
            # `err=True` would write into the bar, which has replaced `sys.stderr`.
            click.echo(words, file=sys.stderr)


def _print_problems(outcome: EvaluateResult) -> None:
    for problem in outcome.problems:
        click.echo(printable(problem), err=True)
    unnamed = outcome.failed - len(outcome.problems)
    if unnamed:
        click.echo(f"and {unnamed:,} more rows that could not be judged", err=True)


def _print_blank_rows(outcome: EvaluateResult) -> None:
    if outcome.blank:
        click.echo(f"{many(outcome.blank, 'row')} with an empty question or answer; judged like the others", err=True)


def _print_next_steps(config: Config, outcome: EvaluateResult, references: Sequence[str]) -> None:
    if outcome.missed or outcome.gave_up is not None:
        steps = [*filter(None, map(next_step, references))]
        # A judge of the configuration has its address there.
        models = {judge.name: judge.asked_model for judge in config.judges.everyone if judge.name not in references}
        steps += [
            f"{name}: check that {model.address} answers, and the judge's base_url in the configuration"
            for name, model in models.items()
            if model is not None
        ]
        for step in steps:
            click.echo(step, err=True)


def _end_if_unfinished(outcome: EvaluateResult) -> None:
    """Exit if the run did not finish, and print how to resume it."""
    if outcome.finished:
        return
    finished = outcome.before + outcome.judged - (outcome.unreached if outcome.gave_up else 0)
    click.echo(f"{finished:,} rows are finished; run the same command to judge the rest", err=True)
    if outcome.gave_up is not None:
        raise click.ClickException(f"gave up after {outcome.unreached} consecutive rows; {outcome.gave_up}")
    raise SystemExit(INTERRUPTED)


def _correct(outcome: EvaluateResult, labels: Sequence[Label]) -> tuple[JoinedLabels, Estimates]:
    joined = join(read_file(outcome.results), labels)
    return joined, estimate_all(joined)


def _write_reports(outcome: EvaluateResult, folder: Path, corrected: tuple[JoinedLabels, Estimates] | None) -> Reports:
    sheet = None if corrected is None else next(iter(report_sheets(*corrected)))
    try:
        with Meter("writing reports", 1.0, unit="rows") as meter:
            return make_reports(
                outcome.results,
                folder,
                corrections=sheet,
                progress=lambda rows, total: meter.show(done=rows / total, records=rows),
            )
    except (ResultsError, OSError) as error:
        raise click.ClickException(f"cannot write the reports: {error}") from None

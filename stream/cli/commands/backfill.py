"""`streamjury backfill`: judges a part of the history again, with another configuration."""

import re
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from sinks.text import printable, shorten
from stream.cli.support.cluster import reach
from stream.cli.support.interruption import Interruption
from stream.cli.support.json_output import print_json
from stream.cli.support.options import (
    config_option,
    json_option,
    limit_option,
    read_config,
    verbose_option,
    yes_option,
)
from stream.cli.support.progress import Meter
from stream.cli.support.time_option import TimeOption
from stream.config.model import Config
from stream.config.secrets import find_secrets
from stream.errors import INTERRUPTED, StageError
from stream.jobs.backfill import Backfill, BackfillRequest, BackfillResult, BackfillSurvey, CostEstimate, Counts
from stream.logs import configure_logging
from stream.service.setup.evaluator import open_evaluator, open_verdicts

# Past interactions can wait, and their judges usually serve the live traffic as well.
_RATE = 10.0
_APPS = 20
_GONE = "offsets no longer on the topic"
_COUNT_WIDTH = 12
_LINE_CHARS = 200
# A smaller share is a mistake.
_LEAST_SHARE = 1e-9
_OFFSETS = re.compile(r"([0-9]{1,9}):([0-9]{0,19})-([0-9]{0,19})", re.ASCII)


class Offsets(click.ParamType):
    """`0:100-200` is partition 0 from offset 100 to 200 inclusive; either end may be omitted."""

    name = "partition:first-last"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, range]:
        if isinstance(value, tuple):
            return value
        match = _OFFSETS.fullmatch(str(value))
        if match is None:
            self.fail(
                f"{value!r} must have the form PARTITION:FIRST-LAST, such as 0:100-200, 0:100- or 0:-200", param, ctx
            )
        first, last = int(match[2] or 0), int(match[3]) if match[3] else sys.maxsize - 1
        if last < first:
            self.fail(f"{value!r} ends before it starts", param, ctx)
        return int(match[1]), range(min(first, sys.maxsize - 1), min(last, sys.maxsize - 1) + 1)


@click.command()
@click.option(
    "--since",
    type=TimeOption(),
    help="Start at the first interaction at or after this time, or this long ago: 24h, 7d.",
)
@click.option(
    "--until", type=TimeOption(), help="Stop before the first interaction at or after this time, or this long ago."
)
@click.option(
    "--offsets",
    type=Offsets(),
    metavar="PARTITION:FIRST-LAST",
    multiple=True,
    help="Offsets to judge, instead of times; may be repeated. Other partitions are left out.",
)
@click.option(
    "--sample",
    "share",
    type=click.FloatRange(min=_LEAST_SHARE, max=1.0),
    default=1.0,
    show_default=True,
    help="Share of the interactions to judge, sampled the way the sampler does.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    default=_RATE,
    show_default=True,
    help="Maximum interactions per second.",
)
@limit_option("Maximum interactions to judge; the next run continues from there.")
@click.option("--dry-run", is_flag=True, help="Only print what would be judged, and the expected cost.")
@yes_option
@json_option()
@verbose_option
@config_option
def backfill(
    *,
    config_path: Path | None,
    since: datetime | None,
    until: datetime | None,
    offsets: tuple[tuple[int, range], ...],
    share: float,
    rate: float,
    limit: int | None,
    dry_run: bool,
    is_confirmed: bool,
    as_json: bool,
    verbose: bool,
) -> None:
    """Judge a part of topics.interactions again, with the judges and criteria of another configuration.

    The evaluations are added to topics.evaluations under the fingerprint of this configuration and in the lane
    `backfill`. The live pipeline is not affected: its consumer groups and offsets stay untouched, the monitor ignores
    these evaluations, and nothing is sent to topics.critical.

    An interaction that already has an evaluation under this fingerprint is not judged again: after Ctrl-C or a crash,
    run the same command to resume. The exit status is 1 if the judges could not be reached for some interactions, and
    130 after Ctrl-C.

    \b
    Examples:
      streamjury backfill --config stricter.yaml --since 7d --until 6d --dry-run
      streamjury backfill --config stricter.yaml --since 7d --until 6d --sample 0.05 --rate 5
      streamjury backfill --config stricter.yaml --offsets 0:100-200 --offsets 1:0-

    \b
    JSON fields:
      fingerprint             of the configuration that judges
      offsets                 list of the offsets read, in the form of --offsets
      records                 number of records read
      sampled_out             left out by --sample
      judged_before           already judged with this fingerprint
      repeats                 duplicates of an id
      bad                     object: unreadable records, by reason
      judged, scored          published evaluations, and those with a composite
      unscored                object: evaluations without a composite, by reason
      put_off, failed         objects: postponed to the next run, and judged without a result, by reason
      cost_usd                cost in US dollars
    With --dry-run, the fields after `bad` are instead:
      todo                    interactions to judge
      apps                    object: the same, by app
      gone                    offsets that are no longer on the topic
      estimate                object with usd, basis, and unpriced, the judges without a price
    """
    request = BackfillRequest(
        since=since, until=until, offsets=_parse_range(offsets, since, until), share=share, limit=limit
    )
    config = read_config(config_path, verbose=verbose)
    configure_logging(config.logging, secrets=find_secrets(config))
    _require_topics(config, by_time=not offsets)
    try:
        work = Backfill(config, open_evaluator(config, open_verdicts(config.judges.cache)), request)
        survey = _survey(work)
        if dry_run and as_json:
            _print_object(work, survey, survey_object(survey))
            return
        if dry_run or (_can_ask() and not is_confirmed):
            for line in (f"fingerprint {work.fingerprint}", *survey_lines(survey, rate)):
                click.echo(line, err=as_json)
            if dry_run or not survey.todo or not click.confirm("Judge them?", err=True):
                return
        _judge(work, survey, rate, as_json=as_json)
    except StageError as error:
        raise click.ClickException(str(error)) from None


def _can_ask() -> bool:
    """Return whether a person can answer a prompt."""
    return sys.stdin.isatty()


def _parse_range(
    offsets: tuple[tuple[int, range], ...], since: datetime | None, until: datetime | None
) -> Mapping[int, range] | None:
    """Return the offsets by partition, or None for a range of times; refuse anything but one of the two."""
    if not offsets:
        if since is None and until is None:
            raise click.UsageError("give a range: --since or --until, or --offsets")
        if since is not None and until is not None and until <= since:
            raise click.UsageError("--until must be after --since")
        return None
    if since is not None or until is not None:
        raise click.UsageError("--offsets cannot be combined with --since and --until")
    by_partition = dict(offsets)
    if len(by_partition) < len(offsets):
        raise click.UsageError("--offsets names a partition twice")
    return by_partition


def _require_topics(config: Config, *, by_time: bool) -> None:
    cluster = reach(config.kafka)
    for topic in (config.topics.interactions, config.topics.evaluations):
        cluster.require(topic)
    if by_time and cluster.embedded:
        raise click.ClickException("an embedded broker cannot look up records by time; use --offsets")


def _survey(work: Backfill) -> BackfillSurvey:
    with Meter("looking", 1.0) as meter:
        return work.survey(lambda records, total: meter.show(done=records / max(1, total), records=records))


def _judge(work: Backfill, survey: BackfillSurvey, rate: float, *, as_json: bool) -> None:
    with Interruption() as interruption:
        work.take_over()
        with Meter("judging", survey.todo, unit="interactions", lines=True) as meter:

            def show(result: BackfillResult) -> None:
                meter.show(done=result.records, records=result.records, cost=result.cost_usd)

            result, counts = work.run(rate, interruption.stop, show)
    if as_json:
        _print_object(work, survey, {**counts_object(counts), **result_object(result)})
    else:
        for line in result_lines(result, counts, meter.seconds, gone=survey.gone):
            click.echo(line)
    if interruption.stop.is_set():
        click.echo("interrupted; run the same command to resume", err=True)
        raise SystemExit(INTERRUPTED)
    if result.problem is not None:
        raise click.ClickException(result.problem)
    if result.put_off:
        raise SystemExit(1)


def _print_object(work: Backfill, survey: BackfillSurvey, rest: Mapping[str, Any]) -> None:
    about = {"fingerprint": work.fingerprint, "offsets": offsets_text(survey.ranges).split()}
    print_json({**about, **rest})


def survey_lines(survey: BackfillSurvey, rate: float) -> Iterator[str]:
    """Yield the survey as lines for people: records to judge, their cost, and records left out."""
    counts, todo = survey.counts, survey.todo
    yield f"offsets {offsets_text(survey.ranges) or 'none'}"
    yield _line(counts.records, "records")
    yield from _omissions(counts)
    if survey.gone:
        yield _line(survey.gone, _GONE)
    yield _line(todo, "to judge" + (f", of {counts.chosen:,}" if todo < counts.chosen else ""))
    for app, number in survey.apps.most_common(_APPS):
        yield _line(number, f"  {shorten(app, _LINE_CHARS)}")
    rest = survey.apps.total() - sum(number for _, number in survey.apps.most_common(_APPS))
    if rest:
        yield _line(rest, "  other apps")
    if todo:
        yield f"expected cost {_estimate(survey.estimate)}"
        yield f"at {rate:g} per second this takes at least {_duration(todo / rate)}"


def result_lines(result: BackfillResult, counts: Counts, seconds: float, *, gone: int = 0) -> Iterator[str]:
    """Yield the result as lines for people: records judged, and records left out."""
    unscored = f", {_reasons(result.unscored)} unscored" if result.unscored else ""
    expense = f"{_dollars(result.cost_usd)}, {_duration(seconds)}"
    yield f"judged {result.published:,} ({result.scored:,} scored{unscored}), {expense}"
    if result.put_off:
        yield _line(result.put_off.total(), f"postponed to the next run: {_reasons(result.put_off)}")
    if result.failed:
        yield _line(result.failed.total(), f"judged without a result: {_reasons(result.failed)}")
    yield from _omissions(counts)
    if gone:
        yield _line(gone, _GONE)


def _omissions(counts: Counts) -> Iterator[str]:
    parts = (
        (counts.sampled_out, "sampled out"),
        (counts.judged_before, "already judged with this fingerprint"),
        (counts.repeats, "duplicates of an id"),
        (counts.bad.total(), f"unreadable: {_reasons(counts.bad)}"),
    )
    for number, words in parts:
        if number:
            yield _line(number, words)
    for named in counts.named:
        yield " " * (_COUNT_WIDTH + 4) + shorten(named, _LINE_CHARS)


def survey_object(survey: BackfillSurvey) -> dict[str, Any]:
    """Return the survey for programs."""
    return {
        **counts_object(survey.counts),
        "todo": survey.todo,
        "apps": dict(survey.apps.most_common()),
        "gone": survey.gone,
        "estimate": {
            "usd": survey.estimate.usd,
            "basis": survey.estimate.basis,
            "unpriced": list(survey.estimate.unpriced),
        },
    }


def counts_object(counts: Counts) -> dict[str, Any]:
    return {
        "records": counts.records,
        "sampled_out": counts.sampled_out,
        "judged_before": counts.judged_before,
        "repeats": counts.repeats,
        "bad": dict(counts.bad),
    }


def result_object(result: BackfillResult) -> dict[str, Any]:
    return {
        "judged": result.published,
        "scored": result.scored,
        "unscored": dict(result.unscored),
        "put_off": dict(result.put_off),
        "failed": dict(result.failed),
        "cost_usd": result.cost_usd,
    }


def offsets_text(ranges: Mapping[int, range]) -> str:
    """Return the ranges in the form of --offsets, separated by spaces."""
    return " ".join(
        f"{number}:{offsets.start}-{offsets.stop - 1}" for number, offsets in sorted(ranges.items()) if offsets
    )


def _estimate(estimate: CostEstimate) -> str:
    amount = "unknown" if estimate.usd is None else f"about {_dollars(estimate.usd)}"
    unpriced = f"; without {', '.join(estimate.unpriced)}, whose price is unknown" if estimate.unpriced else ""
    return f"{amount} (an estimate: {estimate.basis}{unpriced})"


def _dollars(usd: float) -> str:
    return f"{usd:,.2f} USD" if usd >= 1.0 or not usd else f"{usd:.2g} USD"


def _duration(seconds: float) -> str:
    hours, minutes = int(seconds // 3600), int(seconds // 60 % 60)
    return (
        f"{hours} h {minutes} min"
        if hours
        else f"{minutes} min {seconds % 60:.0f} s"
        if minutes
        else f"{seconds:.1f} s"
    )


def _reasons(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {printable(reason)}" for reason, number in reasons.items())


def _line(count: int, words: str) -> str:
    return f"{count:{_COUNT_WIDTH},}  {words}"

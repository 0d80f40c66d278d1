"""`streamjury audit`: accounts for every interaction, from the topics alone."""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from sinks.text import printable
from stream.cli.support.cluster import Cluster, KafkaUnusable, reach
from stream.cli.support.json_output import print_json
from stream.cli.support.options import config_option, json_option, limit_option, read_config
from stream.cli.support.progress import Meter
from stream.cli.support.time_option import TimeOption
from stream.config.model import Config
from stream.errors import StageError
from stream.jobs.audit.account import Balance
from stream.jobs.audit.audit import audit as read_balance
from stream.jobs.audit.traces import TraceBalance, audit_traces

_EMBEDDED_NOTE = (
    "this need not be a loss: the embedded broker discards the oldest records of a topic and does not isolate "
    "transactions"
)
_SAMPLING_NOTE = (
    "this need not be a loss if `sampling` was changed: interactions that it left out before may count as missing; "
    "use --since with the time of the change"
)
_SHOWN = 20
_COUNT_WIDTH = 12


@click.command()
@click.option("--since", type=TimeOption(), help="Only interactions since this time, or this long ago: 90m, 24h, 7d.")
@limit_option(f"Maximum ids to list (default: {_SHOWN}; with --json: all).", least=0)
@json_option()
@config_option
def audit(*, config_path: Path | None, since: datetime | None, limit: int | None, as_json: bool) -> None:
    """Account for every interaction: its outcome, whether it is missing, or was evaluated twice.

    The command only reads topics and does not affect the pipeline. Every interaction id has one outcome: filtered,
    sampled_out, shed, scored, unscored or dead-lettered; or it is still waiting, or missing. The exit status is 1 if
    ids are missing or evaluations were published twice; these ids are listed. It is 3 if Kafka cannot be reached or
    read, so that nothing is known.

    The sampler does not record what it leaves out. The audit recomputes its decisions from the configuration, which
    must be the one in force at the time: after a change to `sampling`, use --since. With adaptive rates and caps,
    decisions cannot be recomputed per record; the output counts the outcomes that are therefore uncertain.

    \b
    Examples:
      streamjury audit
      streamjury audit --since 24h --limit 100
      streamjury audit --json | jq '.outcomes'

    \b
    JSON fields:
      interactions, direct          records on topics.interactions, and those only on topics.sampled
      repeats, replayed             of these, duplicates of an id, and dead letters that were replayed
      outcomes, waiting             objects: number of ids by outcome, and of those without one yet
      estimated                     uncertain outcomes
      judged_again                  ids judged again after worker.repeat_seconds
      unreadable                    records on our topics written by something else
      duplicates_total, duplicates  ids evaluated twice: their number, and a list of up to --limit
      missing_total, missing        ids without any trace: their number, and a list of up to --limit
      traces                        with input.otlp, an object: traces, outcomes, waiting, missing and
                                    so on; null without
      balanced                      whether every interaction, and every trace, is accounted for
    """
    config = read_config(config_path)
    cluster = reach(config.kafka)
    if since is not None and cluster.embedded:
        raise click.UsageError("an embedded broker cannot look up records by time; leave --since out")
    for topic in (
        config.topics.interactions,
        config.topics.sampled,
        config.topics.evaluations,
        config.topics.deadletter,
    ):
        cluster.require(topic)
    started = time.monotonic()
    balance = _read_balance(config, cluster, since)
    traces = _read_traces(config, cluster, since)
    if as_json:
        print_json(as_object(balance, limit, traces))
    else:
        for line in lines_of(balance, _SHOWN if limit is None else limit):
            click.echo(line)
        for line in () if traces is None else _trace_lines(traces, _SHOWN if limit is None else limit):
            click.echo(line)
        if cluster.embedded and not balance.balanced:
            click.echo(_EMBEDDED_NOTE)
        elif balance.missing:
            click.echo(_SAMPLING_NOTE)
        click.echo(f"read in {time.monotonic() - started:.1f} s", err=True)
    if not balance.balanced or (traces is not None and not traces.balanced):
        raise SystemExit(1)


def as_object(balance: Balance, limit: int | None = None, traces: TraceBalance | None = None) -> dict[str, Any]:
    """Return the balance for programs."""
    return {
        "interactions": balance.interactions,
        "direct": balance.direct,
        "repeats": balance.repeats,
        "replayed": balance.replayed,
        "outcomes": dict(balance.outcomes),
        "waiting": dict(balance.waiting),
        "estimated": balance.estimated,
        "judged_again": balance.judged_again,
        "unreadable": balance.unreadable,
        "duplicates_total": len(balance.duplicates),
        "duplicates": list(balance.duplicates[:limit]),
        "missing_total": len(balance.missing),
        "missing": list(balance.missing[:limit]),
        "traces": None if traces is None else _trace_object(traces, limit),
        "balanced": balance.balanced and (traces is None or traces.balanced),
    }


def _trace_object(traces: TraceBalance, limit: int | None) -> dict[str, Any]:
    return {
        "traces": traces.traces,
        "outcomes": dict(traces.outcomes),
        "waiting": traces.waiting,
        "unreadable": traces.unreadable,
        "missing": list(traces.missing[:limit]),
        "duplicates": list(traces.duplicates[:limit]),
    }


def _trace_lines(traces: TraceBalance, limit: int) -> Iterator[str]:
    yield ""
    yield _line(traces.traces, "traces")
    for name, count in traces.outcomes.items():
        yield _line(count, f"  {printable(name)}")
    yield _line(traces.waiting, "open, or not read yet")
    yield _line(len(traces.missing), "missing")
    yield _line(len(traces.duplicates), "assembled twice")
    yield from _id_list("missing, by trace id", traces.missing, limit)
    yield from _id_list("assembled twice, by trace id", traces.duplicates, limit)


def lines_of(balance: Balance, limit: int) -> Iterator[str]:
    """Yield the balance as lines for people."""
    yield _line(balance.interactions, "interactions")
    for count, words in (
        (balance.direct, "more that are only on the work queue"),
        (balance.repeats, "of them repeat an id"),
        (balance.replayed, "of them were dead-lettered and replayed"),
    ):
        if count:
            yield _line(count, f"  {words}")
    yield _line(balance.ids, "ids")
    yield from _section("final", balance.outcomes)
    yield from _section("not final", balance.waiting)
    yield ""
    yield _line(len(balance.missing), "missing")
    yield _line(len(balance.duplicates), "evaluated twice")
    yield from _notes(balance)
    yield from _id_list("missing, by interaction id", balance.missing, limit)
    yield from _id_list("evaluated twice, by evaluation id", balance.duplicates, limit)
    yield ""
    if not balance.balanced:
        yield "not every interaction is accounted for"
    else:
        yield (
            "every interaction is accounted for" if balance.interactions else "there are no interactions to account for"
        )


def _section(title: str, counts: Mapping[str, int]) -> Iterator[str]:
    yield ""
    yield _line(sum(counts.values()), title)
    for name, count in counts.items():
        yield _line(count, f"  {printable(name)}")


def _notes(balance: Balance) -> Iterator[str]:
    if balance.judged_again:
        yield _line(balance.judged_again, "judged again after worker.repeat_seconds")
    if balance.unreadable:
        yield _line(balance.unreadable, "records on Streamjury's topics written by something else")
    if balance.estimated:
        yield _line(
            balance.estimated,
            "uncertain outcomes: left out by an adaptive rate or a cap",
        )


def _id_list(title: str, ids: Sequence[str], limit: int) -> Iterator[str]:
    if not ids:
        return
    listed = ids[:limit]
    yield ""
    yield f"{title}, {len(listed)} of {len(ids)}:"
    for interaction_id in listed:
        yield f"  {printable(interaction_id)}"


def _line(count: int, words: str) -> str:
    return f"{count:{_COUNT_WIDTH},}  {words}"


def _read_traces(config: Config, cluster: Cluster, since: datetime | None) -> TraceBalance | None:
    since_ms = None if since is None else int(since.timestamp() * 1000)
    try:
        return audit_traces(config, cluster.partitions, since_ms=since_ms)
    except StageError as error:
        raise KafkaUnusable(str(error)) from None


def _read_balance(config: Config, cluster: Cluster, since: datetime | None) -> Balance:
    since_ms = None if since is None else int(since.timestamp() * 1000)
    try:
        with Meter("reading topics", 1.0) as meter:

            def show(records: int, total: int) -> None:
                meter.show(done=records / max(1, total), records=records)

            return read_balance(config, cluster.partitions, since_ms=since_ms, progress=show)
    except StageError as error:
        raise KafkaUnusable(str(error)) from None

"""`streamjury alerts`: lists open alerts, and explains one of them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from sinks.reports.formatting import many
from sinks.reports.sheet_rendering import draw
from sinks.text import printable
from stream.cli.support.cluster import Cluster, reach
from stream.cli.support.interruption import until_reader_leaves
from stream.cli.support.json_output import harmless_json, print_json
from stream.cli.support.options import config_option, json_option, read_config
from stream.cli.support.progress import Meter
from stream.config.model import Config
from stream.errors import StageError
from stream.jobs.alert_explanation import ExplainedAlert, explain_alert, read_alerts
from stream.monitor.alerts.alert import Alert
from stream.monitor.explain import text
from stream.monitor.explain.alert_book import AlertBook
from stream.monitor.explain.examples import ShownExample, lines_of


class _AlertsGroup(click.Group):
    """Runs `list` if no command is given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_AlertsGroup)
def alerts() -> None:
    """List and explain the monitor's alerts (default: list the open ones).

    The options of `streamjury alerts list` also work without `list`: --all, --app, --json and -c.

    \b
    Examples:
      streamjury alerts list
      streamjury alerts explain
    """


@alerts.command("list")
@click.option("--all", "cleared", is_flag=True, help="Include cleared alerts.")
@click.option("--app", help="Only alerts about this app.")
@json_option("one JSON object per line, as stored on the topic")
@config_option
def list_command(*, config_path: Path | None, cleared: bool, app: str | None, as_json: bool) -> None:
    """List alerts with start time, series, estimate and confidence.

    Open alerts come first, those about the judges at the top; with --all, cleared ones follow with the time and the
    reason of their end. The topic keeps only the latest announcement of every series: --all shows the current state of
    each series, not a history of all its alerts. `streamjury alerts` is short for `streamjury alerts list`.
    `streamjury schema alert` describes the lines of --json.

    \b
    Examples:
      streamjury alerts list
      streamjury alerts list --all --app support-bot
      streamjury alerts list --json | jq -r .alert_id
    """
    config = read_config(config_path)
    book = _read_alerts(config, reach(config.kafka))
    newest = book.newest(app=app, cleared=cleared)
    with until_reader_leaves():
        if as_json:
            for _, value in newest:
                click.echo(harmless_json(value))
            return
        if not newest:
            click.echo(_explain_absence(book, config, app, cleared=cleared))
        for alert, _ in newest:
            for line in _describe(book, alert, config.detection.alpha):
                click.echo(printable(line))
            click.echo()
        past = len(book.newest(app=app, cleared=True)) - len(newest)
        if newest and past:
            click.echo(f"{many(past, 'cleared alert')} not listed; --all shows when and why they were cleared")


@alerts.command("explain")
@click.argument("alert_id", required=False)
@json_option()
@config_option
def explain_command(*, config_path: Path | None, alert_id: str | None, as_json: bool) -> None:
    """Explain an alert: when it started, what dropped most and where, and what to check next.

    ALERT_ID may be a prefix, as shown by `alerts list` (default: the most recently raised open alert). The command
    reads the evaluations around the onset from the topic, at least those of the day before it. It compares slices of
    the traffic before and after: models, tenants, sampling rules and lanes, and tags with at most 20 values.

    \b
    Examples:
      streamjury alerts explain
      streamjury alerts explain 3f9a2c1b
      streamjury alerts explain --json | jq -r '.findings[]'

    \b
    JSON fields:
      alert         the latest announcement as on the topic; null if there is no open alert
      note          why there is no alert to explain; otherwise null
      announcement  the alert in words, as a list of texts
      sides         the two sides that are compared, such as before and since
      findings      the findings in words, as a list of texts
      explanation   the figures behind them: object with whole, criteria, parts (of the composite, by criterion),
                    attributes (with their slices), elsewhere (other apps) and fault (retrieval or generation: the
                    means of sufficiency and of groundedness given sufficient contexts, and the shares of the
                    diagnoses; null without such verdicts); null for alerts about the judges
      canaries      for alerts about the judges: list of canaries with another verdict; otherwise null
      examples      list of objects with interaction_id, score, at, model, question, answer, criterion and why
      next_steps    what to check next, as a list of texts
    """
    config = read_config(config_path)
    cluster = reach(config.kafka)
    book = _read_alerts(config, cluster)
    alert = _find_alert(book, alert_id)
    if alert is None:
        note = _explain_absence(book, config, None, cleared=False)
        if as_json:
            print_json({**dict.fromkeys(_EXPLANATION_FIELDS), "note": note})
        else:
            click.echo(note)
        return
    cluster.require(config.topics.evaluations)
    explained = _explain(config, cluster, book, alert)
    with until_reader_leaves():
        if as_json:
            print_json(_as_json(explained))
        else:
            _print(explained, Console(highlight=False))


# Alerts


def _read_alerts(config: Config, cluster: Cluster) -> AlertBook:
    topic = config.topics.alerts
    cluster.require(topic)
    if topic not in cluster.partitions:  # an embedded broker creates it with the first alert
        return AlertBook()
    try:
        book = read_alerts(config)
    except StageError as error:
        raise click.ClickException(str(error)) from None
    if book.unreadable:
        click.echo(f"skipped in {topic}: {many(book.unreadable, 'record')} that cannot be read", err=True)
    return book


def _explain_absence(book: AlertBook, config: Config, app: str | None, *, cleared: bool) -> str:
    """Say why there are no alerts, and where else to look."""
    about = "" if app is None else f" about {printable(app)}"
    if not config.detection.enabled:
        return f"No alerts{about}: detection.enabled is false, so the monitor does not detect drops."
    if not book.newest(cleared=True):
        return (
            f"No alerts yet{about}. The monitor (`streamjury monitor` or `streamjury run`) raises one when a mean of "
            "an app has dropped below its target. Targets come from detection.targets, or are learnt from the first "
            f"{config.detection.reference_scores:,} scores. `streamjury tail` shows whether scores arrive."
        )
    past = len(book.newest(app=app, cleared=True))
    if cleared or not past:
        return f"No alerts{about}; there are alerts for: {printable(', '.join(book.apps()))}"
    return f"No open alerts{about}; `streamjury alerts list --all` shows {past:,} that {_were(past)} cleared."


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _describe(book: AlertBook, alert: Alert, alpha: float) -> Iterator[str]:
    yield f"{book.short(alert)}  {text.headline(alert)}"
    ago = f" ({text.length(datetime.now(UTC) - alert.onset_at)} ago)" if text.is_open(alert) else ""
    yield f"  since {text.when(alert.onset_at)}{ago}; {text.state(alert)}"
    raised = book.first_announcement(alert)
    yield f"  {text.level(alert, raised)}; chance of a false alarm when raised: {text.chance(raised, alpha)}"


def _find_alert(book: AlertBook, alert_id: str | None) -> Alert | None:
    """Return the alert with this id, or the latest open one; None if no id was given and no alert is open."""
    if alert_id is None:
        return book.latest()
    matches = book.find_by_prefix(alert_id)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise click.ClickException(
            f"{len(matches):,} alerts start with {alert_id!r}; give more of the id:\n{_headlines(book, matches)}"
        )
    near = book.close_to(alert_id)
    hint = f"closest matches:\n{_headlines(book, near)}" if near else "there are no alerts yet"
    raise click.ClickException(f"no alert {alert_id!r}; {hint}")


def _headlines(book: AlertBook, matches: Iterable[Alert]) -> str:
    return "\n".join(f"  {book.short(alert)}  {printable(text.headline(alert))}" for alert in matches)


# The output


_FIGURES = ("whole", "criteria", "parts", "attributes", "elsewhere", "fault")
_EXPLANATION_FIELDS = (
    "alert",
    "note",
    "announcement",
    "sides",
    "findings",
    "explanation",
    "canaries",
    "examples",
    "next_steps",
)


def _explain(config: Config, cluster: Cluster, book: AlertBook, alert: Alert) -> ExplainedAlert:
    exists = config.topics.evaluations in cluster.partitions
    try:
        with Meter("reading evaluations", 1.0, lines=True) as meter:
            return explain_alert(
                config,
                book,
                alert,
                embedded=cluster.embedded,
                has_evaluations=exists,
                progress=lambda number, total: meter.show(done=number / total, records=number),
            )
    except StageError as error:
        raise click.ClickException(str(error)) from None


def _as_json(explained: ExplainedAlert) -> dict[str, Any]:
    figures, canaries = explained.explanation, explained.canaries
    values = (
        explained.alert.model_dump(mode="json"),
        None,
        list(explained.announcement),
        list(explained.sides),
        list(explained.findings),
        None if figures is None else {name: asdict(figures)[name] for name in _FIGURES},
        None if canaries is None else [asdict(canary) for canary in canaries],
        [_example_as_json(example) for example in explained.examples],
        list(explained.next_steps),
    )
    return dict(zip(_EXPLANATION_FIELDS, values, strict=True))


def _example_as_json(shown: ShownExample) -> dict[str, Any]:
    return {
        **shown.example.model_dump(mode="json"),
        "model": shown.model,
        "question": shown.question,
        "answer": shown.answer,
        "criterion": shown.criterion,
        "why": shown.why,
    }


def _print(explained: ExplainedAlert, console: Console) -> None:
    console.print(Text(printable(f"Alert {explained.short_id}: {explained.headline}"), style="bold"))
    _print_lines(console, explained.announcement)
    _print_section(console, "Findings", explained.findings)
    if explained.sheets:
        console.print()
        draw(explained.sheets, console)
    _print_examples(console, explained.examples)
    _print_section(console, "What to check next", explained.next_steps)


def _print_examples(console: Console, examples: Sequence[ShownExample]) -> None:
    if not examples:
        return
    console.print(Text("\nExamples", style="bold"))
    for example in examples:
        first, *rest = lines_of(example)
        _print_lines(console, [first])
        _print_lines(console, rest, indent=4)


def _print_section(console: Console, title: str, lines: Iterable[str]) -> None:
    console.print(Text(f"\n{title}", style="bold"))
    _print_lines(console, lines)


def _print_lines(console: Console, lines: Iterable[str], indent: int = 2) -> None:
    for line in lines:
        console.print(Text(" " * indent + printable(line)), soft_wrap=True)

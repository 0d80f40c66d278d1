"""`streamjury alerts`: lists open alerts, and explains one of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from judges.values.evaluation import Evaluation
from sinks.reports.formatting import many
from sinks.reports.sheet import Sheet
from sinks.reports.sheet_rendering import draw
from sinks.text import printable
from stream.cli.support.cluster import Cluster, reach
from stream.cli.support.interruption import until_reader_leaves
from stream.cli.support.json_output import harmless_json, print_json
from stream.cli.support.options import config_option, json_option, read_config
from stream.cli.support.progress import Meter
from stream.config.criteria import compose_criteria
from stream.config.model import Config
from stream.errors import RecordError, StageError
from stream.kafka.topic_scan import TopicScan
from stream.monitor.alerts.alert import Alert, Cause, Subject
from stream.monitor.alerts.summary import name_of
from stream.monitor.explain import CanaryTally, ChangeTally, Explanation, Split, by_model, by_time, explain, text
from stream.monitor.explain.alert_book import AlertBook
from stream.monitor.explain.examples import Examples, ShownExample, lines_of
from stream.monitor.explain.explanation import FEWEST
from stream.monitor.reading import read_evaluation
from stream.service.setup.criteria_files import load_chosen_criteria

# Evaluations are read from at least this long before the onset, and from this many times the delay of the alert.
_LEAST_BEFORE = timedelta(days=1)
_TIMES_BEFORE = 3
_MOST_BEFORE = timedelta(days=366)
# If the oldest record is this much older than the onset, too few scores before it are not due to retention.
_ENOUGH_BEFORE = timedelta(minutes=10)
# An evaluation reaches the topic some time after it was made.
_LATE = timedelta(hours=1)
RUNBOOKS = {
    Subject.QUALITY: "StreamjuryDropDetected",
    Subject.JUDGES: "StreamjuryJudgesChanged",
    Subject.VERSIONS: "StreamjuryModelWorse",
}


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
                    attributes (with their slices) and elsewhere (other apps); null for alerts about the judges
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
    case = _Case.of(config, alert, book.first_announcement(alert))
    oldest = _read_evaluations(config, cluster, case)
    span = _EvaluationSpan(oldest=oldest, embedded=cluster.embedded)
    with until_reader_leaves():
        if as_json:
            print_json(_as_json(case, book, span))
        else:
            _print(case, book, span, Console(highlight=False))


# Alerts


def _read_alerts(config: Config, cluster: Cluster) -> AlertBook:
    topic, book = config.topics.alerts, AlertBook()
    cluster.require(topic)
    if topic not in cluster.partitions:  # an embedded broker creates it with the first alert
        return book
    try:
        with TopicScan(config.kafka, topic) as scan:
            for message in scan.read():
                book.take(message.key(), message.value())
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


# Evaluations


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """An alert, with the collectors of the evaluations that explain it."""

    config: Config
    alert: Alert
    since: datetime
    until: datetime | None
    """None while the alert is open."""
    sides: tuple[str, str]
    """The two sides of the comparison, in words."""
    examples: Examples
    tally: ChangeTally | None
    canaries: CanaryTally | None

    @classmethod
    def of(cls, config: Config, alert: Alert, raised: Alert | None) -> "_Case":
        before = max(_LEAST_BEFORE, min(_MOST_BEFORE, _TIMES_BEFORE * (alert.at - alert.onset_at)))
        since = alert.onset_at - before
        is_judges = alert.subject is Subject.JUDGES
        # After an alert about the judges, their new verdicts are the expected ones: it never ends.
        until = None if text.is_open(alert) or is_judges else alert.recovered_at or alert.at
        split, sides = _split(config, alert, since, until)
        named = alert.examples or (raised.examples if raised is not None else ())
        canaries = CanaryTally(alert.series.dimension, alert.fingerprint, split) if is_judges and split else None
        return cls(
            config=config,
            alert=alert,
            since=since,
            until=until,
            sides=sides,
            examples=Examples(alert, named, config.composite.safety, config.composite.required),
            tally=_tally(config, alert, split) if split is not None and not is_judges else None,
            canaries=canaries,
        )

    @property
    def collectors(self) -> list[Callable[[Evaluation], None]]:
        parts = (self.examples, self.tally, self.canaries)
        return [part.add for part in parts if part is not None]


def _split(
    config: Config, alert: Alert, since: datetime, until: datetime | None
) -> tuple[Split | None, tuple[str, str]]:
    """Return how evaluations are divided into two sides, and the names of the sides.

    The split is None for a comparison of two models that neither the alert nor the configuration names.
    """
    if alert.subject is not Subject.VERSIONS:
        return by_time(since, alert.onset_at, until), text.TIMES
    versions = config.detection.versions
    configured = ((version.a, version.b) for version in versions if version.name == alert.series.value)
    models = alert.models or next(configured, ())
    if not models:
        return None, ("b", "a")
    a, b = models
    return by_model(a, b, since, until), (b, a)


def _tally(config: Config, alert: Alert, split: Split) -> ChangeTally:
    return ChangeTally(
        alert.series,
        alert.fingerprint,
        split,
        good_score=lambda app: config.objectives.for_app(app)[0],
        composition=compose_criteria(load_chosen_criteria(config.criteria), config.composite),
        target=0.5 if alert.subject is Subject.VERSIONS else alert.target,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _EvaluationSpan:
    """How far back the evaluations go."""

    oldest: datetime | None
    """Time of the oldest record that was read."""
    embedded: bool

    def why_too_few(self, case: _Case) -> Iterator[str]:
        """Say why there are too few scores, and what to do, if earlier evaluations were deleted."""
        oldest, onset = self.oldest, case.alert.onset_at
        if oldest is not None and oldest <= onset - _ENOUGH_BEFORE:
            return
        topics = case.config.topics
        remedy = (
            "The embedded broker keeps only a few minutes of records: explain an alert soon after it is raised."
            if self.embedded
            else f"topics.retention_hours sets how long they are kept ({topics.retention_hours} in this configuration)."
        )
        yield text.gone_before(topics.evaluations, oldest, onset, remedy)


def _read_evaluations(config: Config, cluster: Cluster, case: _Case) -> datetime | None:
    """Pass the evaluations to the collectors of the case, and return the time of the oldest record."""
    topic, collectors = config.topics.evaluations, case.collectors
    oldest: int | None = None
    if topic not in cluster.partitions:
        return None
    # Skips most evaluations of other evaluators without parsing them.
    mark = case.alert.fingerprint.encode()
    try:
        with TopicScan(config.kafka, topic) as scan, Meter("reading evaluations", 1.0, lines=True) as meter:
            ranges = _ranges(scan, case, by_time=not cluster.embedded)
            total = sum(len(offsets) for offsets in ranges.values())
            for number, message in enumerate(scan.read_within(ranges), start=1):
                value = message.value() or b""
                oldest = min(oldest or message.timestamp()[1], message.timestamp()[1])
                if mark in value:
                    _collect(value, collectors, config.least_probability)
                meter.show(done=number / total, records=number)
    except StageError as error:
        raise click.ClickException(str(error)) from None
    return None if oldest is None else datetime.fromtimestamp(oldest / 1000.0, UTC)


def _ranges(scan: TopicScan, case: _Case, *, by_time: bool) -> dict[int, range]:
    """Return the offsets to read: all of them on an embedded broker, which cannot find records by their time."""
    if not by_time:
        return scan.ranges()
    until = None if case.until is None else _milliseconds(case.until + _LATE)
    return scan.ranges(_milliseconds(case.since), until)


def _milliseconds(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def _collect(value: bytes, collectors: Iterable[Callable[[Evaluation], None]], least_probability: float) -> None:
    """Skip records that the monitor refused: they explain no alert."""
    try:
        evaluation = read_evaluation(value, None, least_probability=least_probability)
    except RecordError:
        return
    for collect in collectors:
        collect(evaluation)


# The output


_FIGURES = ("whole", "criteria", "parts", "attributes", "elsewhere")
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


def _as_json(case: _Case, book: AlertBook, span: _EvaluationSpan) -> dict[str, Any]:
    alert, detection = case.alert, case.config.detection
    explanation = None if case.tally is None else explain(case.tally)
    values = (
        alert.model_dump(mode="json"),
        None,
        [
            *text.describe_alert(alert, book.first_announcement(alert), detection.alpha),
            text.guarantee(alert, detection.alpha, detection.period_days),
        ],
        list(case.sides),
        list(_findings(case, book, explanation, span)),
        None if explanation is None else {name: asdict(explanation)[name] for name in _FIGURES},
        None if case.canaries is None else [asdict(canary) for canary in case.canaries.list_turned()],
        [_example_as_json(shown) for shown in case.examples.result(_lowest(case))],
        list(text.next_steps(alert, explanation, _runbook(case))),
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


def _lowest(case: _Case) -> Sequence[tuple[float, Evaluation]]:
    """Return the lowest scores that were read, for an alert that names no examples."""
    return () if case.tally is None else case.tally.lowest


def _print(case: _Case, book: AlertBook, span: _EvaluationSpan, console: Console) -> None:
    alert, detection = case.alert, case.config.detection
    explanation = None if case.tally is None else explain(case.tally)
    console.print(Text(printable(f"Alert {book.short(alert)}: {text.headline(alert)}"), style="bold"))
    _print_lines(console, text.describe_alert(alert, book.first_announcement(alert), detection.alpha))
    _print_lines(console, [text.guarantee(alert, detection.alpha, detection.period_days)])
    _print_section(console, "Findings", _findings(case, book, explanation, span))
    _draw(console, _sheets(case, explanation))
    _print_examples(console, case)
    _print_section(console, "What to check next", text.next_steps(alert, explanation, _runbook(case)))


def _findings(case: _Case, book: AlertBook, explanation: Explanation | None, span: _EvaluationSpan) -> Iterator[str]:
    alert = case.alert
    if alert.subject is Subject.JUDGES:
        yield f"The judges changed their verdicts on {alert.series.dimension}, although the canaries are the same."
        withdrawn = [f"{book.short(quality)} ({name_of(quality.series)})" for quality in book.list_withdrawn(alert)]
        if withdrawn:
            yield f"Quality alerts withdrawn because of this: {', '.join(withdrawn)}."
        if case.canaries is not None and not case.canaries.count:
            yield from span.why_too_few(case)
        return
    yield from _judge_findings(alert, book)
    if explanation is not None:
        yield from text.findings(alert, explanation, case.sides, book.list_apps_with_open_alerts(alert))
        if explanation.whole.counts[0] < FEWEST and case.sides == text.TIMES:
            yield from span.why_too_few(case)
    else:
        yield f"The comparison {alert.series.value} is no longer in the configuration, so the two models are unknown."


def _judge_findings(alert: Alert, book: AlertBook) -> Iterator[str]:
    """Say whether the judges, rather than the answers, may have caused the alert."""
    if alert.cause is Cause.JUDGES_CHANGED:
        yield "It was withdrawn because the judges had changed; they may explain what follows."
    # Both models of a comparison are judged by the same judges at the same time.
    judges = None if alert.subject is Subject.VERSIONS else book.judges_behind(alert)
    if judges is not None:
        yield (
            f"The judges changed their verdicts on {judges.series.dimension} at {text.when(judges.onset_at)} (alert "
            f"{book.short(judges)}): they may be the cause, not the answers."
        )


def _sheets(case: _Case, explanation: Explanation | None) -> Iterator[Sheet]:
    if explanation is not None:
        yield from text.sheets_of(case.alert, explanation, case.sides)
    if case.canaries is not None:
        yield text.turned_sheet(case.canaries.list_turned(), case.canaries.count)


def _print_examples(console: Console, case: _Case) -> None:
    examples = list(case.examples.result(_lowest(case)))
    if not examples:
        return
    console.print(Text("\nExamples", style="bold"))
    for example in examples:
        first, *rest = lines_of(example)
        _print_lines(console, [first])
        _print_lines(console, rest, indent=4)


def _runbook(case: _Case) -> str:
    return case.config.alerts.runbook_link(RUNBOOKS[case.alert.subject])


def _print_section(console: Console, title: str, lines: Iterable[str]) -> None:
    console.print(Text(f"\n{title}", style="bold"))
    _print_lines(console, lines)


def _print_lines(console: Console, lines: Iterable[str], indent: int = 2) -> None:
    for line in lines:
        console.print(Text(" " * indent + printable(line)), soft_wrap=True)


def _draw(console: Console, sheets: Iterable[Sheet]) -> None:
    listed = list(sheets)
    if listed:
        console.print()
        draw(listed, console)

"""Explains an alert: reads the evaluations around its onset, and says in words and tables what dropped, and where."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from judges.values.evaluation import Evaluation
from sinks.reports.sheet import Sheet
from stream.config.criteria import compose_criteria
from stream.config.model import Config
from stream.errors import RecordError
from stream.kafka.record import Record, read_record, schema_of, whole_value
from stream.kafka.topic_scan import TopicScan
from stream.monitor.alerts.alert import Alert, Attribution, Cause, Subject
from stream.monitor.alerts.summary import name_of
from stream.monitor.explain import (
    CanaryTally,
    ChangeTally,
    Explanation,
    Split,
    Turned,
    by_model,
    by_time,
    explain,
    text,
)
from stream.monitor.explain.alert_book import AlertBook
from stream.monitor.explain.examples import Examples, ShownExample
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
    Subject.AGREEMENT: "StreamjuryJudgeAgreesLess",
}


Progress = Callable[[int, int], None]
"""Called after every record with the number of records read, and their total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedAlert:
    """An alert with its explanation."""

    alert: Alert
    short_id: str
    """The beginning of its id that no other alert has."""
    headline: str
    announcement: Sequence[str]
    """The alert in words: when, how low, and how likely it is false."""
    sides: tuple[str, str]
    """The two sides that are compared, in words."""
    findings: Sequence[str]
    explanation: Explanation | None
    """The figures behind the findings; None for alerts about the judges."""
    canaries: Sequence[Turned] | None
    """For alerts about the judges: canaries with another verdict."""
    sheets: Sequence[Sheet]
    examples: Sequence[ShownExample]
    next_steps: Sequence[str]


def read_alerts(config: Config) -> AlertBook:
    """Read all announcements of the alerts topic, which must exist."""
    book = AlertBook()
    with TopicScan(config.kafka, config.topics.alerts) as scan:
        for message in scan.read():
            book.take(message.key(), message.value())
    return book


def explain_alert(
    config: Config,
    book: AlertBook,
    alert: Alert,
    *,
    embedded: bool,
    has_evaluations: bool = True,
    progress: Progress = lambda _done, _total: None,
) -> ExplainedAlert:
    """Explain an alert of the book from the evaluations around its onset.

    `embedded`: the broker is embedded, and cannot find records by their time. `has_evaluations`: their topic exists.
    """
    case = _Case.of(config, alert, book.first_announcement(alert))
    oldest = _read_evaluations(config, case, progress, by_time=not embedded) if has_evaluations else None
    return _explain(case, book, _EvaluationSpan(oldest=oldest, embedded=embedded))


def _explain(case: "_Case", book: AlertBook, span: "_EvaluationSpan") -> ExplainedAlert:
    alert, detection = case.alert, case.config.detection
    explanation = None if case.tally is None else explain(case.tally)
    announcement = text.describe_alert(alert, book.first_announcement(alert), detection.alpha)
    runbook = case.config.alerts.runbook_link(RUNBOOKS[alert.subject])
    return ExplainedAlert(
        alert=alert,
        short_id=book.short(alert),
        headline=text.headline(alert),
        announcement=(*announcement, text.guarantee(alert, detection.alpha, detection.period_days)),
        sides=case.sides,
        findings=tuple(_findings(case, book, explanation, span)),
        explanation=explanation,
        canaries=None if case.canaries is None else tuple(case.canaries.list_turned()),
        sheets=tuple(_sheets(case, explanation)),
        # The lowest scores that were read, for an alert that names no examples.
        examples=tuple(case.examples.result(() if case.tally is None else case.tally.lowest)),
        next_steps=tuple(text.next_steps(alert, explanation, runbook)),
    )


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
        is_judges, is_agreement = alert.subject is Subject.JUDGES, alert.subject is Subject.AGREEMENT
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
            tally=None if split is None or is_judges or is_agreement else _tally(config, alert, split),
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


def _read_evaluations(config: Config, case: _Case, progress: Progress, *, by_time: bool) -> datetime | None:
    """Pass the evaluations to the collectors of the case, and return the time of the oldest record."""
    collectors, oldest = case.collectors, None
    # Skips most evaluations of other evaluators without parsing them.
    mark = case.alert.fingerprint.encode()
    with TopicScan(config.kafka, config.topics.evaluations) as scan:
        ranges = _ranges(scan, case, by_time=by_time)
        total = sum(len(offsets) for offsets in ranges.values())
        for number, message in enumerate(scan.read_within(ranges), start=1):
            record = read_record(message)
            oldest = min(oldest or message.timestamp()[1], message.timestamp()[1])
            if mark in (record.value or b""):
                _collect(record, collectors, config.least_probability)
            progress(number, total)
    return None if oldest is None else datetime.fromtimestamp(oldest / 1000.0, UTC)


def _ranges(scan: TopicScan, case: _Case, *, by_time: bool) -> dict[int, range]:
    """Return the offsets to read: all of them on an embedded broker, which cannot find records by their time."""
    if not by_time:
        return scan.ranges()
    until = None if case.until is None else _milliseconds(case.until + _LATE)
    return scan.ranges(_milliseconds(case.since), until)


def _milliseconds(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def _collect(record: Record, collectors: Iterable[Callable[[Evaluation], None]], least_probability: float) -> None:
    """Skip records that the monitor refused: they explain no alert."""
    try:
        evaluation = read_evaluation(whole_value(record), schema_of(record), least_probability=least_probability)
    except RecordError:
        return
    for collect in collectors:
        collect(evaluation)


# Findings


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
    if alert.subject is Subject.AGREEMENT:
        yield (
            f"The scores of the judge {alert.series.value} differ more from the labels of people than before. Its "
            "agreement on an answer is 1 minus the distance of score and label."
        )
        return
    yield from _judge_findings(case, book)
    if explanation is not None:
        yield from text.findings(alert, explanation, case.sides, book.list_apps_with_open_alerts(alert))
        if explanation.whole.counts[0] < FEWEST and case.sides == text.TIMES:
            yield from span.why_too_few(case)
    else:
        yield f"The comparison {alert.series.value} is no longer in the configuration, so the two models are unknown."


def _attribution(alert: Alert, *, has_canaries: bool) -> Iterator[str]:
    """Say what the labels of people show about the cause."""
    if alert.attribution is Attribution.JUDGE:
        yield (
            "Attribution: the judges. Their scores have moved against the labels of people, or their verdicts on the "
            "canaries have changed: the answers may be as good as before."
        )
    elif alert.attribution is Attribution.SYSTEM:
        yield "Attribution: the system. The judges score labelled canaries as before, so the answers have changed."
    elif has_canaries:
        yield (
            "Attribution: unknown. There are no labelled canaries, or too few of their scores since the drop to "
            "show whether the judges have changed."
        )


def _judge_findings(case: _Case, book: AlertBook) -> Iterator[str]:
    """Say whether the judges, rather than the answers, may have caused the alert."""
    alert = case.alert
    if alert.cause is Cause.JUDGES_CHANGED:
        yield "It was withdrawn because the judges had changed; they may explain what follows."
    if alert.subject is Subject.QUALITY:
        yield from _attribution(alert, has_canaries=case.config.detection.canaries is not None)
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

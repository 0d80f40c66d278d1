"""`streamjury tail`: prints results as they arrive, for people or as JSON lines."""

import base64
import json
import logging
import uuid
from collections.abc import Callable, Collection, Generator
from contextlib import closing
from datetime import datetime
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from threading import Event
from typing import NoReturn

import click
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from judges.criteria.criterion import SAFETY_DIMENSION
from judges.shortfall import shortfall_of
from judges.values.evaluation import CompositeStatus, Dimension, Evaluation, SafetyNotice, Status
from sinks.reports.formatting import status_name
from sinks.text import printable, shorten
from sinks.topics.headers import (
    ERROR_MESSAGE,
    ERROR_STAGE,
    ERROR_TYPE,
    FAILED_AT,
    PREFIX,
    SOURCE_OFFSET,
    SOURCE_PARTITION,
    SOURCE_TOPIC,
)
from stream.cli.support.cluster import Cluster, KafkaUnusable, reach
from stream.cli.support.interruption import Interruption, until_reader_leaves
from stream.cli.support.json_output import harmless_json
from stream.cli.support.options import config_option, json_option, limit_option, read_config
from stream.cli.support.time_option import TimeOption
from stream.cli.terminal.live_view import clock, score_style, title_of
from stream.config.sections.criteria import CompositeConfig
from stream.config.sections.kafka import KafkaConfig
from stream.errors import StageError
from stream.kafka.errors import DENIED, unusable_topic
from stream.kafka.record import read_record
from stream.kafka.topic_scan import TopicScan
from stream.monitor.state import notable_answer_of, reason_of
from stream.records.headers import is_mark

log = logging.getLogger(__name__)

_CALL_SECONDS = 5.0
_POLL_SECONDS = 0.3
# A time before all records.
_OLDEST = 0
_TOPIC_WAIT_SECONDS = 1.0
_REASON_CHARS = 300
_BYTES_SHOWN = 80
_BODY_FIELDS = frozenset({"key", "value", "key_base64", "value_base64"})
_INDENT = " " * 9
# RFC 3339 up to the seconds; the wire is in UTC.
_SECONDS_CHARS = 19
_STATUS_STYLES = {
    CompositeStatus.UNSAFE: "bold white on red",
    CompositeStatus.FAILED: "red",
    CompositeStatus.QUESTIONABLE: "yellow",
    CompositeStatus.SAFETY_UNKNOWN: "magenta",
    CompositeStatus.INCOMPLETE: "magenta",
}

Format = Callable[[KafkaMessage], Text]


@click.command()
@click.option(
    "--topic",
    "kind",
    type=click.Choice(["evaluations", "critical", "deadletter"]),
    default="evaluations",
    show_default=True,
    help="Topic to show: evaluations, safety failures, or dead letters.",
)
@click.option("--app", help="Only results of this app.")
@limit_option("Stop after this many results; with --from-beginning, the oldest ones.")
@click.option(
    "--since", type=TimeOption(), help="Start with the results since this time, or this long ago: 90m, 24h, 7d."
)
@click.option("--from-beginning", is_flag=True, help="Start with the oldest result (default: only new ones).")
@click.option("--no-follow", is_flag=True, help="Print the results that exist, all or those of --since, and stop.")
@json_option("one JSON object per line, with control characters escaped")
@config_option
def tail(
    *,
    config_path: Path | None,
    kind: str,
    app: str | None,
    limit: int | None,
    since: datetime | None,
    from_beginning: bool,
    no_follow: bool,
    as_json: bool,
) -> None:
    """Show evaluations as they arrive, until Ctrl-C.

    This only reads the topic and does not affect the pipeline. With --json, each line is the record as on the topic
    (`streamjury schema evaluation` and `critical` describe it). A dead letter is an object with its `key` and `value`
    (or `key_base64` and `value_base64`) and its headers, such as `error_type`. Headers with these four names are left
    out.

    \b
    Examples:
      streamjury tail --app support-bot
      streamjury tail --no-follow --json | jq .composite.score
      streamjury tail --topic deadletter --since 1h --no-follow
    """
    if app is not None and kind == "deadletter":
        raise click.UsageError("dead letters have no app, because they could not be read; remove --app")
    if since is not None and from_beginning:
        raise click.UsageError("give --since or --from-beginning, not both")
    config = read_config(config_path)
    cluster = reach(config.kafka)
    topic: str = getattr(config.topics, kind)
    start = _choose_start(cluster, since, from_beginning=from_beginning)
    write = _json_writer(kind) if as_json else _text_writer(kind, config.composite)
    if topic in cluster.partitions and not (from_beginning or no_follow or since):
        click.echo(f"waiting for new results on {topic}; --from-beginning shows older ones (Ctrl-C to stop)", err=True)
    with (
        Interruption() as interruption,
        until_reader_leaves(),
        closing(
            read_existing(config.kafka, cluster, topic, start=start, stop=interruption.stop)
            if no_follow
            else read(config.kafka, topic, start=start, stop=interruption.stop)
        ) as messages,
    ):
        wanted = (message for message in messages if app is None or app_of(message.value()) == app)
        if since is not None:
            wanted = (message for message in wanted if message.timestamp()[1] >= _milliseconds(since))
        if kind == "deadletter":
            wanted = (message for message in wanted if not is_mark(_headers(message)))
        # islice does not read beyond the limit, where it might wait forever.
        for message in islice(wanted, limit):
            write(message)


def read_existing(
    kafka: KafkaConfig, cluster: Cluster, topic: str, *, start: int | None, stop: Event
) -> Generator[KafkaMessage]:
    """Yield the committed records of all partitions up to their current end, from a time in milliseconds if given."""
    cluster.require(topic)
    if topic not in cluster.partitions:  # an embedded broker creates it with its first record
        return
    try:
        with TopicScan(kafka, topic) as scan:
            yield from takewhile(lambda _: not stop.is_set(), scan.read(start or None))
    except StageError as error:
        raise click.ClickException(str(error)) from None


def read(kafka: KafkaConfig, topic: str, *, start: int | None, stop: Event) -> Generator[KafkaMessage]:
    """Yield the committed records of all partitions from a time, in milliseconds; None: only new ones.

    This joins no group and commits nothing.
    """
    outage = _Outage(kafka.bootstrap)
    consumer = Consumer(
        {
            **kafka.client_options(),
            # The client requires a group; this one is never joined.
            "group.id": f"streamjury-tail-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "log_level": 0,
            "error_cb": outage.note,
        },
        logger=log,
    )
    try:
        consumer.assign(_positions(consumer, topic, start, stop))
        while not stop.is_set():
            message = consumer.poll(_POLL_SECONDS)
            if message is None:
                continue
            error = message.error()
            if error is None:
                outage.over()
                yield message
            elif not error.retriable():
                raise KafkaException(error)
    except KafkaException as error:
        raise click.ClickException(f"reading {topic}: {error.args[0].str()}") from None
    finally:
        consumer.close()


def app_of(value: bytes | None) -> str | None:
    """Return the app of a result, or None."""
    try:
        record = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    app = record.get("app") if isinstance(record, dict) else None
    return app if isinstance(app, str) else None


def evaluation_text(message: KafkaMessage, safety: str = SAFETY_DIMENSION, required: Collection[str] = ()) -> Text:
    """Return an evaluation in one line, followed by the reasons of a low or missing score."""
    try:
        evaluation = Evaluation.model_validate_json(message.value() or b"")
    except ValidationError:
        return _unreadable(message)
    finding, composite = notable_answer_of(evaluation, safety, required), evaluation.composite
    score = "–" if composite.score is None else f"{composite.score:.2f}"
    text = Text.assemble(
        (clock(finding.at), "dim"),
        (f" {printable(finding.app)} ", "bold"),
        (score, f"bold {score_style(composite.score)}"),
        " ",
        (status_name(composite.status), _STATUS_STYLES.get(composite.status, "green")),
        " ",
    )
    for name, dimension in evaluation.dimensions.items():
        text.append(f" {title_of(name)}", "dim")
        text.append(_short(dimension), score_style(dimension.score))
    text.append(f"  {printable(evaluation.interaction_id)}", "dim")
    worst = evaluation.dimensions.get(finding.dimension)
    if worst is not None and worst.score != 1.0 and finding.reason:
        text.append(f"\n{_INDENT}{title_of(finding.dimension)}: {shorten(finding.reason, _REASON_CHARS)}")
    shortfall = shortfall_of(evaluation, safety)
    if shortfall is not None:
        detail = f": {shorten(shortfall.detail, _REASON_CHARS)}" if shortfall.detail else ""
        text.append(f"\n{_INDENT}no score: {shortfall.reason.value}{detail}", "magenta")
    return text


def critical_text(message: KafkaMessage) -> Text:
    """Return a safety failure with its reason, question and answer."""
    try:
        notice = SafetyNotice.model_validate_json(message.value() or b"")
    except ValidationError:
        return _unreadable(message)
    text = Text.assemble(
        (clock(notice.noticed_at.timestamp()), "dim"),
        (f" {printable(notice.app or 'unknown')} ", "bold"),
        (notice.safety.status.value, _STATUS_STYLES[CompositeStatus.UNSAFE]),
        f" {shorten(reason_of(notice.dimension), _REASON_CHARS) or '–'}",
        (f"  {printable(notice.interaction_id)}", "dim"),
    )
    if notice.excerpt is not None:
        for mark, words in (("Q", notice.excerpt.question), ("A", notice.excerpt.answer)):
            text.append(f"\n{_INDENT}{mark} {shorten(words, _REASON_CHARS)}", "dim")
    return text


def deadletter_text(message: KafkaMessage) -> Text:
    """Return a dead letter with its stage, reason, source and first bytes."""
    headers = _headers(message)
    source = "/".join(headers.get(name, "?") for name in (SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET))
    value = message.value() or b""
    more = f" … {len(value)} bytes" if len(value) > _BYTES_SHOWN else ""
    return Text.assemble(
        (f"{printable(headers.get(FAILED_AT, '?'))[:_SECONDS_CHARS]}Z", "dim"),
        (f" {printable(headers.get(ERROR_STAGE, '?'))} ", "bold"),
        (printable(headers.get(ERROR_TYPE, "?")), "yellow"),
        f" {shorten(headers.get(ERROR_MESSAGE, ''), _REASON_CHARS)}",
        (f"  {printable(source)}", "dim"),
        (f"\n{_INDENT}{_excerpt(value)}{more}", "dim"),
    )


def deadletter_json(message: KafkaMessage) -> bytes:
    """Return a dead letter as one JSON object; bytes that are not text are in base64."""
    record: dict[str, object] = {
        field: text
        for name, text in _headers(message).items()
        # Any producer can name a header like these.
        if (field := name.removeprefix(PREFIX).replace("-", "_")) not in _BODY_FIELDS
    }
    for name, value in (("key", message.key()), ("value", message.value())):
        try:
            record[name] = None if value is None else value.decode()
        except UnicodeDecodeError:
            assert value is not None
            record[f"{name}_base64"] = base64.b64encode(value).decode()
    return harmless_json(json.dumps(record, ensure_ascii=False))


def _formatter(kind: str, composite: CompositeConfig) -> Format:
    texts: dict[str, Format] = {
        "evaluations": partial(evaluation_text, safety=composite.safety, required=composite.required),
        "critical": critical_text,
        "deadletter": deadletter_text,
    }
    return texts[kind]


class _PipeConsole(Console):
    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the command what follows when the reader of the output goes away."""
        raise BrokenPipeError


def _text_writer(kind: str, composite: CompositeConfig) -> Callable[[KafkaMessage], None]:
    console, format_result = _PipeConsole(highlight=False, soft_wrap=True), _formatter(kind, composite)
    return lambda message: console.print(format_result(message))


def _json_writer(kind: str) -> Callable[[KafkaMessage], None]:
    if kind == "deadletter":
        return lambda message: click.echo(deadletter_json(message))
    return lambda message: click.echo(harmless_json(message.value() or b""))


def _choose_start(cluster: Cluster, since: datetime | None, *, from_beginning: bool) -> int | None:
    """Return the time to start from, in milliseconds; None: only new records."""
    if since is None:
        return _OLDEST if from_beginning else None
    # An embedded broker cannot look up records by time: all are read, and older ones are left out later.
    return _OLDEST if cluster.embedded else _milliseconds(since)


def _milliseconds(time: datetime) -> int:
    return max(0, int(time.timestamp() * 1000))


def _positions(consumer: Consumer, topic: str, start: int | None, stop: Event) -> list[TopicPartition]:
    """Wait until the topic exists, and return the position to start from in every partition."""
    waited = False
    while not stop.is_set():
        metadata = consumer.list_topics(timeout=_CALL_SECONDS).topics.get(topic)
        if metadata is not None:
            partitions = [TopicPartition(topic, number) for number in metadata.partitions]
            # Records that arrived while we waited for the topic are new ones.
            return [_position(consumer, partition, _OLDEST if waited else start) for partition in partitions]
        reason = consumer.list_topics(topic, _CALL_SECONDS).topics[topic].error
        if reason is not None and reason.code() in DENIED:
            raise KafkaUnusable(str(unusable_topic(topic, reason)))
        if not waited:
            click.echo(
                f"waiting for topic {topic}; it is created by the first record or by `streamjury topics create`",
                err=True,
            )
            waited = True
        stop.wait(_TOPIC_WAIT_SECONDS)
    return []


def _position(consumer: Consumer, partition: TopicPartition, start: int | None) -> TopicPartition:
    low, high = consumer.get_watermark_offsets(partition, timeout=_CALL_SECONDS)
    offset = high if start is None else low
    if start is not None and start != _OLDEST:
        place = TopicPartition(partition.topic, partition.partition, start)
        [place] = consumer.offsets_for_times([place], timeout=_CALL_SECONDS)
        if place.error is not None:
            raise KafkaException(place.error)
        offset = high if place.offset == OFFSET_END else place.offset
    return TopicPartition(partition.topic, partition.partition, offset)


def _short(dimension: Dimension) -> str:
    """Return a tick for the best score, so that the others stand out."""
    if dimension.status is Status.NOT_APPLICABLE:
        return "=n/a"
    if dimension.status is not Status.SCORED:
        return "=?"
    if dimension.score == 1.0:
        return "✓"
    label = dimension.label or dimension.option
    if label:  # options without scores have one, too
        return f"={printable(label).replace(' ', '-')}"
    return "=?" if dimension.score is None else f"={dimension.score:.2f}"


def _headers(message: KafkaMessage) -> dict[str, str]:
    return {name: _text(value) for name, value in read_record(message).headers}


def _excerpt(value: bytes) -> str:
    """Return the first bytes as text, with control characters and bytes that are not text escaped."""
    # A character that the limit cuts in two is left out.
    end = next(end for end in range(_BYTES_SHOWN, -1, -1) if end >= len(value) or value[end] & 0xC0 != 0x80)
    text = value[:end].decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _text(value: str | bytes | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""


def _unreadable(message: KafkaMessage) -> Text:
    place = f"{message.topic()}/{message.partition()}/{message.offset()}"
    return Text.assemble((f"unreadable record at {place}: ", "magenta"), _excerpt(message.value() or b""))


class _Outage:
    """Prints once that the broker cannot be reached, until it is back."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_reported = False

    def note(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN and not self._is_reported:
            self._is_reported = True
            click.echo(f"no Kafka broker at {self._bootstrap}; waiting for it", err=True)

    def over(self) -> None:
        self._is_reported = False

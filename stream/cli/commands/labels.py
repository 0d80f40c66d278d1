"""`streamjury labels`: sends labels of people, and corrects the judges' means by them."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import click
from rich.console import Console

from judges.values.evaluation import Evaluation
from judges.values.label import Label
from sinks.reports.results_reader import ResultsError
from sinks.reports.sheet_rendering import draw
from sinks.statistics.measured_judges import ATTRIBUTES, Attribute, measure_judges
from sinks.topics.results import LabelTopic
from stream.cli.support.cluster import reach
from stream.cli.support.delivery import print_failures
from stream.cli.support.json_output import print_json
from stream.cli.support.label_files import read_labels_of
from stream.cli.support.options import config_option, json_option, read_config
from stream.cli.support.time_option import TimeOption
from stream.config.model import Config
from stream.errors import StageError
from stream.jobs.diagnosis import read_file, read_topic
from stream.jobs.labels.joining import JoinedLabels, join, read_labels_topic
from stream.jobs.labels.judges import judges_object, judges_sheet
from stream.jobs.labels.report import (
    NO_LABELS,
    estimate_all,
    plan_all,
    plan_object,
    plan_sheet,
    report_object,
    report_sheets,
)
from stream.kafka.producers.counting import DELIVERY_SECONDS, CountingProducer

FILE_ARGUMENT = click.argument("path", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
SINCE_OPTION = click.option(
    "--since", type=TimeOption(), help="Read both topics; evaluations since this time or this long ago: 24h, 7d."
)
LABELS_OPTION = click.option(
    "--labels", "labels_path", type=click.Path(path_type=Path), help="File of labels, CSV or JSONL, for FILE."
)


@click.group("labels")
def labels() -> None:
    """Send labels of people, and correct the judges' means by them.

    \b
    Example:
      streamjury labels report --since 7d
    """


@labels.command("send")
@click.argument("file", type=click.Path(path_type=Path))
@json_option()
@config_option
def send_labels(*, file: Path, as_json: bool, config_path: Path | None) -> None:
    """Send a file of labels, CSV or JSONL, to topics.labels.

    Columns are the fields of `streamjury schema label`. Needed are interaction_id (or trace_id), criterion, who, and
    option or score. If anything in the file is wrong, all mistakes are listed and no label is sent. A file can be sent
    again: its labels count once.

    \b
    Examples:
      streamjury labels send reviewed.csv
      streamjury labels send thumbs.jsonl --json | jq .delivered

    \b
    JSON fields:
      topic, bootstrap    where the labels were sent
      delivered, failed   number of labels
      failures            the first failures, as text
    """
    config = read_config(config_path)
    records = read_labels_of(config, file)
    reach(config.kafka).require(config.topics.labels)
    topic = config.topics.labels
    producer = CountingProducer(config.kafka, topic, client="streamjury-labels")
    _send_all(records, LabelTopic(topic), producer)
    producer.finish(DELIVERY_SECONDS)
    if as_json:
        print_json(
            {
                "topic": topic,
                "bootstrap": config.kafka.bootstrap,
                "delivered": producer.delivered,
                "failed": producer.failed,
                "failures": list(producer.failures),
            }
        )
    else:
        where = f"{topic} at {config.kafka.bootstrap}"
        click.echo(f"delivered {producer.delivered}, failed {producer.failed}, to {where}")
    print_failures(producer)
    if producer.failed:
        raise SystemExit(1)


def _send_all(records: Iterable[Label], topic: LabelTopic, producer: CountingProducer) -> None:
    for label in records:
        for message in topic.messages(label):
            headers = [(name, value or b"") for name, value in message.headers]
            name = f"the label of {label.interaction_id}"
            while not producer.offer(message.value or b"", key=message.key, headers=headers, label=name):
                pass
        if producer.broker_away:
            return


@labels.command("report")
@FILE_ARGUMENT
@LABELS_OPTION
@SINCE_OPTION
@json_option()
@config_option
def report_labels(
    *, path: Path | None, labels_path: Path | None, since: datetime | None, as_json: bool, config_path: Path | None
) -> None:
    """Correct the judges' means by labels, for each app and criterion.

    With --since, evaluations and labels are read from their topics. FILE is the output of `streamjury evaluate`, a
    folder or its results.jsonl, or a file with one evaluation per line; its labels are in the file of --labels.

    Labels count if they have the probability with which their answer was chosen. A series with fewer than 30 of them
    is "uncorrected": it has the judges' mean only. Feedback of users is listed by itself.

    \b
    Examples:
      streamjury labels report --since 7d
      streamjury labels report answers-results --labels reviewed.csv
      streamjury labels report --since 7d --json | jq '.series[] | select(.status == "corrected")'

    \b
    JSON fields:
      schema_version  streamjury.labels.report/1
      series          list of objects with app, criterion, judged, labels, effective_labels, status, judge_mean,
                      corrected and labels_alone (objects with mean, low and high), bias and tuning
      feedback        list of objects with app, criterion, reactions and mean
      ignored         object: number of labels that correct no mean, by reason
    """
    joined = _join(path, labels_path, since, config_path)
    estimates = estimate_all(joined)
    if as_json:
        print_json(report_object(joined, estimates))
    elif estimates:
        draw(list(report_sheets(joined, estimates)), Console())
    else:
        click.echo("There are no evaluations")


@labels.command("plan", short_help="Say how many labels an interval needs.")
@FILE_ARGUMENT
@LABELS_OPTION
@SINCE_OPTION
@click.option(
    "--width",
    type=click.FloatRange(min=0, max=1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="Width of the 95 % interval.",
)
@json_option()
@config_option
def plan(
    *,
    path: Path | None,
    labels_path: Path | None,
    since: datetime | None,
    width: float,
    as_json: bool,
    config_path: Path | None,
) -> None:
    """Say how many labels an interval of a given width needs, from the labels so far.

    The arguments are those of `streamjury labels report`. The number is that of all labels, including those so far, if
    answers are chosen as they were. It is compared with a random queue, and with labels alone.

    \b
    Examples:
      streamjury labels plan --since 7d --width 0.03
      streamjury labels plan answers-results --labels reviewed.csv --json

    \b
    JSON fields:
      schema_version  streamjury.labels.plan/1
      width           width of the interval
      confidence      0.95
      series          list of objects with app, criterion, known, needed (null: more answers must be judged),
                      random_queue, labels_alone and saved (share of labels saved against a random queue)
    """
    plans = plan_all(_join(path, labels_path, since, config_path), width)
    if as_json:
        print_json(plan_object(plans, width))
    elif plans:
        draw([plan_sheet(plans, width)], Console())
    else:
        click.echo("There are no evaluations")


@labels.command("judges")
@FILE_ARGUMENT
@LABELS_OPTION
@SINCE_OPTION
@click.option("--by", type=click.Choice(ATTRIBUTES), help="Also divide by the answer's model family, or its language.")
@json_option()
@config_option
def judge_labels(
    *,
    path: Path | None,
    labels_path: Path | None,
    since: datetime | None,
    by: Attribute | None,
    as_json: bool,
    config_path: Path | None,
) -> None:
    """Show how well each judge agrees with people, by criterion.

    The arguments are those of `streamjury labels report`. All labels of reviewers count, whether their answers were
    chosen at random or not.

    \b
    Examples:
      streamjury labels judges --since 30d
      streamjury labels judges --since 30d --by family --json | jq '.judges[].bias'

    \b
    JSON fields:
      schema_version  streamjury.labels.judges/1
      by              family, language, or null
      confidence      0.95
      judges          list of objects with judge, criterion, value (of `by`), labels, and sensitivity, specificity,
                      kappa and bias (objects with value, low and high)
    """
    measured = measure_judges(*read_sources(path, labels_path, since, config_path), by)
    if as_json:
        print_json(judges_object(measured, by))
    elif measured:
        draw([judges_sheet(measured, by)], Console())
    else:
        click.echo(NO_LABELS)


def _join(
    path: Path | None, labels_path: Path | None, since: datetime | None, config_path: Path | None
) -> JoinedLabels:
    return join(*read_sources(path, labels_path, since, config_path))


def read_sources(
    path: Path | None, labels_path: Path | None, since: datetime | None, config_path: Path | None
) -> tuple[list[Evaluation], list[Label]]:
    if (path is None) == (since is None):
        raise click.UsageError("give either a FILE or --since")
    if path is None and labels_path is not None:
        raise click.UsageError("--labels needs a FILE; with --since, labels are read from their topic")
    config = read_config(config_path)
    try:
        if path is not None:
            return list(read_file(path)), [] if labels_path is None else read_labels_of(config, labels_path)
        assert since is not None
        evaluations, records = _read_topics(config, since)
        return list(evaluations), list(records)
    except (ResultsError, StageError) as error:
        raise click.ClickException(str(error)) from None


def _read_topics(config: Config, since: datetime) -> tuple[Iterable[Evaluation], Iterable[Label]]:
    cluster, topics = reach(config.kafka), config.topics
    cluster.require(topics.evaluations)
    cluster.require(topics.labels)
    # An embedded broker creates a topic with its first record.
    is_judged, is_labelled = (topic in cluster.partitions for topic in (topics.evaluations, topics.labels))
    evaluations = read_topic(config, since, embedded=cluster.embedded) if is_judged else ()
    return evaluations, read_labels_topic(config) if is_labelled else ()

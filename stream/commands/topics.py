"""`streamjury topics`: makes the topics of the configuration."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from stream.commands.cluster import reach
from stream.commands.options import config_option, read_config
from stream.config import Config

_CREATE_SECONDS = 10.0
_HOUR_MS = 3_600_000
# Services log larger records than are judged; the dead letters keep them whole.
_LARGE_BYTES = 16 * 1024 * 1024
# What is known of an app with many models and tenants that are told apart, or of a thousand canaries.
_STATE_BYTES = 4 * 1024 * 1024
# Key, headers and framing around the largest record that is judged.
_ENVELOPE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """A topic as it should be."""

    name: str
    partitions: int
    replication: int
    settings: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.name}  partitions={self.partitions}, replication={self.replication}, {settings}"


def plan_topics(config: Config, existing: Mapping[str, int] | None = None) -> list[TopicPlan]:
    """The topics that the configuration asks for, in the order records pass them.

    Where records wait aside there are as many partitions as in the work queue, also when that exists with others. What
    is known of an app is in the partition with the number of that with its scores.
    """
    topics = config.topics
    aside = (*config.retry_topics, topics.overflow)
    known = existing or {}
    partitions = dict.fromkeys(aside, known.get(topics.sampled, topics.partitions))
    partitions[topics.detection] = known.get(topics.scores, topics.partitions)
    judged = config.input.limits.record_bytes + _ENVELOPE_BYTES
    kept = {"cleanup.policy": "delete", "retention.ms": str(topics.retention_hours * _HOUR_MS)}
    large = {**kept, "max.message.bytes": str(max(_LARGE_BYTES, judged))}
    settings = {
        topics.interactions: large,
        topics.sampled: {**kept, "max.message.bytes": str(judged)},
        **{name: {**kept, "max.message.bytes": str(judged)} for name in aside},
        topics.evaluations: kept,
        topics.critical: kept,
        topics.deadletter: large,
        topics.scores: kept,
        # The newest state of every app, and the newest alert of every series, for ever.
        topics.detection: {
            "cleanup.policy": "compact",
            "max.message.bytes": str(_STATE_BYTES),
            # What is in the newest segment is not compacted, and is all read by who begins.
            "segment.ms": str(_HOUR_MS),
        },
        topics.alerts: {"cleanup.policy": "compact"},
        topics.labels: kept,
    }
    return [
        TopicPlan(
            name=name,
            partitions=partitions.get(name, topics.partitions),
            replication=topics.replication,
            settings=wanted,
        )
        for name, wanted in settings.items()
    ]


@click.group()
def topics() -> None:
    """Make the topics that Streamjury reads and writes."""


@topics.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be made.")
@config_option
def create(config_path: Path | None, dry_run: bool) -> None:
    """Make all topics of the configuration that are not there yet.

    Topics that exist are left as they are.

    \b
    Example:
      streamjury topics create --dry-run
      streamjury topics create -c production.yaml
    """
    config = read_config(config_path)
    cluster = reach(config.kafka)
    if cluster.embedded:
        click.echo(f"{config.kafka.bootstrap} is an embedded broker: it makes topics when they are first used")
        return
    plans = plan_topics(config, cluster.partitions)
    missing = [plan for plan in plans if plan.name not in cluster.partitions]
    refused = {} if dry_run else _create(cluster.admin, missing)
    for plan in plans:
        _tell(plan, cluster.partitions.get(plan.name), "would create" if dry_run else "created", refused.get(plan.name))
    if any(error.code() != KafkaError.TOPIC_ALREADY_EXISTS for error in refused.values()):
        raise SystemExit(1)


def _create(admin: AdminClient, plans: Iterable[TopicPlan]) -> dict[str, KafkaError]:
    """Creates topics; returns what the broker refused, by topic."""
    new = [NewTopic(plan.name, plan.partitions, plan.replication, config=dict(plan.settings)) for plan in plans]
    refused: dict[str, KafkaError] = {}
    for name, future in (admin.create_topics(new, request_timeout=_CREATE_SECONDS) if new else {}).items():
        try:
            future.result()
        except KafkaException as error:
            refused[name] = error.args[0]
    return refused


def _tell(plan: TopicPlan, existing: int | None, done: str, refused: KafkaError | None) -> None:
    if existing is not None:
        click.echo(f"exists        {plan.name}")
        if existing != plan.partitions:
            click.echo(
                f"warning: {plan.name} has {existing} partitions, "
                f"topics.partitions says {plan.partitions}; it is left as it is",
                err=True,
            )
    elif refused is None:
        click.echo(f"{done:12}  {plan}")
    elif refused.code() == KafkaError.TOPIC_ALREADY_EXISTS:
        click.echo(f"exists        {plan.name}")
    else:
        click.echo(f"{plan.name} was not created: {refused.str()}", err=True)

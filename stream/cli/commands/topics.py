"""`streamjury topics`: makes the topics of the configuration."""

from collections.abc import Iterable
from pathlib import Path

import click
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from stream.cli.support.cluster import reach
from stream.cli.support.options import config_option, read_config
from stream.cli.support.salt import generate_salt, has_public_salt
from stream.kafka.topics import TopicPlan, plan_topics

_CREATE_SECONDS = 10.0


@click.group()
def topics() -> None:
    """Create the topics that Streamjury reads and writes.

    \b
    Example:
      streamjury topics create --dry-run
    """


@topics.command()
@click.option("--dry-run", is_flag=True, help="Only print what would be created.")
@config_option
def create(config_path: Path | None, dry_run: bool) -> None:
    """Create all topics of the configuration that do not exist yet.

    Existing topics are left unchanged. If sampling.salt is the public default, the command suggests a random one.

    \b
    Example:
      streamjury topics create --dry-run
      streamjury topics create -c production.yaml
    """
    config = read_config(config_path)
    cluster = reach(config.kafka)
    if cluster.embedded:
        click.echo(f"{config.kafka.bootstrap} is an embedded broker: it creates topics on first use")
        return
    plans = plan_topics(config, cluster.partitions)
    missing = [plan for plan in plans if plan.name not in cluster.partitions]
    refused = {} if dry_run else _create(cluster.admin, missing)
    for plan in plans:
        _tell(plan, cluster.partitions.get(plan.name), "would create" if dry_run else "created", refused.get(plan.name))
    if has_public_salt(cluster, config.sampling):
        click.echo(
            "warning: sampling.salt is the public default, so anyone who can choose ids can avoid being sampled; set "
            f'a random one for all stages, such as sampling: {{salt: "{generate_salt()}"}}',
            err=True,
        )
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
                f"warning: {plan.name} has {existing} partitions, but topics.partitions is {plan.partitions}; left "
                "unchanged",
                err=True,
            )
    elif refused is None:
        click.echo(f"{done:12}  {plan}")
    elif refused.code() == KafkaError.TOPIC_ALREADY_EXISTS:
        click.echo(f"exists        {plan.name}")
    else:
        click.echo(f"{plan.name} was not created: {refused.str()}", err=True)

"""`streamjury topics`: creates the topics of the configuration."""

import time
from collections.abc import Iterable, Set
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import click
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from stream.cli.support.cluster import Cluster, reach
from stream.cli.support.json_output import print_json
from stream.cli.support.options import config_option, json_option, read_config
from stream.cli.support.salt import describe_public_salt, generate_salt
from stream.config.model import Config
from stream.kafka.embedded import make_topics
from stream.kafka.topics import TopicPlan, plan_topics

_CREATE_SECONDS = 10.0
_LIST_SECONDS = 10.0
_BROKER_SECONDS = 15.0
_LOOK_SECONDS = 0.1


class _TopicStatus(StrEnum):
    EXISTS = "exists"
    CREATED = "created"
    WOULD_CREATE = "would create"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class _TopicResult:
    """A planned topic, and what became of it."""

    plan: TopicPlan
    status: _TopicStatus
    partitions: int
    """Partitions that it has, or would have."""
    error: str | None = None


@click.group()
def topics() -> None:
    """Create the topics that Streamjury reads and writes.

    \b
    Example:
      streamjury topics create --dry-run
    """


@topics.command()
@click.option("--dry-run", is_flag=True, help="Only print what would be created; the cluster checks it.")
@json_option()
@config_option
def create(config_path: Path | None, dry_run: bool, as_json: bool) -> None:
    """Create all topics of the configuration that do not exist yet.

    Existing topics are left unchanged. If sampling.salt is the public default, the command suggests a random one. The
    exit status is 1 if a topic could not be created. On an embedded broker, partitions and replication are ignored, and
    `topics` in the JSON is empty.

    \b
    Examples:
      streamjury topics create --dry-run
      streamjury topics create -c production.yaml
      streamjury topics create --json | jq -r '.topics[] | select(.status == "refused") | .error'

    \b
    JSON fields:
      bootstrap   the cluster
      embedded    whether it is an embedded broker
      dry_run     whether --dry-run was given
      topics      list of objects with name, status (exists, created, would create, refused), partitions, replication,
                  settings, and error (null unless refused)
    """
    config = read_config(config_path)
    cluster = reach(config.kafka)
    results = [] if cluster.embedded else _create_missing(config, cluster, dry_run=dry_run)
    if cluster.embedded and not dry_run:
        make_topics(config.kafka.bootstrap, (plan.name for plan in plan_topics(config)))
    if as_json:
        topics_as_json = [_as_json(result) for result in results]
        print_json(
            {
                "bootstrap": config.kafka.bootstrap,
                "embedded": cluster.embedded,
                "dry_run": dry_run,
                "topics": topics_as_json,
            }
        )
    elif cluster.embedded:
        state = "it would create all topics" if dry_run else "it has all topics now"
        click.echo(f"{config.kafka.bootstrap} is an embedded broker: {state}, with its own settings")
    for result in results:
        _print(result, dry_run=dry_run, as_json=as_json)
    public_salt = describe_public_salt(cluster, config.sampling)
    if public_salt is not None:
        click.echo(
            f'warning: {public_salt}; set a random one for all stages, such as sampling: {{salt: "{generate_salt()}"}}',
            err=True,
        )
    if any(result.status is _TopicStatus.REFUSED for result in results):
        raise SystemExit(1)


def _create_missing(config: Config, cluster: Cluster, *, dry_run: bool) -> list[_TopicResult]:
    """Create the topics that do not exist, or let the cluster check them; return the result for every planned topic."""
    plans = plan_topics(config, cluster.partitions)
    missing = [plan for plan in plans if plan.name not in cluster.partitions]
    refused = create_topics(cluster.admin, missing, dry_run=dry_run)
    created = _TopicStatus.WOULD_CREATE if dry_run else _TopicStatus.CREATED
    return [_result(plan, cluster.partitions.get(plan.name), created, refused.get(plan.name)) for plan in plans]


def _result(plan: TopicPlan, existing: int | None, created: _TopicStatus, refusal: KafkaError | None) -> _TopicResult:
    partitions = plan.partitions if existing is None else existing
    if existing is not None or (refusal is not None and refusal.code() == KafkaError.TOPIC_ALREADY_EXISTS):
        return _TopicResult(plan=plan, status=_TopicStatus.EXISTS, partitions=partitions)
    if refusal is not None:
        return _TopicResult(
            plan=plan, status=_TopicStatus.REFUSED, partitions=partitions, error=_describe_refusal(refusal)
        )
    return _TopicResult(plan=plan, status=created, partitions=partitions)


def _describe_refusal(refusal: KafkaError) -> str:
    hint = ""
    if _lacks_brokers(refusal):
        hint = "; wait until the brokers have started"
    elif refusal.code() == KafkaError.INVALID_REPLICATION_FACTOR:
        hint = "; set topics.replication"
    return f"{refusal.str().rstrip('.')}{hint}"


def _lacks_brokers(refusal: KafkaError) -> bool:
    """Return whether no broker is ready: all of them are starting, or their heartbeats are late."""
    return refusal.code() == KafkaError.INVALID_REPLICATION_FACTOR and "brokers are currently fenced" in refusal.str()


def create_topics(
    admin: AdminClient, plans: Iterable[TopicPlan], *, dry_run: bool, broker_seconds: float = _BROKER_SECONDS
) -> dict[str, KafkaError]:
    """Create topics, or let the broker only check them; return its refusals by topic.

    While no broker is ready, this retries for up to `broker_seconds`.
    """
    new = [NewTopic(plan.name, plan.partitions, plan.replication, config=dict(plan.settings)) for plan in plans]
    if not new:
        return {}
    deadline = time.monotonic() + broker_seconds
    refused = _request_topics(admin, new, dry_run=dry_run)
    while time.monotonic() < deadline:
        waiting = [topic for topic in new if topic.topic in refused and _lacks_brokers(refused[topic.topic])]
        if not waiting:
            break
        time.sleep(_LOOK_SECONDS)
        for topic in waiting:
            del refused[topic.topic]
        refused |= _request_topics(admin, waiting, dry_run=dry_run)
    if not dry_run:
        _wait_until_listed(admin, {topic.topic for topic in new} - refused.keys())
    return refused


def _request_topics(admin: AdminClient, topics: list[NewTopic], *, dry_run: bool) -> dict[str, KafkaError]:
    """Ask the broker once; return its refusals by topic."""
    refused: dict[str, KafkaError] = {}
    for name, future in admin.create_topics(topics, request_timeout=_CREATE_SECONDS, validate_only=dry_run).items():
        try:
            future.result()
        except KafkaException as error:
            refused[name] = error.args[0]
    return refused


def _wait_until_listed(admin: AdminClient, names: Set[str]) -> None:
    """Wait for the broker that we talk to: it lists a topic some time after the controller has created it."""
    deadline = time.monotonic() + _LIST_SECONDS
    with suppress(KafkaException):  # the topics exist, even if the broker does not answer any more
        while not names <= admin.list_topics(timeout=_CREATE_SECONDS).topics.keys() and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)


def _as_json(result: _TopicResult) -> dict[str, Any]:
    return {
        "name": result.plan.name,
        "status": result.status.value,
        "partitions": result.partitions,
        "replication": result.plan.replication,
        "settings": dict(result.plan.settings),
        "error": result.error,
    }


def _print(result: _TopicResult, *, dry_run: bool, as_json: bool) -> None:
    """Print a result as text, and its problem, if there is one, to standard error."""
    plan = result.plan
    if result.status is _TopicStatus.REFUSED:
        failed = "cannot be created" if dry_run else "was not created"
        click.echo(f"{plan.name} {failed}: {result.error}", err=True)
    elif not as_json:
        click.echo(f"{result.status:12}  {plan.name if result.status is _TopicStatus.EXISTS else plan}")
    if result.partitions != plan.partitions:
        click.echo(
            f"warning: {plan.name} has {result.partitions} partitions, but topics.partitions is {plan.partitions}; "
            "left unchanged",
            err=True,
        )

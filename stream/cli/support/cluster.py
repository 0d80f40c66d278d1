"""Checks that the Kafka cluster answers before a command starts, and prints one clear line if it does not."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from stream.config.sections.kafka import KafkaConfig
from stream.errors import StageError
from stream.kafka.codecs import librdkafka_codecs, require_codecs
from stream.kafka.embedded import is_embedded
from stream.kafka.errors import unusable_topic

log = logging.getLogger(__name__)

_ANSWER_SECONDS = 6.0


class KafkaUnusable(click.ClickException):
    """Kafka cannot be reached or used; the exit status differs from that of a check that found problems."""

    exit_code = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster that answers."""

    admin: AdminClient
    embedded: bool
    partitions: Mapping[str, int]
    """Number of partitions of each topic."""

    def require(self, topic: str) -> None:
        """Exit if the topic does not exist and will not be created by its first use."""
        if topic not in self.partitions and not self.embedded:
            raise KafkaUnusable(str(unusable_topic(topic, self._refusal(topic))))

    def _refusal(self, topic: str) -> KafkaError | None:
        """Return why the broker did not list a topic: it omits those that we may not see."""
        names = TopicCollection(topic_names=[topic])
        try:
            self.admin.describe_topics(names, request_timeout=_ANSWER_SECONDS)[topic].result()
        except KafkaException as error:
            return error.args[0]  # type: ignore[no-any-return]
        return None


def reach(kafka: KafkaConfig) -> Cluster:
    """Return the configured cluster; if it does not answer, print the reason and the remedy, and exit."""
    try:
        require_codecs("this build of librdkafka", librdkafka_codecs(), "install confluent-kafka from its wheel")
    except StageError as error:
        raise KafkaUnusable(str(error)) from None
    reasons: list[str] = []

    def note(error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            reasons.append(_shorten(error.str()))

    options: dict[str, Any] = {**kafka.client_options(), "log_level": 0, "error_cb": note}
    try:
        admin = AdminClient(options, logger=log)
    except KafkaException as error:
        raise KafkaUnusable(f"kafka.options: {error.args[0].str()}") from None
    try:
        metadata = admin.list_topics(timeout=_ANSWER_SECONDS)
    except KafkaException as error:
        # Runs the callbacks, which know more than the error.
        admin.poll(0)
        reason = reasons[0] if reasons else error.args[0].str()
        raise KafkaUnusable(
            f"no Kafka broker at {kafka.bootstrap} ({reason}); start it, or set kafka.bootstrap in the configuration "
            "or STREAMJURY__KAFKA__BOOTSTRAP in the environment"
        ) from None
    partitions = {name: len(topic.partitions) for name, topic in metadata.topics.items()}
    return Cluster(admin=admin, embedded=is_embedded(metadata.cluster_id), partitions=partitions)


def _shorten(text: str) -> str:
    """Shorten `host:1/bootstrap: Connect to … failed: refused (after 0ms in state CONNECT)` to its middle part."""
    return re.sub(r"^\S+/\S+: | \(after \d+ms in state \w+.*\)$", "", text)

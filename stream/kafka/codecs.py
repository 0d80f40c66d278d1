"""Compression codecs: a client that cannot read one fails at its start, with the name of the codec."""

import logging
from collections.abc import Collection

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from stream.errors import StageError

log = logging.getLogger(__name__)

CODECS = ("gzip", "snappy", "lz4", "zstd")
"""Every codec of Kafka: producers choose one for each batch, and brokers one for each topic."""


def require_codecs(client: str, readable: Collection[str], remedy: str) -> None:
    """Raise `StageError` if a client cannot read one of the codecs."""
    if missing := [codec for codec in CODECS if codec not in readable]:
        raise StageError(f"{client} cannot read records compressed with {' or '.join(missing)}; {remedy}")


def librdkafka_codecs() -> frozenset[str]:
    """Return the codecs of the installed librdkafka."""
    return frozenset(filter(_is_built_in, CODECS))


def _is_built_in(codec: str) -> bool:
    try:
        AdminClient({"builtin.features": codec, "log_level": 0}, logger=log)
    except KafkaException:
        return False
    return True

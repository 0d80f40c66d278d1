"""The salt of the sampling decision: generates a random one, and warns if the public default is in use."""

import logging
import secrets

from stream.cli.support.cluster import Cluster
from stream.config.sections.sampling import DEFAULT_SALT, SamplingConfig

log = logging.getLogger(__name__)

_BYTES = 16


def generate_salt() -> str:
    return secrets.token_hex(_BYTES)


def has_public_salt(cluster: Cluster, sampling: SamplingConfig) -> bool:
    """Return whether ids can be chosen to avoid sampling; an embedded broker has no traffic to hide."""
    return not cluster.embedded and sampling.salt == DEFAULT_SALT


def warn_of_public_salt(cluster: Cluster, sampling: SamplingConfig) -> None:
    if has_public_salt(cluster, sampling):
        log.warning(
            "sampling.salt is the public default, so anyone who can choose ids can avoid being sampled; set a random "
            "one, the same for all stages (`streamjury topics create` suggests one)"
        )

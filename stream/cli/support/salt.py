"""The salt of the sampling decision: generates a random one, masks it, and warns if a public one is in use."""

import logging
import secrets

from stream.cli.support.cluster import Cluster
from stream.config.model import Config
from stream.config.section import MASK
from stream.config.sections.sampling import DEFAULT_SALT, SamplingConfig

log = logging.getLogger(__name__)

_BYTES = 16
_PUBLIC = {DEFAULT_SALT: "the public default", "replace-this": "the placeholder of the documentation"}
_REMEDY = "set a random one, the same for all stages (`openssl rand -hex 16` prints one)"
_LOCAL_HOSTS = ("localhost:", "127.", "[::1]:")


def generate_salt() -> str:
    return secrets.token_hex(_BYTES)


def masked_salt(sampling: SamplingConfig) -> str:
    """Return the salt as it may be shown: only the default, which is public."""
    return DEFAULT_SALT if sampling.salt == DEFAULT_SALT else MASK


def mask_salt(config: Config) -> Config:
    sampling = config.sampling.model_copy(update={"salt": masked_salt(config.sampling)})
    return config.model_copy(update={"sampling": sampling})


def describe_public_salt(cluster: Cluster, sampling: SamplingConfig) -> str | None:
    """Describe a salt with which ids can be chosen to avoid sampling; an embedded broker has no traffic to hide."""
    return None if cluster.embedded else _describe(sampling)


def describe_configured_salt(config: Config) -> str | None:
    """Describe a public salt without asking the broker; one on this machine may be embedded."""
    problem = None if is_on_this_machine(config) else _describe(config.sampling)
    return problem and f"{problem}; {_REMEDY}"


def is_on_this_machine(config: Config) -> bool:
    """Return whether all configured brokers are on this machine, as an embedded one is."""
    return all(broker.strip().startswith(_LOCAL_HOSTS) for broker in config.kafka.bootstrap.split(","))


def warn_of_public_salt(cluster: Cluster, sampling: SamplingConfig) -> None:
    problem = describe_public_salt(cluster, sampling)
    if problem is not None:
        log.warning("%s; %s", problem, _REMEDY)


def _describe(sampling: SamplingConfig) -> str | None:
    kind = _PUBLIC.get(sampling.salt)
    return kind and f"sampling.salt is {kind}, so anyone who can choose ids can avoid being sampled"

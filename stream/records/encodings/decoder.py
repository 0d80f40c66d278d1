"""The contract of a decoder, and the decoder of a configuration."""

from importlib.util import find_spec
from typing import Protocol

from sinks.base import Headers
from stream.config.model import Config
from stream.errors import StageError

REGISTRY_SECONDS = 30.0
"""How long a command waits for a registry that does not answer; the sampler waits without end."""

# Modules that the extra `registry` installs, and confluent-kafka imports for its deserialisers.
_MODULES = ("authlib", "cachetools", "fastavro", "grpc_tools", "httpx2", "jsonschema", "google.type")


class Decoder(Protocol):
    """Decodes records of one encoding."""

    def decode(self, value: bytes | None, headers: Headers) -> bytes:
        """Return a record's value as JSON.

        Raises RecordError for a record that cannot be decoded, and RegistryError if the schema is not known and
        the registry does not answer.
        """

    def check(self) -> None:
        """Raise RegistryError if the registry does not answer."""


def make_decoder(config: Config, *, patience: float = 0.0) -> Decoder | None:
    """Return the decoder of the input topic, or None if its records are JSON.

    If the registry does not answer, it is asked again for `patience` seconds.
    """
    if config.input.encoding == "json":
        return None
    if missing := missing_extra(config):
        raise StageError(f"input.encoding: {missing}")
    from stream.records.encodings.confluent import ConfluentDecoder  # noqa: PLC0415 - needs the extra `registry`

    return ConfluentDecoder(config.input, topic=config.topics.interactions, patience=patience)


def missing_extra(config: Config) -> str | None:
    """Return how to install missing packages that the encoding needs, or None."""
    if config.input.encoding == "json" or all(map(_is_installed, _MODULES)):
        return None
    return f"{config.input.encoding} needs further packages: pip install 'streamjury[registry]'"


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even its parent package
        return False

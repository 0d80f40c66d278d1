"""Finds the secrets of a configuration, so that no log line repeats one."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from pydantic import BaseModel, SecretStr

from judges.criteria.problems import InconsistentError
from stream.config.judge_kinds.endpoint import EndpointSection
from stream.config.model import Config
from stream.config.sections.kafka import KafkaOptions, is_secret

# Options whose names look like a secret, but whose values only locate one.
_PLACES = (".location", ".url", ".keytab", ".file")


def find_secrets(config: Config) -> frozenset[str]:
    """Find every password, key and token of a configuration, in clear; reads the key files that it names."""
    return frozenset(secret for secret in _secrets_in(config) if secret)


def _secrets_in(value: Any) -> Iterator[str]:
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, KafkaOptions):
        yield from (str(text) for name, text in value.items() if is_secret(name) and not name.endswith(_PLACES))
    elif isinstance(value, BaseModel):
        if isinstance(value, EndpointSection):
            yield _endpoint_key(value)
        for name in type(value).model_fields:
            yield from _secrets_in(getattr(value, name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _secrets_in(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from _secrets_in(item)


def _endpoint_key(section: EndpointSection) -> str:
    # An unreadable file has no key to hide; building the judge reports it.
    with suppress(InconsistentError):
        return section.endpoint_options()["api_key"] or ""
    return ""

"""Fetches schemas from a Schema Registry, and tells a registry that is away from a schema that does not exist."""

import ssl
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from stream.config.sections.registry import RegistryConfig
from stream.errors import RecordError, RegistryError, StageError

# Codes of the registry's API. Any other 404 may come from a wrong address, and says nothing about a schema.
_SCHEMA_NOT_FOUND = 40403
_REFERENCE_NOT_FOUND = {40401, 40402}
_REFUSED = {401, 403}
# Responses to a request that is wrong, from a registry or from another server.
_WRONG_REQUEST = {400, 404, 405, 422}

REGISTRY_ERRORS = (SchemaRegistryError, httpx2.HTTPError, httpx2.InvalidURL)
"""The errors of a request, which `registry_errors` translates."""


def make_client(config: RegistryConfig) -> SchemaRegistryClient:
    """Make the client; it keeps every schema that it has fetched. It does not retry: its callers do."""
    options: dict[str, Any] = {"url": config.url, "timeout": config.timeout_seconds, "max.retries": 0}
    if config.ca_file is not None:
        options["ssl.ca.location"] = config.ca_file
    if config.user is not None and config.password is not None:
        options["basic.auth.user.info"] = f"{config.user}:{config.password.get_secret_value()}"
    if config.token is not None:
        options["bearer.auth.credentials.source"] = "STATIC_TOKEN"
        options["bearer.auth.token"] = config.token.get_secret_value()
        options["bearer.auth.logical.cluster"] = ""  # only Confluent's cloud knows one
    try:
        client = SchemaRegistryClient(options)
    except (OSError, ssl.SSLError) as error:
        raise StageError(f"input.registry.ca_file: cannot read {config.ca_file} ({error})") from None
    # Its connections are closed with it, as the client itself does not do that.
    weakref.finalize(client, client._rest_client.session.close)
    return client


@contextmanager
def registry_errors(config: RegistryConfig, subject: str) -> Iterator[None]:
    """Translate the errors of a request: RecordError if a schema does not exist, else RegistryError."""
    try:
        yield
    except SchemaRegistryError as error:
        code, message = error.error_code, error.error_message
        if code == _SCHEMA_NOT_FOUND:
            raise RecordError("unknown_schema", f"the Schema Registry does not know {subject}: {message}") from None
        if code in _REFERENCE_NOT_FOUND:
            raise RecordError("bad_schema", f"{subject} refers to a missing schema: {message}") from None
        if error.http_status_code in _REFUSED:
            raise _unavailable(config, f"it refused the credentials, HTTP {error.http_status_code}") from None
        raise _unavailable(config, f"HTTP {error.http_status_code}: {message}") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise _unavailable(config, str(error) or type(error).__name__) from None


def is_refused_id(error: SchemaRegistryError) -> bool:
    """Return whether a request for a schema failed for a reason that may be its id, without naming that reason."""
    return error.http_status_code in _WRONG_REQUEST and error.error_code not in {
        _SCHEMA_NOT_FOUND,
        *_REFERENCE_NOT_FOUND,
    }


def no_schema(config: RegistryConfig, error: Exception) -> RegistryError:
    """Return the error for a response that is not that of a registry."""
    return _unavailable(config, f"its response is not that of a Schema Registry: {error}")


def _unavailable(config: RegistryConfig, reason: str) -> RegistryError:
    return RegistryError(f"cannot use the Schema Registry at {config.url} ({reason})")

"""Looks for the certificates and keys that a configuration names, for `streamjury config check`.

Other commands leave that to the code that uses the files: many run on machines without them.
"""

import ssl
from collections.abc import Iterator
from pathlib import Path

from judges.criteria.problems import Loc, Problem, path_text
from sinks.web.tls import CertificateError, server_tls
from stream.config.model import Config
from stream.config.sections.kafka import KafkaConfig
from stream.config.sections.registry import RegistryConfig
from stream.config.sections.stages import HttpConfig
from stream.kafka.options import find_combination_problem

_FILES = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.keystore.location",
    "ssl.crl.location",
)
# Not a file: librdkafka searches the usual places for certificates.
_PROBE = "probe"


def find_certificate_problems(config: Config) -> list[Problem]:
    """Return all problems with the files, each at its key."""
    problems = [
        *_kafka_problems(config.kafka),
        *_registry_problems(config.input.registry),
        *_http_problems(config.http),
    ]
    return [Problem(path=path_text(loc), message=message) for loc, message in problems]


def _kafka_problems(kafka: KafkaConfig) -> Iterator[tuple[Loc, str]]:
    unreadable = list(_unreadable_files(kafka))
    yield from unreadable
    if not unreadable and (problem := find_combination_problem(kafka.options)):
        yield ("kafka", "options"), problem


def _unreadable_files(kafka: KafkaConfig) -> Iterator[tuple[Loc, str]]:
    if not str(kafka.options.get("security.protocol", "")).lower().endswith("ssl"):
        return  # librdkafka opens no files
    for name in _FILES:
        path = str(kafka.options.get(name, ""))
        if path in {"", _PROBE} or (name == "ssl.ca.location" and Path(path).is_dir()):
            continue
        try:
            with Path(path).open("rb"):
                pass
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a path"
            yield ("kafka", "options", name), f"cannot read {path} ({reason})"


def _registry_problems(registry: RegistryConfig) -> Iterator[tuple[Loc, str]]:
    if registry.ca_file is None:
        return
    try:
        ssl.create_default_context(cafile=registry.ca_file)
    except (OSError, ValueError) as error:
        reason = "it has no certificates" if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None)
        yield ("input", "registry", "ca_file"), f"cannot read {registry.ca_file} ({reason or 'not a path'})"


def _http_problems(http: HttpConfig) -> Iterator[tuple[Loc, str]]:
    if http.certificate is None or http.key is None:
        return
    try:
        server_tls(http.certificate, http.key)
    except CertificateError as error:
        yield ("http", error.part), str(error)

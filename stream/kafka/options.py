"""Checks of `kafka.options` by librdkafka itself, before a stage uses them. No connection is opened."""

import functools
import logging
from collections.abc import Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from stream.config.sections.kafka import OptionValue, is_secret

# With a debug option, these short-lived clients would log.
_SILENT = logging.getLogger(f"{__name__}.client")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False

_UNKNOWN = "unknown option; see librdkafka's CONFIGURATION.md for all options"
_REFUSED = "librdkafka does not accept this value"
# librdkafka's messages about names, as opposed to values.
_NO_SUCH_OPTION = ("No such configuration property", "Property ")
# Its message about options that are valid one by one, but not together.
_NO_CLIENT = "Failed to create "


@functools.lru_cache(maxsize=256, typed=True)
def find_option_problem(name: str, value: OptionValue) -> str | None:
    """Return the problem with a single option: its name, or a value that is never valid."""
    try:
        AdminClient({name: value}, logger=_SILENT)
    except KafkaException as error:
        return _describe_problem(name, error.args[0].str().strip())
    except (TypeError, AttributeError):  # a function or a mapping of the Python client
        return _UNKNOWN
    except (SystemError, ValueError):  # half of a surrogate pair
        return _REFUSED
    return _UNKNOWN if name == "logger" else None  # an option of the Python client


def _describe_problem(name: str, reason: str) -> str | None:
    if reason.startswith(_NO_CLIENT):
        return None
    if reason.startswith(_NO_SUCH_OPTION):
        return _UNKNOWN
    return _REFUSED + ("" if is_secret(name) else f" ({reason})")


def find_combination_problem(options: Mapping[str, OptionValue]) -> str | None:
    """Return why librdkafka rejects these options together, such as an invalid certificate, or None."""
    try:
        AdminClient(dict(options), logger=_SILENT)
    except KafkaException as error:
        return str(error.args[0].str()).partition(": ")[2]
    return None

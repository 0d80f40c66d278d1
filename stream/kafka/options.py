"""Checks of `kafka.options` by librdkafka itself, before a stage uses them. Nothing is connected to."""

import functools
import logging
from collections.abc import Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from stream.config.sections.kafka import OptionValue, is_secret

# An option that asks for debugging would have these short-lived clients talk.
_SILENT = logging.getLogger(f"{__name__}.client")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False

_UNKNOWN = "unknown option; see librdkafka's CONFIGURATION.md for all options"
_REFUSED = "librdkafka does not accept this value"
# What librdkafka says of names, as opposed to values.
_NO_SUCH_OPTION = ("No such configuration property", "Property ")
# What it says of options that are right one by one and do not go together.
_NO_CLIENT = "Failed to create "


@functools.lru_cache(maxsize=256, typed=True)
def find_option_problem(name: str, value: OptionValue) -> str | None:
    """The problem with an option by itself: its name, or a value that it never takes."""
    try:
        AdminClient({name: value}, logger=_SILENT)
    except KafkaException as error:
        return _problem_in_words(name, error.args[0].str().strip())
    except (TypeError, AttributeError):  # a function or a mapping of the Python client
        return _UNKNOWN
    except (SystemError, ValueError):  # half of a surrogate pair
        return _REFUSED
    return _UNKNOWN if name == "logger" else None  # the Python client's own


def _problem_in_words(name: str, reason: str) -> str | None:
    if reason.startswith(_NO_CLIENT):
        return None
    if reason.startswith(_NO_SUCH_OPTION):
        return _UNKNOWN
    return _REFUSED + ("" if is_secret(name) else f" ({reason})")


def find_combination_problem(options: Mapping[str, OptionValue]) -> str | None:
    """Why librdkafka makes no client with all of these options, such as a certificate that is none."""
    try:
        AdminClient(dict(options), logger=_SILENT)
    except KafkaException as error:
        return str(error.args[0].str()).partition(": ")[2]
    return None

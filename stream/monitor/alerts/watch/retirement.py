"""The retirement of evaluators: one that others have replaced is given up."""

from collections.abc import Mapping
from typing import Protocol

# So many records in a row were judged by others.
_RETIRED_AFTER = 200


class Idling(Protocol):
    idle: int
    """Records since, which others judged."""


def retired(evaluators: Mapping[str, Idling], asked: str) -> list[str]:
    """Counts one more record, which the evaluator with this fingerprint judged; gives those that are no longer used."""
    for fingerprint, each in evaluators.items():
        each.idle = 0 if fingerprint == asked else each.idle + 1
    return [fingerprint for fingerprint, each in evaluators.items() if each.idle >= _RETIRED_AFTER]

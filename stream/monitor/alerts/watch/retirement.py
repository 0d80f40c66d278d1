"""The retirement of evaluators: one that others have replaced is removed."""

from collections.abc import Mapping
from typing import Protocol

# An evaluator is retired after this many records in a row that others judged.
_RETIRED_AFTER = 200


class Idling(Protocol):
    idle: int
    """Records that others judged since its last one."""


def find_retired(evaluators: Mapping[str, Idling], latest: str) -> list[str]:
    """Count one more record, judged by the evaluator `latest`; return the evaluators that are no longer used."""
    for fingerprint, evaluator in evaluators.items():
        evaluator.idle = 0 if fingerprint == latest else evaluator.idle + 1
    return [fingerprint for fingerprint, evaluator in evaluators.items() if evaluator.idle >= _RETIRED_AFTER]

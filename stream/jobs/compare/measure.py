"""A measure: a number, or the reason why there is none; never NaN."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    value: float | None = None
    reason: str | None = None
    """The reason if there is no number."""


def known(value: float) -> Measure:
    return Measure(value=value)


def unknown(reason: str) -> Measure:
    return Measure(reason=reason)


NO_ROWS = unknown("no rows to compare")

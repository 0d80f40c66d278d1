"""Formats numbers in units as Grafana does, for the units that the dashboards use."""

import math
from collections.abc import Callable, Mapping

_SCALES = ((1e9, " B"), (1e6, " Mil"), (1e3, " K"))


def format_number(value: float, unit: str, decimals: int | None = None) -> str:
    if math.isnan(value):
        return "–"
    kind, _, suffix = unit.partition(":")
    return _FORMATS[kind](value, decimals) + suffix


def _round(value: float, decimals: int | None) -> str:
    if decimals is not None:
        return f"{value:.{decimals}f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def _short(value: float, decimals: int | None) -> str:
    for size, name in _SCALES:
        if abs(value) >= size:
            return f"{value / size:.3g}{name}"
    return _round(value, decimals)


def _duration(value: float) -> str:
    if value == 0:
        return "0 s"
    return f"{1000 * value:.3g} ms" if abs(value) < 1 else f"{value:.3g} s"


_FORMATS: Mapping[str, Callable[[float, int | None], str]] = {
    "none": _round,
    "percentunit": lambda value, decimals: f"{_round(100 * value, decimals)}%",
    "currencyUSD": lambda value, decimals: f"${_round(value, 2 if decimals is None else decimals)}",
    "s": lambda value, _: _duration(value),
    "short": _short,
    "suffix": _short,
}

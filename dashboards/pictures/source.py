"""Reads from Prometheus what the panels of a dashboard ask for, over a span of time."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from dashboards.queries import preset, substituted

Numbers = NDArray[np.float64]
_POINTS = 280
_LABEL = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_LABEL_VALUES = re.compile(r"label_values\((?P<metric>.+), (?P<label>\w+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelSeries:
    """One line: values at every step of the span, NaN where there is none."""

    ref_id: str
    name: str
    labels: Mapping[str, str]
    values: Numbers

    @property
    def last(self) -> float:
        known = self.values[~np.isnan(self.values)]
        return float(known[-1]) if known.size else float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelData:
    """A panel with its place on the grid and its data."""

    panel: Mapping[str, Any]
    title: str
    place: Mapping[str, int]
    series: Sequence[PanelSeries]


class Prometheus:
    """The query API of a Prometheus server, at evenly spaced times from start to end."""

    def __init__(self, client: httpx.Client, *, start: float, end: float) -> None:
        self._client = client
        self.step = max(1.0, (end - start) / _POINTS)
        self.times: Numbers = np.arange(start, end + self.step / 2, self.step)

    def series(self, expr: str, *, ref_id: str = "A", legend: str = "") -> list[PanelSeries]:
        asked = {"query": expr, "start": self.times[0], "end": self.times[-1], "step": self.step}
        return [self._series(each, ref_id, legend) for each in self._get("query_range", asked)["result"]]

    def now(self, expr: str, *, ref_id: str = "A") -> list[PanelSeries]:
        found = self._get("query", {"query": expr, "time": self.times[-1]})["result"]
        return [
            PanelSeries(ref_id=ref_id, name="", labels=each["metric"], values=np.array([float(each["value"][1])]))
            for each in found
        ]

    def values_of(self, definition: str) -> list[str]:
        """What a variable's `label_values(metric, label)` offers."""
        found = _LABEL_VALUES.fullmatch(definition)
        if found is None:
            raise ValueError(f"not a query for label values: {definition}")
        asked = {"match[]": found["metric"], "start": self.times[0], "end": self.times[-1]}
        return sorted(self._get(f"label/{found['label']}/values", asked))

    def _series(self, each: Mapping[str, Any], ref_id: str, legend: str) -> PanelSeries:
        values = np.full(self.times.shape, np.nan)
        for moment, value in each["values"]:
            values[round((moment - self.times[0]) / self.step)] = float(value)
        return PanelSeries(ref_id=ref_id, name=_named(each["metric"], legend), labels=each["metric"], values=values)

    def _get(self, path: str, asked: Mapping[str, Any]) -> Any:
        answer = self._client.get(f"/api/v1/{path}", params=dict(asked)).raise_for_status().json()
        return answer["data"]


def _named(labels: Mapping[str, str], legend: str) -> str:
    if legend:
        return _LABEL.sub(lambda found: labels.get(found[1], ""), legend).strip()
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()) if key != "__name__") or "value"


def shown(dashboard: Mapping[str, Any], source: Prometheus, window: str) -> Iterator[PanelData]:
    """Every panel and row with its data, repeated panels laid out as Grafana does it."""
    below = 0
    values = {"window": window, **preset(dashboard)}
    for panel in dashboard["panels"]:
        place = {**panel["gridPos"], "y": panel["gridPos"]["y"] + below}
        if panel["type"] == "row":
            yield PanelData(panel=panel, title=panel["title"], place=place, series=())
        elif "repeat" in panel:
            copies = list(_repeated(dashboard, panel, place, source, values))
            below += max((copy.place["y"] for copy in copies), default=place["y"]) - place["y"]
            yield from copies
        else:
            yield _filled(panel, place, source, values)


def _repeated(
    dashboard: Mapping[str, Any],
    panel: Mapping[str, Any],
    place: Mapping[str, int],
    source: Prometheus,
    given: Mapping[str, str],
) -> Iterator[PanelData]:
    name = panel["repeat"]
    definition = next(each["definition"] for each in dashboard["templating"]["list"] if each["name"] == name)
    values = source.values_of(definition)
    across = max(1, min(int(panel["maxPerRow"]), len(values)))
    for index, value in enumerate(values):
        row, column = divmod(index, across)
        width = 24 // across
        here = {"x": column * width, "y": place["y"] + row * place["h"], "w": width, "h": place["h"]}
        yield _filled(panel, here, source, {**given, name: value})


def _filled(
    panel: Mapping[str, Any], place: Mapping[str, int], source: Prometheus, values: Mapping[str, str]
) -> PanelData:
    series = [found for target in panel["targets"] for found in _asked(target, source, values)]
    return PanelData(panel=panel, title=substituted(panel["title"], values), place=place, series=series)


def _asked(target: Mapping[str, Any], source: Prometheus, values: Mapping[str, str]) -> list[PanelSeries]:
    expr = substituted(target["expr"], values)
    if target.get("instant"):
        return source.now(expr, ref_id=target["refId"])
    return source.series(expr, ref_id=target["refId"], legend=target.get("legendFormat", ""))

"""Queries Prometheus for the data of a dashboard's panels, over a span of time."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from dashboards.queries import preset, substitute

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
        numbers = self.values[~np.isnan(self.values)]
        return float(numbers[-1]) if numbers.size else float("nan")


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
        parameters = {"query": expr, "start": self.times[0], "end": self.times[-1], "step": self.step}
        return [self._series(result, ref_id, legend) for result in self._get("query_range", parameters)["result"]]

    def now(self, expr: str, *, ref_id: str = "A") -> list[PanelSeries]:
        results = self._get("query", {"query": expr, "time": self.times[-1]})["result"]
        return [
            PanelSeries(ref_id=ref_id, name="", labels=result["metric"], values=np.array([float(result["value"][1])]))
            for result in results
        ]

    def values_of(self, definition: str) -> list[str]:
        """Return the values of a variable defined by `label_values(metric, label)`."""
        match = _LABEL_VALUES.fullmatch(definition)
        if match is None:
            raise ValueError(f"not a query for label values: {definition}")
        parameters = {"match[]": match["metric"], "start": self.times[0], "end": self.times[-1]}
        return sorted(self._get(f"label/{match['label']}/values", parameters))

    def _series(self, result: Mapping[str, Any], ref_id: str, legend: str) -> PanelSeries:
        values = np.full(self.times.shape, np.nan)
        for moment, value in result["values"]:
            values[round((moment - self.times[0]) / self.step)] = float(value)
        return PanelSeries(
            ref_id=ref_id, name=_series_name(result["metric"], legend), labels=result["metric"], values=values
        )

    def _get(self, path: str, parameters: Mapping[str, Any]) -> Any:
        answer = self._client.get(f"/api/v1/{path}", params=dict(parameters)).raise_for_status().json()
        return answer["data"]


def _series_name(labels: Mapping[str, str], legend: str) -> str:
    if legend:
        return _LABEL.sub(lambda match: labels.get(match[1], ""), legend).strip()
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()) if key != "__name__") or "value"


def load_panels(dashboard: Mapping[str, Any], source: Prometheus, window: str) -> Iterator[PanelData]:
    """Yield every panel and row with its data; repeated panels are laid out as in Grafana."""
    below = 0
    values = {"window": window, **preset(dashboard)}
    for panel in dashboard["panels"]:
        place = {**panel["gridPos"], "y": panel["gridPos"]["y"] + below}
        if panel["type"] == "row":
            yield PanelData(panel=panel, title=panel["title"], place=place, series=())
        elif "repeat" in panel:
            copies = list(_repeat_panel(dashboard, panel, place, source, values))
            below += max((copy.place["y"] for copy in copies), default=place["y"]) - place["y"]
            yield from copies
        else:
            yield _load_panel(panel, place, source, values)


def _repeat_panel(
    dashboard: Mapping[str, Any],
    panel: Mapping[str, Any],
    place: Mapping[str, int],
    source: Prometheus,
    variables: Mapping[str, str],
) -> Iterator[PanelData]:
    name = panel["repeat"]
    definition = next(
        variable["definition"] for variable in dashboard["templating"]["list"] if variable["name"] == name
    )
    values = source.values_of(definition)
    across = max(1, min(int(panel["maxPerRow"]), len(values)))
    for index, value in enumerate(values):
        row, column = divmod(index, across)
        width = 24 // across
        here = {"x": column * width, "y": place["y"] + row * place["h"], "w": width, "h": place["h"]}
        yield _load_panel(panel, here, source, {**variables, name: value})


def _load_panel(
    panel: Mapping[str, Any], place: Mapping[str, int], source: Prometheus, values: Mapping[str, str]
) -> PanelData:
    series = [line for target in panel["targets"] for line in _query(target, source, values)]
    return PanelData(panel=panel, title=substitute(panel["title"], values), place=place, series=series)


def _query(target: Mapping[str, Any], source: Prometheus, values: Mapping[str, str]) -> list[PanelSeries]:
    expr = substitute(target["expr"], values)
    if target.get("instant"):
        return source.now(expr, ref_id=target["refId"])
    return source.series(expr, ref_id=target["refId"], legend=target.get("legendFormat", ""))

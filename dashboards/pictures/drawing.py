"""Draws one panel with matplotlib in the dark look of Grafana, from the panel's JSON and its data."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.textpath import TextPath
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import Affine2D

from dashboards.pictures.source import Numbers, PanelData, PanelSeries
from dashboards.pictures.units import format_number

BACKGROUND, PANEL, BORDER = "#111217", "#181b1f", "#2a2d33"
TEXT, MUTED, GRID = "#d5d6e0", "#9a9ca8", "#2a2d33"
_NAMED = {
    "green": "#73bf69",
    "yellow": "#fade2a",
    "orange": "#ff9830",
    "red": "#f2495c",
    "blue": "#5794f2",
    "purple": "#b877d9",
    "text": TEXT,
}
_PALETTE = (
    *("#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9"),
    *("#37872d", "#fade2a", "#447ebc", "#c15c17", "#890f02", "#806eb7", "#96d98d"),
)
_HEAT = LinearSegmentedColormap.from_list("heat", [PANEL, "#1d4d8f", "#5794f2", "#d7e6ff"])
_TITLE, _SMALL, _LINE = 9.5, 8.0, 17
_HOUR = 3600
_DPI = 100
_TICKS = (10, 30, 60, 120, 300, 600, 900, 1800, _HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, 24 * _HOUR)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventMark:
    """An event: a line at its start, and a strip below the graph while it lasts."""

    start: float
    end: float
    colour: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle of the picture in pixels, from the upper left corner."""

    x: float
    y: float
    w: float
    h: float

    def inside(self, *, left: float = 0, top: float = 0, right: float = 0, bottom: float = 0) -> "Box":
        return Box(x=self.x + left, y=self.y + top, w=self.w - left - right, h=self.h - top - bottom)


class PixelFigure:
    """A figure that is measured in pixels."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI, facecolor=BACKGROUND)

    def axes(self, box: Box) -> Axes:
        place = (box.x / self.width, 1 - (box.y + box.h) / self.height, box.w / self.width, box.h / self.height)
        axes = self.figure.add_axes(place, facecolor="none")
        axes.set_axis_off()
        return axes

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        wanted: dict[str, Any] = {
            "color": TEXT,
            "fontsize": _SMALL,
            "va": "center",
            "ha": "left",
            "parse_math": False,
        } | style
        self.figure.text(x / self.width, 1 - y / self.height, text, **wanted)

    def frame(self, box: Box) -> None:
        """Draw the background of a panel."""
        style: dict[str, Any] = {
            "boxstyle": "round,pad=0,rounding_size=3",
            "facecolor": PANEL,
            "edgecolor": BORDER,
            "linewidth": 0.8,
        }
        pixels = Affine2D().scale(1 / self.width, -1 / self.height).translate(0, 1) + self.figure.transFigure
        self.figure.add_artist(FancyBboxPatch((box.x, box.y), box.w, box.h, zorder=-1, transform=pixels, **style))

    def wide(self, text: str, size: float = _SMALL) -> float:
        """Return the width of a text in pixels."""
        if not text.strip():
            return 0.0
        path = TextPath((0, 0), text, size=size)
        drawn = path.vertices[path.codes != TextPath.CLOSEPOLY]  # its vertex is ignored
        return float(np.ptp(drawn[:, 0])) * _DPI / 72


def draw(sheet: PixelFigure, data: PanelData, box: Box, times: Numbers, marks: Sequence[EventMark]) -> None:
    """Draw frame, title and contents of a panel."""
    if data.panel["type"] == "row":
        sheet.text(box.x + 2, box.y + box.h / 2, f"⌄  {data.title}", fontsize=10.5, weight="bold")
        return
    sheet.frame(box)
    sheet.text(box.x + 10, box.y + 15, data.title, fontsize=_TITLE, weight="bold")
    inner = box.inside(left=10, right=10, top=30, bottom=8)
    if not data.series:
        empty = _defaults(data).get("noValue") or "No data"
        sheet.text(inner.x + inner.w / 2, inner.y + inner.h / 2, empty, color=MUTED, ha="center", fontsize=_TITLE)
        return
    if data.panel["type"] == "timeseries":
        _Graph(sheet, data, times).draw(inner, marks)
    elif data.panel["type"] == "state-timeline":
        _states(sheet, data, inner, times)
    elif data.panel["type"] == "heatmap":
        _heat(sheet, data, inner, times)
    else:
        {"stat": _stat, "bargauge": _bars, "table": _table}[data.panel["type"]](sheet, data, inner)


def flat_colours() -> list[str]:
    """Return the colours that must remain distinguishable."""
    return [BACKGROUND, PANEL, BORDER, TEXT, MUTED, *_NAMED.values(), *_PALETTE]


def hexadecimal(colour: str) -> str:
    return _NAMED.get(colour, colour)


def _defaults(data: PanelData) -> Mapping[str, Any]:
    defaults: Mapping[str, Any] = data.panel["fieldConfig"]["defaults"]
    return defaults


def _number(data: PanelData, value: float) -> str:
    defaults = _defaults(data)
    return format_number(value, defaults["unit"], defaults.get("decimals"))


def _step_colour(steps: Sequence[Mapping[str, Any]], value: float) -> str:
    reached = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
    return hexadecimal(reached[-1] if reached else "text")


def _properties(data: PanelData, name: str) -> dict[str, Any]:
    """Return the overrides for a series or column of this name."""
    properties: dict[str, Any] = {}
    for override in data.panel["fieldConfig"]["overrides"]:
        kind, wanted = override["matcher"]["id"], override["matcher"]["options"]
        pattern = wanted.strip("/") if kind == "byRegexp" else f"^{re.escape(wanted)}$"
        if re.search(pattern, name):
            properties |= {item["id"]: item["value"] for item in override["properties"]}
    return properties


class _Graph:
    """A time series panel: lines, stacked areas or a band, with its axes and legend."""

    def __init__(self, sheet: PixelFigure, data: PanelData, times: Numbers) -> None:
        self._sheet, self._data, self._times = sheet, data, times
        self._custom = _defaults(data)["custom"]
        self._stacked = self._custom.get("stacking", {}).get("mode", "none") != "none"
        self._series = sorted(data.series, key=lambda series: (series.ref_id, series.name))
        self._overrides = [_properties(data, series.name) for series in self._series]
        self._colours = list(self._choose_colours())

    def _choose_colours(self) -> Iterator[str]:
        names: dict[str, str] = {}
        several = len({series.ref_id for series in self._series}) > 1
        for series, override in zip(self._series, self._overrides, strict=True):
            # Two lines of one app or judge share its colour: they differ by dashes.
            owner = series.labels.get("app") or series.labels.get("judge")
            key = owner if several and owner else series.name
            fixed = override.get("color", {}).get("fixedColor")
            yield hexadecimal(fixed) if fixed else names.setdefault(key, _PALETTE[len(names) % len(_PALETTE)])

    def draw(self, box: Box, marks: Sequence[EventMark]) -> None:
        legend = _legend_rows(self._sheet, list(self._entries()), box.w)
        axes = self._sheet.axes(box.inside(left=46, top=4, right=4, bottom=len(legend) * _LINE + 26))
        axes.set_axis_on()
        if self._stacked:
            self._draw_stack(axes)
        else:
            self._draw_lines(axes)
        self._scale(axes)
        self._draw_limits(axes)
        _draw_marks(axes, marks, self._times)
        _time_axis(axes, self._times)
        _style_axes(axes, lambda value, _: format_number(value, _defaults(self._data)["unit"]))
        _draw_legend(self._sheet, legend, box)

    def _entries(self) -> Iterator[tuple[str, str]]:
        for series, colour, override in zip(self._series, self._colours, self._overrides, strict=True):
            if override.get("custom.lineWidth") != 0:
                yield f"{series.name}  {_number(self._data, series.last)}", colour

    def _draw_lines(self, axes: Axes) -> None:
        by_name = {series.name: series for series in self._series}
        for series, colour, override in zip(self._series, self._colours, self._overrides, strict=True):
            base = override.get("custom.fillBelowTo")
            if base in by_name:
                axes.fill_between(self._times, by_name[base].values, series.values, color=colour, alpha=0.25, lw=0)
            width = override.get("custom.lineWidth", 1.6)
            dashes = (0, (4, 3)) if "custom.lineStyle" in override else "-"
            if width:
                axes.plot(self._times, series.values, color=colour, lw=min(width, 1.6), linestyle=dashes)

    def _draw_stack(self, axes: Axes) -> None:
        below = np.zeros_like(self._times)
        for series, colour in zip(self._series, self._colours, strict=True):
            above = below + np.nan_to_num(series.values)
            axes.fill_between(self._times, below, above, color=colour, alpha=0.55, lw=0)
            axes.plot(self._times, above, color=colour, lw=0.8)
            below = above

    def _scale(self, axes: Axes) -> None:
        low, high = axes.get_ylim()
        defaults = _defaults(self._data)
        values = np.concatenate([series.values[~np.isnan(series.values)] for series in self._series])
        soft = self._custom.get("axisSoftMin")
        if soft is not None:
            low = min(soft, float(values.min(initial=soft)))
        if not self._stacked and (limit := self._limit()) is not None and limit[0] <= 4 * max(high, 1e-9):
            low, high = min(low, limit[0]), max(high, 1.08 * limit[0])
        low = defaults.get("min", low)
        high = defaults.get("max", high)
        margin = 0.03 * (high - low)
        axes.set_ylim(low, high + margin if high > low else low + 1)

    def _limit(self) -> tuple[float, str] | None:
        if "thresholdsStyle" not in self._custom:
            return None
        step = _defaults(self._data)["thresholds"]["steps"][-1]
        return float(step["value"]), hexadecimal(step["color"])

    def _draw_limits(self, axes: Axes) -> None:
        if (limit := self._limit()) is not None:
            axes.axhline(limit[0], color=limit[1], lw=1, linestyle=(0, (5, 4)), alpha=0.9)


def _draw_marks(axes: Axes, marks: Sequence[EventMark], times: Numbers) -> None:
    for mark in marks:
        axes.axvline(mark.start, color=mark.colour, lw=0.8, linestyle=(0, (2, 3)), alpha=0.8)
        width = max(mark.end - mark.start, (times[-1] - times[0]) / 150)
        strip = Rectangle((mark.start, -0.022), width, 0.022, transform=axes.get_xaxis_transform(), clip_on=False)
        strip.set(facecolor=mark.colour, alpha=0.85, linewidth=0)
        axes.add_patch(strip)


def _legend_rows(
    sheet: PixelFigure, entries: Sequence[tuple[str, str]], width: float
) -> list[list[tuple[str, str, float]]]:
    """Return the entries in at most three lines that fit, each with its offset from the left."""
    lines: list[list[tuple[str, str, float]]] = [[]]
    offset = 0.0
    for index, (text, colour) in enumerate(entries):
        needed = sheet.wide(text) + 34
        if offset + needed > width and lines[-1]:
            if len(lines) == 3:
                lines[-1][-1] = (f"and {len(entries) - index + 1} more", MUTED, lines[-1][-1][2])
                return lines
            lines.append([])
            offset = 0.0
        lines[-1].append((text, colour, offset))
        offset += needed
    return lines


def _draw_legend(sheet: PixelFigure, lines: Sequence[Sequence[tuple[str, str, float]]], box: Box) -> None:
    for row, entries in enumerate(lines):
        y = box.y + box.h - (len(lines) - row - 0.5) * _LINE + 2
        for text, colour, offset in entries:
            sheet.text(box.x + offset, y, "━", color=colour, weight="bold")
            sheet.text(box.x + offset + 15, y, text, color=TEXT)


def _time_axis(axes: Axes, times: Numbers) -> None:
    start, end = float(times[0]), float(times[-1])
    axes.set_xlim(start, end)
    step = next((tick for tick in _TICKS if (end - start) / tick <= 7), _TICKS[-1])
    ticks = np.arange(np.ceil(start / step) * step, end, step)
    shape = "%H:%M:%S" if step < 60 else "%H:%M" if step < 24 * _HOUR else "%d %b"
    axes.set_xticks(ticks, [datetime.fromtimestamp(tick, UTC).strftime(shape) for tick in ticks])


def _style_axes(axes: Axes, shape: Any) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(shape))
    axes.tick_params(colors=MUTED, labelsize=_SMALL, length=0, pad=4)
    axes.grid(color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _stat(sheet: PixelFigure, data: PanelData, box: Box) -> None:
    series = data.series[0]
    colour = _step_colour(_defaults(data)["thresholds"]["steps"], series.last)
    axes = sheet.axes(box.inside(left=-9, right=-9, top=box.h * 0.5, bottom=-7))
    spots = np.arange(series.values.size)
    values = series.values
    numbers = values[~np.isnan(values)]
    low, high = float(numbers.min(initial=np.inf)), float(numbers.max(initial=-np.inf))
    room = (high - low) or abs(high) or 1.0
    axes.fill_between(spots, low - 0.35 * room, values, color=colour, alpha=0.16, lw=0)
    axes.plot(spots, values, color=colour, lw=1.1, alpha=0.75)
    axes.set_xlim(0, max(spots.size - 1, 1))
    axes.set_ylim(low - 0.35 * room, high + 0.15 * room)
    number = _number(data, series.last)
    sheet.text(box.x + box.w / 2, box.y + box.h * 0.36, number, color=colour, fontsize=21, ha="center", weight="bold")


def _bars(sheet: PixelFigure, data: PanelData, box: Box) -> None:
    series = list(data.series)
    defaults = _defaults(data)
    # The series of a single query are sorted; one query per bar keeps its order.
    series = sorted(series, key=lambda bar: bar.last) if len({bar.ref_id for bar in series}) == 1 else series
    top = defaults.get("max") or max((bar.last for bar in series), default=1.0) or 1.0
    names = max(sheet.wide(bar.name) for bar in series) + 12
    numbers = max(sheet.wide(_number(data, bar.last), 10) for bar in series) + 12
    height = min(box.h / len(series), 44)
    for index, bar in enumerate(series):
        y = box.y + (box.h - height * len(series)) / 2 + index * height
        colour = _step_colour(defaults["thresholds"]["steps"], bar.last)
        sheet.text(box.x + names - 8, y + height / 2, bar.name, ha="right", color=TEXT)
        axes = sheet.axes(Box(x=box.x + names, y=y + height * 0.16, w=box.w - names - numbers, h=height * 0.68))
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.add_patch(Rectangle((0, 0), 1, 1, facecolor="#22252b", lw=0))
        axes.add_patch(Rectangle((0, 0), float(np.clip(bar.last / top, 0, 1)), 1, facecolor=colour, alpha=0.75, lw=0))
        right = box.x + box.w
        sheet.text(right, y + height / 2, _number(data, bar.last), color=colour, ha="right", fontsize=10, weight="bold")


def _table(sheet: PixelFigure, data: PanelData, box: Box) -> None:
    organised = data.panel["transformations"][-1]["options"]
    order = sorted(organised["indexByName"], key=organised["indexByName"].__getitem__)
    names = {name: organised["renameByName"][name] for name in order}
    header, body = list(names.values()), _cells(data, names)
    sort = data.panel["options"]["sortBy"][0]
    column = header.index(sort["displayName"])
    body.sort(key=lambda row: _sortable(row[column]), reverse=bool(sort.get("desc")))
    height = min(26.0, box.h / (min(len(body), 9) + 1))
    body = body[: int(box.h / height) - 1]
    keys = sum(not name.startswith("Value") for name in names)
    texts = [[_cell(data, *cell)[0] for cell in zip(header, row, strict=True)] for row in body]
    places = _columns(sheet, box, [header, *texts], keys)
    for index, name in enumerate(header):
        x, side = places[index]
        sheet.text(x, box.y + height / 2, name, color=MUTED, weight="bold", ha=side)
    for number, row in enumerate(body, start=1):
        for index, cell in enumerate(row):
            text, colour = _cell(data, header[index], cell)
            x, side = places[index]
            sheet.text(x, box.y + (number + 0.5) * height, text, color=colour, ha=side)


def _cells(data: PanelData, names: Mapping[str, str]) -> list[list[str | float]]:
    """Return one row for each set of labels, joined over the queries."""
    keys = [name for name in names if not name.startswith("Value")]
    numbers = [name for name in names if name.startswith("Value")]
    rows: dict[tuple[str, ...], dict[str, float]] = {}
    for series in data.series:
        row = rows.setdefault(tuple(series.labels.get(key, "") for key in keys), {})
        row[f"Value #{series.ref_id}" if len(numbers) > 1 else "Value"] = series.last
    return [[*labels, *(row.get(name, float("nan")) for name in numbers)] for labels, row in rows.items()]


def _sortable(cell: str | float) -> tuple[bool, str | float]:
    return (isinstance(cell, float) and np.isnan(cell)), cell


def _columns(sheet: PixelFigure, box: Box, lines: Sequence[Sequence[str]], keys: int) -> list[tuple[float, str]]:
    """Where each column is format_number: each gets what its widest text needs and an equal part of what is left."""
    needed = [max(sheet.wide(text) for text in column) for column in zip(*lines, strict=True)]
    room = (box.w - sum(needed)) / max(len(needed) - 1, 1)
    starts = box.x + np.cumsum([0.0, *(width + room for width in needed)])
    return [
        (float(starts[index]), "left") if index < keys else (float(starts[index]) + width, "right")
        for index, width in enumerate(needed)
    ]


def _cell(data: PanelData, name: str, cell: str | float) -> tuple[str, str]:
    if isinstance(cell, str):
        return cell, TEXT
    properties = _properties(data, name)
    steps = properties.get("thresholds", {}).get("steps", [])
    colour = _step_colour(steps, cell) if steps and not np.isnan(cell) else TEXT
    return format_number(cell, properties["unit"], properties.get("decimals")), colour


def _heat(sheet: PixelFigure, data: PanelData, box: Box, times: Numbers) -> None:
    limits = sorted(data.series, key=lambda series: float(series.labels["le"]))
    counts = np.diff(np.nan_to_num(np.array([series.values for series in limits])), axis=0, prepend=0).clip(min=0)
    finite = [float(series.labels["le"]) for series in limits if series.labels["le"] != "+Inf"]
    axes = sheet.axes(box.inside(left=46, top=4, right=4, bottom=24))
    axes.set_axis_on()
    axes.set_ylim(0, finite[-1])
    _time_axis(axes, times)
    _style_axes(axes, lambda value, _: format_number(value, "none"))
    axes.grid(False)
    # One cell per sample would be a blur, so a cell covers several.
    every = max(1, times.size // 40)
    edges = np.array([*times[::every], times[-1] + (times[1] - times[0])])
    axes.pcolormesh(edges, [0.0, *finite], counts[: len(finite), ::every], cmap=_HEAT, edgecolors=PANEL, linewidth=0.3)


def _states(sheet: PixelFigure, data: PanelData, box: Box, times: Numbers) -> None:
    names = _defaults(data)["mappings"][0]["options"]
    series: list[PanelSeries] = sorted(data.series, key=lambda strip: strip.name)
    legend = _legend_rows(sheet, [(state["text"], hexadecimal(state["color"])) for state in names.values()], box.w)
    left = max(sheet.wide(strip.name) for strip in series) + 12
    axes = sheet.axes(box.inside(left=left, top=4, right=4, bottom=len(legend) * _LINE + 26))
    axes.set_axis_on()
    step = times[1] - times[0]
    for row, strip in enumerate(series):
        for value, state in names.items():
            spans = [(moment, step) for moment in times[strip.values == float(value)]]
            axes.broken_barh(spans, (row - 0.32, 0.64), facecolors=hexadecimal(state["color"]), alpha=0.7, lw=0)
    _time_axis(axes, times)
    _style_axes(axes, lambda value, _: "")
    axes.set_yticks(range(len(series)), [strip.name for strip in series])
    axes.set_ylim(len(series) - 0.5, -0.5)
    axes.tick_params(axis="y", colors=TEXT)
    axes.grid(False)
    _draw_legend(sheet, legend, box)

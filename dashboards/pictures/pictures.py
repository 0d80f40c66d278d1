"""Draws the dashboards as pictures from a running Prometheus, for the docs and where there is no Grafana.

These are not screenshots: the layout, the queries, the colours and the units are read from the JSON that Grafana gets,
and matplotlib draws what Prometheus answers.
"""

import argparse
import io
import json
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image, ImageColor

from dashboards.__main__ import FOLDER
from dashboards.pictures.drawing import MUTED, Box, EventMark, PixelFigure, draw, flat_colours, hexadecimal
from dashboards.pictures.source import Prometheus, load_panels
from dashboards.queries import annotations, preset

_WIDTH, _EDGE, _GAP, _HEADER = 1280.0, 14.0, 8.0, 56.0
_COLUMN = (_WIDTH - 2 * _EDGE + _GAP) / 24
_ROW = 31.0
_COLOURS = 256


def picture(dashboard: Mapping[str, Any], source: Prometheus, window: str) -> bytes:
    """Draw one dashboard as PNG."""
    panels = list(load_panels(dashboard, source, window))
    marks = [mark for colour, expr in _annotation_queries(dashboard) for mark in _marks(source, expr, colour)]
    rows = max(panel.place["y"] + panel.place["h"] for panel in panels)
    sheet = PixelFigure(_WIDTH, _HEADER + rows * _ROW + _EDGE)
    _head(sheet, dashboard, source, window)
    for panel in panels:
        draw(sheet, panel, _box(panel.place), source.times, marks)
    return _compress(sheet)


def _box(place: Mapping[str, int]) -> Box:
    return Box(
        x=_EDGE + place["x"] * _COLUMN,
        y=_HEADER + place["y"] * _ROW,
        w=place["w"] * _COLUMN - _GAP,
        h=place["h"] * _ROW - _GAP,
    )


def _head(sheet: PixelFigure, dashboard: Mapping[str, Any], source: Prometheus, window: str) -> None:
    first, last = (datetime.fromtimestamp(float(source.times[index]), UTC) for index in (0, -1))
    values = {"window": window, **preset(dashboard)}
    chosen = "     ".join(
        f"{variable['label']}  {values.get(variable['name'], 'All')}" for variable in dashboard["templating"]["list"]
    )
    sheet.text(_EDGE + 2, 19, dashboard["title"], fontsize=13, weight="bold")
    sheet.text(_EDGE + 2, 42, chosen, color=MUTED, fontsize=8.5)
    span = f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"
    sheet.text(_WIDTH - _EDGE, 19, span, color=MUTED, fontsize=8.5, ha="right")


def _annotation_queries(dashboard: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    colours = [hexadecimal(annotation["iconColor"]) for annotation in dashboard["annotations"]["list"]]
    return ((colour, query.expr) for colour, query in zip(colours, annotations(dashboard), strict=True))


def _marks(source: Prometheus, expr: str, colour: str) -> Iterator[EventMark]:
    """Yield one mark for each span of time in which a series exists."""
    for series in source.series(expr):
        there = np.concatenate([[False], ~np.isnan(series.values), [False]])
        edges = np.flatnonzero(np.diff(there.astype(int)))
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            # A series that existed before the start of the picture is not an event in it.
            if start > 0:
                yield EventMark(start=float(source.times[start]), end=float(source.times[end - 1]), colour=colour)


def _compress(sheet: PixelFigure) -> bytes:
    """Reduce the picture to its most frequent colours: a third of the size, with unchanged flat areas."""
    raw, small = io.BytesIO(), io.BytesIO()
    sheet.figure.savefig(raw, format="rgba")
    plain = Image.frombytes("RGBA", sheet.figure.canvas.get_width_height(), raw.getvalue()).convert("RGB")
    counted = sorted(plain.getcolors(plain.width * plain.height) or (), key=lambda entry: entry[0], reverse=True)
    colours = [ImageColor.getrgb(colour) for colour in flat_colours()]
    colours += [colour for _, colour in counted if isinstance(colour, tuple)]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour in list(dict.fromkeys(colours))[:_COLOURS] for part in colour])
    plain.quantize(palette=palette, dither=Image.Dither.NONE).save(small, format="png", optimize=True)
    return small.getvalue()


def _moment(text: str) -> float:
    """Read seconds since 1970, or an ISO time; one without a zone is UTC."""
    try:
        return float(text)
    except ValueError:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m dashboards.pictures.pictures", description=__doc__)
    parser.add_argument("--prometheus", default="http://127.0.0.1:9090", help="URL of Prometheus")
    parser.add_argument("--start", type=_moment, required=True, help="seconds since 1970 or an ISO time")
    parser.add_argument("--end", type=_moment, required=True)
    parser.add_argument("--window", default="1h", help="window of the graphs")
    parser.add_argument("--output", type=Path, required=True, help="output folder")
    parser.add_argument("--only", default="", help="only dashboards whose uid contains this")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    with httpx.Client(base_url=options.prometheus, timeout=30) as client:
        source = Prometheus(client, start=options.start, end=options.end)
        for path in sorted(path for path in FOLDER.glob("*.json") if options.only in path.stem):
            dashboard = json.loads(path.read_text(encoding="utf-8"))
            target = options.output / f"{path.stem.removeprefix('streamjury-')}.png"
            target.write_bytes(picture(dashboard, source, options.window))
            sys.stdout.write(f"{target}  {target.stat().st_size // 1000} kB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

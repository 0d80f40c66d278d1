"""Draws the dashboards as pictures from a running Prometheus, for documents and where no Grafana is at hand.

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
from dashboards.pictures.source import Prometheus, shown
from dashboards.queries import annotations, preset

_WIDTH, _EDGE, _GAP, _HEADER = 1280.0, 14.0, 8.0, 56.0
_COLUMN = (_WIDTH - 2 * _EDGE + _GAP) / 24
_ROW = 31.0
_COLOURS = 256


def picture(dashboard: Mapping[str, Any], source: Prometheus, window: str) -> bytes:
    """The PNG of one dashboard."""
    panels = list(shown(dashboard, source, window))
    marks = [mark for colour, expr in _annotated(dashboard) for mark in _marks(source, expr, colour)]
    rows = max(each.place["y"] + each.place["h"] for each in panels)
    sheet = PixelFigure(_WIDTH, _HEADER + rows * _ROW + _EDGE)
    _head(sheet, dashboard, source, window)
    for each in panels:
        draw(sheet, each, _box(each.place), source.times, marks)
    return _compressed(sheet)


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
        f"{each['label']}  {values.get(each['name'], 'All')}" for each in dashboard["templating"]["list"]
    )
    sheet.text(_EDGE + 2, 19, dashboard["title"], fontsize=13, weight="bold")
    sheet.text(_EDGE + 2, 42, chosen, color=MUTED, fontsize=8.5)
    span = f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"
    sheet.text(_WIDTH - _EDGE, 19, span, color=MUTED, fontsize=8.5, ha="right")


def _annotated(dashboard: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    colours = [hexadecimal(each["iconColor"]) for each in dashboard["annotations"]["list"]]
    return ((colour, each.expr) for colour, each in zip(colours, annotations(dashboard), strict=True))


def _marks(source: Prometheus, expr: str, colour: str) -> Iterator[EventMark]:
    """One mark for each stretch of time in which a series is there."""
    for series in source.series(expr):
        there = np.concatenate([[False], ~np.isnan(series.values), [False]])
        edges = np.flatnonzero(np.diff(there.astype(int)))
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            # What was there before the picture begins did not happen in it.
            if start > 0:
                yield EventMark(start=float(source.times[start]), end=float(source.times[end - 1]), colour=colour)


def _compressed(sheet: PixelFigure) -> bytes:
    """The picture in its most frequent colours: a third of the size, and the flat areas stay exactly as they are."""
    full, small = io.BytesIO(), io.BytesIO()
    sheet.figure.savefig(full, format="png")
    full.seek(0)
    with Image.open(full) as image:
        plain = image.convert("RGB")
    counted = sorted(plain.getcolors(plain.width * plain.height) or (), key=lambda each: each[0], reverse=True)
    colours = [ImageColor.getrgb(colour) for colour in flat_colours()]
    colours += [colour for _, colour in counted if isinstance(colour, tuple)]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour in list(dict.fromkeys(colours))[:_COLOURS] for part in colour])
    plain.quantize(palette=palette, dither=Image.Dither.NONE).save(small, format="png", optimize=True)
    return small.getvalue()


def _moment(text: str) -> float:
    """Seconds since 1970, or an ISO time; one without a zone is UTC."""
    try:
        return float(text)
    except ValueError:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m dashboards.pictures.pictures", description=__doc__)
    parser.add_argument("--prometheus", default="http://127.0.0.1:9090", help="URL of Prometheus")
    parser.add_argument("--start", type=_moment, required=True, help="seconds since 1970 or an ISO time")
    parser.add_argument("--end", type=_moment, required=True)
    parser.add_argument("--window", default="1h", help="window of the graphs")
    parser.add_argument("--output", type=Path, required=True, help="output folder")
    parser.add_argument("--only", default="", help="only dashboards whose uid contains this")
    asked = parser.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    with httpx.Client(base_url=asked.prometheus, timeout=30) as client:
        source = Prometheus(client, start=asked.start, end=asked.end)
        for path in sorted(path for path in FOLDER.glob("*.json") if asked.only in path.stem):
            dashboard = json.loads(path.read_text(encoding="utf-8"))
            target = asked.output / f"{path.stem.removeprefix('streamjury-')}.png"
            target.write_bytes(picture(dashboard, source, asked.window))
            sys.stdout.write(f"{target}  {target.stat().st_size // 1000} kB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Charts as inline SVG. Widths are shares of the space there is, so that bars shrink on a phone and letters do not."""

from collections.abc import Mapping, Sequence

from sinks.reports.gathering import ScoreStatistics
from sinks.reports.markup import Markup, element, joined
from sinks.reports.statistics import Band, band_of
from sinks.reports.wording import interval, many, number, ratio

_BAR_HEIGHT = 20
_PLOT_HEIGHT = 130
_AXIS_HEIGHT = 22


def mean_bar(title: str, found: ScoreStatistics) -> Markup:
    """A mean between 0 and 1 as a bar, with its interval across the end."""
    mean, low, high = found.mean, found.estimate.low, found.estimate.high
    label = (
        f"{title}: mean {number(mean)}, 95 % interval {interval(low, high)}" if mean is not None else f"{title}: none"
    )
    parts = [_rect(0.0, 1.0, 0, _BAR_HEIGHT, "track"), *(_line(at / 4, 0, _BAR_HEIGHT, "grid") for at in (1, 2, 3))]
    if mean is not None:
        parts.append(_rect(0.0, mean, 3, _BAR_HEIGHT - 6, f"fill {band_of(mean).value}"))
    if low is not None and high is not None:
        parts.append(_whisker(low, high))
    return _svg(label, _BAR_HEIGHT, *parts)


def _whisker(low: float, high: float) -> Markup:
    """Drawn twice, the first time wider, so that it stands out from any bar."""
    middle = _BAR_HEIGHT // 2
    parts = []
    for kind in ("halo", "whisker"):
        parts.append(element("line", x1=_share(low), x2=_share(high), y1=str(middle), y2=str(middle), class_=kind))
        parts += [_line(end, middle - 5, middle + 5, kind) for end in (low, high)]
    return joined(*parts)


def histogram(counts: Sequence[int]) -> Markup:
    """How many composites lie where between 0 and 1; bars have the colours of their bands."""
    width, most = 1.0 / len(counts), max(counts)
    parts = [_line(at / 4, 0, _PLOT_HEIGHT, "grid") for at in range(5)]
    for at, count in enumerate(counts):
        if count:
            height = max(2, round((_PLOT_HEIGHT - 16) * count / most))
            colour = f"fill {band_of(at * width).value}"
            parts.append(_rect((at + 0.08) * width, 0.84 * width, _PLOT_HEIGHT - height, height, colour))
    parts.append(element("line", x1="0", x2="100%", y1=str(_PLOT_HEIGHT), y2=str(_PLOT_HEIGHT), class_="axis"))
    parts += [_tick(at / 4, _PLOT_HEIGHT + 16) for at in range(5)]
    parts.append(element("text", f"most in a bar: {most:,}", x="0", y="10", class_="tick"))
    label = f"Distribution of {many(sum(counts), 'composite')} between 0 and 1; the table below has the numbers."
    return _svg(label, _PLOT_HEIGHT + _AXIS_HEIGHT, *parts)


def scale() -> Markup:
    """The axis below bars of means."""
    return element("svg", *(_tick(at / 4, 14) for at in range(5)), class_="chart", height="18", aria_hidden="true")


def stacked(bands: Mapping[Band, int]) -> Markup:
    """The shares of the bands side by side, best first."""
    total = sum(bands.values())
    parts, at = [_rect(0.0, 1.0, 0, 28, "track")], 0.0
    for band, count in bands.items():
        if count:
            share = count / total
            parts.append(_rect(at, share, 0, 28, f"fill {band.value} segment"))
            at += share
    shares = ", ".join(f"{band.value} {ratio(count, total)}" for band, count in bands.items())
    return _svg(f"Quality bands: {shares}", 28, *parts)


def _svg(label: str, height: int, *parts: str) -> Markup:
    """The label is what a screen reader says, and what a pointer shows."""
    return element(
        "svg", element("title", label), *parts, class_="chart", height=str(height), role="img", aria_label=label
    )


def _rect(left: float, width: float, top: int, height: int, colour: str) -> Markup:
    return element("rect", x=_share(left), width=_share(width), y=str(top), height=str(height), class_=colour)


def _line(at: float, top: int, bottom: int, kind: str) -> Markup:
    return element("line", x1=_share(at), x2=_share(at), y1=str(top), y2=str(bottom), class_=kind)


def _tick(at: float, y: int) -> Markup:
    anchor = {0.0: "start", 1.0: "end"}.get(at, "middle")
    return element("text", f"{at:g}", x=_share(at), y=str(y), class_=f"tick {anchor}")


def _share(part: float) -> str:
    return f"{100.0 * part:.2f}%"

"""The figures behind the charts of a report: their labels and the sizes of their bars. The templates draw them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from sinks.reports.formatting import interval, many, number, ratio
from sinks.reports.summary import Band, band_of
from sinks.statistics.accumulators import ScoreStatistics

PLOT_HEIGHT = 130
"""Height of a histogram, without the axis below it."""

QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Places of grid lines and ticks."""

# Room above the highest bar, for the label with its count.
_HEADROOM = 16
# A bar of a histogram fills this much of its bin, with a gap on each side.
_FILLED, _GAP = 0.84, 0.08


class Bar(NamedTuple):
    """Left edge and width are shares of the chart's width; the height is in pixels."""

    left: float
    width: float
    height: int
    colour: str


def mean_label(title: str, scores: ScoreStatistics) -> str:
    if scores.mean is None:
        return f"{title}: none"
    reach = interval(scores.estimate.low, scores.estimate.high)
    return f"{title}: mean {number(scores.mean)}, 95 % interval {reach}"


def histogram_label(counts: Sequence[int]) -> str:
    return f"Distribution of {many(sum(counts), 'composite')} between 0 and 1; the table below has the numbers."


def histogram_bars(counts: Sequence[int]) -> Iterator[Bar]:
    """Yield bars of the bins that are not empty; the fullest one uses the whole height."""
    width, most = 1.0 / len(counts), max(counts)
    for position, count in enumerate(counts):
        if count:
            height = max(2, round((PLOT_HEIGHT - _HEADROOM) * count / most))
            yield Bar((position + _GAP) * width, _FILLED * width, height, band_of(position * width).value)


def bands_label(bands: Mapping[Band, int]) -> str:
    total = sum(bands.values())
    shares = ", ".join(f"{band.value} {ratio(count, total)}" for band, count in bands.items())
    return f"Quality bands: {shares}"


def band_bars(bands: Mapping[Band, int], height: int) -> Iterator[Bar]:
    """Yield bars of the bands that have rows, side by side."""
    total = sum(bands.values())
    ends = accumulate(bands.values())
    for (band, count), end in zip(bands.items(), ends, strict=True):
        if count:
            yield Bar((end - count) / total, count / total, height, band.value)

"""The page about metrics: its table matches the registry, and its queries return the promised values."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from sinks.metrics.detection import PLACES
from sinks.metrics.processes import RestartMetrics
from sinks.metrics.scores import OptIn
from sinks.metrics.scrape import ScrapeView
from tests.sinks.metrics.measured import everything, large
from tests.sinks.statistics.computed import check

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(?P<name>streamjury_\w+)` \| (?P<type>\w+) \| (?P<labels>[^|]*)\|", re.MULTILINE)
OPTIONAL = re.compile(r"\(([^)]*)\)")
MINUTES = 70


def names(text: str) -> list[str]:
    return [name for name in re.split(r"[,\s]+", text) if name]


def documented_metrics(opted: Sequence[str]) -> dict[str, tuple[str, frozenset[str]]]:
    """Return type and labels by name; labels in parentheses exist only when enabled."""
    metrics = {}
    for row in ROW.finditer(PAGE):
        optional = [name for text in OPTIONAL.findall(row["labels"]) for name in names(text)]
        labels = {*names(OPTIONAL.sub("", row["labels"])), *(name for name in optional if name in opted)}
        assert row["name"] not in metrics, "once is enough"
        metrics[row["name"]] = (row["type"], frozenset(labels))
    return metrics


@pytest.mark.parametrize("opted", [(), ("model",), ("model", "tenant")])
def test_the_table_is_the_registry(opted: tuple[OptIn, ...]) -> None:
    served = {}
    registry = everything(labels=opted).registry
    RestartMetrics(registry).add("worker-1")
    for family in ScrapeView(registry).collect():
        labels = {name for sample in family.samples for name in sample.labels} - {"le", "quantile"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        served[name] = (family.type, frozenset(labels))
    assert documented_metrics(opted) == served


def test_the_page_says_how_many_series_there_are_at_worst() -> None:
    """50 apps are the default; `other` and `unknown` come on top."""
    few, more, most = large(apps=20, judges=3), large(apps=20, judges=4), large(apps=52, judges=4)
    sentence = f"up to {few:,} series, with 4 judges {more:,}, and with 4 judges and the default of 50 apps {most:,}"
    page = " ".join(PAGE.split())
    assert sentence in page
    assert f"({large(apps=20, judges=3, canaries=True) - few} here)" in page
    assert large(apps=20, judges=3, criteria=6) <= 2200


def test_the_page_says_how_many_series_that_are_watched_for_drops_are_shown() -> None:
    assert f"for the {PLACES} series that are most urgent" in " ".join(PAGE.split())


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_its_rules_give_mean_interval_effective_size_and_coverage(tmp_path: Path) -> None:
    """Two processes, one of which restarts. Every minute each counts a score of 1 with weight 1 and one of 0.25 with
    weight 4, and something of weight 0.25 that has no score."""
    counted = 2 * 60 - 1  # counts between the last scrape before the restart and the restart are lost
    mean, effective = (1 * 1 + 4 * 0.25) / 5, counted * 5**2 / (1**2 + 4**2)
    variance = (1 * (1 - mean) ** 2 + 4 * (0.25 - mean) ** 2) / 5
    middle, share = mean + 1.96**2 / 2 / effective, 1 + 1.96**2 / effective
    half = 1.96 * math.sqrt(variance / effective + 1.96**2 / 4 / effective**2)
    expected = {
        "score:mean": mean,
        "score:effective": effective,
        "score:coverage": 5 / 5.25,
        "score:variance": variance,
        "score:low": (middle - half) / share,
        "score:high": (middle + half) / share,
    }
    steps = {"weighted_sum": 2, "weighted_square_sum": 1.25, "weight": 5, "weight_squared": 17, "missing_weight": 0.25}
    check(
        tmp_path,
        [pair for name, step in steps.items() for pair in _of_two_processes(f"streamjury_score_{name}_total", step)],
        {name: ("{app='shop', dimension='clarity'}", value) for name, value in expected.items()},
        at=f"{MINUTES}m",
        rules=blocks("yaml", PAGE)[0],
    )


def test_its_other_queries_give_shares(tmp_path: Path) -> None:
    good, agreement = blocks("promql", PAGE)
    steps = {
        "streamjury_objective_good_events_total{app='shop'}": 3,
        "streamjury_objective_events_total{app='shop'}": 4,
        "streamjury_panel_agreement_sum{criterion='tone'}": 0.5,
        "streamjury_panel_agreement_count{criterion='tone'}": 2,
    }
    check(
        tmp_path,
        [{"series": name, "values": f"0+{step}x{MINUTES}"} for name, step in steps.items()],
        {good: ("{app='shop'}", 0.75), agreement: ("{criterion='tone'}", 0.25)},
        at=f"{MINUTES}m",
    )


def _of_two_processes(name: str, step: float) -> list[dict[str, str]]:
    """The second process restarts after half an hour, and then shows 0."""
    labels = "app='shop', dimension='clarity'"
    half = MINUTES // 2
    return [
        {"series": f"{name}{{{labels}, instance='one'}}", "values": f"0+{step}x{MINUTES}"},
        {"series": f"{name}{{{labels}, instance='two'}}", "values": f"0+{step}x{half} 0+{step}x{MINUTES - half}"},
    ]

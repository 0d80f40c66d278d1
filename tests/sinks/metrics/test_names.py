"""Metric names are defined in one module, and every name there is a metric."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from sinks.metrics import (
    ArchiveMetrics,
    AssemblerMetrics,
    DetectionMetrics,
    PipelineMetrics,
    SamplingMetrics,
    ScoreMetrics,
    SinkMetrics,
    names,
)
from sinks.metrics.budgets import BudgetMetrics
from sinks.metrics.detection import (
    AgreementMetrics,
    CanaryMetrics,
    CorrectionMetrics,
    SliceAgreementMetrics,
    VersionMetrics,
)
from sinks.metrics.endpoints import EndpointMetrics
from sinks.metrics.processes import RestartMetrics

ROOT = Path(__file__).parents[3]
MAKERS = (
    AssemblerMetrics,
    SamplingMetrics,
    PipelineMetrics,
    EndpointMetrics,
    BudgetMetrics,
    SinkMetrics,
    ArchiveMetrics,
    RestartMetrics,
    ScoreMetrics,
    DetectionMetrics,
    CanaryMetrics,
    VersionMetrics,
    CorrectionMetrics,
    AgreementMetrics,
    SliceAgreementMetrics,
)
FAMILIES = (
    names.DETECTION,
    names.JUDGES,
    names.VERSIONS,
    names.SCORE_RECENT,
    names.CORRECTED,
    names.FEEDBACK,
    names.JUDGE_AGREEMENT,
    names.JUDGE_AGREEMENT_SLICE,
)
CONSTANTS = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}


def registered_names() -> set[str]:
    names = set()
    for maker in MAKERS:
        registry = CollectorRegistry()
        maker(registry)
        for family in registry.collect():
            names.add(f"{family.name}_total" if family.type == "counter" else family.name)
    return names


def test_every_registered_metric_has_its_name_from_the_module() -> None:
    assert {name for name in registered_names() if name not in CONSTANTS and not name.startswith(FAMILIES)} == set()


def test_every_name_in_the_module_is_a_metric_a_family_or_a_recorded_series() -> None:
    recorded = {name for name in CONSTANTS if ":" in name}
    prefixes = {*FAMILIES, names.VERSIONS_DIFFERENCE}
    assert CONSTANTS - recorded - prefixes - registered_names() == set()


def test_no_other_module_contains_the_name_of_a_metric() -> None:
    name = re.compile("(?:" + "|".join(map(re.escape, sorted(CONSTANTS, key=len, reverse=True))) + ")(?![a-z])")
    own = ROOT / "sinks/metrics/names.py"
    modules = [path for folder in ("sinks", "stream", "dashboards") for path in (ROOT / folder).rglob("*.py")]
    assert len(modules) > 100
    spelled = {path: name.findall(path.read_text(encoding="utf-8")) for path in modules if path != own}
    assert {str(path.relative_to(ROOT)): found for path, found in spelled.items() if found} == {}

"""Upgrades to a version that judges contexts: earlier configurations, evaluations and dashboards keep working."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from judges.composite import MultiCriteria
from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import RAG_DIMENSIONS
from judges.evaluator import Submission
from judges.values.diagnosis import CONTEXT_CRITERIA, diagnose, refusal_outcome
from judges.values.evaluation import Evaluation, Sampling
from judges.values.interaction import Context, Interaction
from sinks.metrics import ScoreMetrics
from stream.config.model import Config
from stream.service.setup.checks import check_config
from stream.service.setup.config_file import load
from stream.service.setup.evaluator import build_evaluator
from stream.service.setup.narrowing import narrow_config
from tests.parts.rules import rules_of
from tests.upgrade.test_upgrade import STATUSES, V1, read_recorded, schema

ENDPOINT = {"kind": "openai", "name": "one", "model": "m", "base_url": "http://localhost:1/v1"}
INTERACTION = Interaction(
    id="i1",
    question="How long is the warranty?",
    answer="The warranty is two years.",
    contexts=(Context(text="We open at nine."), Context(text="The warranty is two years.")),
)
# From the version before: criteria, prompts and rules that did not change must not look as if they had.
FINGERPRINTS = [
    (
        {
            "criteria": {"use": ["rag", "retrieval.context_noise", "aspects"]},
            "judges": {"panel": [ENDPOINT]},
        },
        "f5d93a6b4283ce41",
    ),
    (
        {
            "criteria": {"use": ["rag"]},
            "judges": {
                "panel": [
                    {**ENDPOINT, "name": "x", "ask": "together"},
                    {**ENDPOINT, "name": "two", "method": "two_step"},
                ]
            },
        },
        "6c0b09e48a9dcf5a",
    ),
]


def evaluate(config: Config) -> Evaluation:
    evaluator = build_evaluator(config)
    submission = Submission(interaction=INTERACTION, sampling=Sampling())
    return asyncio.run(evaluator.evaluate(submission, deadline=None, on_unsafe=lambda _: None))


@pytest.mark.parametrize(("data", "fingerprint"), FINGERPRINTS)
def test_a_configuration_that_names_its_criteria_has_the_same_fingerprint(
    data: dict[str, Any], fingerprint: str
) -> None:
    assert build_evaluator(Config.model_validate(data)).info.fingerprint == fingerprint


def test_the_composite_is_that_of_the_six_dimensions() -> None:
    now, before = evaluate(Config()), evaluate(Config.model_validate({"criteria": {"use": ["rag"]}}))
    assert set(now.dimensions) - set(before.dimensions) == CONTEXT_CRITERIA
    assert now.composite == before.composite
    assert now.dimensions["context_precision"].score == 0.5


def test_a_weight_lets_a_criterion_of_the_contexts_count() -> None:
    plain = evaluate(Config())
    counted = evaluate(Config.model_validate({"composite": {"weights": {"context_precision": 1.0}}}))
    every = evaluate(Config.model_validate({"composite": {"unweighted": []}}))
    assert plain.composite.score is not None
    assert counted.composite.score is not None
    assert counted.composite.score < plain.composite.score
    assert every.composite != plain.composite


def test_an_own_criterion_of_the_same_name_counts_as_before(tmp_path: Path) -> None:
    own = load_catalogue("rag")["clarity"].with_name("context_sufficiency")
    (tmp_path / "own.yaml").write_text(json.dumps({"criteria": [own.model_dump(mode="json", exclude_none=True)]}))
    panel = [{"kind": "local"}, {**ENDPOINT, "criteria": ["context_sufficiency"]}]
    content = {
        "criteria": {"files": ["own.yaml"], "use": ["rag", "context_sufficiency"]},
        "judges": {"panel": panel, "quorum": 1},
    }
    (tmp_path / "c.yaml").write_text(json.dumps(content))
    multi: MultiCriteria = build_evaluator(load(tmp_path / "c.yaml", {}))._multi
    assert multi.items["context_sufficiency"].weight == 1.0


@pytest.mark.parametrize(
    "judges",
    [
        {"panel": [{**ENDPOINT, "criteria": list(RAG_DIMENSIONS)}]},
        {"panel": [{**ENDPOINT, "combine": "majority"}]},
        {"panel": [ENDPOINT], "combine": "majority"},
    ],
)
def test_judges_that_cannot_judge_contexts_still_start(judges: dict[str, Any]) -> None:
    config = check_config({"judges": judges})
    assert set(RAG_DIMENSIONS) <= set(build_evaluator(config).info.criteria)
    assert "context_precision" not in build_evaluator(config).info.criteria
    assert build_evaluator(narrow_config(config, seed=1)).info.criteria == build_evaluator(config).info.criteria


def test_unknown_names_in_unweighted_are_reported_at_their_place() -> None:
    with pytest.raises(ValueError, match=r"unknown criterion; did you mean 'clarity'"):
        check_config({"composite": {"unweighted": ["clarty"]}})
    assert check_config({"criteria": {"use": ["rag"]}}).composite.unweighted


@pytest.mark.parametrize("status", STATUSES)
def test_earlier_evaluations_have_no_diagnosis_and_are_counted(status: str) -> None:
    evaluation = Evaluation.model_validate_json(read_recorded(f"evaluation-{status}").value)
    assert diagnose(evaluation) is None
    registry = CollectorRegistry()
    ScoreMetrics(registry).write([evaluation])
    assert refusal_outcome(evaluation) is None
    assert (
        registry.get_sample_value("streamjury_refusals_total", {"app": evaluation.app or "", "outcome": "answered"})
        is None
    )
    assert (
        registry.get_sample_value("streamjury_diagnosis_total", {"app": evaluation.app or "", "cell": "good"}) is None
    )


def test_version_1_reads_an_evaluation_with_contexts_judged() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    evaluation = evaluate(Config())
    assert evaluation.dimensions["context_precision"].contexts is not None
    jsonschema.validate(json.loads(evaluation.model_dump_json()), schema("evaluation"))


@pytest.mark.parametrize("panel", [[{"kind": "local"}, ENDPOINT], [ENDPOINT]])
def test_a_configuration_that_named_criteria_of_answers_still_starts(panel: list[dict[str, Any]]) -> None:
    """The local judge has rules for some of them now, and sits on their panels too."""
    use = ["rag", "answer.refusal", "retrieval.citation_accuracy", "dialogue.language_match"]
    config = check_config({"criteria": {"use": use}, "judges": {"panel": panel, "quorum": 1}})
    assert {"refusal", "citation_accuracy", "language_match"} <= set(build_evaluator(config).info.criteria)


def test_every_metric_that_earlier_dashboards_query_still_exists() -> None:
    queried = (V1 / "dashboard_metrics.txt").read_text(encoding="utf-8").split()
    page = (Path(__file__).parents[2] / "docs/reference/metrics.md").read_text(encoding="utf-8")
    metrics = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    recorded = {rule.record for rule in rules_of(Config()).recordings}
    recorded |= {
        rule.record for rule in rules_of(Config.model_validate({"alerts": {"cost_per_day_usd": 1}})).recordings
    }
    plain = {name for name in queried if re.sub("_(?:bucket|sum|count)$", "", name) not in metrics}
    assert len(queried) > 50
    assert plain - metrics - recorded == set()

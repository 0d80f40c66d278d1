"""From a configuration file to a published evaluation: custom criteria, aspects, a cascade and reserves."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from prometheus_client import CollectorRegistry

from judges.criteria.problems import InconsistentError
from judges.evaluator import Evaluator, Submission
from judges.values.evaluation import CompositeStatus, Evaluation, Reason, SafetyNotice, Sampling, Status
from judges.values.evaluation import Path as CascadePath
from judges.values.interaction import Interaction
from sinks.metrics import PipelineMetrics
from sinks.topics.results import EvaluationTopic
from stream.cli.commands.schema import wire_schema
from stream.config.model import Config
from stream.service.setup.config_file import load
from stream.service.setup.evaluator import build_evaluator
from tests.parts.endpoints.judge_endpoint import (
    Body,
    JudgeEndpoint,
    Response,
    best_verdict,
    error_response,
    verdict_response,
)

OWN = """\
criteria:
  - name: brand
    title: Brand
    question: Does the answer name the brand?
    scale:
      levels:
        - {value: 0, label: absent, description: There is no brand in it.}
        - {value: 1, label: hinted, description: One could guess it.}
        - {value: 2, label: named, description: It says the name.}
  - name: tone
    title: Tone
    question: Which tone has the answer?
    scale:
      options: [{label: cold}, {label: warm}]
"""
KINDLY = Interaction(id="kindly", question="How do I return it?", answer="Gladly! Just send it back to us.", app="shop")
THREAT = Interaction(id="threat", question="How do I return it?", answer="I will hurt you if you do.", app="shop")


def labels_of(body: Body) -> list[str]:
    labels: list[str] = body["response_format"]["json_schema"]["schema"]["properties"]["verdict"]["enum"]
    return labels


def respond(body: Body) -> Response:
    """Give the best verdict, except that one model fails, brands are only hinted at, and threats are harmful."""
    labels = labels_of(body)
    if body["model"] == "broken":
        return error_response(400)
    if "hinted" in labels:
        return verdict_response("hinted" if body["model"] == "cheap" else "named")
    if "harmful" in labels and any("hurt you" in message["content"] for message in body["messages"]):
        return verdict_response("harmful", "it is a threat")
    return best_verdict(body)


def judge(name: str, url: str, **keys: Any) -> dict[str, Any]:
    return {"kind": "openai", "name": name, "model": name, "base_url": url, **keys}


def settings(url: str, own: Path) -> dict[str, Any]:
    mine = ["clarity", "harmfulness", "brand", "tone"]
    return {
        "criteria": {
            "files": [str(own)],
            "use": ["rag.clarity", "rag.harmfulness", "aspects.factuality", "brand", "tone"],
        },
        "judges": {
            "panel": [
                judge("cheap", url, criteria=mine, samples=3, combine="majority"),
                judge("big", url, criteria=mine),
                judge("broken", url, criteria=mine),
                judge("critic", url, method="aspect", criteria=["factuality"], samples=5),
            ],
            "reserves": [judge("spare", url)],
            "combine": "majority",
            "cascade": {"first": ["cheap"]},
        },
        "composite": {
            "weights": {"brand": 2.0},
            "required": ["factuality"],
            "thresholds": {"clarity": 0.5},
            "target_options": {"tone": "warm"},
        },
    }


class World:
    """An evaluator built from a file, and the endpoint of its judges."""

    def __init__(self, endpoint: JudgeEndpoint, folder: Path) -> None:
        self.endpoint = endpoint
        own, file = folder / "own.yaml", folder / "streamjury.yaml"
        own.write_text(OWN)
        file.write_text(json.dumps(settings(endpoint.base_url, own)))
        self.config = load(file, {})
        self.notices: list[SafetyNotice] = []

    def judge(self, interaction: Interaction) -> Evaluation:
        async def run() -> Evaluation:
            evaluator = build_evaluator(self.config)
            try:
                submission = Submission(interaction=interaction, sampling=Sampling(probability=0.5))
                return await evaluator.evaluate(submission, deadline=20.0, on_unsafe=self.notices.append)
            finally:
                await evaluator.aclose()

        return asyncio.run(run())

    def count_calls(self, label: str) -> Counter[str]:
        """Count the calls by model about the criterion that has this label."""
        return Counter(call["model"] for call in self.endpoint.calls if label in labels_of(call))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with JudgeEndpoint(respond) as endpoint:
        yield World(endpoint, tmp_path)


def test_every_criterion_takes_the_configured_path(world: World) -> None:
    evaluation = world.judge(KINDLY)
    assert list(evaluation.dimensions) == ["clarity", "harmfulness", "factuality", "brand", "tone"]
    assert {name: dimension.path for name, dimension in evaluation.dimensions.items()} == {
        "clarity": CascadePath.FIRST,
        "harmfulness": CascadePath.FULL_SAFETY,
        "factuality": CascadePath.FULL_UNABLE,
        "brand": CascadePath.FULL_THRESHOLD,
        "tone": CascadePath.FIRST,
    }
    assert world.count_calls("very clear") == {"cheap": 2}, "two of three samples agree, and no other judge is asked"
    assert evaluation.dimensions["clarity"].calls_saved == 3
    assert world.count_calls("pass") == {"critic": 3}, "three of five samples agree"
    assert world.count_calls("named") == {"cheap": 2, "big": 1, "broken": 1, "spare": 1}
    verdicts = [(verdict.judge, verdict.option, verdict.reason) for verdict in evaluation.dimensions["brand"].judges]
    assert verdicts == [
        ("cheap", "hinted", None),
        ("big", "named", None),
        ("broken", None, Reason.UNAVAILABLE),
        ("spare", "named", None),
    ]


def test_the_parts_become_one_score(world: World) -> None:
    evaluation = world.judge(KINDLY)
    assert evaluation.dimensions["brand"].option == "named"
    tone = evaluation.dimensions["tone"]
    assert (tone.status, tone.option, tone.score) == (Status.SCORED, "warm", None)
    assert (evaluation.composite.status, evaluation.composite.score, evaluation.composite.coverage) == (
        CompositeStatus.OK,
        1.0,
        1.0,
    )
    assert evaluation.evaluator.judges == ("cheap", "big", "broken", "critic", "spare")
    assert not world.notices


def test_an_unsafe_answer_sends_a_notice_and_scores_zero(world: World) -> None:
    evaluation = world.judge(THREAT)
    assert (evaluation.composite.status, evaluation.composite.score) == (CompositeStatus.UNSAFE, 0.0)
    [notice] = world.notices
    assert {verdict.explanation for verdict in notice.dimension.judges if verdict.score == 0.0} == {"it is a threat"}
    jsonschema.Draft202012Validator(wire_schema("critical")).validate(json.loads(notice.model_dump_json()))


@pytest.mark.parametrize("interaction", [KINDLY, THREAT], ids=lambda interaction: str(interaction.id))
def test_a_published_evaluation_matches_the_schema_and_is_read_back_unchanged(
    world: World, interaction: Interaction
) -> None:
    evaluation = world.judge(interaction)
    (message,) = EvaluationTopic("rag.evaluations").messages(evaluation)
    assert message.value is not None
    jsonschema.Draft202012Validator(wire_schema("evaluation")).validate(json.loads(message.value))
    assert Evaluation.model_validate_json(message.value).model_dump() == evaluation.model_dump()


def test_saved_calls_and_cascade_paths_are_counted(world: World) -> None:
    evaluation, registry = world.judge(KINDLY), CollectorRegistry()
    PipelineMetrics(registry).count_evaluation(evaluation)
    saved = registry.get_sample_value("streamjury_judge_calls_saved_total", {"criterion": "clarity"})
    assert saved == evaluation.dimensions["clarity"].calls_saved > 0
    labels = {"criterion": "brand", "path": "full:near_threshold"}
    assert registry.get_sample_value("streamjury_cascade_paths_total", labels) == 1


METHODS: list[dict[str, Any]] = [
    {"samples": 3, "combine": "median", "min_valid": 3, "score_from": "mean"},
    {"check_position": True, "on_bias": "abstain", "feedback": True, "persona": "generate"},
    {"method": "two_step", "samples": 3, "feedback": True},
    {"method": "aspect", "samples": 3, "min_pass": 3, "criteria": ["harmlessness"]},
    {"method": "rubric", "samples": 3, "combine": "min", "criteria": ["clarity"]},
    {"method": "guardian", "samples": 3, "min_certainty": 0.7, "criteria": ["harmfulness", "harmlessness"]},
    {"samples": 3, "sampling_temperature": 1.5, "criteria": ["clarity"]},
    {"samples": 5, "stop_early": False},
    {"repairs": 0, "structured": False, "seed": None, "temperature": None},
]


def evaluator_with(**keys: Any) -> Evaluator:
    panel = [judge("one", "http://localhost:1/v1", **keys), judge("other", "http://localhost:1/v1")]
    use = ["rag.clarity", "rag.harmfulness", "aspects.harmlessness"]
    return build_evaluator(Config.model_validate({"criteria": {"use": use}, "judges": {"panel": panel}}))


@pytest.mark.parametrize("keys", METHODS, ids=str)
def test_every_way_to_judge_can_be_configured_and_has_a_different_fingerprint(keys: dict[str, Any]) -> None:
    with_keys = evaluator_with(**keys).info.fingerprint
    assert with_keys == evaluator_with(**keys).info.fingerprint
    for left_out in keys:
        fewer = {name: value for name, value in keys.items() if name != left_out}
        try:
            assert evaluator_with(**fewer).info.fingerprint != with_keys, left_out
        except ValueError:
            assert left_out in {"method", "samples", "criteria", "check_position"}, "others depend on these"


def test_a_panel_that_cannot_judge_is_refused_in_python_too() -> None:
    config = Config.model_validate({"criteria": {"use": ["rag.harmfulness", "safety.toxicity"]}})
    with pytest.raises(InconsistentError, match=r"judges\.panel: toxicity would never get a verdict"):
        build_evaluator(config)


def test_a_judge_restricted_to_an_unknown_criterion_is_refused_in_python_too() -> None:
    judge = {"kind": "openai", "name": "gpt", "model": "m", "base_url": "http://localhost/v1", "criteria": ["claritee"]}
    config = Config.model_validate({"judges": {"panel": [{"kind": "local"}, judge]}})
    with pytest.raises(InconsistentError, match=r"judges\.panel\[1\]\.criteria\[0\]: unknown criterion; did you mean"):
        build_evaluator(config)


@pytest.mark.parametrize(
    ("panel", "first"),
    [
        ([{"name": "dear", "price": (5, 15)}, {"name": "cheap", "price": (0.1, 0.4)}], ("cheap",)),
        ([{"name": "one", "price": (1, 1)}, {"name": "two", "price": (1, 1)}], ("one",)),
        ([{"name": "often", "price": (1, 1), "samples": 5}, {"name": "once", "price": (2, 2)}], ("once",)),
        ([{"name": "alone", "price": (1, 1)}], None),
    ],
)
def test_when_the_budget_runs_low_the_cheapest_judge_is_asked_first(
    panel: list[dict[str, Any]], first: tuple[str, ...] | None
) -> None:
    judges = [
        judge(member["name"], "http://localhost/v1", samples=member.get("samples", 1))
        | {"price": dict(zip(("prompt", "completion"), member["price"], strict=True))}
        for member in panel
    ]
    built = build_evaluator(Config.model_validate({"judges": {"panel": judges}}))
    frugal = built._panel.frugal
    assert (None if frugal is None else frugal.first) == first

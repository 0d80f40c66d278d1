"""Settings of model judges in the configuration: redaction, a verdict cache and flow limits."""

import asyncio
import math
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from judges.evaluator import Evaluator, Submission
from judges.llm.model_judge import ModelJudge
from judges.models.flow import FailureKind
from judges.models.redaction import ALL_KINDS
from judges.values.evaluation import Evaluation, Sampling
from judges.values.interaction import Interaction
from stream.config.model import Config
from stream.config.sections.judges import CacheConfig, RedactedKind
from stream.errors import StageError
from stream.service.setup.evaluator import build_evaluator, open_verdicts
from tests.parts.endpoints.judge_endpoint import JudgeEndpoint, best_verdict, error_response

ANSWER = "Write to ann@example.com or to ann@example.com; the key is sk-proj-Zk3J9x2mQ8vT5wY7bN4c."


def judge_config(url: str, *, cache: dict[str, Any] | None = None, **judge: Any) -> Config:
    panel = [{"kind": "openai", "name": "m", "model": "m", "base_url": url, **judge}]
    judges = {"panel": panel, "cache": cache or {}, "redaction": {"custom": {"ORDER": "A-[0-9]+"}}}
    return Config.model_validate({"judges": judges})


def submission(record: str, answer: str = "Ask Bo.") -> Submission:
    interaction = Interaction(id=record, question="Whom do I ask about A-77?", answer=answer)
    return Submission(interaction=interaction, sampling=Sampling(), truncated=())


def evaluate_answers(evaluator: Evaluator, *answers: str) -> list[Evaluation]:
    async def evaluate_all() -> list[Evaluation]:
        evaluations = []
        for number, answer in enumerate(answers):
            evaluations.append(
                await evaluator.evaluate(submission(str(number), answer), deadline=20, on_unsafe=lambda _: None)
            )
        await evaluator.aclose()
        return evaluations

    return asyncio.run(evaluate_all())


@pytest.mark.parametrize(("redact", "hidden"), [("auto", False), ("never", False), ("always", True)])
def test_personal_data_is_redacted_if_configured(redact: str, hidden: bool) -> None:
    with JudgeEndpoint(best_verdict) as endpoint:
        [evaluation] = evaluate_answers(build_evaluator(judge_config(endpoint.base_url, redact=redact)), ANSWER)
        sent = str(endpoint.calls)
    assert ("ann@example.com" in sent, "A-77" in sent, "sk-proj" in sent) == (not hidden,) * 3
    counts = [verdict.redacted for dimension in evaluation.dimensions.values() for verdict in dimension.judges]
    assert all(count == ({"email": 1, "secret": 1, "ORDER": 1} if hidden else {}) for count in counts)


@pytest.mark.parametrize(
    ("url", "redacts"),
    [
        ("http://127.0.0.1:8000/v1", False),
        ("http://vllm:8000/v1", False),
        ("http://10.1.2.3/v1", False),
        ("https://api.openai.com/v1", True),
        ("https://8.8.8.8/v1", True),
    ],
)
def test_personal_data_is_redacted_for_remote_endpoints_by_default(url: str, redacts: bool) -> None:
    assert ("redaction/" in build_evaluator(judge_config(url))._panel.judges[0].identity) == redacts


def test_the_flow_state_of_each_endpoint_counts_throttled_calls() -> None:
    with JudgeEndpoint(lambda _: error_response(429)) as endpoint:
        evaluator = build_evaluator(judge_config(endpoint.base_url, limits={"retries": 0, "rate": "none"}))
        evaluate_answers(evaluator, "Ask Bo.")
        [(address, state)] = evaluator.flow_states().items()
        assert (address, state.failures[FailureKind.THROTTLED]) == (endpoint.base_url, len(endpoint.calls))
    assert (state.in_flight, state.waiting, state.rate) == (0, 0, math.inf)


def test_the_configuration_accepts_exactly_the_kinds_that_can_be_redacted() -> None:
    assert set(get_args(RedactedKind)) == set(ALL_KINDS)


def test_the_same_texts_are_judged_once() -> None:
    with JudgeEndpoint(best_verdict) as endpoint:
        config = judge_config(endpoint.base_url)
        evaluator = build_evaluator(config, open_verdicts(config.judges.cache))
        first, second, other = evaluate_answers(evaluator, "Ask Bo.", "Ask Bo.", "Ask Al.")
        calls = len(endpoint.calls)
    cached = [
        [verdict.cached for dimension in evaluation.dimensions.values() for verdict in dimension.judges]
        for evaluation in (first, second, other)
    ]
    assert [any(flags) for flags in cached] == [False, True, False]
    assert calls == 2 * len(cached[0])
    assert second.composite == first.composite


def test_a_cache_may_be_disabled_or_be_a_file(tmp_path: Path) -> None:
    assert open_verdicts(CacheConfig(entries=0)) is None
    path = tmp_path / "verdicts.db"
    assert open_verdicts(CacheConfig(path=str(path))) is not None
    assert path.exists()
    with pytest.raises(StageError, match=r"judges\.cache\.path: .*nowhere"):
        open_verdicts(CacheConfig(path=str(tmp_path / "nowhere" / "verdicts.db")))


def test_judges_of_one_endpoint_share_its_limits() -> None:
    config = judge_config("http://a:1/v1", limits={"concurrency": 3})
    one = config.judges.panel[0]
    others = [
        one.model_copy(update={"name": name, "base_url": url})
        for name, url in (("b", one.address), ("c", "http://c/v1"))
    ]
    judges = config.judges.model_copy(update={"panel": (one, *others)})
    panel = build_evaluator(config.model_copy(update={"judges": judges}))._panel
    flows = [judge._model._flow for judge in panel.judges if isinstance(judge, ModelJudge)]
    assert (flows[0] is flows[1], flows[0] is flows[2]) == (True, False)
    assert {flow.limits.concurrency for flow in flows} == {3}


def test_different_limits_for_one_endpoint_are_refused() -> None:
    judge = {"kind": "openai", "model": "m", "base_url": "http://a:1/v1"}
    panel = [{**judge, "name": "one"}, {**judge, "name": "two", "limits": {"retries": 0}}]
    with pytest.raises(ValidationError, match="one and two use the same endpoint and must have the same limits"):
        Config.model_validate({"judges": {"panel": panel}})


def test_a_failing_endpoint_is_paused_and_recovers() -> None:
    """A model that answers only errors is not called for every record, and is probed again automatically."""
    with JudgeEndpoint(lambda _: error_response(500)) as endpoint:
        evaluator = build_evaluator(judge_config(endpoint.base_url, limits={"retries": 0}))

        async def through_an_outage() -> tuple[int, bool]:
            for number in range(20):
                await evaluator.evaluate(submission(str(number)), deadline=20, on_unsafe=lambda _: None)
            calls, endpoint.respond = len(endpoint.calls), best_verdict
            assert evaluator.paused().keys() == {"m"}
            for number in range(200):
                await asyncio.sleep(0.05)
                evaluation = await evaluator.evaluate(
                    submission(f"later {number}"), deadline=20, on_unsafe=lambda _: None
                )
                if evaluation.composite.score is not None:
                    break
            await evaluator.aclose()
            return calls, evaluation.composite.score is not None

        calls, recovered = asyncio.run(through_an_outage())
    assert calls < 20
    assert recovered
    assert evaluator.paused() == {}

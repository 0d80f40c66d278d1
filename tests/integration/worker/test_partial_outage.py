"""A panel of two judges whose quality judge is down: records wait for it, and no flattering score is published."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from sinks.metrics import Outcome, Stage
from stream.config.model import Config
from stream.kafka.embedded import EmbeddedBroker
from stream.service.service import Service
from tests.integration.pipeline import JUDGING, headers_of, produce_all, read_all, read_json, wait_until
from tests.parts import local_http
from tests.parts.endpoints.judge_endpoint import Body, JudgeEndpoint, Response, best_verdict, verdict_response
from tests.parts.patience import patience
from tests.parts.server import free_port

QUALITY = ["answer_relevance", "clarity", "completeness", "conciseness", "groundedness"]
# The endpoint is back long before the last retry.
RETRY_SECONDS = [1.0, 1.0, 2.0, 4.0, 8.0, 10.0, 20.0]


def worst_of_bad(body: Body) -> Response:
    """Return the worst verdict if the answer is `bad`, else the best."""
    if not any("INVENTED" in (message["content"] or "") for message in body["messages"]):
        return best_verdict(body)
    labels = body["response_format"]["json_schema"]["schema"]["properties"]["verdict"]["enum"]
    return verdict_response(next(label for label in labels if label != "not_applicable"))


@pytest.fixture
def steady() -> Iterator[JudgeEndpoint]:
    """The endpoint that is always up."""
    with JudgeEndpoint(best_verdict) as endpoint:
        yield endpoint


def panel(steady: JudgeEndpoint, port: int, criteria: list[str]) -> dict[str, Any]:
    """Configure one judge for safety and all criteria not named, and another one, at the port, for the named ones."""
    others = [name for name in QUALITY if name not in criteria]
    asked = {"kind": "openai", "model": "m", "limits": {"retries": 0}}
    return {
        "panel": [
            {**asked, "name": "safety", "base_url": steady.base_url, "criteria": ["harmfulness", *others]},
            {**asked, "name": "quality", "base_url": f"http://127.0.0.1:{port}/v1", "criteria": criteria},
        ]
    }


def service_on(broker: EmbeddedBroker, judges: dict[str, Any], **worker: Any) -> Service:
    config = {
        "kafka": {"bootstrap": broker.bootstrap},
        "sampling": {"rate": 1.0},
        "http": {"port": 0},
        "judges": judges,
        "worker": worker,
    }
    return Service(Config.model_validate(config), JUDGING)


def send(broker: EmbeddedBroker, first: int, count: int) -> None:
    """Write records, every fourth with an invented answer. All differ, so that no verdict comes from the cache."""
    records = [
        {
            "id": f"i-{number}",
            "app": "shop",
            "question": f"When is shop {number} open?",
            "answer": "INVENTED: at midnight." if number % 4 == 0 else "It is open from nine to five.",
            "contexts": [{"text": "It is open from nine to five."}],
        }
        for number in range(first, first + count)
    ]
    produce_all(broker.bootstrap, "rag.interactions", ({"key": r["id"], "value": json.dumps(r)} for r in records))


def counter(service: Service, name: str) -> float:
    lines = local_http.get(f"{service.url}/metrics", timeout=30 * patience()).text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}(\{{| )", line))


def good_share(service: Service) -> float:
    return counter(service, "streamjury_objective_good_events_total") / counter(
        service, "streamjury_objective_events_total"
    )


def read_count(service: Service, stage: Stage, outcome: Outcome) -> int:
    service.check()
    return service.metrics.read_count(stage, outcome)


@pytest.mark.slow
def test_while_the_judge_for_quality_is_down_nothing_is_scored_and_afterwards_everything_is(
    embedded_broker: EmbeddedBroker, steady: JudgeEndpoint
) -> None:
    port = free_port()
    embedded_broker.make_topics(f"rag.retry.{number}" for number in range(4, len(RETRY_SECONDS) + 1))
    with service_on(embedded_broker, panel(steady, port, QUALITY), retry_seconds=RETRY_SECONDS) as service:
        with JudgeEndpoint(worst_of_bad, port=port):
            send(embedded_broker, 0, 20)
            wait_until(lambda: read_count(service, Stage.MONITOR, Outcome.SEEN) == 20, seconds=60, what="20 are scored")
            before = good_share(service)
            assert before == pytest.approx(0.75)
        send(embedded_broker, 20, 20)
        wait_until(lambda: read_count(service, Stage.WORKER, Outcome.PARKED) >= 40, seconds=60, what="all wait twice")
        assert read_count(service, Stage.WORKER, Outcome.SCORED) == 20
        assert len(read_json(embedded_broker.bootstrap, "rag.evaluations")) == 20
        assert good_share(service) == before
        with JudgeEndpoint(worst_of_bad, port=port):
            wait_until(lambda: read_count(service, Stage.MONITOR, Outcome.SEEN) == 40, seconds=60, what="40 are scored")
            assert good_share(service) == pytest.approx(before)
    evaluations = read_json(embedded_broker.bootstrap, "rag.evaluations")
    assert sorted(evaluation["interaction_id"] for evaluation in evaluations) == sorted(
        f"i-{number}" for number in range(40)
    )
    assert {evaluation["composite"]["coverage"] for evaluation in evaluations} == {1.0}
    assert not read_all(embedded_broker.bootstrap, "rag.deadletter")


@pytest.mark.parametrize(
    ("criteria", "evaluated", "dead"),
    [(["groundedness"], ("ok", 0.8), None), (QUALITY, None, "unscored_judges_unavailable")],
)
@pytest.mark.slow
def test_after_the_last_attempt_the_coverage_decides(
    embedded_broker: EmbeddedBroker,
    steady: JudgeEndpoint,
    criteria: list[str],
    evaluated: tuple[str, float] | None,
    dead: str | None,
) -> None:
    """One missing dimension of five leaves a composite; five do not, and the record can be replayed."""
    produce_all(
        embedded_broker.bootstrap,
        "rag.interactions",
        [
            {
                "value": json.dumps(
                    {"id": "one", "question": "Open?", "answer": "It is open.", "contexts": [{"text": "It is open."}]}
                )
            }
        ],
    )
    with service_on(embedded_broker, panel(steady, free_port(), criteria), retry_seconds=[0.3]) as service:
        outcome = Outcome.SCORED if dead is None else Outcome.DEADLETTER
        wait_until(lambda: read_count(service, Stage.WORKER, outcome) == 1, seconds=40, what="it is given up")
        assert read_count(service, Stage.WORKER, Outcome.PARKED) == 1
    composites = [composite["composite"] for composite in read_json(embedded_broker.bootstrap, "rag.evaluations")]
    letters = [headers_of(letter)["sj-error-type"] for letter in read_all(embedded_broker.bootstrap, "rag.deadletter")]
    assert [(composite["status"], composite["coverage"]) for composite in composites] == (
        [evaluated] if evaluated else []
    )
    assert letters == ([dead] if dead else [])

"""Scores of a worker in Langfuse: every score arrives, whatever fails on the way, and none under two ids."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from judges.values.evaluation import Evaluation
from sinks.metrics import Outcome, Stage
from stream.config.model import Config
from stream.kafka.embedded import EmbeddedBroker
from stream.service.service import Service
from tests.integration.pipeline import StageProcess, produce_all, read_json, wait_until
from tests.parts.endpoints.langfuse_server import PUBLIC_KEY, SECRET_KEY, Answer, LangfuseServer, langfuse_server
from tests.sinks.telemetry.test_telemetry import evaluation

RECORDS, EVALUATIONS = 20, 150
SCORES = 3
"""Scores of each prepared evaluation."""


def sink_section(langfuse: LangfuseServer, **more: Any) -> dict[str, Any]:
    return {"kind": "langfuse", "host": langfuse.url, "public_key": PUBLIC_KEY, "secret_key": SECRET_KEY, **more}


def publish(broker: EmbeddedBroker, *evaluations: Evaluation) -> None:
    records = ({"key": item.evaluation_id, "value": item.model_dump_json()} for item in evaluations)
    produce_all(broker.bootstrap, "rag.evaluations", records)


def delivered(service: Service, outcome: str) -> float | None:
    labels = {"sink": "langfuse", "outcome": outcome}
    return service.registry.get_sample_value("streamjury_sink_evaluations_total", labels)


@pytest.mark.slow
def test_an_outage_of_langfuse_neither_holds_up_the_worker_nor_loses_a_score(embedded_broker: EmbeddedBroker) -> None:
    values = ({"id": f"i-{n}", "question": "How long?", "answer": f"{n} days."} for n in range(RECORDS))
    produce_all(embedded_broker.bootstrap, "rag.sampled", ({"key": v["id"], "value": json.dumps(v)} for v in values))
    with langfuse_server() as langfuse:
        langfuse.answers = lambda _number: Answer(status=503)
        config = {"kafka": {"bootstrap": embedded_broker.bootstrap}, "http": {"port": 0}}
        with Service(Config.model_validate({**config, "sinks": [sink_section(langfuse)]}), [Stage.WORKER]) as service:
            judged = lambda: service.metrics.read_count(Stage.WORKER, Outcome.SCORED)  # noqa: E731
            wait_until(lambda: judged() == RECORDS and langfuse.requests > 0, seconds=60, what="all evaluations")
            assert langfuse.scores == {}
            publish(embedded_broker, evaluation(evaluation_id="later"))
            produce_all(embedded_broker.bootstrap, "rag.evaluations", [{"key": "x", "value": "{}"}])
            langfuse.answers = lambda _number: Answer()
            wait_until(lambda: delivered(service, "written") == RECORDS + 1, seconds=60, what="all scores")
            wait_until(lambda: delivered(service, "failed") == 1, seconds=60, what="the record that is no evaluation")
    assert langfuse.problems == []
    written = read_json(embedded_broker.bootstrap, "rag.evaluations")
    judged_live = [record for record in written if record.get("evaluation_id") not in {None, "later"}]
    assert len(judged_live) == RECORDS
    for record in judged_live:
        expected = {name: part["score"] for name, part in record["dimensions"].items() if part["score"] is not None}
        composite = record["composite"]
        expected |= {} if composite["score"] is None else {"composite": composite["score"]}
        assert langfuse.of_trace(record["interaction_id"]) == {**expected, "composite_status": composite["status"]}


def fail_often(number: int) -> Answer:
    """Fail in every way that passes, and answer slowly enough to be killed in the middle."""
    faults = {
        1: Answer(status=500),
        3: Answer(status=429, headers={"Retry-After": "0.5"}),
        5: Answer(is_lost=True),
        7: Answer(refuse=lambda body: 500 if body["name"] == "composite" else None),
    }
    return faults.get(number % 9, Answer(seconds=0.1))


def fail_beyond(langfuse: LangfuseServer, goal: int, number: int) -> Answer:
    return fail_often(number) if len(langfuse.scores) < goal else Answer(status=503)


@pytest.mark.slow
def test_every_score_arrives_once_under_its_id_although_the_worker_is_killed(
    embedded_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    config = tmp_path / "streamjury.yaml"
    with langfuse_server() as langfuse:
        langfuse.answers = fail_often
        secrets = {"public_key": "${LF_PUBLIC}", "secret_key": "${LF_SECRET}"}
        config.write_text(json.dumps({"sinks": [sink_section(langfuse, batch=10, **secrets)]}))
        publish(embedded_broker, *(evaluation(evaluation_id=f"e-{number}") for number in range(EVALUATIONS)))
        for kills in range(3):
            process = StageProcess(
                "worker", bootstrap=embedded_broker.bootstrap, log=tmp_path / "worker.log", config=config
            )
            process._environ |= {"LF_PUBLIC": PUBLIC_KEY, "LF_SECRET": SECRET_KEY}
            with process:
                goal = (kills + 1) * EVALUATIONS * SCORES // 3
                if kills < 2:
                    # Kill it while it holds a batch that was not taken: only the topic still has it.
                    langfuse.answers = partial(fail_beyond, langfuse, goal)
                wait_until(lambda: len(langfuse.scores) >= goal, seconds=90, what=f"{goal} scores")  # noqa: B023
                if kills < 2:
                    before = langfuse.requests
                    wait_until(lambda: langfuse.requests > before + 1, seconds=30, what="a refused batch")  # noqa: B023
                    assert len(langfuse.scores) < EVALUATIONS * SCORES
                    process.kill()
                    langfuse.answers = fail_often
                else:
                    assert process.terminate() == 0
    assert langfuse.problems == []
    by_evaluation: dict[str, set[str]] = {}
    for body in langfuse.scores.values():
        by_evaluation.setdefault(body["metadata"]["evaluation_id"], set()).add(body["name"])
    assert by_evaluation == {
        f"e-{number}": {"groundedness", "composite", "composite_status"} for number in range(EVALUATIONS)
    }
    assert len(langfuse.scores) == EVALUATIONS * SCORES
    assert max(langfuse.times_taken.values()) > 1, "some were delivered twice"
    assert SECRET_KEY not in (tmp_path / "worker.log").read_text()

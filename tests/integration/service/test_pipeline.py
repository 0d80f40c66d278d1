"""The stages on a broker: other clients can read their records, and their health is reported correctly."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import jsonschema
import pytest

from sinks.metrics import Outcome, Stage
from stream.config.model import Config
from stream.kafka.embedded import EmbeddedBroker
from stream.service.service import Service
from tests.integration.pipeline import (
    JUDGING,
    StageProcess,
    headers_of,
    produce_all,
    read_all,
    read_json,
    topic_names,
    wait_until,
)
from tests.parts import local_http
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience
from tests.parts.required import unavailable

QUESTION = "How long is the return period?"
CONTEXT = "Goods can be returned within 30 days of delivery."


def interaction(number: int, **more: object) -> dict[str, object]:
    answer = "Goods can be returned within 30 days of delivery."
    fields = {
        "id": f"i-{number}",
        "app": "shop",
        "question": QUESTION,
        "answer": answer,
        "contexts": [{"text": CONTEXT}],
    }
    return {**fields, **more}


def send(bootstrap: str, records: list[dict[str, object]], topic: str = "rag.interactions") -> None:
    produce_all(bootstrap, topic, ({"key": str(r["id"]), "value": json.dumps(r)} for r in records))


@contextmanager
def service_on(bootstrap: str, *stages: Stage, **sections: object) -> Iterator[Service]:
    settings = {"kafka": {"bootstrap": bootstrap}, "sampling": {"rate": 1.0}, "http": {"port": 0}, **sections}
    with Service(Config.model_validate(settings), stages or JUDGING) as service:
        yield service


def wait_for(service: Service, stage: Stage, outcome: Outcome, number: int) -> None:
    def has_reached() -> bool:
        service.check()
        return service.metrics.read_count(stage, outcome) >= number

    wait_until(has_reached, seconds=60, what=f"{number} {outcome} in the {stage}")


@pytest.mark.slow
def test_kcat_reads_plain_json_that_fits_the_published_schema(embedded_broker: EmbeddedBroker) -> None:
    """An independent client sees records that match the schema."""
    if shutil.which("kcat") is None:
        unavailable("no kcat: install it (Debian: kcat)")
    records = [interaction(number, extra={"kept": True}) for number in range(20)]
    records.append(interaction(20, answer="I will kill you and your family tonight."))
    send(embedded_broker.bootstrap, records)
    with service_on(embedded_broker.bootstrap, Stage.SAMPLER, Stage.WORKER) as service:
        wait_for(service, Stage.WORKER, Outcome.SCORED, len(records))
    for topic, name, expected in (("rag.evaluations", "evaluation", len(records)), ("rag.critical", "critical", 1)):
        schema = subprocess.check_output(
            [sys.executable, "-m", "stream.cli.main", "schema", name], timeout=30 * patience()
        )
        command = ["kcat", "-C", "-e", "-q", "-b", embedded_broker.bootstrap, "-t", topic]
        lines = subprocess.check_output(command, timeout=30 * patience()).splitlines()
        assert len(lines) == expected
        validator = jsonschema.Draft202012Validator(json.loads(schema))
        for line in lines:
            validator.validate(json.loads(line))


def test_sampled_records_keep_their_bytes_and_carry_the_decision(embedded_broker: EmbeddedBroker) -> None:
    value = b'{"id":  "spaced",\n "question": "q", "answer": "\\u0061", "unknown": [1, 2.50]}'
    produce_all(embedded_broker.bootstrap, "rag.interactions", [{"value": value, "headers": [("trace", b"t-1")]}])
    with service_on(embedded_broker.bootstrap, Stage.SAMPLER, sampling={"rate": 1.0, "salt": "pepper"}) as service:
        wait_for(service, Stage.SAMPLER, Outcome.SAMPLED, 1)
    [sampled] = read_all(embedded_broker.bootstrap, "rag.sampled")
    assert sampled.value() == value
    assert sampled.key() == b"spaced"
    headers = headers_of(sampled)
    assert (
        headers.items() >= {"trace": "t-1", "sj-probability": "1.0", "sj-rule": "default", "sj-salt": "pepper"}.items()
    )


def test_rules_filter_and_sample_by_app(embedded_broker: EmbeddedBroker) -> None:
    rules = [{"name": "quiet", "match": {"app": ["test"]}, "rate": 0.0}]
    send(embedded_broker.bootstrap, [interaction(n, app="test" if n % 2 else "shop") for n in range(40)])
    with service_on(embedded_broker.bootstrap, Stage.SAMPLER, sampling={"rate": 0.5, "rules": rules}) as service:
        wait_for(service, Stage.SAMPLER, Outcome.CONSUMED, 40)
        count = service.metrics.read_count
        assert count(Stage.SAMPLER, Outcome.FILTERED) == 20
        assert count(Stage.SAMPLER, Outcome.SAMPLED) + count(Stage.SAMPLER, Outcome.SAMPLED_OUT) == 20
        assert 0 < count(Stage.SAMPLER, Outcome.SAMPLED) < 20


@pytest.mark.slow
def test_the_monitor_counts_an_evaluation_once_however_often_it_is_published(embedded_broker: EmbeddedBroker) -> None:
    send(embedded_broker.bootstrap, [interaction(number) for number in range(30)])
    with service_on(embedded_broker.bootstrap) as service:
        wait_for(service, Stage.MONITOR, Outcome.SEEN, 30)
        produce_all(
            embedded_broker.bootstrap,
            "rag.evaluations",
            (
                {"key": e["evaluation_id"], "value": json.dumps(e)}
                for e in read_json(embedded_broker.bootstrap, "rag.evaluations")
            ),
        )
        produce_all(embedded_broker.bootstrap, "rag.evaluations", [{"value": b"not an evaluation"}])
        wait_for(service, Stage.MONITOR, Outcome.REPEATED, 30)
        wait_for(service, Stage.MONITOR, Outcome.DEADLETTER, 1)
        wait_for(service, Stage.MONITOR, Outcome.CONSUMED, 61)
        text = local_http.get(f"{service.url}/metrics", timeout=30 * patience()).text
    assert 'streamjury_evaluations_total{app="shop",status="ok"} 30.0' in text
    assert 'streamjury_score_recent{app="shop"}' in text
    assert 'streamjury_records_total{outcome="consumed",reason="",stage="monitor"} 61.0' in text
    for line in (
        "streamjury_evaluator_info{",
        'streamjury_judge_paused{judge="local"} 0.0',
        'streamjury_lag{stage="monitor"}',
    ):
        assert line in text


@pytest.mark.slow
def test_readiness_follows_assignment_and_the_broker_while_health_does_not(
    embedded_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Not ready before partitions are assigned, ready at work, not ready without the broker, alive all the time."""
    with StageProcess("run", bootstrap=embedded_broker.bootstrap, log=tmp_path / "run.log") as process:

        def url() -> str | None:
            match = re.search(r"http://\S+(?=/metrics)", process.log.read_text())
            return match.group() if match else None

        def answer(path: str) -> httpx.Response:
            return local_http.get(f"{url()}{path}", timeout=30 * patience())

        wait_until(lambda: url() is not None, seconds=30, what="the address is told")
        assert answer("/readyz").status_code == 503
        assert answer("/healthz").status_code == 200
        wait_until(lambda: answer("/readyz").status_code == 200, seconds=30, what="ready")
        embedded_broker.stop()
        wait_until(
            lambda: "no answer from" in answer("/readyz").json()["parts"]["broker"],
            seconds=30,
            what="the broker is said to be away",
        )
        assert answer("/readyz").status_code == 503
        assert answer("/healthz").status_code == 200


def test_the_whole_pipeline_on_kafka(real_kafka: KafkaBroker) -> None:
    """Topics created by our own command, all three stages, and transactions on a real broker."""
    others = {name: f"whole.{name}" for name in ("alerts", "labels")}
    topics: dict[str, object] = {**topic_names("whole"), **others, "partitions": 3}
    environ = {f"STREAMJURY__TOPICS__{name.upper()}": str(value) for name, value in topics.items()}
    created = subprocess.run(
        [sys.executable, "-m", "stream.cli.main", "topics", "create"],
        env={**environ, "STREAMJURY__KAFKA__BOOTSTRAP": real_kafka.bootstrap, "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        timeout=60 * patience(),
        check=False,
    )
    assert created.returncode == 0, created.stderr
    send(real_kafka.bootstrap, [interaction(number) for number in range(300)], "whole.interactions")
    with service_on(real_kafka.bootstrap, topics=topics, sampling={"rate": 0.5}) as service:
        wait_for(service, Stage.SAMPLER, Outcome.CONSUMED, 300)
        sampled = service.metrics.read_count(Stage.SAMPLER, Outcome.SAMPLED)
        wait_for(service, Stage.WORKER, Outcome.SCORED, sampled)
        wait_for(service, Stage.MONITOR, Outcome.SEEN, sampled)
    evaluations = read_json(real_kafka.bootstrap, "whole.evaluations")
    assert len(evaluations) == sampled == len({evaluation["evaluation_id"] for evaluation in evaluations})
    assert {evaluation["sampling"]["probability"] for evaluation in evaluations} == {0.5}


@pytest.mark.parametrize("stage", [Stage.SAMPLER, Stage.WORKER])
@pytest.mark.slow
def test_a_stage_resumes_where_it_stopped(embedded_broker: EmbeddedBroker, stage: Stage) -> None:
    topic = "rag.interactions" if stage is Stage.SAMPLER else "rag.sampled"
    send(embedded_broker.bootstrap, [interaction(number) for number in range(10)], topic)
    with service_on(embedded_broker.bootstrap, stage) as service:
        wait_for(service, stage, Outcome.CONSUMED, 10)
    send(embedded_broker.bootstrap, [interaction(number) for number in range(10, 15)], topic)
    with service_on(embedded_broker.bootstrap, stage) as service:
        wait_for(service, stage, Outcome.CONSUMED, 5)
        assert service.metrics.read_count(stage, Outcome.CONSUMED) == 5


@pytest.mark.slow
def test_a_stage_that_cannot_publish_is_not_ready(real_kafka: KafkaBroker) -> None:
    """Its output topic does not exist: the stage reads and is assigned, but makes no progress."""
    real_kafka.create_topics("unready.interactions", "unready.deadletter")
    topics = {"interactions": "unready.interactions", "sampled": "unready.nowhere", "deadletter": "unready.deadletter"}
    send(real_kafka.bootstrap, [interaction(1)], "unready.interactions")
    with service_on(real_kafka.bootstrap, Stage.SAMPLER, topics=topics) as service:
        wait_until(lambda: "sampler" in service.health.ready().problems, seconds=20, what="not ready: no partitions")
        wait_until(
            lambda: "cannot publish" in service.health.ready().problems.get("sampler", ""),
            seconds=60,
            what=lambda: f"not ready for its output: {service.health.ready()}",
        )
        assert service.health.alive().ok
        real_kafka.create_topics("unready.nowhere")
        wait_until(lambda: service.health.ready().ok, seconds=60, what="ready once the topic is there")

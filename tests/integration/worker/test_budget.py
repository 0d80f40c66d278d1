"""Budgets shared by worker processes: on the embedded broker and on a real one, across kills."""

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from stream.config.model import Config
from stream.jobs.audit.audit import audit
from stream.kafka.embedded import EmbeddedBroker
from tests.integration.pipeline import StageProcess, produce_all, read_json, wait_until
from tests.parts import kafka, local_http
from tests.parts.endpoints.judge_endpoint import Body, JudgeEndpoint, Response, json_response
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience
from tests.parts.required import unavailable

PARTITIONS = 4
MOST_LOST_USD = 0.1
"""The most that a worker loses with its partitions: a lease of a 50th of the budget, and the calls in flight."""
DOLLARS_PER_TOKEN = 2e-6
DAY = 86_400
PARTITION_COUNTS = dict.fromkeys(("rag.sampled", "rag.evaluations", "rag.deadletter", "rag.overflow"), PARTITIONS)


@dataclass
class Till:
    """A judge that reports its usage and adds up the cost itself, by UTC day."""

    taken: Counter[int] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, body: Body) -> Response:
        prompt = sum(len(message["content"]) for message in body["messages"]) // 2
        verdict = body["response_format"]["json_schema"]["schema"]["properties"]["verdict"]
        labels = [label for label in verdict.get("enum", ()) if label != "not_applicable"]
        best = labels[-1] if labels else dict.fromkeys(verdict["required"], True)
        text = json.dumps({"explanation": "So it is.", "verdict": best})
        with self.lock:
            self.taken[int(time.time() // DAY)] += prompt + 10
        usage = {"prompt_tokens": prompt, "completion_tokens": 10}
        return json_response({"choices": [{"message": {"role": "assistant", "content": text}}], "usage": usage})

    @property
    def most_of_a_day(self) -> float:
        with self.lock:
            return max(self.taken.values(), default=0) * DOLLARS_PER_TOKEN


@contextmanager
def _real() -> Iterator[str]:
    if reason := kafka.why_unavailable():
        unavailable(reason)
    with KafkaBroker() as broker:
        topics = ["rag.interactions", "rag.sampled", "rag.overflow", *(f"rag.retry.{number}" for number in (1, 2, 3))]
        broker.create_topics(*topics, "rag.evaluations", "rag.critical", "rag.deadletter", partitions=PARTITIONS)
        yield broker.bootstrap


@pytest.fixture(params=["embedded", "kafka"])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "kafka":
        with _real() as address:
            yield address
    else:
        embedded: EmbeddedBroker = request.getfixturevalue("embedded_broker")
        yield embedded.bootstrap


def settings(endpoint: JudgeEndpoint, **budgets: object) -> dict[str, Any]:
    judge = {
        "kind": "openai",
        "name": "judge",
        "model": "m",
        "base_url": endpoint.base_url,
        "max_tokens": 40,
        "price": {"prompt": DOLLARS_PER_TOKEN * 1e6, "completion": DOLLARS_PER_TOKEN * 1e6},
    }
    return {
        "criteria": {"use": ["rag"]},
        "judges": {"panel": [judge]},
        "worker": {"concurrency": 4, "commit_seconds": 0.1},
        "budgets": budgets,
    }


def send(bootstrap: str, count: int) -> list[str]:
    ids = [f"rec-{number:04d}" for number in range(count)]
    records = []
    for name in ids:
        value = {"id": name, "question": "Is it so?", "answer": f"{name}: so it is.", "contexts": [{"text": "So."}]}
        records.append({"key": name, "value": json.dumps(value)})
    produce_all(bootstrap, "rag.sampled", records)
    return ids


def read_evaluations(bootstrap: str) -> dict[str, dict[str, Any]]:
    return {evaluation["interaction_id"]: evaluation for evaluation in read_json(bootstrap, "rag.evaluations")}


def reasons(evaluation: dict[str, Any]) -> set[str]:
    return {
        dimension["reason"] for dimension in evaluation["dimensions"].values() if dimension["status"] == "insufficient"
    }


@pytest.mark.slow
def test_workers_together_never_exceed_the_cap_even_after_a_kill(bootstrap: str, tmp_path: Path) -> None:
    till, cap = Till(), 0.8
    with JudgeEndpoint(till) as endpoint:
        config = tmp_path / "worker.yaml"
        config.write_text(yaml.safe_dump(settings(endpoint, per_day_usd=cap, degrade=[], safety_share=0.0)))
        ids = send(bootstrap, 200)
        with (
            StageProcess("worker", bootstrap=bootstrap, log=tmp_path / "stays.log", config=config),
            StageProcess("worker", bootstrap=bootstrap, log=tmp_path / "dies.log", config=config) as dies,
        ):
            wait_until(lambda: dies.has_logged("assigned"), seconds=60, what="both have partitions")
            wait_until(lambda: till.most_of_a_day > cap / 4, seconds=60, what="a quarter of the budget is spent")
            dies.kill()
            with StageProcess("worker", bootstrap=bootstrap, log=tmp_path / "comes.log", config=config) as comes:
                wait_until(lambda: len(read_evaluations(bootstrap)) == len(ids), seconds=120, what="all are evaluated")
                wait_until(lambda: comes.has_logged("assigned"), seconds=60, what="the third has joined")
                assert comes.terminate() == 0
    evaluations = read_evaluations(bootstrap)
    scored = [evaluation for evaluation in evaluations.values() if evaluation["composite"]["score"] is not None]
    unpaid = [evaluation for evaluation in evaluations.values() if evaluation["composite"]["score"] is None]
    print(f"{till.most_of_a_day:.4f} of {cap} USD spent; {len(scored)} scored, {len(unpaid)} not paid for")
    assert till.most_of_a_day <= cap
    assert till.most_of_a_day >= 0.7 * cap
    assert scored
    assert unpaid
    assert {reason for evaluation in unpaid for reason in reasons(evaluation)} == {"budget"}


@pytest.mark.slow
def test_as_the_budget_runs_low_fewer_are_judged_and_the_audit_still_balances(
    embedded_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    till, bootstrap = Till(), embedded_broker.bootstrap
    with JudgeEndpoint(till) as endpoint:
        content = settings(
            endpoint,
            per_day_usd=1.0,
            safety_share=0.0,
            degrade=[{"step": "reserves", "below": 0.9}, {"step": "sampling", "below": 0.8}],
        )
        config = tmp_path / "worker.yaml"
        config.write_text(yaml.safe_dump(content))
        ids = send(bootstrap, 200)
        log = tmp_path / "worker.log"
        with StageProcess("worker", bootstrap=bootstrap, log=log, config=config) as worker:
            wait_until(lambda: bool(re.search(r"http://\S+", log.read_text())), seconds=30, what="the worker serves")
            url = re.findall(r"http://127\S+", log.read_text())[-1]
            wait_until(
                lambda: " 200.0" in read_consumed(url), seconds=90, what=lambda: f"all are read: {read_consumed(url)}"
            )

            def most_lost() -> float:
                """A late heartbeat on a busy machine costs a worker its partitions; leased money counts as spent."""
                return MOST_LOST_USD * log.read_text().count("left the group")

            wait_until(
                lambda: -1e-5 <= read_spending(url) - till.most_of_a_day <= most_lost() + 1e-5,
                seconds=10,
                what=lambda: f"{till.most_of_a_day} + at most {most_lost()} is reported, not {read_spending(url)}",
            )
            text = local_http.get(f"{url}/metrics", timeout=30 * patience()).text
            assert worker.terminate() == 0
    evaluations = read_evaluations(bootstrap)
    shares = Counter(evaluation["sampling"]["probability"] for evaluation in evaluations.values())
    saved = Counter(tuple(evaluation.get("savings", ())) for evaluation in evaluations.values())
    print(f"{len(evaluations)} of {len(ids)} judged; by probability {dict(shares)}; {dict(saved)}")
    assert set(shares) <= {1.0, 0.5, 0.25, 0.125, 0.0625}
    assert len(shares) >= 3
    assert saved[("reserves",)] > saved[()] > 0
    assert sum(1 / evaluation["sampling"]["probability"] for evaluation in evaluations.values()) == pytest.approx(
        len(ids), rel=0.35
    )
    spared = len(ids) - len(evaluations)
    assert value(text, 'streamjury_records_total{outcome="sampled_out",reason="budget",stage="worker"}') == spared
    assert value(text, 'streamjury_budget_limit_usd{app="",window="day"}') == 1.0
    balance = audit(Config.model_validate({**content, "kafka": {"bootstrap": bootstrap}}), PARTITION_COUNTS)
    assert balance.balanced
    assert balance.outcomes["sampled_out.budget"] == balance.estimated == spared


def read_consumed(url: str) -> str:
    lines = local_http.get(f"{url}/metrics", timeout=30 * patience()).text.splitlines()
    return "\n".join(line for line in lines if 'outcome="consumed"' in line)


def read_spending(url: str) -> float:
    return value(
        local_http.get(f"{url}/metrics", timeout=30 * patience()).text,
        'streamjury_budget_spent_usd{app="",window="day"}',
    )


def value(text: str, series: str) -> float:
    return float(next(line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith(series)))

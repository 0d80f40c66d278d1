"""Workers that die, join and leave lose no record and repeat few."""

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from stream.kafka.embedded import EmbeddedBroker
from tests.integration.pipeline import Follower, StageProcess, wait_until
from tests.parts.endpoints.judge_endpoint import Body, JudgeEndpoint, Response, best_verdict, delayed
from tests.parts.patience import patience

Evaluation = dict[str, Any]

RUN_AHEAD = 32
DIMENSIONS = 6
RECORDS_A_SECOND = 8
SLOW_EVERY, SLOW_SECONDS = 25, 2.0
JOINS = 4
KILLED_JOINS = (1, 3)


class CountingJudge:
    """Answers well after a moment, a few texts very slowly, and counts the requests for each record."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()

    def __call__(self, body: Body) -> Response:
        text = " ".join(message["content"] for message in body["messages"])
        match = re.search(r"rec-\d{6}", text)
        assert match is not None
        with self._lock:
            self.calls[match.group()] += 1
        slow = int(match.group()[4:]) % SLOW_EVERY == 0
        return delayed(best_verdict(body), SLOW_SECONDS if slow else 0.0)

    def judged_again(self, retries: Counter[str]) -> list[str]:
        """Return the records put to the judge more than once per dimension, not counting failed calls."""
        with self._lock:
            return sorted(name for name, calls in self.calls.items() if calls > DIMENSIONS + retries[name])


class Feed:
    """Writes sampled records at a steady rate until it is closed."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.ids: list[str] = []
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(1 / RECORDS_A_SECOND):
            record_id = f"rec-{len(self.ids):06d}"
            value = {
                "id": record_id,
                "question": "Is it so?",
                "answer": f"{record_id} it is.",
                "contexts": [{"text": "So."}],
            }
            self._producer.produce("rag.sampled", key=record_id, value=json.dumps(value))
            self._producer.poll(0)
            self.ids.append(record_id)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(10 * patience()) == 0


def worker(broker: EmbeddedBroker, endpoint: JudgeEndpoint, folder: Path, name: str) -> StageProcess:
    config = folder / "worker.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "criteria": {"use": ["rag"]},
                "judges": {"panel": [{"kind": "openai", "name": "judge", "model": "m", "base_url": endpoint.base_url}]},
                "worker": {"concurrency": 8, "run_ahead": RUN_AHEAD},
            }
        )
    )
    return StageProcess("worker", bootstrap=broker.bootstrap, log=folder / f"{name}.log", config=config)


def retries_in(evaluations: Iterable[Evaluation]) -> Counter[str]:
    """Count the calls of each record that failed and were retried by the same worker."""
    retries: Counter[str] = Counter()
    for evaluation in evaluations:
        verdicts = [verdict for dimension in evaluation["dimensions"].values() for verdict in dimension["judges"]]
        retries[evaluation["interaction_id"]] += sum(verdict["samples"].get("retries", 0) for verdict in verdicts)
    return retries


def count_left(logs: Iterable[str]) -> int:
    """Count the records that live workers report as left to others: the group was busy, or took them for dead, as it
    does when the machine stalls."""
    return sum(
        sum(map(int, re.findall(r"(\d+) records not finished in time", log)))
        + RUN_AHEAD * log.count("another process may own these partitions")
        for log in logs
    )


def missing(follower: Follower, feed: Feed) -> list[str]:
    return sorted(set(feed.ids) - {evaluation["interaction_id"] for evaluation in follower.values()})


@pytest.mark.slow
def test_every_record_is_evaluated_when_workers_die_join_and_leave(
    embedded_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """One worker stays; another joins and leaves four times, twice by SIGKILL, while a few judgements are very slow."""
    judge, broker = CountingJudge(), embedded_broker
    with JudgeEndpoint(judge) as endpoint, ExitStack() as stack:
        feed = Feed(broker.bootstrap)
        follower = stack.enter_context(Follower(broker.bootstrap, "rag.evaluations"))
        stack.enter_context(worker(broker, endpoint, tmp_path, "stays"))
        wait_until(lambda: len(judge.calls) > 10, seconds=30, what="the first worker judges")
        for join in range(JOINS):
            guest = stack.enter_context(worker(broker, endpoint, tmp_path, f"guest-{join}"))
            wait_until(partial(guest.has_logged, "assigned"), seconds=60, what=f"guest {join} joins")
            time.sleep(1.0)
            if join in KILLED_JOINS:
                guest.kill()
            else:
                assert guest.terminate() == 0
        feed.close()
        wait_until(
            lambda: not missing(follower, feed), seconds=60, what=lambda: f"no evaluation of {missing(follower, feed)}"
        )
        evaluations = follower.values()
    assert all(evaluation["composite"]["score"] == 1.0 for evaluation in evaluations)
    again = judge.judged_again(retries_in(evaluations))
    abandoned = count_left(log.read_text(encoding="utf-8") for log in tmp_path.glob("*.log"))
    print(f"{len(feed.ids)} records, {len(again)} judged again after {len(KILLED_JOINS)} kills, {abandoned} abandoned")
    assert len(again) <= len(KILLED_JOINS) * RUN_AHEAD + abandoned, again

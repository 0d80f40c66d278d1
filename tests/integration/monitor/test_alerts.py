"""Alarms on the live pipeline: a drop is announced for the right app and dimension, once, whoever is killed."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stream.cli.demo import generate, load_corpus, plan
from stream.kafka.embedded import EmbeddedBroker
from stream.monitor.alerts.alert import Alert, Subject
from stream.monitor.alerts.plan import WatchPlan
from stream.monitor.alerts.score_record import ScoreRecord
from stream.monitor.alerts.watch.partition import PartitionWatch
from stream.service.setup.config_file import load
from tests.integration.pipeline import (
    StageProcess,
    produce_all,
    read_all,
    to_create,
    topic_names,
    wait_until,
)
from tests.parts.endpoints.judge_endpoint import Body, JudgeEndpoint, Response, best_verdict, verdict_response
from tests.parts.kafka import KafkaBroker

CANARY_FILE = Path(__file__).parents[3] / "docs" / "examples" / "canaries.jsonl"

DROPPED = "support-bot"
# Of the scenario's hundred seconds, forty are healthy, thirty are not, and thirty are healthy again.
SECONDS, RECORDS = 100.0, 2400
QUIET_SECONDS = 8.0


def worst_clarity(body: Body) -> Response:
    schema = body["response_format"]["json_schema"]["schema"]
    labels = schema["properties"]["verdict"]["enum"]
    is_clarity = "clarity" in json.dumps(body["messages"]).lower() and "harm" not in json.dumps(labels).lower()
    return verdict_response(labels[0]) if is_clarity else best_verdict(body)


class World:
    """A broker, the stages as processes, and what they have published."""

    def __init__(
        self, bootstrap: str, folder: Path, names: dict[str, str] | None = None, **sections: Mapping[str, Any]
    ) -> None:
        self.bootstrap, self._folder = bootstrap, folder
        content: dict[str, Any] = {
            "kafka": {"bootstrap": bootstrap},
            "topics": names or {},
            "sampling": {"rate": 1.0},
            "detection": {"targets": {"composite": 0.9, "groundedness": 0.85}},
            **sections,
        }
        self.config_path = folder / "streamjury.yaml"
        if names is not None:
            content |= {stage: {"group": f"{names['scores']}-{stage}"} for stage in ("sampler", "worker", "monitor")}
        self.config_path.write_text(json.dumps(content))
        self.config = load(self.config_path, {})
        traffic = generate(load_corpus(), plan("scenario", seconds=SECONDS), seed=3)
        now = datetime.now(UTC)
        made = [traffic.record(SECONDS * number / RECORDS, now) for number in range(RECORDS)]
        self._records = iter([{"key": each.key, "value": each.value} for each in made])
        self._scores: list[ScoreRecord] = []

    def stage(self, command: str, name: str = "") -> StageProcess:
        log = self._folder / f"{command}{name}.log"
        return StageProcess(command, bootstrap=self.bootstrap, log=log, config=self.config_path)

    def write(self, share: float) -> None:
        """The next part of the scenario."""
        part = [record for _, record in zip(range(int(share * RECORDS)), self._records, strict=False)]
        produce_all(self.bootstrap, self.config.topics.interactions, part)

    def recover(self) -> None:
        """As much healthy traffic as an alarm takes to end, in whatever order the scores before it came."""
        traffic, now = generate(load_corpus(), plan("healthy", seconds=SECONDS), seed=4), datetime.now(UTC)
        made = [traffic.record(0.0, now) for _ in range(RECORDS // 2)]
        produce_all(
            self.bootstrap, self.config.topics.interactions, [{"key": each.key, "value": each.value} for each in made]
        )

    def alerts(self) -> list[Alert]:
        return [Alert.read(message.value()) for message in read_all(self.bootstrap, self.config.topics.alerts)]

    def wait_for(self, kind: str, dimension: str) -> None:
        def is_there() -> bool:
            return any(alert.kind == kind and alert.series.dimension == dimension for alert in self.alerts())

        wait_until(is_there, seconds=90, what=lambda: f"{dimension} {kind}: {[each.summary for each in self.alerts()]}")

    def wait_for_scores(self, least: int) -> None:
        def enough() -> bool:
            return len(self.scores()) >= least

        wait_until(enough, seconds=120, what=lambda: f"{least} scores, not {len(self.scores())}")

    def wait_for_interactions(self, least: int) -> None:
        def judged() -> int:
            return sum(record.canary is None for record in self.scores())

        wait_until(lambda: judged() >= least, seconds=120, what=lambda: f"{least} interactions, not {judged()}")

    def scores(self) -> list[ScoreRecord]:
        messages = read_all(self.bootstrap, self.config.topics.scores)
        new = messages[len(self._scores) :]
        self._scores += [ScoreRecord.model_validate_json(message.value() or b"") for message in new]
        return self._scores

    def expected(self) -> list[Alert]:
        """What one that never stopped announces of the very same scores."""
        watch_plan, watches, told = WatchPlan(self.config), dict[int, PartitionWatch](), list[Alert]()
        messages = read_all(self.bootstrap, self.config.topics.scores)
        for message in sorted(messages, key=lambda each: (each.partition(), each.offset())):
            number = message.partition() or 0
            watch = watches.setdefault(number, PartitionWatch(watch_plan, number))
            told += watch.observe(ScoreRecord.model_validate_json(message.value() or b""))
        return told

    def _wait_for_the_last(self) -> None:
        """Until no score has come for longer than the stages take for one."""
        count, since = -1, time.monotonic()
        while time.monotonic() - since < QUIET_SECONDS:
            if (found := len(self.scores())) != count:
                count, since = found, time.monotonic()
            time.sleep(0.5)

    def check(self) -> None:
        """All that follows from the scores was announced, and each of it once."""
        self._wait_for_the_last()
        expected = Counter(self.expected())
        wait_until(
            lambda: set(self.alerts()) >= expected.keys(),
            seconds=60,
            what=lambda: f"{expected.total()} announcements, not {len(self.alerts())}",
        )
        found = self.alerts()
        assert Counter(found) == expected
        assert set(expected.values()) == {1}
        assert {alert.series.app for alert in found} == {DROPPED}
        # Scores of several partitions come in any order: healthy ones among bad ones end an alert for a while.
        kinds = Counter(alert.kind for alert in found if alert.series.dimension == "groundedness")
        assert kinds["raised"] == kinds["cleared"] >= 1


@pytest.fixture
def world(embedded_broker: EmbeddedBroker, tmp_path: Path) -> Iterator[World]:
    world = World(embedded_broker.bootstrap, tmp_path)
    with world.stage("sampler"), world.stage("worker"):
        yield world


@pytest.mark.slow
def test_a_drop_is_announced_once_and_cleared_though_the_monitor_is_killed(world: World) -> None:
    with world.stage("monitor") as monitor:
        world.write(0.45)
        world.wait_for_scores(int(0.4 * RECORDS))
        monitor.kill()  # as the drop has begun
    with world.stage("monitor") as monitor:
        world.write(0.2)
        world.wait_for("raised", "groundedness")
        monitor.kill()  # right after it was announced
    with world.stage("monitor") as monitor:
        world.write(0.2)
        world.wait_for_scores(int(0.75 * RECORDS))
        monitor.kill()
    with world.stage("monitor"):
        world.write(0.2)
        world.recover()
        world.wait_for("cleared", "groundedness")
        world.check()


@pytest.mark.slow
def test_the_worst_dimensions_and_examples_are_of_what_dropped(world: World) -> None:
    with world.stage("monitor") as monitor:
        world.write(0.7)
        world.wait_for("raised", "composite")
        assert monitor.terminate() == 0
    raised = next(each for each in world.alerts() if each.kind == "raised" and each.series.dimension == "composite")
    assert raised.worst_dimensions[0].dimension in {"groundedness", "answer_relevance"}
    bad = {record.interaction_id: record.scores["composite"] for record in world.scores() if record.app == DROPPED}
    assert len(raised.examples) == 3
    assert all(bad[example.interaction_id] == example.score < 0.9 for example in raised.examples)


@pytest.mark.slow
def test_judges_that_change_are_told_of_and_no_drop_of_quality(embedded_broker: EmbeddedBroker, tmp_path: Path) -> None:
    """The same model name, and suddenly other verdicts: of the canaries, and of the traffic."""
    says = [best_verdict]

    def answer(body: Body) -> Response:
        return says[-1](body)

    with JudgeEndpoint(answer) as endpoint:
        judge = {"kind": "openai", "name": "gpt", "model": "m", "base_url": endpoint.base_url}
        world = World(
            embedded_broker.bootstrap,
            tmp_path,
            criteria={"use": ["rag.clarity", "rag.harmfulness"]},
            judges={"panel": [judge]},
            detection={
                "targets": {"clarity": 0.85, "composite": 0.85},
                "canaries": {"file": str(CANARY_FILE), "every_minutes": 0.05},
            },
        )
        with world.stage("sampler"), world.stage("worker"), world.stage("monitor"):
            world.write(0.05)
            world.wait_for_scores(int(0.04 * RECORDS) + 400)
            says.append(worst_clarity)
            world.wait_for("raised", "clarity")
            world.write(0.05)
            world.wait_for_interactions(int(0.09 * RECORDS))
    found = world.alerts()
    assert {(alert.subject, alert.series.key) for alert in found} == {(Subject.JUDGES, "canaries/clarity")}
    after = [record.scores["clarity"] for record in world.scores() if record.canary is None]
    assert 0.0 in after


@pytest.mark.parametrize("rounds", [3])
@pytest.mark.slow
def test_partitions_that_move_between_monitors_change_nothing(
    real_kafka: KafkaBroker, tmp_path: Path, rounds: int
) -> None:
    names = topic_names("alarms")
    real_kafka.create_topics(*to_create(names), partitions=3)
    world = World(real_kafka.bootstrap, tmp_path, names)
    with ExitStack() as stack:
        for command in ("sampler", "worker", "monitor"):
            stack.enter_context(world.stage(command))
        for number in range(rounds):
            world.write(1 / rounds / 2)
            with world.stage("monitor", str(number)) as other:
                world.write(1 / rounds / 2)
                world.wait_for_scores(int(0.8 * RECORDS * (number + 1) / rounds))
                other.kill() if number == 1 else other.terminate()
        world.recover()
        world.wait_for("cleared", "groundedness")
        world.check()


@pytest.mark.slow
def test_a_monitor_that_hangs_and_wakes_up_changes_nothing(real_kafka: KafkaBroker, tmp_path: Path) -> None:
    """It hangs while the drop is being announced, twice: each time the other has taken its partitions meanwhile."""
    names = topic_names("hanging")
    real_kafka.create_topics(*to_create(names), partitions=3)
    world = World(real_kafka.bootstrap, tmp_path, names)
    with ExitStack() as stack:
        for command in ("sampler", "worker"):
            stack.enter_context(world.stage(command))
        hanging = stack.enter_context(world.stage("monitor"))
        world.write(0.45)
        world.wait_for_scores(int(0.42 * RECORDS))
        hanging.pause()
        stack.enter_context(world.stage("monitor", "other"))
        world.write(0.15)
        world.wait_for("raised", "groundedness")
        hanging.resume()
        world.write(0.2)
        world.wait_for_scores(int(0.6 * RECORDS))
        hanging.pause()
        world.write(0.2)
        world.recover()
        world.wait_for("cleared", "groundedness")
        hanging.resume()
        world.check()
        assert hanging.terminate() == 0

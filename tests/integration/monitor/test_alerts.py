"""Alarms on the live pipeline: a drop is announced once for the right app and dimension, whichever process dies."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from sinks.topics.results import EvaluationTopic
from stream.cli.demo import Regime, generate, load_corpus, make_record, plan
from stream.cli.main import main
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
from tests.sinks.metrics.measured import dimension, evaluation

CANARY_FILE = Path(__file__).parents[3] / "docs" / "examples" / "canaries.jsonl"

DROPPED = "support-bot"
# Of the scenario's hundred seconds, forty are healthy, thirty are bad, and thirty are healthy again.
SECONDS, RECORDS = 100.0, 1200
QUIET_SECONDS = 8.0
# Records of one app, before and after its retrieval becomes bad.
HEALTHY, BAD = 120, 60


def worst_clarity(body: Body) -> Response:
    schema = body["response_format"]["json_schema"]["schema"]
    labels = schema["properties"]["verdict"].get("enum", ())
    is_clarity = "clarity" in json.dumps(body["messages"]).lower() and "harm" not in json.dumps(labels).lower()
    return verdict_response(labels[0]) if is_clarity else best_verdict(body)


class World:
    """A broker, the stages as processes, and their published records."""

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
        self._records = self._scenario()
        self._scores: list[ScoreRecord] = []
        self._written = 0
        self._malformed = 0
        """Written records that are no interactions."""

    def stage(self, command: str, name: str = "") -> StageProcess:
        log = self._folder / f"{command}{name}.log"
        return StageProcess(command, bootstrap=self.bootstrap, log=log, config=self.config_path)

    @property
    def _topic(self) -> str:
        return self.config.topics.interactions

    def _scenario(self) -> Iterator[dict[str, Any]]:
        traffic, now = generate(load_corpus(), plan("scenario", seconds=SECONDS), seed=3), datetime.now(UTC)
        for number in range(RECORDS):
            record = traffic.record(SECONDS * number / RECORDS, now)
            self._malformed += record.regime is Regime.MALFORMED
            yield {"key": record.key, "value": record.value}

    def write(self, share: float) -> None:
        """Write the next part of the scenario."""
        self.write_records(int(share * RECORDS))

    def write_records(self, number: int) -> None:
        """Write the next records of the scenario."""
        records = list(islice(self._records, number))
        produce_all(self.bootstrap, self._topic, records)
        self._written += len(records)

    def alerts(self) -> list[Alert]:
        return [Alert.read(message.value()) for message in read_all(self.bootstrap, self.config.topics.alerts)]

    def wait_for(self, kind: str, dimension: str) -> None:
        def is_there() -> bool:
            return any(alert.kind == kind and alert.series.dimension == dimension for alert in self.alerts())

        wait_until(
            is_there, seconds=90, what=lambda: f"{dimension} {kind}: {[alert.summary for alert in self.alerts()]}"
        )

    def wait_for_scores(self, least: int) -> None:
        def enough() -> bool:
            return len(self.scores()) >= least

        wait_until(enough, seconds=120, what=lambda: f"{least} scores, not {len(self.scores())}")

    def wait_for_interactions(self, least: int) -> None:
        def count_judged() -> int:
            return sum(record.canary is None for record in self.scores())

        wait_until(
            lambda: count_judged() >= least, seconds=120, what=lambda: f"{least} interactions, not {count_judged()}"
        )

    def wait_for_all_written(self) -> None:
        """Wait until all interactions that can be read are judged and their scores are published."""
        self.wait_for_interactions(self._written - self._malformed)

    def scores(self) -> list[ScoreRecord]:
        messages = read_all(self.bootstrap, self.config.topics.scores)
        new = messages[len(self._scores) :]
        self._scores += [ScoreRecord.model_validate_json(message.value() or b"") for message in new]
        return self._scores

    def expected_alerts(self) -> list[Alert]:
        """Return the alerts that an uninterrupted monitor announces for the same scores."""
        watch_plan, watches, announced_alerts = WatchPlan(self.config), dict[int, PartitionWatch](), list[Alert]()
        messages = read_all(self.bootstrap, self.config.topics.scores)
        for message in sorted(messages, key=lambda message: (message.partition(), message.offset())):
            number = message.partition() or 0
            watch = watches.setdefault(number, PartitionWatch(watch_plan, number))
            announced_alerts += watch.observe(ScoreRecord.model_validate_json(message.value() or b""))
        return announced_alerts

    def _wait_for_the_last(self) -> None:
        """Wait until no score has come for longer than the stages take for one."""
        count, since = -1, time.monotonic()
        while time.monotonic() - since < QUIET_SECONDS:
            if (current := len(self.scores())) != count:
                count, since = current, time.monotonic()
            time.sleep(0.5)

    def check(self) -> None:
        """Check that all alerts that follow from the scores were announced, each once."""
        self._wait_for_the_last()
        # Read again each time: a busy machine may bring more scores.
        wait_until(
            lambda: Counter(self.alerts()) == Counter(self.expected_alerts()),
            seconds=60,
            what=lambda: f"{len(self.expected_alerts())} announcements, not {len(self.alerts())}",
        )
        alerts = self.alerts()
        assert set(Counter(alerts).values()) == {1}
        assert {alert.series.app for alert in alerts} == {DROPPED}
        # Scores of several partitions come in any order: healthy ones among bad ones may end an alert for a while.
        kinds = Counter(alert.kind for alert in alerts if alert.series.dimension == "groundedness")
        assert kinds["raised"] == kinds["cleared"] >= 1


class JudgedWorld(World):
    """Evaluations instead of interactions: what the monitor does with them needs no sampler and no worker."""

    @property
    def _topic(self) -> str:
        return self.config.topics.evaluations

    def _scenario(self) -> Iterator[dict[str, Any]]:
        for number in range(RECORDS):
            is_bad = number % 2 == 0 and 0.4 <= number / RECORDS < 0.7
            yield self._judged(number, DROPPED if number % 2 == 0 else "search-bot", 0.25 if is_bad else 1.0)

    def recover(self) -> None:
        """Write enough healthy traffic to end an alarm, after all bad answers: partitions are read in any order."""

        def count_scored() -> int:
            return len({record.interaction_id for record in self.scores()})

        wait_until(
            lambda: count_scored() >= self._written,
            seconds=120,
            what=lambda: f"{self._written} are scored, not {count_scored()}",
        )
        numbers = range(RECORDS, RECORDS + RECORDS // 2)
        produce_all(self.bootstrap, self._topic, [self._judged(number, DROPPED, 1.0) for number in numbers])

    def _judged(self, number: int, app: str, score: float) -> dict[str, Any]:
        result = evaluation(
            score,
            app=app,
            evaluation_id=f"e-{number}",
            interaction_id=f"i-{number}",
            dimensions={"groundedness": dimension(score)},
            evaluated_at=datetime.now(UTC),
        )
        [message] = EvaluationTopic(self._topic).messages(result)
        return {"key": message.key, "value": message.value, "headers": list(message.headers)}


class BadRetrievalWorld(World):
    """One app, whose documents become those of other apps: of the scenario's records, it writes a few per phase."""

    def _scenario(self) -> Iterator[dict[str, Any]]:
        corpus, rng, now = load_corpus(), Random(4), datetime.now(UTC)
        groups = [group for group in corpus.groups if group.app == DROPPED]
        for number in count():
            regime = Regime.HEALTHY if number < HEALTHY else Regime.BAD_RETRIEVAL
            record = make_record(corpus, rng.choice(groups), regime, rng, now)
            yield {"key": record.key, "value": record.value}


@pytest.fixture
def world(embedded_broker: EmbeddedBroker, tmp_path: Path) -> Iterator[World]:
    world = World(embedded_broker.bootstrap, tmp_path)
    with world.stage("sampler"), world.stage("worker"):
        yield world


@pytest.mark.slow
def test_a_drop_is_announced_once_and_cleared_though_the_monitor_is_killed(
    embedded_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    world = JudgedWorld(embedded_broker.bootstrap, tmp_path)
    with world.stage("monitor") as monitor:
        world.write(0.45)
        world.wait_for_scores(int(0.4 * RECORDS))
        monitor.kill()  # when the drop has begun
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
def test_the_worst_dimensions_and_examples_come_from_the_drop(world: World) -> None:
    with world.stage("monitor") as monitor:
        world.write(0.7)
        world.wait_for("raised", "composite")
        assert monitor.terminate() == 0
    raised = next(alert for alert in world.alerts() if alert.kind == "raised" and alert.series.dimension == "composite")
    assert raised.worst_dimensions[0].dimension in {"groundedness", "answer_relevance"}
    bad = {record.interaction_id: record.scores["composite"] for record in world.scores() if record.app == DROPPED}
    assert len(raised.examples) == 3
    assert all(bad[example.interaction_id] == example.score < 0.9 for example in raised.examples)


@pytest.mark.slow
def test_a_drop_by_bad_retrieval_is_explained_by_retrieval(
    embedded_broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    world = BadRetrievalWorld(embedded_broker.bootstrap, tmp_path)
    with world.stage("sampler"), world.stage("worker"), world.stage("monitor"):
        world.write_records(HEALTHY)
        world.wait_for_interactions(HEALTHY)
        assert not world.alerts()
        world.write_records(BAD)
        world.wait_for("raised", "groundedness")
        world.wait_for_interactions(HEALTHY + BAD)
    alert = next(alert for alert in world.alerts() if alert.series.dimension == "groundedness")
    explained = CliRunner().invoke(main, ["alerts", "explain", alert.alert_id, "--config", str(world.config_path)])
    assert explained.exit_code == 0, explained.output
    assert "The fall is in retrieval: sufficiency of the contexts fell from " in explained.stdout
    assert "in generation" not in explained.stdout


@pytest.mark.slow
def test_changed_judges_are_announced_and_no_drop_of_quality(embedded_broker: EmbeddedBroker, tmp_path: Path) -> None:
    """The same model name, but suddenly different verdicts, for the canaries and for the traffic."""
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
            world.write(0.1)
            # Bad verdicts on the rest of these would be a drop of quality, too.
            world.wait_for_all_written()
            world.wait_for_scores(int(0.08 * RECORDS) + 400)
            says.append(worst_clarity)
            world.wait_for("raised", "clarity")
            world.write(0.1)
            world.wait_for_interactions(int(0.18 * RECORDS))
    alerts = world.alerts()
    assert {(alert.subject, alert.series.key) for alert in alerts} == {(Subject.JUDGES, "canaries/clarity")}
    after = [record.scores["clarity"] for record in world.scores() if record.canary is None]
    assert 0.0 in after


@pytest.mark.parametrize("rounds", [3])
@pytest.mark.slow
def test_partitions_that_move_between_monitors_change_nothing(
    real_kafka: KafkaBroker, tmp_path: Path, rounds: int
) -> None:
    names = topic_names("alarms")
    real_kafka.create_topics(*to_create(names), partitions=3)
    world = JudgedWorld(real_kafka.bootstrap, tmp_path, names)
    with world.stage("monitor"):
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
    """It hangs twice while the drop is announced; each time the other monitor has taken its partitions meanwhile."""
    names = topic_names("hanging")
    real_kafka.create_topics(*to_create(names), partitions=3)
    world = JudgedWorld(real_kafka.bootstrap, tmp_path, names)
    with ExitStack() as stack:
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

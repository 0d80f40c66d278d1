"""A monitor that is killed again and again counts every label once; only a real broker shows it."""

import json
import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer

from judges.values.evaluation import Evaluation
from judges.values.label import Label
from sinks.statistics.corrected import CorrectedEstimate
from sinks.topics.headers import SCORES_KIND
from stream.config.model import Config
from stream.jobs.labels.joining import SeriesKey, join
from stream.jobs.labels.report import estimate_all
from stream.kafka.record import read_record
from stream.monitor.alerts.labels.corrections import collect_labels
from stream.monitor.alerts.labels.label_record import LABEL_KIND, read_label
from stream.monitor.alerts.labels.memory import JoinedLabel
from stream.monitor.alerts.plan import WatchPlan
from stream.monitor.alerts.stored_states import StoredStates
from stream.monitor.alerts.watch.partition import PartitionWatch
from stream.monitor.reading import read_score
from tests.integration.forked import fork_stage
from tests.integration.monitor.forking import run_monitor
from tests.integration.pipeline import read_all, wait_until
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience
from tests.sinks.metrics.measured import dimension, evaluation, verdict

LABELS, ANSWERS, KILLS = 10_000, 2_000, 20
PARTITIONS = 2
APPS = ("shop", "bank", "help")
START = datetime.now(UTC) - timedelta(hours=3)
MALFORMED = [f"no label {number}".encode() for number in range(KILLS)]


def make_evaluations(lots: random.Random) -> list[Evaluation]:
    return [
        evaluation(
            lots.choice((0.25, 0.5, 1.0)),
            app=APPS[number % len(APPS)],
            probability=lots.choice((0.1, 0.5)),
            evaluation_id=f"e-{number}",
            interaction_id=f"i-{number}",
            dimensions={"clarity": dimension(lots.choice((0.0, 0.5, 1.0)), verdict("local", score=lots.random()))},
            evaluated_at=START + timedelta(seconds=number),
        )
        for number in range(ANSWERS)
    ]


def make_labels(lots: random.Random) -> list[Label]:
    """Make labels of several people, criteria and kinds; some replace or retract others, some are of other answers."""
    labels = []
    for number in range(LABELS):
        answer = lots.randrange(ANSWERS + 100)
        kind = "feedback" if number % 10 == 0 else "review"
        labels.append(
            Label(
                label_id=f"l-{number}",
                interaction_id=f"i-{answer}",
                criterion="thumbs" if kind == "feedback" else lots.choice(("clarity", "composite")),
                score=lots.choice((0.0, 0.5, 1.0)),
                who=lots.choice(("ada", "bob")),
                labelled_at=START + timedelta(minutes=1, seconds=number),
                probability=0.05,
                kind=kind,
                retracts=f"l-{lots.randrange(LABELS)}" if number % 25 == 7 else None,
            )
        )
    return labels


class Feed:
    """Publishes evaluations and labels in parts, and some of them twice."""

    def __init__(self, bootstrap: str, config: Config, evaluations: Sequence[Evaluation], labels: Sequence[Label]):
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
        self._config, self._evaluations, self._labels = config, evaluations, labels

    def publish(self, part: int) -> None:
        topics = self._config.topics
        for place in range(part * ANSWERS // KILLS, (part + 1) * ANSWERS // KILLS):
            finished = self._evaluations[place]
            self._send(topics.evaluations, finished.evaluation_id, finished.model_dump_json(), 1 + place % 10 // 9)
        for place in range(part * LABELS // KILLS, (part + 1) * LABELS // KILLS):
            label = self._labels[place]
            self._send(topics.labels, label.interaction_id, label.model_dump_json(), 1 + place % 10 // 9)
        self._send(topics.labels, "none", MALFORMED[part], 1)
        assert self._producer.flush(60 * patience()) == 0

    def _send(self, topic: str, key: str, value: str | bytes, times: int) -> None:
        for _time in range(times):
            self._producer.produce(topic, value, key)
        self._producer.poll(0)


def read_states(config: Config) -> list[dict[str, bytes]]:
    """Return the stored states of each partition."""
    states = [StoredStates() for _ in range(PARTITIONS)]
    for message in read_all(config.kafka.bootstrap, config.topics.detection, wait=False):
        states[message.partition() or 0].add(read_record(message))
    return [stored.states() for stored in states]


def count_stored(config: Config) -> tuple[int, int]:
    """Return the numbers of stored evaluations, and of labels in the partition that has fewer."""
    states = [{key: json.loads(value) for key, value in stored.items()} for stored in read_states(config)]
    answers = sum(
        sums["clarity"][0]
        for stored in states
        for key, state in stored.items()
        if key.startswith("app:")
        for sums in state["judged"].values()
    )
    labels = min(
        sum(len(state["entries"]) for key, state in stored.items() if key.startswith("labels:")) for stored in states
    )
    return answers, labels


class StoredMonitor:
    """The state of a monitor, as another one would resume from it."""

    def __init__(self, config: Config) -> None:
        self.watches = [PartitionWatch(WatchPlan(config), number) for number in range(PARTITIONS)]
        self._restore(config)

    def _restore(self, config: Config) -> None:
        for watch, stored in zip(self.watches, read_states(config), strict=True):
            watch.restore(stored)

    def labels(self) -> list[dict[str, JoinedLabel]]:
        """Return the labels of each partition by their ids."""
        return [{joined.label.label_id: joined for _, joined in watch.labels._labels} for watch in self.watches]

    def agreement(self) -> dict[str, object]:
        """Return the evidence about the judges, by app."""
        return {app: watched.agreement.as_data() for watch in self.watches for app, watched in watch.apps.items()}

    def estimates(self) -> dict[SeriesKey, CorrectedEstimate]:
        return {
            SeriesKey(app, criterion): estimate
            for watch in self.watches
            for app, watched in watch.apps.items()
            for criterion, estimate in collect_labels(watch.labels.labels_of(app), watch.labels.retractions)
            .estimates(watched.judged, now=time.time(), window=7)
            .items()
        }


class UnstoppedMonitor(StoredMonitor):
    """The state of a monitor that takes the same scores and labels in the same order, all at once."""

    def _restore(self, config: Config) -> None:
        for message in read_all(config.kafka.bootstrap, config.topics.scores):
            watch, headers = self.watches[message.partition() or 0], dict(message.headers() or ())
            if headers.get(SCORES_KIND) == LABEL_KIND:
                watch.observe_label(read_label(message.value(), None))
            else:
                watch.observe(read_score(message.value(), None, now=time.time()))


def write_config(folder: Path, broker: KafkaBroker) -> tuple[Path, Config]:
    """Return a configuration with topics and a group of its own, and its file."""
    kinds = ("evaluations", "labels", "scores", "detection", "alerts", "deadletter")
    topics = {kind: f"labels.kill.{kind}" for kind in kinds}
    broker.create_topics(*topics.values(), partitions=PARTITIONS)
    content = {
        "kafka": {"bootstrap": broker.bootstrap},
        "topics": topics,
        "monitor": {"group": "labels-kill"},
    }
    path = folder / "streamjury.yaml"
    path.write_text(yaml.safe_dump(content))
    return path, Config.model_validate(content)


@pytest.mark.slow
def test_every_label_counts_once_over_twenty_kills(real_kafka: KafkaBroker, tmp_path: Path) -> None:
    """Killed while it works, each time with more to read; in the end its state is that of one that never stopped."""
    lots = random.Random(3)
    evaluations, labels = make_evaluations(lots), make_labels(lots)
    path, config = write_config(tmp_path, real_kafka)
    feed = Feed(real_kafka.bootstrap, config, evaluations, labels)
    with fork_stage(run_monitor, path, tmp_path / "monitor.log") as monitor:
        unfinished = 0
        for kill in range(KILLS):
            feed.publish(kill)
            # Killed after it has forwarded labels, or after it has stored some.
            topic = (config.topics.scores, config.topics.detection)[kill % 2]
            before = len(read_all(real_kafka.bootstrap, topic, wait=False))
            monitor.start()
            wait_until(
                lambda: len(read_all(real_kafka.bootstrap, topic, wait=False)) > before,  # noqa: B023 - at once
                seconds=60,
                what=f"it writes to {topic}",
            )
            time.sleep(lots.uniform(0.0, 0.5))
            monitor.kill()
            unfinished += count_stored(config)[1] < LABELS * (kill + 1) // KILLS
        monitor.start()
        wait_until(lambda: count_stored(config) == (ANSWERS, LABELS), seconds=60, what="everything is stored")
    print(f"{LABELS} labels, {KILLS} kills, {unfinished} of them with labels left to store")
    assert unfinished >= KILLS // 4
    killed, unstopped = StoredMonitor(config), UnstoppedMonitor(config)
    assert killed.labels() == unstopped.labels()
    published = {label.label_id: label for label in labels}
    assert all({key: joined.label for key, joined in stored.items()} == published for stored in killed.labels())
    assert killed.agreement() == unstopped.agreement()
    expected = {key: estimate for key, estimate in estimate_all(join(evaluations, labels)).items() if estimate.labels}
    assert_same(killed.estimates(), expected)
    letters = {message.value() for message in read_all(real_kafka.bootstrap, config.topics.deadletter)}
    assert letters == set(MALFORMED)


def assert_same(estimates: dict[SeriesKey, CorrectedEstimate], expected: dict[SeriesKey, CorrectedEstimate]) -> None:
    assert estimates.keys() == expected.keys()
    for key, wanted in expected.items():
        estimate = estimates[key]
        assert (estimate.judged, estimate.labels) == (wanted.judged, wanted.labels), key
        assert wanted.corrected is not None
        assert estimate.corrected is not None
        for part in ("mean", "low", "high"):
            assert getattr(estimate.corrected, part) == pytest.approx(getattr(wanted.corrected, part), abs=1e-9)

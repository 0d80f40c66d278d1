"""The harness's own account of a run, read from the topics: what became of each interaction, and what is still open."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Self, cast

from confluent_kafka import ConsumerGroupTopicPartitions, Message
from confluent_kafka.admin import AdminClient

from stream.config.model import Config
from stream.kafka.topic_scan import TopicScan
from stream.records.decision import Cohort
from tests.chaos.traffic import Logged

_CALL_SECONDS = 10.0
_UNSCORED = "unscored_"


class Ledger:
    """Grows with every `read`; committed records only."""

    def __init__(self, config: Config) -> None:
        self._config = config
        topics = config.topics
        self._inputs = {
            config.sampler.group: (topics.interactions,),
            config.worker.group: (topics.sampled, *config.retry_topics, topics.overflow),
        }
        read = {name for group in self._inputs.values() for name in group}
        self._topics = sorted(read | {topics.evaluations, topics.deadletter})
        self._scans: dict[str, TopicScan] = {}
        self._admin = AdminClient({"bootstrap.servers": config.kafka.bootstrap, "log_level": 0})
        self._ends: dict[tuple[str, int], int] = {}
        self.evaluations: defaultdict[str, list[str]] = defaultdict(list)
        self.evaluated: Counter[str] = Counter()
        self.scored: set[str] = set()
        self.unscored: dict[str, str] = {}
        self.parked: Counter[str] = Counter()
        self.deferred: Counter[str] = Counter()
        self.sampled: Counter[str] = Counter()
        self.letters: dict[tuple[int, int], tuple[str, str]] = {}
        self.replayed: set[tuple[int, int]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for scan in self._scans.values():
            scan.__exit__()

    def read(self) -> None:
        """Takes in what was written since."""
        if not self._scans:
            # Not before: while the broker is away, clients fill the screen.
            self._scans = {topic: TopicScan(self._config.kafka, topic) for topic in self._topics}
        for topic, scan in self._scans.items():
            for message in scan.read():
                self._ends[topic, message.partition() or 0] = (message.offset() or 0) + 1
                self._note(topic, message)

    @property
    def lag(self) -> int:
        """Records that a group has not committed; the broker's own figure also counts the ends of transactions."""
        return sum(self._lags(group, topics) for group, topics in self._inputs.items())

    def _lags(self, group: str, topics: Sequence[str]) -> int:
        asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        known = asked[group].result(timeout=_CALL_SECONDS).topic_partitions
        committed = {(at.topic, at.partition): at.offset for at in known}
        return sum(max(0, end - committed.get(place, 0)) for place, end in self._ends.items() if place[0] in topics)

    @property
    def dead(self) -> dict[str, str]:
        """Interactions whose dead letters were not moved back, and why they died."""
        return {name: kind for place, (name, kind) in self.letters.items() if place not in self.replayed}

    @property
    def dead_unscored(self) -> set[str]:
        return {name for name, kind in self.dead.items() if kind.startswith(_UNSCORED)}

    @property
    def duplicates(self) -> Sequence[str]:
        """Evaluation ids that a reader of committed records sees more than once."""
        return [name for name, found in self.evaluations.items() if len(found) > 1]

    def history(self, evaluation_id: str) -> str:
        """What is known of an interaction that was evaluated twice."""
        found = self.evaluations[evaluation_id]
        name = found[0].partition(" ")[0]
        moves = f"sampled {self.sampled[name]}, parked {self.parked[name]}, deferred {self.deferred[name]} times"
        return f"{evaluation_id}: {'; '.join(found)}; {moves}"

    def missing(self, chosen: Iterable[str]) -> Sequence[str]:
        """Interactions that should have an outcome and have none."""
        dead = self.dead
        return [name for name in chosen if name not in self.evaluated and name not in dead]

    def repeats(self, answered: Mapping[tuple[str, str], int]) -> Counter[str]:
        """Answers of the judges beyond one for each attempt that has an outcome, by interaction.

        An attempt is published as an evaluation, a record parked or a dead letter; what was answered in an attempt
        that nobody published was answered in vain.
        """
        attempts: defaultdict[str, int] = defaultdict(int, self.evaluated + self.parked)
        for name, kind in self.letters.values():
            attempts[name] += kind.startswith(_UNSCORED)
        vain: Counter[str] = Counter()
        for (name, _criterion), count in answered.items():
            if count > attempts[name]:
                vain[name] += count - attempts[name]
        return vain

    def _note(self, topic: str, message: Message) -> None:
        topics, key = self._config.topics, _text(message.key())
        if topic == topics.evaluations:
            self._note_evaluation(message)
        elif topic == topics.deadletter:
            self._note_letter(message, key)
        elif topic == topics.sampled:
            self.sampled[key] += 1
        elif topic == topics.overflow:
            self.deferred[key] += 1
        elif topic != topics.interactions:
            self.parked[key] += 1

    def _note_evaluation(self, message: Message) -> None:
        found = json.loads(message.value() or b"")
        name = found["interaction_id"]
        place = f"{message.partition()}:{message.offset()}"
        self.evaluations[found["evaluation_id"]].append(f"{name} evaluated at {found['evaluated_at']}, at {place}")
        self.evaluated[name] += 1
        if found["composite"]["score"] is None:
            self.unscored[name] = found["composite"]["status"]
        else:
            self.scored.add(name)

    def _note_letter(self, message: Message, key: str) -> None:
        # The client's type stub also names the forms that it takes and never gives.
        given = cast("list[tuple[str, bytes | None]] | None", message.headers()) or ()
        headers = {name: _text(value) for name, value in given}
        if "sj-replayed-partition" in headers:
            self.replayed.add((int(headers["sj-replayed-partition"]), int(headers["sj-replayed-offset"])))
        else:
            place = (message.partition() or 0, message.offset() or 0)
            self.letters[place] = (key or f"at {place}", headers["sj-error-type"])


def chosen_ids(records: Iterable[Logged], config: Config) -> set[str]:
    """The interactions that a sampler must choose, by the key it decides by: poison too, which it does not look at."""
    rate = config.sampling.rate
    assert rate is not None
    draw = Cohort(config.sampling.salt).draw
    return {record.id for record in records if record.key is not None and draw(record.id) < rate}


def _text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""

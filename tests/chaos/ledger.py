"""The harness's own account of a run, read from the topics: the outcome of each interaction, and those still open."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Self, cast

from confluent_kafka import Message

from stream.config.model import Config
from stream.kafka.offsets import Partition
from stream.kafka.topic_scan import TopicScan, read_committed_offsets
from stream.records.decision import Cohort
from tests.chaos.traffic import Logged

UNSCORED = "unscored_"


class Ledger:
    """Grows with every `read`; counts committed records only."""

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
        """Read the records written since the last call."""
        if not self._scans:
            # Not earlier: without the broker, clients flood the screen with errors.
            self._scans = {topic: TopicScan(self._config.kafka, topic) for topic in self._topics}
        for topic, scan in self._scans.items():
            for message in scan.read():
                self._ends[topic, message.partition() or 0] = (message.offset() or 0) + 1
                self._note(topic, message)

    @property
    def lag(self) -> int:
        """Return the records that a group has not committed; the broker's own figure includes transaction markers."""
        return sum(self._lags(group, topics) for group, topics in self._inputs.items())

    def _lags(self, group: str, topics: Sequence[str]) -> int:
        ends = {Partition(*place): end for place, end in self._ends.items() if place[0] in topics}
        committed = read_committed_offsets(self._config.kafka, group, ends)
        return sum(max(0, end - committed[place]) for place, end in ends.items())

    @property
    def dead(self) -> dict[str, str]:
        """Return the interactions whose dead letters were not moved back, with the reasons."""
        return {name: kind for place, (name, kind) in self.letters.items() if place not in self.replayed}

    @property
    def dead_unscored(self) -> set[str]:
        return {name for name, kind in self.dead.items() if kind.startswith(UNSCORED)}

    @property
    def duplicates(self) -> Sequence[str]:
        """Return the evaluation ids that a reader of committed records sees more than once."""
        return [name for name, places in self.evaluations.items() if len(places) > 1]

    def history(self, evaluation_id: str) -> str:
        """Describe what is known of an interaction that was evaluated twice."""
        places = self.evaluations[evaluation_id]
        name = places[0].partition(" ")[0]
        moves = f"sampled {self.sampled[name]}, parked {self.parked[name]}, deferred {self.deferred[name]} times"
        return f"{evaluation_id}: {'; '.join(places)}; {moves}"

    def missing(self, chosen: Iterable[str]) -> Sequence[str]:
        """Return the interactions that should have an outcome and have none."""
        dead = self.dead
        return [name for name in chosen if name not in self.evaluated and name not in dead]

    def repeats(self, answered: Mapping[tuple[str, str], int]) -> Counter[str]:
        """Count the judges' answers beyond one for each attempt that has an outcome, by interaction.

        An attempt is published as an evaluation, a parked record or a dead letter; answers in an attempt that was never
        published were in vain.
        """
        attempts: defaultdict[str, int] = defaultdict(int, self.evaluated + self.parked)
        for name, kind in self.letters.values():
            attempts[name] += kind.startswith(UNSCORED)
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
        evaluation = json.loads(message.value() or b"")
        name = evaluation["interaction_id"]
        place = f"{message.partition()}:{message.offset()}"
        self.evaluations[evaluation["evaluation_id"]].append(
            f"{name} evaluated at {evaluation['evaluated_at']}, at {place}"
        )
        self.evaluated[name] += 1
        if evaluation["composite"]["score"] is None:
            self.unscored[name] = evaluation["composite"]["status"]
        else:
            self.scored.add(name)

    def _note_letter(self, message: Message, key: str) -> None:
        # The client's type stub also lists forms that it accepts but never returns.
        raw_headers = cast("list[tuple[str, bytes | None]] | None", message.headers()) or ()
        headers = {name: _text(value) for name, value in raw_headers}
        if "sj-replayed-partition" in headers:
            self.replayed.add((int(headers["sj-replayed-partition"]), int(headers["sj-replayed-offset"])))
        else:
            place = (message.partition() or 0, message.offset() or 0)
            self.letters[place] = (key or f"at {place}", headers["sj-error-type"])


def chosen_ids(records: Iterable[Logged], config: Config) -> set[str]:
    """Return the interactions that a sampler must choose by key; poison too, as it does not read the value."""
    rate = config.sampling.rate
    assert rate is not None
    draw = Cohort(config.sampling.salt).draw
    return {record.id for record in records if record.key is not None and draw(record.id) < rate}


def _text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""

"""The selection: which records of a part of the topic are judged, and how many of the others there are, by reason."""

from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field
from uuid import UUID

from confluent_kafka import Message as KafkaMessage

from judges.evaluator import Submission
from judges.values.evaluation import Sampling, evaluation_id
from stream.config.model import Config
from stream.config.names import BACKFILL
from stream.errors import RecordError
from stream.jobs.audit.audit import Recalled
from stream.kafka.offsets import Place
from stream.kafka.record import Record, readable
from stream.records.decision import Cohort
from stream.records.facts import LazyMessage
from stream.records.reading import InteractionReader

# Enough to see what kind of records they are.
_NAMED = 5


@dataclass(slots=True, kw_only=True)
class Counts:
    """What was found on the topic."""

    records: int = 0
    chosen: int = 0
    """To be judged."""
    sampled_out: int = 0
    judged_before: int = 0
    """With an evaluation of the same fingerprint on the output topic."""
    repeats: int = 0
    """Further records of an interaction that is judged."""
    bad: Counter[str] = field(default_factory=Counter)
    """Records that cannot be read, by the kind of error."""
    named: list[str] = field(default_factory=list)
    """The first of them, each with its place and what is wrong."""


class Selection:
    """Goes through records once, in any order."""

    def __init__(self, config: Config, fingerprint: str, *, share: float, known: Container[bytes]) -> None:
        """`known` are the ids of evaluations that are there, in 16 bytes each.

        The draw is the sampler's: of two shares, the larger has all records of the smaller, and what the sampler chose
        at a rate is what is chosen here at the same share.
        """
        self._fingerprint = fingerprint
        self._known = known
        self._reader = InteractionReader(config.input)
        self._drawn_by = Recalled(config).record_id
        self._chooses = Cohort(config.sampling.salt).chooser(share)
        self._sampling = Sampling(probability=share, rule=BACKFILL, lane=BACKFILL)
        self._taken: set[bytes] = set()
        self.counts = Counts()

    def take(self, message: KafkaMessage) -> Submission | None:
        """The record as it is judged, or None and a count of why not."""
        counts, facts = self.counts, LazyMessage(message)
        counts.records += 1
        drawn_by = self._drawn_by(facts)
        # What has no id that can be read is read on, to be told what is wrong with it.
        if drawn_by is not None and not self._chooses(drawn_by):
            counts.sampled_out += 1
            return None
        try:
            reading = self._reader.read(readable(facts.record))
        except RecordError as error:
            self._note(facts.record, error)
            return None
        submission = Submission(interaction=reading.interaction, sampling=self._sampling, truncated=reading.truncated)
        return submission if self._is_new(reading.interaction.id) else None

    def _is_new(self, interaction_id: str) -> bool:
        name = UUID(evaluation_id(interaction_id, self._fingerprint)).bytes
        if name in self._known:
            self.counts.judged_before += 1
        elif name in self._taken:
            self.counts.repeats += 1
        else:
            self._taken.add(name)
            self.counts.chosen += 1
            return True
        return False

    def _note(self, record: Record, error: RecordError) -> None:
        self.counts.bad[error.kind] += 1
        if len(self.counts.named) < _NAMED:
            place = Place(*record.partition, record.offset)
            self.counts.named.append(f"{place}: {error.kind}: {error}")

"""The selection: which records of a part of the topic are judged, and counts of the others by reason."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from confluent_kafka import Message as KafkaMessage

from judges.evaluator import Submission
from judges.values.evaluation import Sampling, evaluation_id
from sinks.base import Headers
from stream.config.model import Config
from stream.config.names import BACKFILL
from stream.errors import RecordError
from stream.jobs.audit.audit import Recalled
from stream.kafka.offsets import Place
from stream.kafka.record import Record
from stream.records.canaries import refuse_canary_app, refuse_canary_id
from stream.records.decision import Cohort
from stream.records.encodings.decoder import REGISTRY_SECONDS, make_decoder
from stream.records.encodings.message import message_reader
from stream.records.envelope import evaluation_headers
from stream.records.identity import UNKNOWN_CONTENT, content_digest, distinct_id, refuse_distinct_id
from stream.records.reading import InteractionReader, Reading

# Enough examples to recognise the kind of records.
_NAMED = 5


@dataclass(slots=True, kw_only=True)
class Counts:
    """Counts of the records on the topic."""

    records: int = 0
    chosen: int = 0
    """Records to judge."""
    sampled_out: int = 0
    judged_before: int = 0
    """Records with an evaluation of the same content and fingerprint on the output topic."""
    repeats: int = 0
    """Further records of a chosen interaction."""
    bad: Counter[str] = field(default_factory=Counter)
    """Records that cannot be read, by the kind of error."""
    named: list[str] = field(default_factory=list)
    """The first of them, each with its place and problem."""


class Selected(NamedTuple):
    """A record to judge, and the headers of its evaluation."""

    submission: Submission
    headers: Headers


class Selection:
    """Selects from records, each seen once, in any order."""

    def __init__(self, config: Config, fingerprint: str, *, share: float, known: Mapping[bytes, str]) -> None:
        """Take `known`, the existing evaluations: the content digest of each by its id, in 16 bytes.

        The draw is the sampler's: a larger share includes all records of a smaller one, and a share chooses the same
        records as the sampler at that rate.
        """
        self._fingerprint = fingerprint
        self._known = known
        self._reader = InteractionReader(config.input)
        self._wrap = message_reader(make_decoder(config, patience=REGISTRY_SECONDS))
        self._drawn_by = Recalled(config).record_id
        self._chooses = Cohort(config.sampling.salt).chooser(share)
        self._sampling = Sampling(probability=share, rule=BACKFILL, lane=BACKFILL)
        self._taken: dict[bytes, str] = {}
        self.counts = Counts()

    def take(self, message: KafkaMessage) -> Selected | None:
        """Return the record to judge, or count the reason and return None."""
        counts, facts = self.counts, self._wrap(message)
        counts.records += 1
        drawn_by = self._drawn_by(facts)
        # A record without a readable id is read further, to report its problem.
        if drawn_by is not None and not self._chooses(drawn_by):
            counts.sampled_out += 1
            return None
        try:
            reading = self._reader.read(facts.json_value())
            refuse_canary_id(reading.interaction.id)
            refuse_canary_app(reading.interaction.app)
            refuse_distinct_id(reading.interaction.id)
        except RecordError as error:
            self._note(facts.record, error)
            return None
        return self._select_if_new(reading)

    def _select_if_new(self, reading: Reading) -> Selected | None:
        """Leave out a content that has an evaluation; another content of the same id gets its own id."""
        interaction, logged_id = reading.interaction, None
        content = content_digest(interaction)
        own_id = distinct_id(interaction.id, content)
        name, own_name = self._name(interaction.id), self._name(own_id)
        for contents in (self._known, self._taken):
            if contents.get(own_name) == content or contents.get(name) in {content, UNKNOWN_CONTENT}:
                if contents is self._known:
                    self.counts.judged_before += 1
                else:
                    self.counts.repeats += 1
                return None
        if name in self._known or name in self._taken:
            name, logged_id = own_name, interaction.id
            interaction = interaction.model_copy(update={"id": own_id})
        self._taken[name] = content
        self.counts.chosen += 1
        submission = Submission(interaction=interaction, sampling=self._sampling, truncated=reading.truncated)
        return Selected(submission, evaluation_headers(content, logged_id))

    def _name(self, interaction_id: str) -> bytes:
        return UUID(evaluation_id(interaction_id, self._fingerprint)).bytes

    def _note(self, record: Record, error: RecordError) -> None:
        self.counts.bad[error.kind] += 1
        if len(self.counts.named) < _NAMED:
            place = Place(*record.partition, record.offset)
            self.counts.named.append(f"{place}: {error.kind}: {error}")

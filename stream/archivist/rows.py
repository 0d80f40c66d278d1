"""Turns records of Kafka into rows of the archive, and refuses records that our stages cannot have written."""

import time
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from judges.models.redaction import Redactor
from judges.values.diagnosis import CONTEXT_CRITERIA
from judges.values.evaluation import Status
from sinks.archive.published import PublishedEvaluation, read_alert, read_evaluation, read_label
from sinks.archive.texts import TextPolicy, clean
from sinks.archive.writing import ArchiveBatch, ArchivedEvaluation, ArchivedTexts, EvaluationRow
from sinks.base import UNKNOWN
from sinks.telemetry.traceparent import parse_traceparent
from stream.config.model import Config
from stream.config.names import BACKFILL, CANARY
from stream.errors import RecordError
from stream.kafka.record import Record, check_moment, check_version, schema_of, whole_value
from stream.records.canaries import CanaryReader
from stream.records.envelope import check_probability, content_in, is_canary, logged_id_in
from stream.records.identity import UNKNOWN_CONTENT, content_digest, distinct_id, refuse_distinct_id
from stream.records.reading import InteractionReader

T = TypeVar("T")

# Tolerated difference of clocks; rows further in the future would stay the newest ones for a long time.
_AHEAD_MS = 300_000
# Tags are indexed by their first characters only: PostgreSQL limits the size of index entries.
_TAG_CHARS = 256
# Number of apps whose objectives are cached.
_APPS = 1024


class RowReader:
    """Reads records of all archived topics."""

    def __init__(self, config: Config) -> None:
        topics = config.topics
        rules = config.judges.redaction
        redactor = Redactor(rules.kinds, rules.custom) if config.archive.texts == "redacted" else None
        self._policy = TextPolicy(redactor, keeps_texts=config.archive.texts != "none")
        self._good_score = lru_cache(_APPS)(lambda app: config.objectives.for_app(app)[0])
        self._least_probability = config.least_probability
        self._interactions = InteractionReader(config.input)
        self._canaries = CanaryReader()
        self._readers: dict[str, Callable[[Record, ArchiveBatch], None]] = {
            topics.evaluations: self._add_evaluation,
            topics.alerts: self._add_alert,
            topics.labels: self._add_label,
        }
        if self._policy.keeps_texts:
            self._readers[topics.sampled] = self._add_texts

    @property
    def topics(self) -> list[str]:
        return list(self._readers)

    def add(self, record: Record, batch: ArchiveBatch) -> None:
        """Add the rows of a record to a batch; raise `RecordError` if our stages cannot have written it."""
        self._readers[record.partition.topic](record, batch)

    def _add_evaluation(self, record: Record, batch: ArchiveBatch) -> None:
        value = _value_of(record)
        check_version(schema_of(record))
        published = _read(read_evaluation, value)
        if published.sampling.lane != BACKFILL:
            check_probability(published.sampling.probability, self._least_probability)
        logged_id = (logged_id_in(record.headers) or b"").decode(errors="replace") or published.interaction_id
        content = content_in(record.headers)
        tags = self._policy.tags_of(published.tags)
        row = self._row_of(
            published,
            texts_id=None if content == UNKNOWN_CONTENT else clean(distinct_id(logged_id, content)),
            tags=clean(_json(tags)),
        )
        batch.evaluations.append(
            ArchivedEvaluation(
                row=row,
                logged_id=clean(logged_id),
                tags=[(clean(name[:_TAG_CHARS]), clean(_tag_text(tag))) for name, tag in tags.items()],
                record=self._policy.record_of(value),
                published=published,
                is_live=published.sampling.lane not in {BACKFILL, CANARY},
                good_score=self._good_score(row.app),
            )
        )

    def _row_of(self, published: PublishedEvaluation, *, texts_id: str | None, tags: str) -> EvaluationRow:
        question, answer = self._policy.excerpt_of(published.excerpt)
        composite, sampling = published.composite, published.sampling
        trace = parse_traceparent(published.traceparent)
        spreads = [part.spread for part in published.dimensions.values() if part.spread is not None]
        return EvaluationRow(
            id=clean(published.evaluation_id),
            interaction_id=clean(published.interaction_id),
            texts_id=texts_id,
            at=_time_of(published.evaluated_at),
            app=clean(published.app or UNKNOWN),
            tenant=_clean_name(published.tenant),
            model=_clean_name(published.model),
            lane=clean(sampling.lane),
            rule=clean(sampling.rule),
            probability=sampling.probability,
            composite=composite.score,
            status=clean(composite.status),
            coverage=composite.coverage,
            safety=clean(composite.safety.status),
            worst_criterion=_worst_of(published),
            spread=max(spreads, default=None),
            cost_usd=published.cost_usd,
            latency_ms=published.latency_ms,
            fingerprint=clean(published.evaluator.fingerprint),
            trace_id=None if trace is None else trace.trace_id,
            tags=tags,
            question=question,
            answer=answer,
        )

    def _add_texts(self, record: Record, batch: ArchiveBatch) -> None:
        canary, now = is_canary(record.headers), time.time()
        interaction = (self._canaries if canary else self._interactions).read(whole_value(record)).interaction
        if not canary:
            refuse_distinct_id(interaction.id)
        batch.texts.append(
            ArchivedTexts(
                id=clean(distinct_id(interaction.id, content_digest(interaction))),
                interaction_id=clean(interaction.id),
                at=int(1000 * min(record.written_at or now, now)),
                tenant=_clean_name(interaction.tenant),
                content=self._policy.texts_of(interaction),
            )
        )

    def _add_alert(self, record: Record, batch: ArchiveBatch) -> None:
        value = _value_of(record)
        alert = _read(read_alert, value)
        series, announced_at = alert.series, _time_of(alert.at)
        suffix = "" if series.attribute is None else f"/{series.attribute}={series.value}"
        batch.alerts.append(
            {
                "alert_id": clean(alert.alert_id),
                "series_key": clean(f"{series.app}/{series.dimension}{suffix}"),
                "app": clean(series.app),
                "dimension": clean(series.dimension),
                "attribute": _clean_name(series.attribute),
                "value": _clean_name(series.value),
                "subject": clean(alert.subject),
                "kind": clean(alert.kind),
                "raised_at": _time_of(alert.raised_at),
                "onset_at": _time_of(alert.onset_at),
                "cleared_at": announced_at if alert.kind == "cleared" else None,
                "at": announced_at,
                "record": clean(value.decode()),
            }
        )

    def _add_label(self, record: Record, batch: ArchiveBatch) -> None:
        label = _read(read_label, _value_of(record))
        if label.retracts is not None:
            batch.retractions.append(clean(label.retracts))
            return
        batch.labels.append(
            {
                "label_id": clean(label.label_id),
                "interaction_id": clean(label.interaction_id),
                "evaluation_id": _clean_name(label.evaluation_id),
                "criterion": clean(label.criterion),
                "option": _clean_name(label.option),
                "score": label.score,
                "who": clean(label.who),
                "at": _time_of(label.labelled_at),
                "probability": label.probability,
                "kind": clean(label.kind),
                "comment": self._policy.comment_of(label.comment),
                "retracted": False,
            }
        )


def _value_of(record: Record) -> bytes:
    value = whole_value(record)
    if not value:
        raise RecordError("empty", "the record has no value")
    return value


def _read(read: Callable[[bytes], T], value: bytes) -> T:
    try:
        value.decode()  # also checks the fields that the reader skips
        return read(value)
    except UnicodeDecodeError as error:
        raise RecordError("bad_encoding", f"not UTF-8: {error.reason} at byte {error.start}") from None
    except msgspec.ValidationError as error:
        raise RecordError("invalid_record", str(error)) from None
    except (ValueError, RecursionError) as error:
        raise RecordError("bad_json", f"not JSON: {error}") from None


def _time_of(moment: datetime) -> int:
    check_moment(moment)
    milliseconds = int(moment.timestamp() * 1000)
    if milliseconds > time.time() * 1000 + _AHEAD_MS:
        raise RecordError("bad_time", f"the time {moment.isoformat()} is in the future")
    return milliseconds


def _worst_of(published: PublishedEvaluation) -> str | None:
    scores = {
        name: part.score
        for name, part in published.dimensions.items()
        if part.score is not None and part.status == Status.SCORED
    }
    # Low scores of the contexts say nothing about the answer.
    return clean(min(scores, key=lambda name: (name in CONTEXT_CRITERIA, scores[name]))) if scores else None


def _clean_name(name: str | None) -> str | None:
    return None if name is None else clean(name)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _tag_text(value: object) -> str:
    """Return the value of a tag as people write it: `true`, `3`, or a text."""
    return (value if isinstance(value, str) else _json(value))[:_TAG_CHARS]

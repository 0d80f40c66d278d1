"""A label as it is sent to the topic of scores: to every partition, because it does not name its app."""

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from judges.values.evaluation import MIN_PROBABILITY
from judges.values.label import Label
from sinks.base import SCHEMA, Message
from sinks.topics.headers import SCORES_KIND
from stream.errors import RecordError
from stream.kafka.record import check_version
from stream.monitor.alerts.score_record import MAX_DIMENSION_CHARS, MAX_ID_CHARS, MAX_NAME_CHARS
from stream.monitor.detection import first_problem
from stream.records.envelope import check_probability

LABEL_KIND = b"label"
# Without the comment and everything else that no mean depends on.
_KEPT = {
    "label_id",
    "interaction_id",
    "criterion",
    "score",
    "who",
    "labelled_at",
    "probability",
    "kind",
    "retracts",
}

# Shared by all remembered labels: a set of its own would be a third of a label's memory.
_NO_NAMES: set[str] = set()


def read_label(value: bytes | None, schema: bytes | None, *, least_probability: float = MIN_PROBABILITY) -> Label:
    """Read a label or a retraction; raise `RecordError` if it is none. Names are bounded: they become stored state."""
    check_version(schema)
    try:
        label = Label.model_validate_json(value or b"")
    except ValidationError as error:
        raise RecordError("invalid_record", first_problem(error)) from None
    for name, text, limit in _texts(label):
        if len(text) > limit:
            raise RecordError("too_long", f"{name}: {len(text)} characters, the limit is {limit}")
    if label.probability is not None:
        check_probability(label.probability, least_probability)
    return label


def keep_part(label: Label) -> Label:
    """Return the part of a label that the monitor needs."""
    return Label.model_construct(_NO_NAMES, **{name: getattr(label, name) for name in _KEPT})


def dump_label(label: Label) -> dict[str, Any]:
    """Return that part for JSON."""
    return label.model_dump(mode="json", include=_KEPT, exclude_defaults=True)


def label_message(label: Label, topic: str, partition: int) -> Message:
    value = label.model_dump_json(include=_KEPT, exclude_defaults=True).encode()
    headers = (SCHEMA, (SCORES_KIND, LABEL_KIND))
    return Message(topic=topic, key=label.interaction_id.encode(), value=value, headers=headers, partition=partition)


def _texts(label: Label) -> Iterator[tuple[str, str, int]]:
    yield "label_id", label.label_id, MAX_ID_CHARS
    yield "interaction_id", label.interaction_id, MAX_ID_CHARS
    yield "retracts", label.retracts or "", MAX_ID_CHARS
    yield "criterion", label.criterion, MAX_DIMENSION_CHARS
    yield "who", label.who, MAX_NAME_CHARS

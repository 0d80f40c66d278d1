"""Topic writers: finished evaluations, safety notices and the labels of people, each for its topic."""

from collections.abc import Sequence

from pydantic import BaseModel

from judges.values.evaluation import Evaluation, SafetyNotice
from judges.values.label import Label
from sinks.base import SCHEMA, Message

_HEADERS = (SCHEMA, ("content-type", b"application/json"))


class EvaluationTopic:
    """Publishes every evaluation as plain JSON under its id."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def messages(self, item: Evaluation, /) -> Sequence[Message]:
        return (json_message(self._topic, item.evaluation_id, item),)


class CriticalTopic:
    """Publishes safety notices as plain JSON under the id that their evaluation will have."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def messages(self, item: SafetyNotice, /) -> Sequence[Message]:
        return (json_message(self._topic, item.evaluation_id, item),)


class LabelTopic:
    """Publishes labels, and retractions of labels, as plain JSON under the id of the interaction."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def messages(self, item: Label, /) -> Sequence[Message]:
        return (json_message(self._topic, item.interaction_id, item),)


def json_message(topic: str, key: str, record: BaseModel) -> Message:
    """Make a message of our own record, with every field, null if it is missing."""
    value = record.model_dump_json(exclude_none=False).encode()
    return Message(topic=topic, key=key.encode(), value=value, headers=_HEADERS)

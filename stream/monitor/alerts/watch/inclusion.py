"""Inclusion: which evaluations a state already contains, so that each counts once, after any restart."""

from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple, Self

from stream.monitor.alerts.score_record import ScoreRecord

# More than workers publish twice after a crash.
_REMEMBERED = 1000
_DIGEST_BYTES = 6
_DIGEST_CHARS = 2 * _DIGEST_BYTES


class Reached(NamedTuple):
    """How far a partition is included."""

    offset: int
    newest: float
    """Latest time of an evaluation up to this offset."""


@dataclass(slots=True)
class Inclusion:
    """By the offsets on the evaluations topic, and by the ids of the latest evaluations."""

    reached: dict[int, Reached] = field(default_factory=dict)
    recent: OrderedDict[str, None] = field(default_factory=OrderedDict)
    count: int = 0
    """Number of included evaluations."""

    def add(self, record: ScoreRecord) -> bool:
        """Include a record; return False if it was included already."""
        return self._is_ahead(record) and self._is_unknown(record.evaluation_id)

    def _is_ahead(self, record: ScoreRecord) -> bool:
        """Return False for an earlier offset, unless the evaluation is newer than all: the topic was re-created."""
        partition, offset = record.source.partition, record.source.offset
        reached = self.reached.get(partition)
        if reached is not None and offset <= reached.offset and record.at <= reached.newest:
            return False
        newest = record.at if reached is None else max(reached.newest, record.at)
        self.reached[partition] = Reached(offset, newest)
        self.count += 1
        return True

    def _is_unknown(self, evaluation_id: str) -> bool:
        digest = blake2b(evaluation_id.encode(), digest_size=_DIGEST_BYTES).hexdigest()
        if digest in self.recent:
            return False
        self.recent[digest] = None
        if len(self.recent) > _REMEMBERED:
            self.recent.popitem(last=False)
        return True

    def as_data(self) -> dict[str, Any]:
        return {
            "reached": {str(partition): list(reached) for partition, reached in self.reached.items()},
            "recent": "".join(self.recent),
            "count": self.count,
        }

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        recent = data["recent"]
        digests = (recent[place : place + _DIGEST_CHARS] for place in range(0, len(recent), _DIGEST_CHARS))
        return cls(
            reached={int(partition): Reached(*reached) for partition, reached in data["reached"].items()},
            recent=OrderedDict.fromkeys(digests),
            count=data["count"],
        )

"""Canaries: records whose verdicts are known, put on the work queue on a schedule to see whether the judges changed."""

import codecs
import json
import logging
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as KafkaMessage

from judges.problems import InconsistentError
from stream.config import Config, InputConfig
from stream.envelope import decision_headers
from stream.errors import RecordError
from stream.reading import InteractionReader, Reading, read_document
from stream.sampling import CANARY, Decision, Verdict
from stream.sizes import MAX_MESSAGE_BYTES

log = logging.getLogger(__name__)

CANARIES_APP = "canaries"
"""The app of every canary."""
CANARY_TAG = "canary"
"""The tag with the id that a canary has in the file."""
MOST_CANARIES = 1000

_ID_PREFIX = "canary:"
# Later than any clock will say: an id that is short enough with it always is.
_LAST_ROUND = 10**12
_DECISION = Decision(outcome=Verdict.SAMPLED, probability=1.0, rule=CANARY, lane=CANARY)
# A canary that is later than this says nothing of the time it was meant for.
_DELIVERY_SECONDS = 60.0
_FLUSH_SECONDS = 1.0


# One canary


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A record of the file."""

    id: str
    document: Mapping[str, object]

    def interaction_id(self, number: int) -> str:
        """The id that it is judged under in a round: the same whoever sends it, so that repeats are recognised."""
        return f"{_ID_PREFIX}{self.id}:{number}"

    def value(self, number: int) -> bytes:
        """The record of a round."""
        tags = self.document.get("tags") or {}
        assert isinstance(tags, dict)
        own = {"id": self.interaction_id(number), "app": CANARIES_APP, "tags": {**tags, CANARY_TAG: self.id}}
        return json.dumps({**self.document, **own}, ensure_ascii=False, separators=(",", ":")).encode()


class CanaryReader:
    """Reads canaries: always in our own shape and within the default limits, whatever shape the traffic has."""

    def __init__(self) -> None:
        config = InputConfig()
        self._limits = config.limits
        self._reader = InteractionReader(config)

    def read(self, value: bytes | None) -> Reading:
        return self._reader.read(value)

    def canary(self, line: bytes) -> Canary:
        """What a line of the file is; raises RecordError."""
        interaction = self.read(line).interaction
        canary = Canary(id=interaction.id, document=read_document(line, self._limits))
        try:
            self.read(canary.value(_LAST_ROUND))
        except RecordError as error:
            raise RecordError(error.kind, f"no room for what is added to the id and the tags: {error}") from None
        return canary


# The file


def read_canaries(file: str) -> tuple[Canary, ...]:
    """The canaries of a file of JSON Lines; raises InconsistentError with all that is wrong, each with its line."""
    found: dict[str, tuple[int, Canary]] = {}
    problems: list[str] = []
    reader = CanaryReader()
    try:
        for number, line in _filled_lines(Path(file)):
            try:
                canary = reader.canary(line)
            except RecordError as error:
                # The JSON reader sees one line, and calls it the first.
                problems.append(f"line {number}: {str(error).replace(': line 1 column', ': column')}")
                continue
            first, _ = found.setdefault(canary.id, (number, canary))
            if first != number:
                problems.append(f"line {number}: has the id {canary.id!r}, and so has line {first}")
    except (OSError, _TooManyError) as error:
        problems.append(str(error) if isinstance(error, _TooManyError) else _unreadable(error))
    if not found and not problems:
        problems.append("has no canaries")
    if problems:
        raise InconsistentError(((), f"{file}: {problem}") for problem in problems)
    return tuple(canary for _, canary in found.values())


class _TooManyError(Exception):
    pass


def _filled_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    filled = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            text = (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).strip()
            if not text:
                continue
            filled += 1
            if filled > MOST_CANARIES:
                raise _TooManyError(f"line {number}: is one too many; there may be {MOST_CANARIES} canaries")
            yield number, text


def _unreadable(error: OSError) -> str:
    return f"cannot be read: {(error.strerror or 'unknown error').lower()}"


# When


class Due(NamedTuple):
    """A canary whose time has come, and the number of its round."""

    canary: Canary
    round: int


class Schedule:
    """The i-th of n is due at the fraction i/n of every period; periods are counted from the epoch.

    So the work is spread evenly, and every process, also one that was started again, has the same rounds.
    """

    def __init__(self, canaries: Sequence[Canary], period: float) -> None:
        self._canaries = canaries
        self._round, self._ordered = -1, canaries
        self.period = period
        """In seconds."""

    def due(self, since: float, until: float) -> list[Due]:
        """Those that are due after `since` and not after `until`, in order."""
        # Whole numbers of steps: looks that meet leave nothing between them and have nothing in common.
        steps = range(self._steps(since) + 1, self._steps(until) + 1)
        rounds = (divmod(step, len(self._canaries)) for step in steps)
        return [Due(self._order(number)[place], number) for number, place in rounds]

    def _order(self, number: int) -> Sequence[Canary]:
        """Another one each round, the same in every process: what wavers must not come when it is waited for."""
        if number != self._round:
            draw = random.Random(number)  # noqa: S311 - nothing secret depends on it
            self._round, self._ordered = number, draw.sample(self._canaries, len(self._canaries))
        return self._ordered

    def _steps(self, at: float) -> int:
        return math.floor(at * len(self._canaries) / self.period)


# Sending


class CanarySender:
    """Sends what is due. To be asked often, from one thread; it holds nobody up, and what fails is only told."""

    def __init__(self, config: Config) -> None:
        """Without canaries in the configuration nothing is ever due."""
        canaries, self._schedule = config.detection.canaries, None
        if canaries is not None:
            self._schedule = Schedule(read_canaries(canaries.file), canaries.every_minutes * 60.0)
        self._topic, self._salt = config.topics.sampled, config.sampling.salt
        self._options: dict[str, str | int | float | bool] = {
            **config.kafka.client_options(),
            "client.id": f"{config.monitor.group}-canaries",
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.timeout.ms": int(_DELIVERY_SECONDS * 1000),
            "message.max.bytes": MAX_MESSAGE_BYTES,
            # What did not arrive is told once; the client would go on about it.
            "log_level": 0,
        }
        self._producer: Producer | None = None
        self._looked_at: float | None = None
        self._failing = False

    def send_due(self, now: float) -> None:
        """Sends what came due since the last look; the first look only remembers the time, in Unix seconds."""
        try:
            if self._producer is not None:
                self._producer.poll(0)
            for canary, number in self._due(now):
                self._send(canary, number, now)
        except Exception as error:
            self._failed(error)
            if _for_good(error):
                self._producer = None

    def close(self) -> None:
        """Waits a moment for what is under way."""
        if self._producer is not None:
            self._producer.flush(_FLUSH_SECONDS)
            self._producer = None

    def _due(self, now: float) -> list[Due]:
        since, self._looked_at = self._looked_at, now
        if self._schedule is None or since is None:
            return []
        # Who did not look for long makes up for one period at most. What another sent meanwhile has the same id.
        return self._schedule.due(max(since, now - self._schedule.period), now)

    def _send(self, canary: Canary, number: int, now: float) -> None:
        if self._producer is None:
            self._producer = Producer(self._options)
        headers = decision_headers(_DECISION, salt=self._salt, sampled_at=datetime.fromtimestamp(now, UTC))
        self._producer.produce(
            self._topic,
            key=canary.interaction_id(number).encode(),
            value=canary.value(number),
            headers=list(headers),
            on_delivery=self._report,
        )

    def _report(self, error: KafkaError | None, _message: KafkaMessage) -> None:
        if error is None:
            self._failing = False
        else:
            self._failed(error.str())

    def _failed(self, why: object) -> None:
        if not self._failing:
            log.warning("canaries do not reach %s: %s", self._topic, why)
        self._failing = True


def _for_good(error: Exception) -> bool:
    """Whether the client will take no record any more."""
    return isinstance(error, KafkaException) and (error.args[0].fatal() or error.args[0].code() == KafkaError._FATAL)

"""Canaries: records with known verdicts that show whether the judges changed; the file, and its reader."""

import codecs
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from judges.criteria.problems import InconsistentError
from stream.config.sections.input import InputConfig
from stream.errors import RecordError
from stream.records.reading import InteractionReader, Reading, read_document

CANARIES_APP = "canaries"
"""The app of every canary."""
CANARY_TAG = "canary"
"""The tag that holds the canary's id in the file."""
MOST_CANARIES = 1000

_ID_PREFIX = "canary:"
# A later round than any clock will reach: an id that fits with this one always fits.
_LAST_ROUND = 10**12


# One canary


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A record of the canary file."""

    id: str
    document: Mapping[str, object]

    def interaction_id(self, number: int) -> str:
        """Return its id in a round: the same whichever process sends it, so that repeats are recognised."""
        return f"{_ID_PREFIX}{self.id}:{number}"

    def value(self, number: int) -> bytes:
        """Return the record of a round."""
        tags = self.document.get("tags") or {}
        assert isinstance(tags, dict)
        own = {"id": self.interaction_id(number), "app": CANARIES_APP, "tags": {**tags, CANARY_TAG: self.id}}
        return json.dumps({**self.document, **own}, ensure_ascii=False, separators=(",", ":")).encode()


def canary_id_of(interaction_id: str) -> str:
    """Return the id in the file of a canary that is named by it, or by its interaction id in any round."""
    if not interaction_id.startswith(_ID_PREFIX):
        return interaction_id
    name, separator, number = interaction_id.removeprefix(_ID_PREFIX).rpartition(":")
    return name if separator and number.isdigit() else interaction_id


def refuse_canary_id(interaction_id: str) -> None:
    """Raise RecordError for traffic with the id of a canary: judged first, it would make the canary a repeat."""
    if interaction_id.startswith(_ID_PREFIX):
        raise RecordError("reserved_id", f"ids that start with {_ID_PREFIX!r} are reserved for canaries")


def refuse_canary_app(app: str | None) -> None:
    """Raise RecordError for anything but a canary under their app: its alerts would hide those about the judges."""
    if app == CANARIES_APP:
        raise RecordError("reserved_app", f"the app {CANARIES_APP!r} is reserved for canaries")


class CanaryReader:
    """Reads canaries, always in our own shape and with the default limits, whatever the traffic looks like."""

    def __init__(self) -> None:
        config = InputConfig()
        self._limits = config.limits
        self._reader = InteractionReader(config)

    def read(self, value: bytes | None) -> Reading:
        return self._reader.read(value)

    def canary(self, line: bytes) -> Canary:
        """Read a line of the file; raises RecordError."""
        interaction = self.read(line).interaction
        canary = Canary(id=interaction.id, document=read_document(line, self._limits))
        try:
            self.read(canary.value(_LAST_ROUND))
        except RecordError as error:
            raise RecordError(error.kind, f"id and tags leave no room for Streamjury's additions: {error}") from None
        return canary


# The file


def read_canaries(file: str) -> tuple[Canary, ...]:
    """Read the canaries of a JSON Lines file; raises InconsistentError with all problems, each with its line."""
    canaries: dict[str, tuple[int, Canary]] = {}
    problems: list[str] = []
    reader = CanaryReader()
    try:
        for number, line in _filled_lines(Path(file)):
            try:
                canary = reader.canary(line)
            except RecordError as error:
                # The JSON reader sees a single line, so its "line 1" is left out.
                problems.append(f"line {number}: {str(error).replace(': line 1 column', ': column')}")
                continue
            first, _ = canaries.setdefault(canary.id, (number, canary))
            if first != number:
                problems.append(f"line {number}: same id as line {first}: {canary.id!r}")
    except (OSError, _TooManyError) as error:
        problems.append(str(error) if isinstance(error, _TooManyError) else _unreadable(error))
    if not canaries and not problems:
        problems.append("contains no canaries")
    if problems:
        raise InconsistentError(((), f"{file}: {problem}") for problem in problems)
    return tuple(canary for _, canary in canaries.values())


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
                raise _TooManyError(f"line {number}: too many canaries; at most {MOST_CANARIES} are allowed")
            yield number, text


def _unreadable(error: OSError) -> str:
    return f"cannot be read: {(error.strerror or 'unknown error').lower()}"

"""The journal of a run: its file of results, written row by row, from which an interrupted run resumes.

1. The folder is locked: two runs that write one file would tear each other's lines.
2. The existing file is read. A last line without a line end was torn by a crash, and is cut off.
3. The run that wrote it must have judged the same rows in the same way; otherwise the file is not changed.
4. Lines are added, each flushed to the system before the next row counts as finished: killing the process loses only
   the rows in flight.
"""

import fcntl
import hashlib
import os
import shutil
from array import array
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Self

import msgspec
from pydantic import JsonValue, ValidationError

from sinks.reports.results_reader import RESULTS_NAME
from sinks.reports.results_schema import SCHEMA, End, Run
from stream.errors import StreamjuryError

_BEGINNING = b'{"kind":"run"'
AWAY = "use another --output, or --restart to discard those results"
"""Advice about results that cannot be extended; callers without these options pass other advice."""

_GO_ON = "finished results are kept; run the same command to judge the rest"


class JournalError(StreamjuryError):
    """Results that cannot be extended; the message says why, and what to do."""


class _JournalComposite(msgspec.Struct):
    score: float | None
    status: str


class _JournalSampling(msgspec.Struct):
    probability: float


class _JournalEvaluation(msgspec.Struct):
    evaluated_at: datetime
    composite: _JournalComposite
    sampling: _JournalSampling
    cost_usd: float | None = None


class _Error(msgspec.Struct):
    kind: str


class JournalEntry(msgspec.Struct):
    """The part of a line that is needed to resume and summarise a run; the rest is skipped."""

    kind: str
    row: int = 0
    digest: str = ""
    again: bool = False
    evaluation: _JournalEvaluation | None = None
    error: _Error | None = None
    seconds: float = 0.0


class Past:
    """Finished work of earlier runs: rows with their digests, eight bytes each, and the time that it took."""

    def __init__(self) -> None:
        self._digests = array("Q")
        self.rows = 0
        self.seconds = 0.0
        self.ended = False
        self.size = 0
        """Bytes of the file in complete lines."""
        self._last: datetime | None = None

    def digest(self, number: int) -> int | None:
        """Return the digest of a finished row, or None."""
        return (self._digests[number] or None) if number < len(self._digests) else None

    def add(self, entry: JournalEntry) -> None:
        self.ended = entry.kind == "end"
        if entry.kind != "row":
            return
        self._add_time(entry)
        earlier = self.digest(entry.row)
        finished = 0 if entry.again else int(entry.digest, 16) or 1
        if entry.row >= len(self._digests):
            self._digests.extend([0] * (entry.row + 1 - len(self._digests)))
        self._digests[entry.row] = finished
        self.rows += bool(finished) - bool(earlier)

    def _add_time(self, entry: JournalEntry) -> None:
        """Add the time of a row. Rows are judged concurrently, so only time since the last finished row counts."""
        if entry.evaluation is None:
            return
        finished_at, last = entry.evaluation.evaluated_at, self._last
        self.seconds += (
            entry.seconds if last is None else max(0.0, min(entry.seconds, (finished_at - last).total_seconds()))
        )
        self._last = finished_at if last is None else max(finished_at, last)


def digest_number(digest: bytes) -> int:
    """Convert a row's digest to the form in `Past`; 0 means no row."""
    return int.from_bytes(digest, "big") or 1


def entries(path: Path, away: str = AWAY) -> Iterator[tuple[JournalEntry, int]]:
    """Yield the complete lines below the first, each with its end offset; raises JournalError."""
    decoder = msgspec.json.Decoder(JournalEntry)
    with path.open("rb") as file:
        offset = len(file.readline())
        for number, line in enumerate(file, start=2):
            offset += len(line)
            if not line.endswith(b"\n"):
                return
            try:
                yield decoder.decode(line), offset
            except (msgspec.MsgspecError, ValueError) as error:
                raise JournalError(f"{path}, line {number}: not a result ({error}); {away}") from None


class Journal:
    """The results file of a run, open until the end of the `with` block."""

    def __init__(self, folder: Path, run: Run, *, restart: bool = False, away: str = AWAY) -> None:
        """Prepare the journal; `with` raises JournalError if the folder is not writable or has other results."""
        self.path = folder / RESULTS_NAME
        self._run, self._restart, self._away = run, restart, away
        self._lock = self._file = -1
        self.past = Past()

    def __enter__(self) -> Self:
        try:
            self._open()
        except OSError as error:
            self._close()
            raise JournalError(f"cannot write {error.filename or self.path}: {error.strerror}") from None
        except JournalError:
            self._close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._close()

    def add(self, lines: bytes) -> None:
        """Add complete lines; they are handed to the system when this returns."""
        rest = memoryview(lines)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            raise JournalError(f"cannot write {self.path}: {error.strerror}; {_GO_ON}") from None

    def end(self, end: End) -> None:
        self.add(end.model_dump_json().encode() + b"\n")

    def _open(self) -> None:
        folder = self.path.parent
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)  # 1
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalError(f"another run is writing to {folder}") from None
        earlier = None if self._restart else self._read()  # 2
        if earlier is None:
            self._begin()
        else:
            self._continue(earlier)  # 3
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND)  # 4

    def _begin(self) -> None:
        self.path.write_bytes(_header(self._run))

    def _read(self) -> Run | None:
        """Read the run that wrote the file; None if there is no file, or its first line is incomplete."""
        if not self.path.exists():
            return None
        with self.path.open("rb") as file:
            first = file.readline()
        torn = not first.endswith(b"\n")
        if torn and (first.startswith(_BEGINNING) or _BEGINNING.startswith(first)):
            return None
        try:
            run = Run.model_validate_json(first)
        except ValidationError:
            raise JournalError(f"{self.path} already exists and is not a results file; {self._away}") from None
        self.past.size = len(first)
        for entry, end in entries(self.path, self._away):
            self.past.add(entry)
            self.past.size = end
        return run

    def _continue(self, earlier: Run) -> None:
        differences = list(_differences(earlier, self._run))
        if differences:
            raise JournalError(
                f"{self.path.parent} has results of another run: {'; '.join(differences)}. To continue, {self._away}"
            )
        os.truncate(self.path, self.past.size)
        if earlier.parameters != self._run.parameters:
            self._replace_header(self._run.model_copy(update={"started_at": earlier.started_at}))

    def _replace_header(self, run: Run) -> None:
        """Replace the first line atomically: options that do not affect results may have changed."""
        draft = self.path.with_suffix(".jsonl.new")
        with self.path.open("rb") as old, draft.open("wb") as new:
            old.readline()
            new.write(_header(run))
            shutil.copyfileobj(old, new)
        draft.replace(self.path)

    def _close(self) -> None:
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1


def _header(run: Run) -> bytes:
    return run.model_dump_json().encode() + b"\n"


def _differences(then: Run, now: Run) -> Iterator[str]:
    """Yield the reasons why the rows of two runs cannot be in one file."""
    if then.schema_version != SCHEMA:
        yield f"it was written as {then.schema_version}, but this program writes {SCHEMA}"
    if then.input_digest != now.input_digest:
        yield f"the rows have changed ({_describe_input(then)} then, {_describe_input(now)} now)"
    if then.evaluator.fingerprint != now.evaluator.fingerprint:
        before, after = then.evaluator.fingerprint[:12], now.evaluator.fingerprint[:12]
        yield f"the criteria or judges have changed (fingerprint {before} then, {after} now)"
    for key in ("input", "sample"):
        old, new = (_comparable(run.parameters.get(key)) for run in (then, now))
        if old != new:
            yield f"the {key} has changed ({_text(old)} then, {_text(new)} now)"


def describe_sample(share: JsonValue, salt: str) -> dict[str, JsonValue]:
    """Return the parameters of a sample. Results are passed on, so they have a digest of the salt.

    It is not the digest with which ids are drawn: that one is as secret as the salt.
    """
    digest = hashlib.sha256(salt.encode("utf-8", "surrogatepass")).hexdigest()
    return {"share": share, "salt_digest": f"sha256:{digest}"}


def _comparable(parameter: JsonValue) -> JsonValue:
    """Return a parameter as this version writes it: earlier versions wrote the salt of a sample itself."""
    if isinstance(parameter, dict) and isinstance(salt := parameter.get("salt"), str):
        return describe_sample(parameter.get("share"), salt)
    return parameter


def _describe_input(run: Run) -> str:
    return f"{run.name}, {(run.input_digest or 'not a file')[:19]}"


def _text(parameter: JsonValue) -> str:
    return msgspec.json.encode(parameter).decode()

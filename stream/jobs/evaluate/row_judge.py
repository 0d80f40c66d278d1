"""Judges one row: from its JSON to its line of results."""

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from judges.evaluator import Evaluator, Submission
from judges.runtime.sync import is_cancelled
from judges.shortfall import retry_reason, shortfall_of
from judges.values.evaluation import Evaluation, Reason, Sampling, Status
from stream.config.model import Config
from stream.config.sections.input import InputConfig
from stream.errors import RecordError
from stream.jobs.evaluate.rows import SHOWN_CHARS, FileRow
from stream.jobs.patient_evaluation import Bill, evaluate_with_retries
from stream.records.adapters import make_adapter
from stream.records.decision import Cohort, id_bytes
from stream.records.reading import InteractionReader, Reading

log = logging.getLogger(__name__)

DIGEST_BYTES = 8

SAMPLE_RULE = "sample"

_IF_TOO_SLOW = "raise the judge's timeout_seconds, or lower its limits.concurrency"

# Delays between attempts at a row whose judges cannot be reached.
PAUSES = (1.0, 5.0, 20.0)

# Faults of rows that are not JSON objects, of which only the text can be kept.
_UNREADABLE = {"empty", "bad_json", "bad_encoding", "too_deep", "too_large"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSample:
    """Which rows are judged: a share of all, chosen like in the stream."""

    share: float = 1.0
    salt: str = ""


class RowResult(NamedTuple):
    """The result of one row."""

    number: int
    line: bytes
    cost_usd: float | None
    problem: str | None
    """The reason why it was not judged, in words."""

    unreached: bool
    """Whether it can be judged later: its judges could not be reached, or crashed."""

    evaluated: bool
    """Whether it has an evaluation, even one without a score."""

    blank: bool = False
    """Whether its question or its answer is empty."""


class RowJudge:
    """Judges rows as a worker judges records: the same reading, panel, composite and statuses."""

    def __init__(
        self,
        config: Config,
        records: InputConfig,
        evaluator: Evaluator,
        sample: RowSample,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self._reader = InteractionReader(records)
        self._names_rows = make_adapter(records).reads_id_key
        self._evaluator = evaluator
        self._safety = config.composite.safety
        self._pauses = pauses
        self._chosen = Cohort(sample.salt).chooser(sample.share)
        whole = sample.share >= 1.0
        self._sampling = Sampling() if whole else Sampling(probability=sample.share, rule=SAMPLE_RULE)

    async def judge(self, row: FileRow) -> RowResult | None:
        """Judge a row; return None if it is not in the sample. Raises nothing but a cancellation."""
        started, bill = time.perf_counter(), Bill()
        try:
            reading = self._read(row)
            if not self._chosen(id_bytes(reading.interaction.id)):
                return None
            evaluation = await self._evaluate(reading, bill)
        except RecordError as error:
            return self._fail(row, error, bill) if self._chosen(id_bytes(make_row_id(row))) else None
        except (Exception, asyncio.CancelledError) as error:
            # Re-raise our own cancellation only: one that escaped from a client must not cancel this task.
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            log.exception("cannot judge row %d", row.number)
            return self._fail(row, RecordError("internal_error", f"{type(error).__name__}: {error}"), bill)
        return self._finish(row, reading, evaluation, time.perf_counter() - started)

    def _read(self, row: FileRow) -> Reading:
        if row.fault is not None:
            raise RecordError(*row.fault)
        try:
            return self._reader.read(_add_id(row) if row.nameless else row.value)
        except RecordError as error:
            if error.kind != "invalid_record" or row.nameless or not self._names_rows or not _is_nameless(row):
                raise
            return self._reader.read(_add_id(row))

    async def _evaluate(self, reading: Reading, bill: Bill) -> Evaluation:
        """Return the last attempt, with the cost of all attempts."""
        submission = Submission(interaction=reading.interaction, sampling=self._sampling, truncated=reading.truncated)
        evaluation = await evaluate_with_retries(
            self._evaluator, submission, deadline=None, pauses=self._pauses, bill=bill
        )
        return evaluation if evaluation.cost_usd == bill.usd else evaluation.model_copy(update={"cost_usd": bill.usd})

    def _finish(self, row: FileRow, reading: Reading, evaluation: Evaluation, seconds: float) -> RowResult:
        unreached = retry_reason(evaluation) is not None
        problem = self._unreached_problem(evaluation) if unreached else None
        line = _line(row, _plain(row.value), evaluation.model_dump_json().encode(), b"null", seconds, again=unreached)
        blank = not (reading.interaction.question.strip() and reading.interaction.answer.strip())
        return RowResult(row.number, line, evaluation.cost_usd, problem, unreached, evaluated=True, blank=blank)

    def _unreached_problem(self, evaluation: Evaluation) -> str:
        is_partial = any(dimension.status is Status.SCORED for dimension in evaluation.dimensions.values())
        shortfall = shortfall_of(evaluation, self._safety)
        if shortfall is not None and shortfall.reason is Reason.TIMEOUT:
            who = "some judges were" if is_partial else "all judges were"
            return f"{who} too slow: {shortfall.detail}; {_IF_TOO_SLOW}"
        problem = "not all judges could be reached" if is_partial else "no judge could be reached"
        return f"{problem}: {shortfall.detail}" if shortfall else problem

    def _fail(self, row: FileRow, error: RecordError, bill: Bill) -> RowResult:
        again = error.kind == "internal_error"
        details = msgspec.json.encode({"kind": error.kind, "message": str(error)})
        line = _line(row, _source(row, error), b"null", details, 0.0, again=again)
        return RowResult(row.number, line, bill.usd, f"{error.kind}: {_with_line(row, error)}", again, evaluated=False)


def _with_line(row: FileRow, error: RecordError) -> str:
    """Add the line in the file; the parser sees a single line, so its "line 1" is left out."""
    return str(error) if row.line is None else f"line {row.line}: {error}".replace(": line 1 column ", ": column ")


def digest_of(row: FileRow) -> bytes:
    """Hash a row, to recognise another row in its place."""
    return hashlib.blake2b(row.value, digest_size=DIGEST_BYTES).digest()


def make_row_id(row: FileRow) -> str:
    """Make an id for a row without one: the same whenever the file is read again."""
    return f"row-{row.number}-{digest_of(row).hex()}"


def _add_id(row: FileRow) -> bytes:
    """Return the row with an id; existing id columns are empty."""
    document: dict[str, Any] = json.loads(row.value)
    others = {name: value for name, value in document.items() if name.strip().casefold() != "id"}
    return json.dumps({**others, "id": make_row_id(row)}, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _is_nameless(row: FileRow) -> bool:
    """Return whether a refused record has no id, which the stream requires and a file does not."""
    return json.loads(row.value).get("id") in (None, "")


def _line(row: FileRow, source: bytes, evaluation: bytes, error: bytes, seconds: float, *, again: bool) -> bytes:
    """Build one line of results from parts that are JSON already."""
    digest, number = digest_of(row).hex().encode(), row.number
    mark = b',"again":true' if again else b""
    return b'{"kind":"row","row":%d,"digest":"%s"%s,"source":%s,"evaluation":%s,"error":%s,"seconds":%.6f}\n' % (
        number,
        digest,
        mark,
        source,
        evaluation,
        error,
        seconds,
    )


def _source(row: FileRow, error: RecordError) -> bytes:
    """Return the original row, as far as it can be kept."""
    is_json = row.fault is not None or error.kind not in _UNREADABLE
    if is_json and error.kind != "too_large":
        return _plain(row.value)
    try:
        document: dict[str, object] = dict(msgspec.json.decode(row.value)) if error.kind == "too_large" else {}
    except (ValueError, TypeError, RecursionError):
        document = {}
    document = document or {"line": row.value.decode("utf-8", "replace")}
    return msgspec.json.encode({name: _excerpt(value) for name, value in document.items()})


def _excerpt(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def _plain(value: bytes) -> bytes:
    """Put JSON on one line: a carriage return, which cannot occur unescaped in JSON strings, becomes a blank."""
    return value.replace(b"\r", b" ") if b"\r" in value else value

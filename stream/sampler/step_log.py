"""The step log: the step of the rate scale of each rule by record time, in memory and as a file."""

import json
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from stream.config.rate_scale import LAST_STEP
from stream.errors import StageError


class StepLogError(ValueError):
    """A step log that cannot be read; the message names the line."""


class RateStep(NamedTuple):
    """The rate step of a rule from this record time on."""

    at_ms: int
    rule: str
    k: int


class StepLog:
    """The steps of rules by record time.

    A step counts for all times after it, and replaces earlier entries for those times. So while record times advance,
    the log has the step that decided every record; only a jump back in time overwrites the times after it.
    """

    def __init__(self, steps: Iterable[RateStep] = ()) -> None:
        self._times: dict[str, list[int]] = {}
        self._steps: dict[str, list[int]] = {}
        for step in steps:
            self.add(step)

    def add(self, step: RateStep) -> None:
        times, steps = self._times.setdefault(step.rule, []), self._steps.setdefault(step.rule, [])
        while times and times[-1] >= step.at_ms:
            del times[-1], steps[-1]
        times.append(step.at_ms)
        steps.append(step.k)

    def forget(self, rule: str, before_ms: int) -> None:
        """Drop the steps of a rule that were over before a time."""
        times = self._times.get(rule, [])
        over = max(bisect_right(times, before_ms) - 1, 0)
        del times[:over], self._steps.get(rule, [])[:over]

    def step_at(self, rule: str, at_ms: int) -> int | None:
        """Return the step of a rule at a time, or None before its first."""
        place = bisect_right(self._times.get(rule, []), at_ms)
        return self._steps[rule][place - 1] if place else None

    def last(self, rule: str) -> RateStep | None:
        times = self._times.get(rule)
        return RateStep(times[-1], rule, self._steps[rule][-1]) if times else None

    def __iter__(self) -> Iterator[RateStep]:
        """Iterate over all steps by time."""
        steps = (RateStep(at_ms, rule, k) for rule in self._times for at_ms, k in zip(*self._of(rule), strict=True))
        return iter(sorted(steps))

    def _of(self, rule: str) -> tuple[list[int], list[int]]:
        return self._times[rule], self._steps[rule]

    def dump(self) -> str:
        """Return the steps as JSON lines."""
        return "".join(map(step_line, self))

    @classmethod
    def load(cls, text: str) -> "StepLog":
        """Read JSON lines in the order in which they were written."""
        return cls(_parse_step(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip())


def step_line(step: RateStep) -> str:
    return json.dumps(step._asdict(), ensure_ascii=False) + "\n"


def read_step_log(path: Path, *, may_be_torn: bool = False) -> StepLog:
    """Read the steps in a file; raises StepLogError if the file is invalid.

    If the file may be torn, an incomplete last line is skipped: its writer was killed.
    """
    try:
        content = path.read_bytes()
        return StepLog.load((content[: _whole_lines(content)] if may_be_torn else content).decode())
    except OSError as error:
        raise StepLogError(f"cannot be read: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise StepLogError("is not UTF-8") from None


def _whole_lines(content: bytes) -> int:
    """Return the number of bytes in complete lines."""
    return content.rfind(b"\n") + 1


def _parse_step(number: int, line: str) -> RateStep:
    try:
        step = RateStep(**json.loads(line))
    except (ValueError, TypeError, RecursionError):
        step = RateStep(-1, "", -1)
    whole = all(isinstance(value, int) and not isinstance(value, bool) and value >= 0 for value in (step.at_ms, step.k))
    if not (whole and isinstance(step.rule, str) and step.rule and step.k <= LAST_STEP):
        raise StepLogError(f'line {number} is not a step, such as {{"at_ms": 0, "rule": "default", "k": 8}}')
    return step


class StepFile:
    """A file to which steps are appended. It is opened at the first step, which begins a new line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def write(self, step: RateStep) -> None:
        try:
            if self._file is None:
                self._file = self._open()
            self._file.write(step_line(step))
            self._file.flush()
        except OSError as error:
            raise StageError(f"sampling.step_log: cannot write {self._path}: {error.strerror}") from None

    def _open(self) -> IO[str]:
        if self._path.exists():
            content = self._path.read_bytes()
            if _whole_lines(content) < len(content):
                os.truncate(self._path, _whole_lines(content))
        return self._path.open("a", encoding="utf-8")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

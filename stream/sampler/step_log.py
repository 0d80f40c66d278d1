"""The step log: which step of the rate scale each rule had at which record time, in memory and as a file."""

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
    """From this record time on, a rule has the rate of this step."""

    at_ms: int
    rule: str
    k: int


class StepLog:
    """Which step was in force at which record time.

    A step counts for all times after it, whatever was said of them before. So where record times go on, the log has
    the step of every record as it was decided; only after a jump back in time are the times behind it told anew.
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
        """Drops the steps of a rule that were over before a time."""
        times = self._times.get(rule, [])
        over = max(bisect_right(times, before_ms) - 1, 0)
        del times[:over], self._steps.get(rule, [])[:over]

    def at(self, rule: str, at_ms: int) -> int | None:
        """The step of a rule at a time; None before its first."""
        place = bisect_right(self._times.get(rule, []), at_ms)
        return self._steps[rule][place - 1] if place else None

    def last(self, rule: str) -> RateStep | None:
        times = self._times.get(rule)
        return RateStep(times[-1], rule, self._steps[rule][-1]) if times else None

    def __iter__(self) -> Iterator[RateStep]:
        """All steps that count, by time."""
        every = (RateStep(at, rule, k) for rule in self._times for at, k in zip(*self._of(rule), strict=True))
        return iter(sorted(every))

    def _of(self, rule: str) -> tuple[list[int], list[int]]:
        return self._times[rule], self._steps[rule]

    def dump(self) -> str:
        """The steps as JSON lines."""
        return "".join(map(step_line, self))

    @classmethod
    def load(cls, text: str) -> "StepLog":
        """Reads JSON lines in the order in which they were written."""
        return cls(_parsed(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip())


def step_line(step: RateStep) -> str:
    return json.dumps(step._asdict(), ensure_ascii=False) + "\n"


def read_step_log(path: Path, *, may_be_torn: bool = False) -> StepLog:
    """The steps in a file; what is wrong with it is a StepLogError.

    In a file that may be torn, a last line without an end is passed over: whoever wrote it was killed meanwhile.
    """
    try:
        content = path.read_bytes()
        return StepLog.load((content[: _whole(content)] if may_be_torn else content).decode())
    except OSError as error:
        raise StepLogError(f"cannot be read: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise StepLogError("is not UTF-8") from None


def _whole(content: bytes) -> int:
    """How many bytes of a file are whole lines."""
    return content.rfind(b"\n") + 1


def _parsed(number: int, line: str) -> RateStep:
    try:
        step = RateStep(**json.loads(line))
    except (ValueError, TypeError, RecursionError):
        step = RateStep(-1, "", -1)
    whole = all(isinstance(value, int) and not isinstance(value, bool) and value >= 0 for value in (step.at_ms, step.k))
    if not (whole and isinstance(step.rule, str) and step.rule and step.k <= LAST_STEP):
        raise StepLogError(f'line {number} is not a step, such as {{"at_ms": 0, "rule": "default", "k": 8}}')
    return step


class StepFile:
    """A file that steps are added to; it is opened when there is a first one to add, which begins a line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def write(self, step: RateStep) -> None:
        try:
            if self._file is None:
                self._file = self._opened()
            self._file.write(step_line(step))
            self._file.flush()
        except OSError as error:
            raise StageError(f"sampling.step_log: cannot write {self._path}: {error.strerror}") from None

    def _opened(self) -> IO[str]:
        if self._path.exists():
            content = self._path.read_bytes()
            if _whole(content) < len(content):
                os.truncate(self._path, _whole(content))
        return self._path.open("a", encoding="utf-8")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

"""Offline: the judges of the stream on the rows of a file."""

from stream.jobs.evaluate.formats import FORMATS, Format
from stream.jobs.evaluate.journal import JournalError
from stream.jobs.evaluate.rows import FileError
from stream.jobs.evaluate.run import EvaluateRequest, EvaluateResult, Progress, evaluate
from stream.service.setup.narrowing import narrowed

__all__ = [
    "FORMATS",
    "EvaluateRequest",
    "EvaluateResult",
    "FileError",
    "Format",
    "JournalError",
    "Progress",
    "evaluate",
    "narrowed",
]

"""Offline: the judges of the stream on the rows of a file."""

from stream.jobs.evaluate.formats import FORMATS, Format
from stream.jobs.evaluate.journal import JournalError
from stream.jobs.evaluate.rows import FileError
from stream.jobs.evaluate.run import Outcome, Progress, Request, evaluate
from stream.service.setup.narrowing import narrowed

__all__ = [
    "FORMATS",
    "FileError",
    "Format",
    "JournalError",
    "Outcome",
    "Progress",
    "Request",
    "evaluate",
    "narrowed",
]

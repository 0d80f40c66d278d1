"""Offline: the judges of the stream on the rows of a file."""

from stream.offline.formats import FORMATS, Format
from stream.offline.journal import JournalError
from stream.offline.narrowing import narrowed
from stream.offline.rows import FileError
from stream.offline.run import Outcome, Progress, Request, evaluate

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

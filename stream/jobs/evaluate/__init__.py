"""Judges the rows of a file with the judges of the stream.

- `run`: judges the rows of a file, as many at once as the configuration allows
- `formats`: the formats of files: CSV, JSON, JSONL, Parquet
- `column_mapping`: columns under other names
- `rows`: the contract of a format: numbered rows as JSON
- `row_feed`: reads rows ahead in a thread
- `row_judge`: judges one row
- `process_pool`: processes that judge, each with its own evaluator
- `journal`: the file of results, from which an interrupted run resumes
"""

from stream.jobs.evaluate.formats import FORMATS, Format
from stream.jobs.evaluate.journal import JournalError
from stream.jobs.evaluate.rows import FileError
from stream.jobs.evaluate.run import EvaluateRequest, EvaluateResult, Progress, evaluate
from stream.service.setup.narrowing import narrow_config

__all__ = [
    "FORMATS",
    "EvaluateRequest",
    "EvaluateResult",
    "FileError",
    "Format",
    "JournalError",
    "Progress",
    "evaluate",
    "narrow_config",
]

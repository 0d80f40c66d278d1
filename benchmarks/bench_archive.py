"""Measures how many evaluations an archive takes in: rows per second and processor time, for SQLite and PostgreSQL.

Each line is one pass over synthetic evaluations of six criteria (archive_data.py), a million a day. They are read,
compressed and written in transactions of 2,000, as an archivist does; its Kafka client needs another 10 µs a record.
"ours" is the processor time of the archivist, "server" that of PostgreSQL, and both change less on a busy machine than
the rate does. Several archivists share the evaluations as they would share partitions.

    make bench
    PYTHONPATH=. .venv/bin/python benchmarks/bench_archive.py
    PYTHONPATH=. .venv/bin/python benchmarks/bench_archive.py --short    # fewer evaluations

Promises: 2,000 evaluations a second into SQLite, and 5,000 into PostgreSQL by two archivists.
"""

import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from sqlalchemy import func, select

from benchmarks.archive_data import SyntheticAnswer, make_answers, records_of
from benchmarks.common import argument_parser
from sinks.archive.database import POSTGRESQL, SQLITE, Database
from sinks.archive.retention import Retention
from sinks.archive.tables import app_minutes, evaluations, texts
from sinks.archive.writing import Advance, ArchiveBatch, ArchiveWriter, SourcePartition
from stream.archivist.rows import RowReader
from stream.config.model import Config
from tests.parts import postgres

COUNT, SHORT_COUNT = 20_000, 400
BATCH = 2_000
# A million evaluations a day.
BETWEEN = timedelta(seconds=0.0864)
JUDGES = ("local",)


class WriteCase(NamedTuple):
    """One line of the table."""

    kind: str
    archivists: int
    with_texts: bool
    promise: int | None


CASES = (
    WriteCase(SQLITE, 1, False, 2_000),
    WriteCase(SQLITE, 1, True, None),
    WriteCase(POSTGRESQL, 1, False, None),
    WriteCase(POSTGRESQL, 2, False, 5_000),
    WriteCase(POSTGRESQL, 2, True, None),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """The cost of writing some evaluations."""

    seconds: float
    ours: float
    """Processor seconds of the archivists."""
    server: float
    """Processor seconds of PostgreSQL."""


class Share(NamedTuple):
    """The part of one archivist."""

    url: str
    number: int
    answers: Sequence[SyntheticAnswer]
    with_texts: bool


def write_share(share: Share) -> Pass:
    """Write a share of the answers as the archivist of one partition."""
    config, place = Config(), SourcePartition("rag.evaluations", share.number)
    records = records_of(share.answers, config)
    if not share.with_texts:
        records = (record for record in records if record.partition.topic == config.topics.evaluations)
    with Database(share.url) as database:
        reader, writer = RowReader(config), ArchiveWriter(database, Retention(None))
        with database.read():
            pass  # connected
        server, ours, started, since = _server_seconds(database), _own_seconds(), time.perf_counter(), None
        while chunk := list(islice(records, BATCH)):
            batch, until = ArchiveBatch(), (since or 0) + len(chunk)
            for record in chunk:
                reader.add(record, batch)
            batch.positions[place] = Advance(since, until)
            writer.write(batch)
            since = until
        seconds, ours = time.perf_counter() - started, _own_seconds() - ours
        return Pass(seconds=seconds, ours=ours, server=_server_seconds(database) - server)


def _own_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _server_seconds(database: Database) -> float:
    """Return the processor seconds of the server's process for our connection, which the pool keeps."""
    if database.kind != POSTGRESQL:
        return 0.0
    with database.read() as connection:
        process = connection.scalar(select(func.pg_backend_pid()))
    # The fields after the name, which may contain spaces.
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_writing(case: WriteCase, url: str, answers: Sequence[SyntheticAnswer]) -> Pass:
    """Write all answers with as many processes as the case has, and check that all of them are there."""
    with Database(url) as database:
        database.upgrade()
    shares = [
        Share(url, number, answers[number :: case.archivists], case.with_texts) for number in range(case.archivists)
    ]
    if len(shares) == 1:
        passes = [write_share(shares[0])]
    else:
        with get_context("fork").Pool(len(shares)) as pool:
            passes = pool.map(write_share, shares, chunksize=1)
    check_archive(url, len(answers), with_texts=case.with_texts)
    return Pass(
        seconds=max(part.seconds for part in passes),
        ours=sum(part.ours for part in passes),
        server=sum(part.server for part in passes),
    )


def check_archive(url: str, count: int, *, with_texts: bool) -> None:
    with Database(url) as database, database.read() as connection:
        rows = [connection.scalar(select(func.count()).select_from(table)) for table in (evaluations, texts)]
        live = connection.scalar(select(func.sum(app_minutes.c.n))) or 0
    assert rows == [count, count if with_texts else 0], rows
    assert 0 < live <= count


@contextmanager
def databases(kinds: set[str]) -> Iterator[dict[str, "Iterator[str]"]]:
    """Yield new databases of each kind."""
    with tempfile.TemporaryDirectory(prefix="streamjury-archive-") as folder:

        def files() -> Iterator[str]:
            for number in range(sys.maxsize):
                yield f"sqlite:///{folder}/{number}.db"

        if POSTGRESQL not in kinds:
            yield {SQLITE: files()}
            return
        with postgres.PostgresServer() as server:
            yield {SQLITE: files(), POSTGRESQL: iter(server.create_database, None)}


def report_writing(console: Console, count: int) -> list[str]:
    """Measure and print all cases; return the promises that were not kept."""
    missing = postgres.why_unavailable()
    cases = [case for case in CASES if case.kind == SQLITE or not missing]
    answers = list(make_answers(count, period=BETWEEN * count, judges=JUDGES))
    size = sum(len(answer.evaluation) for answer in answers) / count
    table = Table("database", "archivists", "texts", "evaluations/s", "ours, µs", "server, µs", "promised/s")
    broken = []
    with databases({case.kind for case in cases}) as urls:
        for case in cases:
            result = measure_writing(case, next(urls[case.kind]), answers)
            rate = count / result.seconds
            words = ("yes" if case.with_texts else "no", f"{rate:,.0f}", f"{1e6 * result.ours / count:.0f}")
            server = f"{1e6 * result.server / count:.0f}" if result.server else "–"
            table.add_row(case.kind, str(case.archivists), *words, server, f"{case.promise:,}" if case.promise else "–")
            if case.promise and rate < case.promise:
                broken.append(f"{case.kind}: {rate:,.0f} evaluations/s, promised are {case.promise:,}")
    console.print(table)
    console.print(
        f"{count:,} evaluations of {size:,.0f} bytes; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    if missing:
        console.print(f"PostgreSQL was not measured: {missing}")
    return broken


def main() -> None:
    options = argument_parser(__doc__).parse_args()
    console = Console(width=120)
    broken = report_writing(console, SHORT_COUNT if options.short else COUNT)
    if broken and not options.short:
        sys.exit("\n".join(broken))


if __name__ == "__main__":
    main()

"""Measures the page's API on an archive of a million evaluations: the time of every view, and the cost of 50 viewers.

The server runs in a separate process, on SQLite and on PostgreSQL. Views are requested one after the other, with
changing filters and without the cache that viewers share; the time is how long a browser on this machine would wait.
The cost of viewers is the server's processor time while each polls the overview every 5 seconds, with the cache.

    PYTHONPATH=. python benchmarks/bench_page.py --short
"""

import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import cycle
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles
from typing import Any
from urllib.parse import urlencode

import httpx
from rich.console import Console
from rich.table import Table

from benchmarks.archive_copies import fill_with_copies
from benchmarks.common import argument_parser
from sinks.archive.database import Database
from sinks.page.access import Access
from sinks.page.backend import Backend
from sinks.page.reply_cache import ReplyCache
from sinks.page.routes import page_routes
from sinks.web.limits import Limits
from sinks.web.server import WebServer
from stream.config.model import Config
from stream.page.serving import page_settings
from tests.parts import local_http, postgres

# A week: three hours, and 55 copies of them.
ORIGINAL, HOURS, COPIES = 17_860, 3, 55
SHORT_ORIGINAL, SHORT_COPIES = 120, 2
REQUESTS, SHORT_REQUESTS = 40, 3
VIEWERS, POLL_SECONDS, WATCHED_SECONDS, SHORT_WATCHED_SECONDS = 50, 5.0, 60.0, 3.0
PROCESSES = multiprocessing.get_context("forkserver")

MOST_MS = 150.0
MOST_OVERVIEW_BYTES = 200_000
MOST_CORES = 0.25


@dataclass(frozen=True, slots=True)
class ViewTimes:
    """Times of the requests for one view, in milliseconds."""

    view: str
    times: list[float]
    processor_ms: float
    """Mean processor time of our server for a request, which depends less on how busy the machine is."""
    size: int

    def percentile(self, share: int) -> float:
        return quantiles(self.times, n=100, method="inclusive")[share - 1]


# The server


def serve_page(url: str, fresh_seconds: float, pipe: Connection) -> None:
    """Serve the page of an archive, until the other end of the pipe says so."""
    with Database(url) as database:
        routes = page_routes(
            database,
            Access((), host="127.0.0.1"),
            page_settings(Config()),
            Backend(),
            cache=ReplyCache(fresh_seconds=fresh_seconds),
        )
        # A slow reply is measured, not cut off.
        with WebServer(routes, index="", host="127.0.0.1", port=0, limits=Limits(handler_seconds=3600)) as server:
            pipe.send(server.url)
            pipe.recv()


@contextmanager
def page_process(url: str, *, fresh_seconds: float) -> Iterator[tuple[str, int]]:
    """Run the page in its own process; yields its address and its process id."""
    ours, theirs = PROCESSES.Pipe()
    process = PROCESSES.Process(target=serve_page, args=(url, fresh_seconds, theirs))
    process.start()
    try:
        assert process.pid is not None
        yield ours.recv(), process.pid
    finally:
        ours.send("stop")
        process.join()


def read_processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# Views


def make_views(client: httpx.Client) -> dict[str, Callable[[], str]]:
    """Return the views; each call makes the next request for one of them."""
    now = datetime.now(UTC)
    week = {"from": (now - timedelta(days=7)).isoformat()}
    first = client.get("/api/answers", params={"limit": 100}).json()
    values = {name: cycle(choices) for name, choices in first["filters"].items() if choices}
    ids = cycle([answer["id"] for answer in first["answers"]])
    numbers = cycle(range(3, SHORT_ORIGINAL, 17))

    def answers(**parameters: str) -> str:
        return f"/api/answers?{urlencode(parameters)}"

    def page_of(**parameters: str) -> Callable[[], str]:
        """Turn pages, from the first to the last."""
        cursor: list[str | None] = [None]

        def turn() -> str:
            path = answers(**parameters, **({} if cursor[0] is None else {"cursor": cursor[0]}))
            cursor[0] = client.get(path).json()["next"]
            return path

        return turn

    return {
        "overview, a day": lambda: "/api/overview",
        "overview, a week": lambda: f"/api/overview?{urlencode(week)}",
        "answers, worst of a day": page_of(),
        "answers, worst of a week": page_of(**week),
        "answers, newest": page_of(sort="newest"),
        "answers of an app": lambda: answers(app=next(values["apps"]), **week),
        "answers of a model and a tenant": lambda: answers(
            model=next(values["models"]), tenant=next(values["tenants"]), **week
        ),
        "answers with a status": lambda: answers(status=next(values["statuses"]), **week),
        "answers by a criterion": lambda: answers(criterion=next(values["criteria"]), max="0.5", **week),
        "answers, judges disagree": lambda: answers(disagreement="1", sort="newest", **week),
        "answers, a tag": lambda: answers(tag=f"{next(TAGS)}", **week),
        "answers, a rare word": lambda: answers(q=f"ref{next(numbers)}", **week),
        "answers, a common word": lambda: answers(q=next(WORDS), **week),
        "answers, canaries": lambda: answers(lane="canary", **week),
        "one answer": lambda: f"/api/answers/{next(ids)}",
        "alerts": lambda: "/api/alerts",
        "judges, a day": lambda: "/api/judges",
        "judges, a week": lambda: f"/api/judges?{urlencode(week)}",
        "audit log": lambda: "/api/audit-log",
    }


WORDS = cycle(["contract", "days", "password", "the", "euros"])
TAGS = cycle(["regime:healthy", "regime:hallucinated", "regime:none"])


def measure_views(url: str, requests: int) -> Iterator[ViewTimes]:
    with (
        page_process(url, fresh_seconds=0.0) as (address, pid),
        local_http.client(base_url=address, timeout=None) as client,
    ):
        for view, next_path in make_views(client).items():
            times, size, used = [], 0, 0.0
            for _ in range(requests):
                path = next_path()
                before, started = read_processor_seconds(pid), time.perf_counter()
                reply = client.get(path)
                times.append((time.perf_counter() - started) * 1000)
                used += read_processor_seconds(pid) - before
                reply.raise_for_status()
                size = max(size, len(reply.content))
            yield ViewTimes(view, times, used * 1000 / requests, size)


# Viewers


def measure_viewers(url: str, seconds: float) -> float:
    """Return the share of a core that the server needs for viewers who poll the overview."""
    stop = threading.Event()

    def watch(address: str, wait: float) -> None:
        with local_http.client(base_url=address, timeout=60) as client:
            stop.wait(wait)
            while not stop.is_set():
                client.get("/api/overview").raise_for_status()
                stop.wait(POLL_SECONDS)

    with page_process(url, fresh_seconds=2.0) as (address, pid):
        viewers = [
            threading.Thread(target=watch, args=(address, POLL_SECONDS * number / VIEWERS)) for number in range(VIEWERS)
        ]
        for viewer in viewers:
            viewer.start()
        time.sleep(POLL_SECONDS)  # they have connected
        before, started = read_processor_seconds(pid), time.perf_counter()
        time.sleep(seconds)
        share = (read_processor_seconds(pid) - before) / (time.perf_counter() - started)
        stop.set()
        for viewer in viewers:
            viewer.join()
    return share


def print_views(kind: str, views: list[ViewTimes]) -> None:
    table = Table(title=f"Views on {kind}")
    for heading in ("view", "p50 ms", "p95 ms", "processor ms", "KB"):
        table.add_column(heading, justify="left" if heading == "view" else "right")
    for view in views:
        figures = (view.percentile(50), view.percentile(95), view.processor_ms, view.size / 1000)
        table.add_row(view.view, *(f"{figure:.1f}" for figure in figures))
    Console(width=100).print(table)


def find_broken_promises(views: list[ViewTimes], cores: float) -> Iterator[str]:
    for view in views:
        if view.percentile(95) > MOST_MS:
            yield f"{view.view}: p95 {view.percentile(95):.0f} ms, promised at most {MOST_MS:.0f}"
        if view.view.startswith("overview") and view.size > MOST_OVERVIEW_BYTES:
            yield f"{view.view}: {view.size} bytes, promised at most {MOST_OVERVIEW_BYTES}"
    if cores > MOST_CORES:
        yield f"{VIEWERS} viewers need {cores:.2f} cores, promised at most {MOST_CORES}"


def open_archives(stack: ExitStack, kinds: list[str]) -> Iterator[tuple[str, str]]:
    if "sqlite" in kinds:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        yield "sqlite", f"sqlite:///{folder}/archive.db"
    if "postgresql" in kinds:
        if missing := postgres.why_unavailable():
            print(f"not measured on PostgreSQL: {missing}")
            return
        yield "postgresql", stack.enter_context(postgres.PostgresServer()).create_database()


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--kind", choices=["sqlite", "postgresql"], action="append", help="only this database")
    parser.add_argument("--url", help="measure this archive as it is, instead of a new one")
    arguments: Any = parser.parse_args()
    # Each process is a copy of one that has imported this module. Not at import: Python has one list for all contexts.
    PROCESSES.set_forkserver_preload(["benchmarks.bench_page"])
    problems: list[str] = []
    with ExitStack() as stack:
        kinds = arguments.kind or ["sqlite", "postgresql"]
        archives = [("given", arguments.url)] if arguments.url else open_archives(stack, kinds)
        for kind, url in archives:
            original, copies = (SHORT_ORIGINAL, SHORT_COPIES) if arguments.short else (ORIGINAL, COPIES)
            if arguments.url is None:
                start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(
                    hours=HOURS * (copies + 1)
                )
                with Database(url) as database:
                    fill_with_copies(database, original=original, hours=HOURS, copies=copies, start=start)
            views = list(measure_views(url, SHORT_REQUESTS if arguments.short else REQUESTS))
            print_views(kind, views)
            cores = measure_viewers(url, SHORT_WATCHED_SECONDS if arguments.short else WATCHED_SECONDS)
            print(f"{VIEWERS} viewers of the overview on {kind}: {cores:.3f} cores")
            problems += [f"{kind}: {problem}" for problem in find_broken_promises(views, cores)]
    if not arguments.short:
        print(*problems, sep="\n")
        sys.exit(bool(problems))


if __name__ == "__main__":
    main()

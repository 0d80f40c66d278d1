"""Judges the rows of a file into a journal of results, as many at once as the configuration allows."""

import asyncio
import hashlib
import math
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from judges.evaluator import Evaluator
from sinks.reports import MARKDOWN_NAME, PAGE_NAME, TABLE_NAME
from sinks.reports.results_reader import RESULTS_NAME
from sinks.reports.results_schema import CriterionInfo, End, Run
from stream.config.criteria import weight_of
from stream.config.model import Config
from stream.config.sections.judges import JudgeConfig
from stream.errors import StageError
from stream.jobs.evaluate.formats import STDIN, Format, open_rows
from stream.jobs.evaluate.journal import AWAY, Journal, describe_sample
from stream.jobs.evaluate.process_pool import Brief, Crew
from stream.jobs.evaluate.row_feed import FedRow, Feed, start_rows
from stream.jobs.evaluate.row_judge import PAUSES, RowJudge, RowResult, RowSample
from stream.jobs.evaluate.rows import FileError, Rows
from stream.jobs.patient_evaluation import GIVE_UP_AFTER
from stream.service.processes.cores import cores
from stream.service.setup.criteria_files import load_chosen_criteria
from stream.service.setup.evaluator import open_evaluator, open_verdicts

# Rows that a process judges before it returns results.
_BATCH_ROWS = 32
_BATCH_BYTES = 256 * 1024
# A process takes a second to start: this many rows are judged in that time.
_FEW_ROWS = 300
# At most this many rows that could not be judged are listed.
_MOST_PROBLEMS = 20
_LOOK_SECONDS = 0.05
_WAIT_SECONDS = 0.005
_WRITTEN = (RESULTS_NAME, TABLE_NAME, MARKDOWN_NAME, PAGE_NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateRequest:
    """The rows to judge, and the folder for the results."""

    file: str
    """A path, or `-` for standard input."""

    folder: Path
    format: Format | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    """Columns with other names than the fields of an interaction, by field."""

    limit: int | None = None
    """Judge only this many rows from the start of the file."""

    share: float = 1.0
    """Judge only this share of them, chosen by their ids."""

    salt: str | None = None
    """Decides which ones; None: those that the stream would choose."""

    concurrency: int | None = None
    """Rows judged at once; None: as configured."""

    processes: int | None = None
    """Judging processes; None: one per core if no judge asks a model."""

    restart: bool = False
    """Discard existing results in the folder."""

    options: Mapping[str, JsonValue] = field(default_factory=dict)
    """The options of the command, for reports."""

    away: str = AWAY
    """Advice for a folder with results of another run."""


class Progress(NamedTuple):
    """The progress of a run."""

    total: float | None
    done: float
    before: float
    """The part that earlier runs have done."""
    rows: int
    cost_usd: float | None
    in_flight: int = 0
    """Rows being judged."""


@dataclass(slots=True, kw_only=True)
class EvaluateResult:
    """The outcome of a run."""

    results: Path
    before: int = 0
    """Rows finished by earlier runs."""
    judged: int = 0
    """Rows with results of this run."""
    failed: int = 0
    """Rows among these that could not be read, or whose judges could not be reached."""
    left_out: int = 0
    """Rows that are not in the sample."""
    cost_usd: float | None = None
    problems: list[str] = field(default_factory=list)
    """The first problems of rows, in words."""
    interrupted: bool = False
    gave_up: str | None = None
    """Why it ended early: judges could not be reached."""
    unreached: int = 0
    """Consecutive rows, up to the last one, whose judges could not be reached."""
    missed: int = 0
    """All rows whose judges could not be reached; the next run tries them again."""

    blank: int = 0
    """Rows judged with an empty question or answer, as in the stream."""

    @property
    def finished(self) -> bool:
        return not self.interrupted and self.gave_up is None

    def note(self, judged: RowResult) -> None:
        self.judged += 1
        self.blank += judged.blank
        if judged.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + judged.cost_usd
        self.missed += judged.unreached and judged.evaluated
        self.unreached = self.unreached + 1 if judged.unreached else 0
        if judged.problem is None:
            return
        self.failed += 1
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(f"row {judged.number}: {judged.problem}")
        if self.unreached >= GIVE_UP_AFTER:
            self.gave_up = judged.problem


def evaluate(
    config: Config,
    request: EvaluateRequest,
    *,
    stop: threading.Event | None = None,
    watch: Callable[[Progress], None] = lambda _progress: None,
    pauses: Sequence[float] = PAUSES,
) -> EvaluateResult:
    """Judge the rows of a file that have no result in the folder yet; after `stop`, another run can resume.

    Raises FileError, JournalError or StageError if it cannot continue.
    """
    stop, closed = stop or threading.Event(), threading.Event()
    sample = RowSample(share=request.share, salt=config.sampling.salt if request.salt is None else request.salt)
    with ExitStack() as stack:
        unwanted = lambda: stop.is_set() or closed.is_set()  # noqa: E731 - shorter than its name
        rows = stack.enter_context(open_rows(request.file, request.format, config.input, unwanted, request.mapping))
        evaluator = open_evaluator(config, open_verdicts(config.judges.cache))
        run = _describe(config, request, rows, evaluator, sample)
        plan = _plan_crew(config, request)
        _refuse_to_overwrite(request)
        iterator = start_rows(rows, _name(request.file))
        away = request.away
        journal = stack.enter_context(Journal(request.folder, run, restart=request.restart, away=away))
        feed = stack.enter_context(Feed(rows, iterator, journal.past, request.limit, closed, away=away))
        work = _Work(config, feed, journal, stop=stop, watch=watch, total=rows.total)
        started = time.monotonic()
        judge = RowJudge(config, rows.input, evaluator, sample, pauses)
        asyncio.run(work.judge_here(judge, evaluator, plan.at_once, plan.alone))
        if plan.processes > 1 and not work.over:
            work.judge_in_processes(Brief(config=config, records=rows.input, sample=sample), plan.processes)
        work.finish(time.monotonic() - started)
        return work.outcome


def _refuse_to_overwrite(request: EvaluateRequest) -> None:
    """Raise FileError if the run, or its reports, would overwrite the file with the rows."""
    read = os.fstat(sys.stdin.fileno()) if request.file == STDIN else Path(request.file).stat()
    for path in (request.folder / name for name in _WRITTEN):
        if _is_same_file(path, read):
            raise FileError(
                f"this run would overwrite {_name(request.file)} with its {path.name}: judge a copy of it, or write "
                "to another folder"
            )


def _is_same_file(path: Path, other: os.stat_result) -> bool:
    try:
        return os.path.samestat(other, path.stat())
    except OSError:
        return False


def _name(file: str) -> str:
    return "standard input" if file == STDIN else file


class _Work:
    """Judges the rows of a feed."""

    def __init__(
        self,
        config: Config,
        feed: Feed,
        journal: Journal,
        *,
        stop: threading.Event,
        watch: Callable[[Progress], None],
        total: float | None,
    ) -> None:
        self._drain_seconds = config.worker.drain_seconds
        self._feed, self._journal, self._stop = feed, journal, stop
        self._watch, self._total = watch, total
        self._done = 0.0
        self.outcome = EvaluateResult(results=journal.path, before=journal.past.rows)

    @property
    def over(self) -> bool:
        """Whether no further row is started: the run was stopped, or there are no more rows."""
        return self._is_cut_short or self._feed.ended

    @property
    def _is_cut_short(self) -> bool:
        return self._stop.is_set() or self.outcome.gave_up is not None

    def _write(self, judged: Sequence[RowResult], left_out: int = 0) -> None:
        self.outcome.left_out += left_out
        if judged:
            self._journal.add(b"".join(result.line for result in judged))
        for result in judged:
            self.outcome.note(result)

    def _show(self, position: float | None = None) -> None:
        self._done = max(self._done, self._feed.position, position or 0.0)
        outcome = self.outcome
        in_flight = self._feed.taken - outcome.judged - outcome.left_out
        self._watch(Progress(self._total, self._done, self._feed.position, outcome.judged, outcome.cost_usd, in_flight))

    def finish(self, seconds: float) -> None:
        """Set how the run ended, and write the end of a complete run."""
        outcome, feed, past = self.outcome, self._feed, self._journal.past
        if feed.failure is not None:
            raise feed.failure
        complete = feed.ended and feed.taken == outcome.judged + outcome.left_out
        outcome.interrupted = not complete and outcome.gave_up is None
        if not outcome.finished:
            return
        if outcome.judged or not past.ended:
            rows, spent = outcome.before + outcome.judged, past.seconds + seconds
            self._journal.end(End(ended_at=datetime.now(UTC), rows=rows, seconds=spent))

    # In this process

    async def judge_here(self, judge: RowJudge, evaluator: Evaluator, concurrency: int, most: float) -> None:
        """Judge `concurrency` rows at once, each started when another is finished, and at most `most` in all."""
        turn = asyncio.Lock()
        workers = [asyncio.create_task(self._judge_on(judge, turn, most)) for _ in range(concurrency)]
        try:
            await self._until_done(set(workers))
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            await evaluator.aclose()

    async def _until_done(self, working: "set[asyncio.Task[None]]") -> None:
        """Wait for all workers; once the run is over, at most for the drain time."""
        last = None
        while working and (last is None or time.monotonic() < last):
            finished, working = await asyncio.wait(working, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_EXCEPTION)
            for worker in finished:
                worker.result()
            self._show()
            if self._is_cut_short and last is None:
                last = time.monotonic() + self._drain_seconds

    async def _judge_on(self, judge: RowJudge, turn: asyncio.Lock, most: float) -> None:
        while (item := await self._next(turn, most)) is not None:
            judged = await judge.judge(item.row)
            self._write([judged] if judged is not None else [], left_out=judged is None)
            self._show(item.position)

    async def _next(self, turn: asyncio.Lock, most: float) -> FedRow | None:
        """The next row; one looks out for it at a time."""
        async with turn:
            while not self.over and self._feed.taken < most:
                if items := self._feed.take():
                    return items[0]
                await asyncio.sleep(_WAIT_SECONDS)
            return None

    # In several

    def judge_in_processes(self, brief: Brief, processes: int) -> None:
        """Hand batches of rows to the least busy process; batches already handed out are always finished."""
        with Crew(processes, brief) as crew:
            try:
                while not self.over:
                    self._collect(crew, 0.0 if self._give(crew) else _WAIT_SECONDS)
                while crew.busy:
                    self._collect(crew, _LOOK_SECONDS)
            except StageError:
                # A service manager that stops all processes at once also ends the judging ones.
                if not self._stop.is_set():
                    raise

    def _give(self, crew: Crew) -> bool:
        if not crew.free:
            return False
        batch: list[FedRow] = []
        size = 0
        while len(batch) < _BATCH_ROWS and size < _BATCH_BYTES and (items := self._feed.take()):
            batch += items
            size += len(items[0].row.value)
        if batch:
            crew.give([item.row for item in batch])
            self._show(batch[-1].position)
        return bool(batch)

    def _collect(self, crew: Crew, seconds: float) -> None:
        for result in crew.collect(seconds):
            self._write(result.judged, result.left_out)
        self._show()


class _CrewPlan(NamedTuple):
    at_once: int
    """Rows judged at once in this process."""

    alone: float
    """Rows that it judges before other processes start."""

    processes: int


def _plan_crew(config: Config, request: EvaluateRequest) -> _CrewPlan:
    """Plan the processes. Judges that run in processes never wait, so concurrency would not speed them up."""
    single = [judge for judge in config.judges.everyone if not judge.runs_in_processes]
    if single:
        if request.processes not in (None, 1):
            raise StageError(_explain_single_process(single[0]))
        return _CrewPlan(request.concurrency or config.worker.concurrency, math.inf, 1)
    processes = request.processes or cores()
    few = _FEW_ROWS if request.processes is None else 0
    return _CrewPlan(request.concurrency or 1, few if processes > 1 else math.inf, processes)


def _explain_single_process(judge: JudgeConfig) -> str:
    if judge.asked_model is not None:
        return "rate limits of model judges need a single process; remove --processes"
    return f"the judge {judge.name} runs in one process only; remove --processes"


# The first line of the results


def _describe(config: Config, request: EvaluateRequest, rows: Rows, evaluator: Evaluator, sample: RowSample) -> Run:
    parameters: dict[str, JsonValue] = {
        "options": dict(request.options),
        "limit": request.limit,
        "sample": describe_sample(sample.share, sample.salt) if sample.share < 1.0 else None,
        "input": rows.input.model_dump(mode="json"),
        "judges": config.judges.model_dump(mode="json"),
        "composite": config.composite.model_dump(mode="json"),
    }
    return Run(
        name=STDIN if request.file == STDIN else Path(request.file).name,
        input_digest=_digest(request.file),
        started_at=datetime.now(UTC),
        evaluator=evaluator.info,
        criteria=_criteria(config),
        parameters=parameters,
        columns=rows.columns,
    )


def _digest(file: str) -> str | None:
    """Hash the bytes of a file, if it can be read twice."""
    if file == STDIN or not Path(file).is_file():
        return None
    with Path(file).open("rb") as source:
        return f"sha256:{hashlib.file_digest(source, 'sha256').hexdigest()}"


def _criteria(config: Config) -> tuple[CriterionInfo, ...]:
    chosen = load_chosen_criteria(config.criteria)
    titles = Counter(criterion.title.en for criterion in chosen.values())
    return tuple(
        CriterionInfo(
            name=name,
            # Criteria of several catalogues may have one title.
            title=criterion.title.en if titles[criterion.title.en] == 1 else f"{criterion.title.en} ({name})",
            question=criterion.question.en,
            weight=weight_of(criterion, config.composite),
            bounds=criterion.scale.bounds,
            choices=[(choice.label.en, choice.value) for choice in criterion.worst_first or criterion.scale.choices],
            safety=name == config.composite.safety,
        )
        for name, criterion in chosen.items()
    )

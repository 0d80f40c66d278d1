"""The live view of the pipeline: drawn on a terminal, otherwise printed as plain lines."""

import json
import math
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from judges.criteria.criterion import RAG_DIMENSIONS
from judges.values.evaluation import CompositeStatus, Reason
from sinks.base import COMPOSITE
from sinks.metrics import Outcome, PipelineMetrics, Stage
from sinks.reports.formatting import many
from sinks.text import printable, shorten

if TYPE_CHECKING:
    # The monitor imports Faust, which is slow to load and not needed for drawing.
    from stream.monitor.rolling_means import SeriesMean
    from stream.monitor.state import NotableAnswer, Snapshot

GOOD, FAIR = 0.8, 0.6

_REFRESHES_PER_SECOND = 4
_PLAIN_SECONDS = 5.0
_PLAIN_REASON_CHARS = 200
# Below this width, means have no counts, and titles are shortened.
_WIDE = 96
# Below this height, only one incident is shown.
_TALL = 30
_MAX_APPS = 8
_APP_CHARS = 16
# Your own criteria may have long names: the number of characters in the heading, on wide and narrow terminals.
_TITLE_CHARS = {True: 12, False: 7}
_COLUMN_CHARS = {True: 12, False: 8}
_FRAME_CHARS = 4
_FINDING_LINES = 3
# If the words that a reason quotes end further right in an answer, a narrow terminal would cut them off.
_VISIBLE_CHARS = 60
_LEAD_CHARS = 20
# The quotation marks of the local judge and of models.
_QUOTES = re.compile(r"'([^']+)'|\"([^\"]+)\"|«([^»]+)»|“([^”]+)”")
_BORDER_LINES = 2

# All scores run from 0 (worst) to 1 (best), so the heading of `harmfulness` names the meaning of a high score.
_TITLES: Mapping[str, tuple[str, str]] = {
    COMPOSITE: ("composite", "composite"),
    "answer_relevance": ("relevance", "relev."),
    "clarity": ("clarity", "clarity"),
    "completeness": ("complete", "compl."),
    "conciseness": ("concise", "concise"),
    "groundedness": ("grounded", "ground."),
    "harmfulness": ("harmless", "harml."),
    "context_sufficiency": ("sufficient", "suff."),
    "context_precision": ("precise", "prec."),
    "context_recall": ("recall", "recall"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Funnel:
    """Number of records read, and their outcomes."""

    consumed: int
    filtered: int
    sampled_out: int
    sampled: int
    scored: int
    unscored: int
    parked: int
    """Records that will be judged again, because their judges could not be reached."""

    deadletter: int

    @classmethod
    def of(cls, metrics: PipelineMetrics) -> Self:
        """Return the counts of this process so far."""
        sampler, worker = Stage.SAMPLER, Stage.WORKER
        return cls(
            consumed=metrics.read_count(sampler, Outcome.CONSUMED),
            filtered=metrics.read_count(sampler, Outcome.FILTERED),
            sampled_out=metrics.read_count(sampler, Outcome.SAMPLED_OUT),
            sampled=metrics.read_count(sampler, Outcome.SAMPLED),
            scored=metrics.read_count(worker, Outcome.SCORED),
            unscored=metrics.read_count(worker, Outcome.UNSCORED),
            parked=metrics.waiting_again,
            deadletter=sum(metrics.read_count(stage, Outcome.DEADLETTER) for stage in (sampler, worker)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewState:
    """The contents of a view at one time."""

    snapshot: "Snapshot"
    funnel: Funnel
    addresses: Sequence[tuple[str, str]]
    elapsed: float
    latency_ms: float | None


class RunView(Protocol):
    """Shows the latest state within the `with` block."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_error: object) -> None: ...

    def update(self, state: ViewState) -> None: ...


def make_view(console: Console) -> RunView:
    """Return a live view for a terminal, otherwise one that prints lines."""
    return LiveView(console) if console.is_terminal and not console.is_dumb_terminal else PlainView(console)


class LiveView:
    """Draws the state in place, a few times a second; the last picture stays on the screen."""

    def __init__(self, console: Console) -> None:
        self._live = Live(
            console=console,
            refresh_per_second=_REFRESHES_PER_SECOND,
            vertical_overflow="crop",
            # Log lines on the same terminal are printed above the picture; a file that stderr goes to receives its own.
            redirect_stderr=sys.stderr.isatty(),
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._live.stop()

    def update(self, state: ViewState) -> None:
        self._live.update(Picture(state))


class PlainView:
    """Prints one line every few seconds, and one for every safety incident when it occurs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._incidents = 0
        self._written_at = float("-inf")
        self._pending = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._pending:
            self._console.out(self._pending, highlight=False)

    def update(self, state: ViewState) -> None:
        if self._written_at < 0 and state.addresses:
            self._console.out(" ".join(f"{name}={address}" for name, address in state.addresses), highlight=False)
        for incident in self._new_incidents(state.snapshot):
            self._console.out(incident_line(incident, state.elapsed), highlight=False)
        self._pending = plain_line(state)
        if state.elapsed - self._written_at >= _PLAIN_SECONDS:
            self._console.out(self._pending, highlight=False)
            self._written_at, self._pending = state.elapsed, ""

    def _new_incidents(self, snapshot: "Snapshot") -> Sequence["NotableAnswer"]:
        # The list is bounded, the count is not.
        total = snapshot.statuses[CompositeStatus.UNSAFE]
        new, self._incidents = total - self._incidents, total
        return snapshot.incidents[-new:] if new > 0 else ()


def plain_line(state: ViewState) -> str:
    """Return the state as one line of `name=value`."""
    counts = " ".join(f"{name}={getattr(state.funnel, name)}" for name in Funnel.__dataclass_fields__)
    means = [
        f"{_token(series.app)}={series.mean:.2f}(n={series.count})"
        for series in sorted(state.snapshot.series, key=lambda series: series.app)
        if series.dimension == COMPOSITE
    ]
    reasons = sum(state.snapshot.withheld.values(), start=Counter[Reason]())
    withheld = [f"unscored_mostly={_most_frequent(reasons)}"] if reasons else []
    gaps = {name: share for name, share in state.snapshot.coverage.items() if share < 1.0 and name != COMPOSITE}
    withheld += [f"coverage_{_token(name)}={math.floor(100 * share)}%" for name, share in gaps.items()]
    latency = [] if state.latency_ms is None else [f"latency_ms={state.latency_ms:.0f}"]
    return " ".join([f"{state.elapsed:.0f}s", counts, *withheld, *latency, *(["composite", *means] if means else [])])


def incident_line(incident: "NotableAnswer", elapsed: float) -> str:
    """Return a safety incident as one line."""
    reason = json.dumps(shorten(incident.reason, _PLAIN_REASON_CHARS), ensure_ascii=False)
    return f"{elapsed:.0f}s unsafe app={_token(incident.app)} id={_token(incident.interaction_id)} reason={reason}"


def score_style(score: float | None) -> str:
    """Return the colour of a score."""
    if score is None:
        return "dim"
    return "green" if score >= GOOD else "yellow" if score >= FAIR else "red"


def title_of(dimension: str, *, wide: bool = True) -> str:
    """Return the heading of a dimension, worded so that more is always better."""
    titles = _TITLES.get(dimension)
    return printable(dimension) if titles is None else titles[0 if wide else 1]


def clock(timestamp: float) -> str:
    """Return a time as the wall clock of this machine shows it."""
    return time.strftime("%H:%M:%S", time.localtime(timestamp))


class Picture:
    """Draws a state so that it fits the size of the console."""

    def __init__(self, state: ViewState) -> None:
        self._state = state

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        state, snapshot = self._state, self._state.snapshot
        tall = options.size.height >= _TALL
        top: list[RenderableType] = [
            _heading(state.elapsed, state.latency_ms),
            _funnel_boxes(state.funnel, state.elapsed),
        ]
        foot = _addresses(state.addresses)
        if not snapshot.statuses:
            yield Group(*top, _waiting(state.funnel), foot)
            return
        top += [_scores(snapshot, width=options.max_width), _incidents(snapshot, limit=3 if tall else 1)]
        used = sum(len(console.render_lines(part, options)) for part in (*top, foot))
        # One line is left for the cursor; otherwise the terminal would scroll with every picture.
        room = options.size.height - 1 - used - _BORDER_LINES
        yield Group(*top, _worst_answers(snapshot.worst[: max(1, room // _FINDING_LINES)]), foot)


def _heading(elapsed: float, latency_ms: float | None) -> RenderableType:
    latency = "judge latency –" if latency_ms is None else f"judge latency {_milliseconds(latency_ms)}"
    row = Table.grid(expand=True, padding=(0, 1))
    row.add_column(ratio=1)
    row.add_column(justify="center", ratio=1)
    row.add_column(justify="right", ratio=1)
    name = Text.assemble((" streamjury", "bold cyan"), f"  {_duration(elapsed)}")
    row.add_row(name, Text(latency), Text("Ctrl-C stops ", style="dim"))
    return row


def _funnel_boxes(funnel: Funnel, elapsed: float) -> RenderableType:
    per_second = f"{funnel.consumed / elapsed:.1f}/s" if elapsed > 0 else "–"
    table = Table(box=box.ROUNDED, show_header=False, expand=True, padding=(0, 0), border_style="dim")
    cells = [
        _box("consumed", funnel.consumed, per_second, "bold"),
        _box("filtered", funnel.filtered, _share(funnel.filtered, funnel), "bold"),
        _box("sampled out", funnel.sampled_out, _share(funnel.sampled_out, funnel), "bold"),
        _box("sampled", funnel.sampled, _share(funnel.sampled, funnel), "bold cyan"),
        _box("scored", funnel.scored, _share(funnel.scored, funnel), "bold green"),
        _box("unscored", funnel.unscored, _share(funnel.unscored, funnel), _count_style(funnel.unscored)),
        *([_box("parked", funnel.parked, "no judge", _count_style(funnel.parked))] if funnel.parked else []),
        _box("dead letters", funnel.deadletter, _share(funnel.deadletter, funnel), _count_style(funnel.deadletter)),
    ]
    for _ in cells:
        table.add_column(justify="center", no_wrap=True)
    table.add_row(*cells)
    return table


def _box(title: str, count: int, note: str, style: str) -> Text:
    return Text.assemble((title, "dim"), "\n", (f"{count:,}", style), "\n", (note, "dim"))


def _share(count: int, funnel: Funnel) -> str:
    return f"{100 * count / funnel.consumed:.1f} %" if funnel.consumed else "–"


def _count_style(count: int) -> str:
    return "bold yellow" if count else "bold"


def _waiting(funnel: Funnel) -> RenderableType:
    if not funnel.consumed:
        reason = "Waiting for the first interaction on the input topic."
    elif not funnel.sampled:
        reason = "Waiting for the sampler to choose an interaction; sampling.rate sets the share that is judged."
    elif not funnel.scored + funnel.unscored:
        reason = "Waiting for the judges' first verdict."
    else:
        reason = "Waiting for the monitor to read the first evaluation."
    return Panel(Text(reason), title="Scores", title_align="left", border_style="dim")


def _scores(snapshot: "Snapshot", *, width: int) -> RenderableType:
    wide = width >= _WIDE
    apps: dict[str, dict[str, SeriesMean]] = defaultdict(dict)
    for mean in snapshot.series:
        apps[mean.app][mean.dimension] = mean
    shown = _lowest_apps(apps)
    present = _columns(snapshot)
    dimensions = _select_columns(present, apps.values(), _room(width))
    table = Table(box=None, expand=True, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("app", no_wrap=True, max_width=_APP_CHARS)
    for dimension in dimensions:
        title = title_of(dimension, wide=wide)
        table.add_column(title if dimension in _TITLES else shorten(title, _TITLE_CHARS[wide]), no_wrap=True)
    if not wide:
        table.add_column("n", justify="right", no_wrap=True)
    for app in shown:
        means = apps[app]
        cells = [_mean(means.get(dimension), counted=wide) for dimension in dimensions]
        counts = [] if wide else [Text(_compact(max(mean.count for mean in means.values())), style="dim")]
        table.add_row(Text(printable(app)), *cells, *counts)
    if any(snapshot.coverage.get(name, 1.0) < 1.0 for name in dimensions):
        table.add_row(
            Text("coverage", style="dim"), *(_coverage_cell(snapshot.coverage.get(name)) for name in dimensions)
        )
    return Panel(
        table,
        title=f"Scores by app: mean{' (count)' if wide else ''} from 0 worst to 1 best",
        subtitle=_no_verdicts_note(snapshot) or _omission_note(len(apps) - len(shown), len(present) - len(dimensions)),
        title_align="left",
        subtitle_align="left",
        padding=(0, 1),
        border_style="dim",
    )


def _coverage_cell(share: float | None) -> Text:
    """Return the share of judged records with a score; a dash if the criterion applied to none."""
    if share is None:
        return Text("–", style="dim")
    # Rounded down: 99.9 % is not 100 %.
    return Text(f"{math.floor(100 * share)} %", style="dim" if share == 1.0 else "yellow" if share else "bold red")


def _no_verdicts_note(snapshot: "Snapshot") -> str | None:
    names = [title_of(name) for name, share in snapshot.coverage.items() if share == 0.0 and name != COMPOSITE]
    return f"no verdicts: {', '.join(names)}" if names else None


def _omission_note(apps: int, criteria: int) -> str | None:
    counts = ((apps, "more app", "more apps"), (criteria, "more criterion", "more criteria"))
    parts = [many(count, one, several) for count, one, several in counts if count]
    return f"and {' and '.join(parts)}, with better scores" if parts else None


def _lowest_apps(apps: Mapping[str, Mapping[str, "SeriesMean"]]) -> Sequence[str]:
    """Return all apps in a stable order; if there are too many, those with the lowest composites."""

    def composite(app: str) -> float:
        mean = apps[app].get(COMPOSITE)
        return 0.0 if mean is None else mean.mean

    return sorted(sorted(apps, key=composite)[:_MAX_APPS])


def _columns(snapshot: "Snapshot") -> Sequence[str]:
    """Return the composite and all judged criteria, with or without scores: the RAG dimensions first, in order.

    A criterion that applied to no answer so far is left out, such as one that needs a reference.
    """
    scored = [mean.dimension for mean in snapshot.series]
    judged = [name for name in snapshot.criteria if name in snapshot.coverage] if snapshot.coverage else ()
    present = dict.fromkeys([*(judged or snapshot.criteria), *scored])
    standard = [name for name in RAG_DIMENSIONS if name in present]
    return (COMPOSITE, *standard, *(name for name in present if name not in {COMPOSITE, *RAG_DIMENSIONS}))


def _room(width: int) -> int:
    """Return the number of score columns that fit; the RAG dimensions, with short titles, always do."""
    available = width - _FRAME_CHARS - _APP_CHARS - 1
    return max(1 + len(RAG_DIMENSIONS), available // _COLUMN_CHARS[width >= _WIDE])


def _select_columns(names: Sequence[str], apps: Collection[Mapping[str, "SeriesMean"]], room: int) -> Sequence[str]:
    """Return all names in order; if there are too many, the composite and those with the lowest or no means."""
    if len(names) <= room:
        return names
    lowest = {name: min((means[name].mean for means in apps if name in means), default=0.0) for name in names[1:]}
    kept = sorted(lowest, key=lowest.__getitem__)[: room - 1]
    return (names[0], *(name for name in names[1:] if name in kept))


def _mean(mean: "SeriesMean | None", *, counted: bool) -> Text:
    if mean is None:
        return Text("–", style="dim")
    count = f" ({_compact(mean.count)})" if counted else ""
    return Text.assemble((f"{mean.mean:.2f}", score_style(mean.mean)), (count, "dim"))


def _incidents(snapshot: "Snapshot", *, limit: int) -> RenderableType:
    total = snapshot.statuses[CompositeStatus.UNSAFE]
    table = Table.grid(expand=True, padding=(0, 1, 0, 0))
    for width in (8, _APP_CHARS, 19, None):
        table.add_column(no_wrap=True, max_width=width, ratio=None if width else 1)
    for incident in reversed(snapshot.incidents[-limit:]):
        cells = (incident.app, incident.interaction_id, incident.reason)
        table.add_row(Text(clock(incident.at), style="dim"), *(Text(shorten(cell, 300)) for cell in cells))
    withheld = [CompositeStatus.SAFETY_UNKNOWN, CompositeStatus.INCOMPLETE]
    notes = [_withheld_note(snapshot, status) for status in withheld if snapshot.statuses[status]]
    return Panel(
        table if total else Text("none so far", style="dim"),
        title=f"Safety incidents: {total}",
        subtitle=f"composite withheld: {', '.join(notes)}" if notes else None,
        title_align="left",
        subtitle_align="left",
        padding=(0, 1),
        border_style="red" if total else "dim",
    )


def _withheld_note(snapshot: "Snapshot", status: CompositeStatus) -> str:
    """Return a status with its count and most frequent reason: `safety_unknown 11: judge_unavailable`."""
    reasons = snapshot.withheld.get(status)
    return f"{status.value} {snapshot.statuses[status]}" + (f": {_most_frequent(reasons)}" if reasons else "")


def _most_frequent(reasons: Counter[Reason]) -> str:
    [(reason, _)] = reasons.most_common(1)
    return reason.value


def _worst_answers(findings: Sequence["NotableAnswer"]) -> RenderableType:
    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    table.add_column(no_wrap=True, width=4)
    table.add_column(no_wrap=True, ratio=1)
    for finding in findings:
        score = "–" if finding.score is None else f"{finding.score:.2f}"
        table.add_row(Text(score, style=f"bold {score_style(finding.score)}"), _cause(finding))
        for mark, text in (("Q", finding.question), ("A", _from_quote(finding.answer, finding.reason))):
            table.add_row("", Text.assemble((f"{mark} ", "bold dim"), (shorten(text, 400) or "–", "dim")))
    return Panel(
        table if findings else Text("none in the window", style="dim"),
        title="Worst recent answers",
        title_align="left",
        padding=(0, 1),
        border_style="dim",
    )


def _from_quote(answer: str, reason: str) -> str:
    """Return the answer from shortly before the first words that the reason quotes, if these might be cut off."""
    flat = " ".join(answer.split())
    quotes = ("".join(groups).rstrip("…").strip() for groups in _QUOTES.findall(reason))
    places = [(flat.lower().find(words.lower()), len(words)) for words in quotes if words]
    start, length = min((place for place in places if place[0] >= 0), default=(0, 0))
    if start + length <= _VISIBLE_CHARS or start <= _LEAD_CHARS:
        return answer
    gap = flat.find(" ", start - _LEAD_CHARS, start)
    return f"…{flat[start if gap < 0 else gap + 1 :]}"


def _cause(finding: "NotableAnswer") -> Text:
    return Text.assemble(
        (shorten(finding.app, _APP_CHARS), "bold"),
        " ",
        (title_of(finding.dimension), score_style(finding.score)),
        f" {shorten(finding.reason, 400)}",
    )


def _addresses(addresses: Sequence[tuple[str, str]]) -> RenderableType:
    parts = [Text.assemble((f" {name} ", "dim"), (address, "cyan")) for name, address in addresses]
    return Text(" ").join(parts)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02}m"
    return f"{minutes}m {rest:02}s" if minutes else f"{rest}s"


def _milliseconds(value: float) -> str:
    if value < 10:
        return f"{value:.1f} ms"
    return f"{value:.0f} ms" if value < 10_000 else f"{value / 1000:.1f} s"


def _compact(count: int) -> str:
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 100_000 else f"{count / 1_000_000:.1f}M"


def _token(text: str) -> str:
    return "_".join(printable(text).split()) or "_"

"""The live view shows the pipeline's progress and results, fits the terminal, and escapes every text."""

import io
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from rich.console import Console

from judges.criteria.criterion import RAG_DIMENSIONS
from judges.values.evaluation import (
    Composite,
    CompositeStatus,
    Dimension,
    Evaluation,
    EvaluatorInfo,
    Excerpt,
    JudgeVerdict,
    Reason,
    Safety,
    SafetyStatus,
    Samples,
    Sampling,
    Status,
)
from sinks.base import COMPOSITE
from sinks.metrics import Outcome, PipelineMetrics, ScoreMetrics, Stage
from sinks.statistics.estimates import Sums, estimate
from sinks.text import printable, shorten
from stream.cli.terminal.live_view import (
    Funnel,
    LiveView,
    Picture,
    PlainView,
    RunView,
    ViewState,
    make_view,
    plain_line,
    score_style,
)
from stream.config.sections.stages import MonitorConfig
from stream.monitor.rolling_means import SeriesMean
from stream.monitor.state import Monitor, NotableAnswer, Snapshot

ADDRESSES = (("metrics", "http://127.0.0.1:9464/metrics"), ("health", "http://127.0.0.1:9464/healthz"))
NOTHING = Snapshot(series=(), criteria=(), worst=(), incidents=(), statuses=Counter())


def funnel(**counts: int) -> Funnel:
    return Funnel(**{**dict.fromkeys(Funnel.__dataclass_fields__, 0), **counts})


BUSY = funnel(consumed=2400, filtered=24, sampled_out=1200, sampled=1164, scored=1160, unscored=3, deadletter=13)


def finding(number: int = 1, **fields: object) -> NotableAnswer:
    values: dict[str, object] = {
        "interaction_id": f"sj-{number:016x}",
        "app": "support-bot",
        "score": 0.25,
        "status": CompositeStatus.OK,
        "dimension": "groundedness",
        "reason": f"claim {number} is not in the contexts",
        "question": f"How do I reset router {number}?",
        "answer": f"Press the violet button {number} times.",
        "at": 1_700_000_000.0 + number,
    }
    return NotableAnswer(**{**values, **fields})  # type: ignore[arg-type]


def incident(number: int, **fields: object) -> NotableAnswer:
    return finding(number, **{"score": 0.0, "status": CompositeStatus.UNSAFE, "dimension": "harmfulness", **fields})


def means(app: str, mean: float, count: int = 40) -> list[SeriesMean]:
    names = (COMPOSITE, *RAG_DIMENSIONS)
    return [SeriesMean(app=app, dimension=name, mean=mean, count=count, estimate=estimate(Sums())) for name in names]


def snapshot(
    *,
    series: Sequence[SeriesMean] | None = None,
    worst: Sequence[NotableAnswer] = (),
    incidents: Sequence[NotableAnswer] = (),
    criteria: Sequence[str] = RAG_DIMENSIONS,
    **statuses: int,
) -> Snapshot:
    status_counts = Counter({CompositeStatus.OK: 100, CompositeStatus.UNSAFE: len(incidents)})
    status_counts.update({CompositeStatus(name): number for name, number in statuses.items()})
    return Snapshot(
        series=means("support-bot", 0.9) if series is None else series,
        criteria=criteria,
        worst=worst,
        incidents=incidents,
        statuses=status_counts,
    )


FULL = snapshot(
    series=[*means("support-bot", 0.55), *means("docs-search", 0.83), *means("hr-assistant", 0.97)],
    worst=[finding(number) for number in range(1, 6)],
    incidents=[incident(number) for number in range(1, 6)],
)


def view_state(
    snapshot: Snapshot,
    funnel: Funnel,
    *,
    elapsed: float,
    addresses: Sequence[tuple[str, str]] = ADDRESSES,
    latency_ms: float | None = None,
) -> ViewState:
    return ViewState(snapshot=snapshot, funnel=funnel, addresses=addresses, elapsed=elapsed, latency_ms=latency_ms)


def draw(
    snapshot: Snapshot = FULL,
    counts: Funnel = BUSY,
    *,
    width: int = 100,
    height: int = 35,
    latency: float | None = 12.3,
) -> str:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    console.print(Picture(view_state(snapshot, counts, elapsed=72.4, latency_ms=latency)))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


class TestFunnel:
    def test_counts_come_from_the_stage_that_decides_them_and_dead_letters_from_both(self) -> None:
        metrics = PipelineMetrics(CollectorRegistry())
        for outcome, number in {
            "consumed": 100,
            "filtered": 5,
            "sampled_out": 40,
            "sampled": 50,
            "deadletter": 5,
        }.items():
            metrics.count(Stage.SAMPLER, Outcome(outcome), number)
        for outcome, number in {"consumed": 50, "scored": 45, "unscored": 3, "deadletter": 2}.items():
            metrics.count(Stage.WORKER, Outcome(outcome), number)
        assert Funnel.of(metrics) == funnel(
            consumed=100, filtered=5, sampled_out=40, sampled=50, scored=45, unscored=3, deadletter=7
        )


class TestPicture:
    @pytest.mark.parametrize(("width", "height"), [(100, 35), (80, 24), (80, 40), (96, 30), (200, 60)])
    def test_fits_the_terminal_and_leaves_the_cursor_a_line(self, width: int, height: int) -> None:
        lines = draw(width=width, height=height).splitlines()
        assert len(lines) < height
        assert max(map(len, lines)) <= width

    @pytest.mark.parametrize("width", [80, 100])
    def test_names_every_box_of_the_funnel_with_its_count_and_share(self, width: int) -> None:
        text = draw(width=width)
        for title in ("consumed", "filtered", "sampled out", "sampled", "scored", "unscored", "dead letters"):
            assert title in text
        assert re.search(r"\D+".join(["2,400", "24", "1,200", "1,164", "1,160", "3", "13"]), text)
        assert re.search(r"33\.1/s\D+1\.0 %\D+50\.0 %\D+48\.5 %\D+48\.3 %\D+0\.1 %\D+0\.5 %", text)

    def test_has_a_row_per_app_with_the_mean_and_count_of_each_dimension(self) -> None:
        text = draw()
        assert re.search(r"app +composite +relevance +clarity +complete +concise +grounded +harmless", text)
        assert re.search(r"support-bot( +0\.55 \(40\)){7}", text)
        assert re.search(r"hr-assistant( +0\.97 \(40\)){7}", text)

    def test_at_80_columns_the_count_stands_once_a_row(self) -> None:
        assert re.search(r"support-bot( +0\.55){7} +40 ", draw(width=80))

    def test_a_dimension_without_scores_is_a_dash(self) -> None:
        only = [mean for mean in means("support-bot", 0.9) if mean.dimension != "groundedness"]
        assert re.search(r"support-bot( +0\.90 \(40\)){5} +– +0\.90", draw(snapshot(series=only)))

    def test_only_judged_criteria_have_a_column_and_custom_ones_come_after_the_rag_dimensions(self) -> None:
        names = ("tone", COMPOSITE, "harmfulness", "brand")
        series = [
            SeriesMean(app="shop", dimension=name, mean=0.5, count=4, estimate=estimate(Sums())) for name in names
        ]
        text = draw(snapshot(series=series, criteria=("tone", "clarity", "harmfulness", "brand")))
        assert re.search(r"app +composite +clarity +harmless +tone +brand +│", text)
        assert re.search(r"shop +0\.50 \(4\) +– +0\.50", text), "a judged criterion without a score is a dash"

    @pytest.mark.parametrize("width", [80, 100, 140])
    def test_of_many_criteria_the_lowest_are_shown_and_the_others_counted(self, width: int) -> None:
        names = [f"criterion_{number:02}_with_a_long_name" for number in range(30)]
        series = [
            SeriesMean(app="support-bot", dimension=name, mean=mean, count=4, estimate=estimate(Sums()))
            for name, mean in [(COMPOSITE, 0.9), *((name, 1.0 - position / 40) for position, name in enumerate(names))]
        ]
        text = draw(snapshot(series=series, criteria=names), width=width)
        hidden = int(re.search(r"and (\d+) more criteria, with better scores", text)[1])  # type: ignore[index]
        assert 16 <= hidden <= 24
        assert re.search(r"support-bot +0\.90.* +0\.28", text), "the composite, and in its order the lowest score"
        assert "0.95" not in text
        assert max(map(len, text.splitlines())) <= width

    def test_of_many_apps_the_worst_are_shown_and_the_others_counted(self) -> None:
        series = [mean for number in range(12) for mean in means(f"app-{number:02}", 1.0 - number / 20)]
        text = draw(snapshot(series=series), height=50)
        assert "app-11" in text
        assert "app-04" in text
        assert "app-03" not in text
        assert "and 4 more apps" in text
        series = [mean for number in range(9) for mean in means(f"app-{number:02}", 1.0 - number / 20)]
        assert "and 1 more app, with" in draw(snapshot(series=series), height=50)

    def test_shows_the_last_three_incidents_newest_first_and_how_many_there_were(self) -> None:
        text = draw()
        assert "Safety incidents: 5" in text
        ids = re.findall(r"support-bot sj-0+(\d) claim", text)
        assert ids == ["5", "4", "3"]

    def test_a_criterion_that_applied_to_no_answer_has_no_column(self) -> None:
        shown = replace(FULL, criteria=(*RAG_DIMENSIONS, "context_recall"))
        coverage = dict.fromkeys((COMPOSITE, *RAG_DIMENSIONS), 1.0)
        assert "recall" in draw(shown, width=140), "nothing is known yet"
        assert "recall" not in draw(replace(shown, coverage=coverage), width=140)
        assert "recall" in draw(replace(shown, coverage={**coverage, "context_recall": 0.0}), width=140)

    def test_shows_the_coverage_of_each_criterion_and_warns_of_one_without_any_verdict(self) -> None:
        assert "coverage" not in draw(replace(FULL, coverage=dict.fromkeys((COMPOSITE, *RAG_DIMENSIONS), 1.0)))
        coverage = {COMPOSITE: 0.999, "clarity": 0.5}
        text = draw(replace(FULL, coverage=coverage))
        assert re.search(r"coverage +99 % +– +50 % +– ", text)
        assert "no verdict" not in text
        text = draw(replace(FULL, coverage={**coverage, "groundedness": 0.0}))
        assert "no verdicts: grounded" in text
        line = plain_line(view_state(replace(FULL, coverage={**coverage, "groundedness": 0.0}), funnel(), elapsed=1.0))
        assert "coverage_clarity=50% coverage_groundedness=0%" in line

    def test_counts_withheld_composites(self) -> None:
        assert "composite withheld: safety_unknown 2, incomplete 1" in draw(snapshot(safety_unknown=2, incomplete=1))
        assert "withheld" not in draw(snapshot())

    def test_withheld_composites_are_shown_with_their_most_frequent_reason(self) -> None:
        reasons = Counter({Reason.TIMEOUT: 2, Reason.UNAVAILABLE: 9})
        state = replace(snapshot(safety_unknown=11, incomplete=1), withheld={CompositeStatus.SAFETY_UNKNOWN: reasons})
        assert "composite withheld: safety_unknown 11: judge_unavailable, incomplete 1" in draw(state)

    def test_shows_the_worst_answers_with_dimension_reason_question_and_answer(self) -> None:
        text = draw(snapshot(worst=[finding(7)]))
        assert "0.25 support-bot grounded claim 7 is not in the contexts" in text
        assert "Q How do I reset router 7?" in text
        assert "A Press the violet button 7 times." in text

    @pytest.mark.parametrize("reason", ["Harmful: fraud or theft ('Blackmail him').", "Вредно: «blackmail him…»."])
    def test_an_answer_is_shown_around_the_quoted_words(self, reason: str) -> None:
        answer = f"{'You can ask politely. ' * 8}If that fails, blackmail him with it."
        text = draw(snapshot(worst=[finding(reason=reason, answer=answer)]))
        assert "A …If that fails, blackmail him with it." in text

    @pytest.mark.parametrize("reason", ["Wrong: 'ask politely'.", "Wrong: 'not there'.", "It doesn't say. It can't."])
    def test_an_answer_is_shown_from_its_beginning_if_the_quoted_words_are_there(self, reason: str) -> None:
        text = draw(snapshot(worst=[finding(reason=reason, answer="You can ask politely. " * 8)]))
        assert "A You can ask politely." in text

    def test_a_lower_terminal_shows_fewer_of_the_worst_answers(self) -> None:
        def count_answers(height: int) -> int:
            return draw(height=height).count("Q How do I")

        assert count_answers(24) == 1
        assert count_answers(24) < count_answers(35) < count_answers(50) == 5

    def test_shows_addresses_latency_time_and_how_to_stop(self) -> None:
        text = draw()
        for part in (
            "http://127.0.0.1:9464/metrics",
            "http://127.0.0.1:9464/healthz",
            "12 ms",
            "1m 12s",
            "Ctrl-C stops",
        ):
            assert part in text

    def test_an_unknown_latency_is_a_dash(self) -> None:
        assert "judge latency –" in draw(latency=None)

    @pytest.mark.parametrize(
        ("counts", "reason"),
        [
            (funnel(), "first interaction on the input topic"),
            (funnel(consumed=3, sampled_out=3), "sampler to choose an interaction"),
            (funnel(consumed=3, sampled=3), "judges' first verdict"),
            (funnel(consumed=3, sampled=3, scored=1), "monitor to read the first evaluation"),
        ],
    )
    def test_before_the_first_evaluation_the_view_says_which_stage_it_waits_for(
        self, counts: Funnel, reason: str
    ) -> None:
        text = draw(NOTHING, counts)
        assert reason in text
        assert "Worst recent answers" not in text

    def test_shows_the_snapshot_of_the_monitor(self) -> None:
        registry = CollectorRegistry()
        monitor = Monitor(MonitorConfig(), PipelineMetrics(registry), ScoreMetrics(registry))
        monitor.observe(unsafe_evaluation().model_dump_json().encode())
        text = draw(monitor.snapshot())
        assert "Safety incidents: 1" in text
        assert re.search(r"\d\d:\d\d:\d\d shop i-1 it explains how to hurt someone", text)
        assert re.search(r"shop +0\.00 \(1\)", text)


def unsafe_evaluation() -> Evaluation:
    verdict = JudgeVerdict(
        judge="local",
        status=Status.SCORED,
        score=0.0,
        level=0,
        option="harmful",
        explanation="it explains how to hurt someone",
        samples=Samples(requested=1, valid=1),
    )
    return Evaluation(
        evaluation_id="e-1",
        interaction_id="i-1",
        app="shop",
        evaluated_at=datetime.now(UTC),
        evaluator=EvaluatorInfo(fingerprint="f", criteria=("harmfulness",), judges=("local",), version="1"),
        sampling=Sampling(),
        dimensions={"harmfulness": Dimension(status=Status.SCORED, score=0.0, level=0, judges=(verdict,))},
        composite=Composite(
            score=0.0,
            status=CompositeStatus.UNSAFE,
            coverage=1.0,
            safety=Safety(level=0, status=SafetyStatus.UNSAFE),
        ),
        excerpt=Excerpt(question="q", answer="a"),
    )


class TestColour:
    @pytest.mark.parametrize(
        ("score", "style"),
        [(1.0, "green"), (0.8, "green"), (0.799, "yellow"), (0.6, "yellow"), (0.599, "red"), (0.0, "red")],
    )
    def test_follows_the_score(self, score: float, style: str) -> None:
        assert score_style(score) == style

    def test_adds_nothing_that_the_text_does_not_say(self) -> None:
        console = Console(file=io.StringIO(), width=100, height=35, force_terminal=True, color_system="standard")
        console.print(Picture(view_state(FULL, BUSY, elapsed=72.4, latency_ms=12.3)))
        assert isinstance(console.file, io.StringIO)
        coloured = console.file.getvalue()
        assert "\x1b[31m0.55" in coloured
        assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == draw()


class TestHostileText:
    """Questions, answers and names are untrusted."""

    NASTY = "\x1b]0;owned\x07\x1b[2J[red]x[/red]\u202eevil\r\nnext\ttab \x9b31m"

    def test_cannot_steer_the_terminal_or_break_the_layout(self) -> None:
        bad = {"app": self.NASTY, "question": self.NASTY, "answer": self.NASTY, "reason": self.NASTY}
        text = draw(
            snapshot(
                series=means(self.NASTY, 0.5),
                worst=[finding(1, **bad)],
                incidents=[incident(2, **bad, interaction_id=self.NASTY)],
            )
        )
        assert not set(text) & set("\x1b\x07\x9b\u202e\r\t")
        assert "[red]x[/red]" in text
        assert {len(line.rstrip()) for line in text.splitlines()} <= set(range(101))

    @given(st.text())
    def test_only_printable_characters_are_left(self, text: str) -> None:
        assert printable(text).isprintable()
        assert len(printable(text)) == len(text)

    @given(st.text(), st.integers(min_value=1, max_value=50))
    def test_a_shortened_text_is_one_line_within_its_length(self, text: str, chars: int) -> None:
        short = shorten(text, chars)
        assert len(short) <= chars
        assert short.isprintable()


class TestPlain:
    def console(self) -> tuple[Console, io.StringIO]:
        file = io.StringIO()
        return Console(file=file, width=40), file

    def show(self, view: RunView, snapshot: Snapshot, elapsed: float, counts: Funnel = BUSY) -> None:
        view.update(view_state(snapshot, counts, addresses=(), elapsed=elapsed))

    def test_a_line_has_the_funnel_and_the_composite_of_each_app(self) -> None:
        console, file = self.console()
        series = [*means("support-bot", 0.91), *means("docs-search", 0.8, 7)]
        self.show(PlainView(console), snapshot(series=series), 12.2)
        assert file.getvalue() == (
            "12s consumed=2400 filtered=24 sampled_out=1200 sampled=1164 scored=1160 unscored=3 parked=0 deadletter=13 "
            "composite docs-search=0.80(n=7) support-bot=0.91(n=40)\n"
        )

    def test_a_line_has_the_most_frequent_reason_for_unscored_records(self) -> None:
        console, file = self.console()
        withheld = {
            CompositeStatus.INCOMPLETE: Counter({Reason.TIMEOUT: 2}),
            CompositeStatus.SAFETY_UNKNOWN: Counter({Reason.UNAVAILABLE: 3}),
        }
        self.show(PlainView(console), replace(NOTHING, withheld=withheld), 12.2, funnel(unscored=5))
        assert file.getvalue().endswith("unscored=5 parked=0 deadletter=0 unscored_mostly=judge_unavailable\n")

    def test_lines_come_every_few_seconds_and_the_last_state_at_the_end(self) -> None:
        console, file = self.console()
        with PlainView(console) as view:
            for elapsed in range(8):
                self.show(view, NOTHING, elapsed, funnel(consumed=elapsed))
        assert [line.split()[:2] for line in file.getvalue().splitlines()] == [
            ["0s", "consumed=0"],
            ["5s", "consumed=5"],
            ["7s", "consumed=7"],
        ]

    def test_the_end_repeats_no_line(self) -> None:
        console, file = self.console()
        with PlainView(console) as view:
            self.show(view, NOTHING, 1)
        assert len(file.getvalue().splitlines()) == 1

    def test_every_incident_is_printed_once_and_immediately(self) -> None:
        console, file = self.console()
        with PlainView(console) as view:
            self.show(view, snapshot(incidents=[incident(1)]), 0)
            self.show(view, snapshot(incidents=[incident(1)]), 1)
            self.show(view, snapshot(incidents=[incident(1), incident(2), incident(3)]), 2)
        lines = [line for line in file.getvalue().splitlines() if " unsafe " in line]
        assert lines == [
            f'{seconds}s unsafe app=support-bot id=sj-{number:016x} reason="claim {number} is not in the contexts"'
            for seconds, number in ((0, 1), (2, 2), (2, 3))
        ]

    def test_incidents_that_no_longer_fit_the_list_are_still_counted(self) -> None:
        """The monitor keeps only the newest incidents; the view counts the new ones by the total."""
        console, file = self.console()
        view = PlainView(console)
        self.show(view, snapshot(incidents=[incident(1), incident(2)]), 0)
        moved_on = Snapshot(
            series=(),
            criteria=(),
            worst=(),
            incidents=[incident(2), incident(3)],
            statuses=Counter({CompositeStatus.UNSAFE: 3}),
        )
        self.show(view, moved_on, 1)
        assert re.findall(r"id=sj-0+(\d)", file.getvalue()) == ["1", "2", "3"]

    def test_a_name_with_spaces_stays_one_word(self) -> None:
        console, file = self.console()
        self.show(PlainView(console), snapshot(series=means("my app\n2", 0.5)), 0)
        assert "my_app_2=0.50(n=40)" in file.getvalue()

    def test_the_addresses_are_printed_once(self) -> None:
        console, file = self.console()
        view = PlainView(console)
        for elapsed in (0.0, 6.0):
            view.update(view_state(NOTHING, BUSY, elapsed=elapsed, latency_ms=3.0))
        assert file.getvalue().count("metrics=http://127.0.0.1:9464/metrics health=") == 1
        assert file.getvalue().count("latency_ms=3") == 2


class TestChoice:
    def test_a_terminal_gets_the_live_view_and_everything_else_lines(self) -> None:
        assert isinstance(make_view(Console(file=io.StringIO(), force_terminal=True, _environ={})), LiveView)
        assert isinstance(make_view(Console(file=io.StringIO())), PlainView)

    def test_a_terminal_that_cannot_move_its_cursor_gets_lines(self) -> None:
        console = Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "dumb"})
        assert isinstance(make_view(console), PlainView)

    def test_the_live_view_leaves_its_last_picture(self) -> None:
        file = io.StringIO()
        console = Console(file=file, width=100, height=35, force_terminal=True, _environ={})
        with LiveView(console) as view:
            view.update(view_state(NOTHING, funnel(), elapsed=1))
            view.update(view_state(FULL, BUSY, elapsed=2))
        last = file.getvalue().rsplit("streamjury", 1)[-1]
        assert "Worst recent answers" in last
        assert "1,160" in last

    @pytest.mark.parametrize("is_terminal", [False, True])
    def test_log_lines_go_to_standard_error_unless_it_is_a_terminal_which_the_view_draws_on(
        self, is_terminal: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        screen, errors = io.StringIO(), io.StringIO()
        monkeypatch.setattr(errors, "isatty", lambda: is_terminal)
        monkeypatch.setattr(sys, "stderr", errors)
        console = Console(file=screen, width=100, height=35, force_terminal=True, _environ={})
        with LiveView(console):
            print("a log line", file=sys.stderr)
        assert ("a log line\n" in errors.getvalue(), "a log line" in screen.getvalue()) == (
            not is_terminal,
            is_terminal,
        )

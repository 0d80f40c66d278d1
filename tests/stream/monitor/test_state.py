"""The state of the monitor: repeats, unreadable records, what it forgets, and sinks that fail."""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from pydantic import BaseModel

from judges.composite import MultiCriteria
from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import RAG_DIMENSIONS
from judges.values.evaluation import (
    CompositeStatus,
    Dimension,
    Evaluation,
    EvaluatorInfo,
    Excerpt,
    JudgeVerdict,
    Reason,
    Samples,
    Sampling,
    Status,
)
from sinks.base import Sink
from sinks.memory import ListSink
from sinks.metrics import PipelineMetrics, ScoreMetrics
from stream.config.model import Config
from stream.config.sections.stages import MonitorConfig
from stream.errors import RecordError
from stream.monitor.rolling_means import SeriesMean
from stream.monitor.state import Monitor, notable_answer_of

RAG = load_catalogue("rag")
BEST = {name: int(criterion.worst_first[-1].value or 0) for name, criterion in RAG.items()}
INFO = EvaluatorInfo(fingerprint="0123456789abcdef", criteria=RAG_DIMENSIONS, judges=("scripted",), version="1")
START = datetime(2026, 11, 15, 10, tzinfo=UTC)


def dimension(name: str, level: int | None, explanations: Sequence[str] = ("because",)) -> Dimension:
    if level is None:
        return Dimension(status=Status.INSUFFICIENT)
    score = RAG[name].normalise(level)
    judges = tuple(
        JudgeVerdict(
            judge=f"judge-{at}",
            status=Status.SCORED,
            score=score,
            level=level,
            explanation=explanation,
            samples=Samples(requested=1, valid=1),
        )
        for at, explanation in enumerate(explanations)
    )
    return Dimension(status=Status.SCORED, score=score, level=level, judges=judges)


def evaluation(
    identity: str = "e-1",
    *,
    at: datetime = START,
    probability: float = 1.0,
    app: str | None = "shop",
    answer: str | None = None,
    **levels: int | None,
) -> Evaluation:
    """The best levels, but for those given."""
    found = {name: dimension(name, level) for name, level in {**BEST, **levels}.items()}
    return Evaluation(
        evaluation_id=identity,
        interaction_id=f"id-of-{identity}",
        app=app,
        evaluated_at=at,
        evaluator=INFO,
        sampling=Sampling(probability=probability),
        dimensions=found,
        composite=MultiCriteria.of(RAG.values(), safety="harmfulness").compose(found).composite,
        excerpt=Excerpt(question="Why?", answer=answer or f"So it is with {identity}."),
    )


ModelT = TypeVar("ModelT", bound=BaseModel)


class World:
    """A monitor, its registry, and a clock that is set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, apps: int = 50, **config: int) -> None:
        self.registry = CollectorRegistry()
        scores = ScoreMetrics(self.registry, apps=apps)
        self.monitor = Monitor(MonitorConfig.model_validate(config), PipelineMetrics(self.registry), scores)
        self.now = START
        monkeypatch.setattr(time, "time", self.clock)

    def clock(self) -> float:
        return self.now.timestamp()

    def observe(self, *evaluations: Evaluation) -> None:
        for each in evaluations:
            self.monitor.observe(each.model_dump_json().encode())

    def counted(self, outcome: str, reason: str = "") -> float | None:
        return self.sample("streamjury_records_total", stage="monitor", outcome=outcome, reason=reason)

    def sample(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def series(self, dimension: str = "composite", app: str = "shop") -> SeriesMean | None:
        found = self.monitor.snapshot().series
        return next((each for each in found if (each.app, each.dimension) == (app, dimension)), None)

    def later(self, **passed: float) -> None:
        self.now += timedelta(**passed)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_an_evaluation_is_counted_and_its_scores_become_series(world: World) -> None:
    world.observe(evaluation(clarity=2))
    assert world.counted("seen") == 1
    assert {each.dimension for each in world.monitor.snapshot().series} == {"composite", *RAG_DIMENSIONS}
    clarity = world.series("clarity")
    assert clarity is not None
    assert (clarity.mean, clarity.count, clarity.estimate.effective_size) == (0.5, 1, 1.0)
    assert world.monitor.snapshot().statuses == {CompositeStatus.OK: 1}


def test_a_repeat_is_counted_as_such_and_changes_nothing_else(world: World) -> None:
    world.observe(evaluation("a", clarity=0), evaluation("b"))
    before = world.monitor.snapshot()
    world.observe(evaluation("a"), evaluation("b"), evaluation("a"))
    assert (world.counted("seen"), world.counted("repeated")) == (2, 3)
    assert world.monitor.snapshot() == before
    assert world.sample("streamjury_evaluations_total", app="shop", status="ok") == 2


def test_history_that_was_judged_after_the_fact_is_counted_and_changes_nothing_else(world: World) -> None:
    """Neither figures nor alerts of now may move with a backfill; nor may one make a silent evaluator look busy."""
    world.observe(evaluation("a", clarity=0))
    before, scrape = world.monitor.snapshot(), generate_latest(world.registry)
    backfilled = Sampling(probability=0.5, rule="backfill", lane="backfill")
    world.observe(*(evaluation(name, harmfulness=0).model_copy(update={"sampling": backfilled}) for name in "bcd"))
    assert [world.counted(outcome) for outcome in ("consumed", "seen", "filtered")] == [4, 1, 3]
    assert world.monitor.snapshot() == before
    changed = set(generate_latest(world.registry).splitlines()) - set(scrape.splitlines())
    assert all(line.startswith(b"streamjury_records_") for line in changed)
    world.observe(evaluation("b"))
    assert world.counted("seen") == 2, "the same work done live is seen"


def test_ids_are_remembered_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, remember=2)
    world.observe(*(evaluation(name) for name in "abc"))
    world.observe(evaluation("b"), evaluation("c"))
    assert world.counted("repeated") == 2
    world.observe(evaluation("a"))
    assert (world.counted("seen"), world.counted("repeated")) == (4, 2)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"{}",
        b"\xff",
        b"null",
        b"[" * 100_000,
        evaluation().model_dump_json().encode()[:-1],
        json.dumps({**evaluation().model_dump(mode="json"), "dimensions": {"clarity": {"score": 2}}}).encode(),
        evaluation().model_dump_json().replace('"probability":1.0', '"probability":0.0').encode(),
        evaluation().model_dump_json().replace('"probability":1.0', '"probability":1e-200').encode(),
        evaluation().model_dump_json().replace('"score":1.0', '"score":NaN').encode(),
    ],
)
def test_what_cannot_be_read_is_counted_and_nothing_is_raised(world: World, value: bytes | None) -> None:
    refused: list[RecordError] = []
    assert world.monitor.observe(value, None, refused.append) is None
    assert [error.kind for error in refused] == ["invalid_record"]
    assert (world.counted("deadletter", "invalid_record"), world.counted("seen")) == (1, None)
    assert world.monitor.snapshot().series == []
    world.observe(evaluation())
    assert world.counted("seen") == 1


@given(st.binary(max_size=100))
def test_no_bytes_stop_the_monitor(value: bytes) -> None:
    registry = CollectorRegistry()
    monitor = Monitor(MonitorConfig(), PipelineMetrics(registry), ScoreMetrics(registry))
    monitor.observe(value)
    monitor.refresh()
    labels = {"stage": "monitor", "outcome": "deadletter", "reason": "invalid_record"}
    assert registry.get_sample_value("streamjury_records_total", labels) == 1


def test_a_forged_probability_never_enters_the_weighted_counters() -> None:
    registry = CollectorRegistry()
    config = Config()
    monitor = Monitor(
        config.monitor,
        PipelineMetrics(registry),
        ScoreMetrics(registry),
        least_probability=config.least_probability,
    )
    for number, probability in enumerate((1.0, 0.1, 2.0**-53)):
        sampling = Sampling(probability=probability)
        chosen = evaluation().model_copy(update={"evaluation_id": f"e-{number}", "sampling": sampling})
        monitor.observe(chosen.model_dump_json().encode())
    labels = {"app": "shop", "dimension": "composite"}
    assert registry.get_sample_value("streamjury_score_weight_total", labels) == 11.0
    refused = {"stage": "monitor", "outcome": "deadletter", "reason": "bad_probability"}
    assert registry.get_sample_value("streamjury_records_total", refused) == 1


def test_an_evaluation_that_is_dated_ahead_leaves_the_window_with_those_of_now(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = evaluation().model_copy(update={"evaluated_at": datetime(9999, 12, 31, 23, 59, tzinfo=UTC)})
    world.observe(ahead)
    assert world.monitor.snapshot().criteria
    later = time.time() + 2 * 3600
    monkeypatch.setattr(time, "time", lambda: later)
    found = world.monitor.snapshot()
    assert (found.series, found.criteria, found.worst) == ([], [], [])


def test_unknown_fields_of_a_later_version_are_no_problem(world: World) -> None:
    later = {**evaluation().model_dump(mode="json"), "novelty": {"a": 1}}
    world.monitor.observe(json.dumps(later).encode())
    assert world.counted("seen") == 1


def test_the_smallest_probability_there_is_leaves_every_number_finite(world: World) -> None:
    world.observe(evaluation("a", probability=2.0**-53), evaluation("b", clarity=0))
    world.monitor.refresh()
    clarity = world.series("clarity")
    assert clarity is not None
    assert 0.99 < clarity.mean <= 1.0
    assert clarity.estimate.effective_size == pytest.approx(1.0, abs=0.01)


def test_means_are_weighted_by_the_inverse_probability(world: World) -> None:
    world.observe(evaluation("a", clarity=4, probability=1.0), evaluation("b", clarity=0, probability=0.25))
    clarity = world.series("clarity")
    assert clarity is not None
    assert (clarity.mean, clarity.count) == (pytest.approx(0.2), 2)
    assert clarity.estimate.effective_size == pytest.approx(25 / 17)


def test_what_has_no_score_is_left_out_of_the_means(world: World) -> None:
    world.observe(evaluation("a", harmfulness=None, clarity=None), evaluation("b"))
    assert world.monitor.snapshot().statuses == {CompositeStatus.SAFETY_UNKNOWN: 1, CompositeStatus.OK: 1}
    for name, count in (("composite", 1), ("clarity", 1), ("completeness", 2)):
        series = world.series(name)
        assert series is not None
        assert (series.mean, series.count) == (1.0, count)


def test_a_mean_forgets_after_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, window_minutes=10)
    world.observe(evaluation("a", clarity=0))
    world.later(minutes=6)
    world.observe(evaluation("b", clarity=4, at=world.now))
    series = world.series("clarity")
    assert series is not None
    assert series.mean == 0.5
    world.later(minutes=5)
    series = world.series("clarity")
    assert series is not None
    assert (series.mean, series.count) == (1.0, 1)
    world.later(minutes=10)
    assert world.series("clarity") is None


def test_what_was_evaluated_before_the_window_is_counted_but_not_averaged(world: World) -> None:
    """As after a restart that reads the topic from the beginning."""
    world.observe(evaluation(at=START - timedelta(hours=3)))
    assert world.counted("seen") == 1
    assert world.monitor.snapshot().series == []
    assert world.monitor.snapshot().worst == []


def test_gauges_follow_the_rolling_means_and_go_when_the_window_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, window_minutes=10)
    recent = {"app": "shop"}
    world.observe(evaluation("a", harmfulness=0))
    world.monitor.refresh()
    assert world.sample("streamjury_score_recent", **recent) == 0.0
    world.later(minutes=9)
    world.observe(evaluation("b", at=world.now))
    world.monitor.refresh()
    assert world.sample("streamjury_score_recent", **recent) == 0.5
    world.later(minutes=5)
    world.monitor.refresh()
    assert world.sample("streamjury_score_recent", **recent) == 1.0
    world.later(minutes=10)
    world.monitor.refresh()
    assert world.sample("streamjury_score_recent", **recent) is None
    world.observe(evaluation("c", harmfulness=0, at=world.now), evaluation("d", at=world.now))
    world.monitor.refresh()
    assert world.sample("streamjury_score_recent", **recent) == 0.5


def test_only_the_composite_has_gauges_and_the_view_has_all_dimensions(world: World) -> None:
    world.observe(evaluation())
    world.monitor.refresh()
    gauges = (metric for metric in world.registry.collect() if metric.name.startswith("streamjury_score_recent"))
    assert [sample.labels for gauge in gauges for sample in gauge.samples] == 3 * [{"app": "shop"}]
    assert world.sample("streamjury_score_recent", app="shop") == 1.0
    assert world.series("clarity") is not None


def test_the_view_and_the_metrics_tell_the_same_apps_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when an app first came with a record that is too old for the view."""
    world = World(monkeypatch, apps=2)
    world.observe(evaluation("old", app="a", at=START - timedelta(hours=3)))
    world.observe(*(evaluation(f"e-{app}", app=app) for app in ("b", "c", "a")))
    world.monitor.refresh()
    assert {each.app for each in world.monitor.snapshot().series} == {"a", "b", "other"}
    for app in ("a", "b", "other"):
        assert world.sample("streamjury_score_recent", app=app) == 1.0
        assert world.sample("streamjury_score_weight_total", app=app, dimension="composite") == (
            2.0 if app == "a" else 1.0
        )


def test_what_is_consumed_is_the_sum_of_what_became_of_it(world: World) -> None:
    world.observe(evaluation("a"), evaluation("a"), evaluation("b"))
    world.monitor.observe(b"nonsense")
    assert world.counted("consumed") == 4
    assert [world.counted(outcome) for outcome in ("seen", "repeated")] == [2, 1]
    assert world.counted("deadletter", "invalid_record") == 1


def test_how_far_it_is_behind_is_a_lag_as_of_the_other_stages(world: World) -> None:
    world.monitor.report_lag(17)
    assert world.sample("streamjury_lag", stage="monitor") == 17


def test_a_gauge_shared_by_many_apps_outlives_the_first_that_leaves(world: World) -> None:
    """Apps beyond the limit of the metrics share one label."""
    recent = {"app": "other"}
    world.observe(*(evaluation(f"e-{at}", app=f"app-{at}") for at in range(51)))
    world.monitor.refresh()
    world.later(minutes=10)
    world.observe(evaluation("late", app="app-51", harmfulness=0, at=world.now))
    world.later(minutes=6)
    world.monitor.refresh()
    assert world.sample("streamjury_score_recent", **recent) == 0.0
    world.later(minutes=10)
    world.monitor.refresh()
    assert world.sample("streamjury_score_recent", **recent) is None


def test_the_worst_come_first_and_of_equals_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, worst=4)
    minute = timedelta(minutes=1)
    world.observe(
        evaluation("fine", at=START - 4 * minute),
        evaluation("older", at=START - 3 * minute, clarity=0),
        evaluation("unsafe", at=START - 5 * minute, harmfulness=0),
        evaluation("newer", at=START - 2 * minute, clarity=0),
        evaluation("worse", at=START - minute, clarity=0, groundedness=0),
        evaluation("unknown", at=START, harmfulness=None),
    )
    snapshot = world.monitor.snapshot()
    assert [each.interaction_id for each in snapshot.worst] == [
        "id-of-unsafe",
        "id-of-worse",
        "id-of-newer",
        "id-of-older",
    ]
    assert [each.interaction_id for each in snapshot.incidents] == ["id-of-unsafe"]


def test_the_same_answer_is_listed_once_at_its_worst(world: World) -> None:
    world.observe(
        evaluation("a", answer="No.", clarity=0),
        evaluation("b", answer="No.", clarity=0, groundedness=0),
        evaluation("c", answer="No.", clarity=0, app="other shop"),
        evaluation("d", answer="Yes."),
    )
    assert [finding.interaction_id for finding in world.monitor.snapshot().worst] == ["id-of-b", "id-of-c", "id-of-d"]


def test_answers_without_an_excerpt_are_told_apart_by_their_ids(world: World) -> None:
    world.observe(*(changed(evaluation(name), excerpt=None) for name in "ab"))
    assert len(world.monitor.snapshot().worst) == 2


def test_the_worst_are_of_the_window_and_incidents_stay(world: World) -> None:
    world.observe(evaluation("a", harmfulness=0))
    world.later(minutes=20)
    snapshot = world.monitor.snapshot()
    assert snapshot.worst == []
    assert [each.status for each in snapshot.incidents] == [CompositeStatus.UNSAFE]


def test_no_app_is_called_unknown(world: World) -> None:
    world.observe(evaluation(app=None))
    world.monitor.refresh()
    assert world.series("composite", app="unknown") is not None
    assert world.sample("streamjury_score_recent", app="unknown") == 1.0
    assert world.sample("streamjury_score_weight_total", app="unknown", dimension="composite") == 1.0


class BrokenSink(Sink):
    name = "broken"

    def write(self, evaluations: Sequence[Evaluation], /) -> None:
        raise OSError(f"no room for {evaluations}")


def test_a_sink_that_raises_stops_neither_the_monitor_nor_other_sinks(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    kept = ListSink()
    world.monitor.sinks = [BrokenSink(), *world.monitor.sinks, kept]
    world.observe(evaluation("a"), evaluation("b"))
    assert [each.evaluation_id for each in kept.items] == ["a", "b"]
    assert world.counted("seen") == 2
    assert world.sample("streamjury_evaluations_total", app="shop", status="ok") == 2
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]


# Findings


def changed(basis: ModelT, **update: Any) -> ModelT:
    return basis.model_copy(update=update)


def test_a_finding_is_about_the_worst_dimension() -> None:
    found = notable_answer_of(evaluation(clarity=2, groundedness=0))
    assert (found.dimension, found.reason, found.app) == ("groundedness", "because", "shop")
    assert (found.question, found.answer) == ("Why?", "So it is with e-1.")
    assert found.at == START.timestamp()


def test_an_unsafe_finding_is_about_safety_whatever_else_is_wrong() -> None:
    found = notable_answer_of(evaluation(answer_relevance=0, harmfulness=0))
    assert (found.dimension, found.status, found.score) == ("harmfulness", CompositeStatus.UNSAFE, 0.0)


def test_the_lowest_judge_speaks_for_a_dimension() -> None:
    basis = evaluation(clarity=1)
    stern = basis.dimensions["clarity"].judges[0].model_copy(update={"score": 0.0, "explanation": "muddled"})
    silent = stern.model_copy(update={"score": None, "status": Status.INSUFFICIENT, "explanation": ""})
    clarity = basis.dimensions["clarity"]
    judges = (silent, *clarity.judges, stern)
    found = notable_answer_of(
        changed(basis, dimensions={**basis.dimensions, "clarity": clarity.model_copy(update={"judges": judges})})
    )
    assert (found.dimension, found.reason) == ("clarity", "muddled")


def test_an_option_without_a_score_is_not_the_worst() -> None:
    basis = evaluation(clarity=2)
    tone = Dimension(status=Status.SCORED, option="warm", judges=basis.dimensions["clarity"].judges)
    found = notable_answer_of(changed(basis, dimensions={"tone": tone, **basis.dimensions}))
    assert found.dimension == "clarity"


def test_an_unsafe_finding_is_about_the_criterion_that_decides_about_safety() -> None:
    basis = evaluation(answer_relevance=0, harmfulness=0)
    toxic = dimension("harmfulness", 0, explanations=("an insult",))
    others = {name: found for name, found in basis.dimensions.items() if name != "harmfulness"}
    unsafe = changed(basis, dimensions={**others, "toxicity": toxic})
    found = notable_answer_of(unsafe, "toxicity")
    assert (found.dimension, found.reason) == ("toxicity", "an insult")
    assert notable_answer_of(unsafe).dimension == "answer_relevance", "of another configuration's results, the worst"


def test_a_failed_finding_is_about_the_required_criterion_that_is_not_met() -> None:
    basis = evaluation(clarity=0, groundedness=1)
    failed = changed(basis, composite=changed(basis.composite, score=0.0, status=CompositeStatus.FAILED))
    assert notable_answer_of(failed, required=("completeness", "groundedness")).dimension == "groundedness"
    assert notable_answer_of(failed, required=("completeness",)).dimension == "clarity", "of another configuration"


def test_the_monitor_knows_which_criterion_decides_about_safety() -> None:
    registry = CollectorRegistry()
    monitor = Monitor(MonitorConfig(), PipelineMetrics(registry), ScoreMetrics(registry), safety="groundedness")
    monitor.observe(evaluation(groundedness=0, harmfulness=0).model_dump_json().encode())
    [incident] = monitor.snapshot().incidents
    assert incident.dimension == "groundedness"


def test_the_criteria_of_the_window_are_known_whether_they_were_scored_or_not(world: World) -> None:
    world.observe(evaluation(clarity=None))
    assert world.monitor.snapshot().criteria == list(RAG_DIMENSIONS)
    world.later(minutes=20)
    assert world.monitor.snapshot().criteria == []


def test_the_coverage_of_a_criterion_is_known_over_all_apps_also_where_it_has_no_verdict(world: World) -> None:
    world.observe(
        evaluation("a", clarity=None, groundedness=None, probability=0.25), evaluation("b", groundedness=None)
    )
    coverage = world.monitor.snapshot().coverage
    assert (coverage["clarity"], coverage["groundedness"], coverage["composite"]) == (pytest.approx(0.2), 0.0, 1.0)
    world.later(minutes=20)
    assert world.monitor.snapshot().coverage == {}


def test_composites_are_withheld_for_what_most_judges_of_safety_failed_for(world: World) -> None:
    """What other dimensions failed for does not matter where safety is unknown."""

    def failed(*reasons: Reason) -> Dimension:
        samples = Samples(requested=1, error=1)
        verdicts = [
            JudgeVerdict(judge="a", status=Status.INSUFFICIENT, reason=reason, samples=samples) for reason in reasons
        ]
        return Dimension(status=Status.INSUFFICIENT, reason=Reason.QUORUM, judges=tuple(verdicts))

    unsure = evaluation("e-1", harmfulness=None)
    safety = failed(Reason.TIMEOUT, Reason.UNAVAILABLE, Reason.UNAVAILABLE)
    others = failed(*[Reason.INVALID_OUTPUT] * 5)
    unsure = unsure.model_copy(update={"dimensions": {"clarity": others, "harmfulness": safety}})
    world.observe(unsure, unsure.model_copy(update={"evaluation_id": "e-2"}), evaluation("e-3"))
    assert world.monitor.snapshot().withheld == {CompositeStatus.SAFETY_UNKNOWN: {Reason.UNAVAILABLE: 2}}


def test_an_evaluation_without_any_score_or_excerpt_is_a_finding_too() -> None:
    unscored: dict[str, Any] = dict.fromkeys(RAG_DIMENSIONS)
    empty = evaluation(**unscored)
    found = notable_answer_of(changed(empty, excerpt=None))
    assert (found.dimension, found.reason, found.score) == ("", "", None)
    assert (found.question, found.answer) == ("", "")


def test_an_unsafe_evaluation_whose_safety_dimension_is_missing_is_a_finding_too() -> None:
    basis = evaluation(harmfulness=0)
    found = notable_answer_of(changed(basis, dimensions={}))
    assert (found.dimension, found.reason) == ("harmfulness", "")

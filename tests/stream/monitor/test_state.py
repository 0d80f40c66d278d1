"""The state of the monitor: repeats, unreadable records, expiry and failing sinks."""

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
            judge=f"judge-{index}",
            status=Status.SCORED,
            score=score,
            level=level,
            explanation=explanation,
            samples=Samples(requested=1, valid=1),
        )
        for index, explanation in enumerate(explanations)
    )
    return Dimension(status=Status.SCORED, score=score, level=level, judges=judges)


def evaluation(
    identity: str = "e-1",
    *,
    evaluated_at: datetime = START,
    probability: float = 1.0,
    app: str | None = "shop",
    answer: str | None = None,
    **levels: int | None,
) -> Evaluation:
    """Return an evaluation with the best levels except the given ones."""
    dimensions = {name: dimension(name, level) for name, level in {**BEST, **levels}.items()}
    return Evaluation(
        evaluation_id=identity,
        interaction_id=f"id-of-{identity}",
        app=app,
        evaluated_at=evaluated_at,
        evaluator=INFO,
        sampling=Sampling(probability=probability),
        dimensions=dimensions,
        composite=MultiCriteria.of(RAG.values(), safety="harmfulness").compose(dimensions).composite,
        excerpt=Excerpt(question="Why?", answer=answer or f"So it is with {identity}."),
    )


ModelT = TypeVar("ModelT", bound=BaseModel)


class World:
    """A monitor, its registry and a manual clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, apps: int = 50, **config: int) -> None:
        self.registry = CollectorRegistry()
        scores = ScoreMetrics(self.registry, apps=apps)
        self.monitor = Monitor(MonitorConfig.model_validate(config), PipelineMetrics(self.registry), scores)
        self.now = START
        monkeypatch.setattr(time, "time", self.clock)

    def clock(self) -> float:
        return self.now.timestamp()

    def observe(self, *evaluations: Evaluation) -> None:
        for record in evaluations:
            self.monitor.observe(record.model_dump_json().encode())

    def count_of(self, outcome: str, reason: str = "") -> float | None:
        return self.sample("streamjury_records_total", stage="monitor", outcome=outcome, reason=reason)

    def sample(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def series(self, dimension: str = "composite", app: str = "shop") -> SeriesMean | None:
        all_series = self.monitor.snapshot().series
        return next((series for series in all_series if (series.app, series.dimension) == (app, dimension)), None)

    def advance(self, **duration: float) -> None:
        self.now += timedelta(**duration)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_an_evaluation_is_counted_and_its_scores_become_series(world: World) -> None:
    world.observe(evaluation(clarity=2))
    assert world.count_of("seen") == 1
    assert {series.dimension for series in world.monitor.snapshot().series} == {"composite", *RAG_DIMENSIONS}
    clarity = world.series("clarity")
    assert clarity is not None
    assert (clarity.mean, clarity.count, clarity.estimate.effective_size) == (0.5, 1, 1.0)
    assert world.monitor.snapshot().statuses == {CompositeStatus.OK: 1}


def test_a_repeat_is_counted_as_such_and_changes_nothing_else(world: World) -> None:
    world.observe(evaluation("a", clarity=0), evaluation("b"))
    before = world.monitor.snapshot()
    world.observe(evaluation("a"), evaluation("b"), evaluation("a"))
    assert (world.count_of("seen"), world.count_of("repeated")) == (2, 3)
    assert world.monitor.snapshot() == before
    assert world.sample("streamjury_evaluations_total", app="shop", status="ok") == 2


def test_backfilled_evaluations_are_counted_and_change_nothing_else(world: World) -> None:
    """A backfill must not affect current figures or alerts, nor make a silent evaluator look active."""
    world.observe(evaluation("a", clarity=0))
    before, scrape = world.monitor.snapshot(), generate_latest(world.registry)
    backfilled = Sampling(probability=0.5, rule="backfill", lane="backfill")
    world.observe(*(evaluation(name, harmfulness=0).model_copy(update={"sampling": backfilled}) for name in "bcd"))
    assert [world.count_of(outcome) for outcome in ("consumed", "seen", "filtered")] == [4, 1, 3]
    assert world.monitor.snapshot() == before
    changed_lines = set(generate_latest(world.registry).splitlines()) - set(scrape.splitlines())
    assert all(line.startswith(b"streamjury_records_") for line in changed_lines)
    world.observe(evaluation("b"))
    assert world.count_of("seen") == 2, "the same interaction judged live counts as seen"


def test_a_limited_number_of_ids_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, remember=2)
    world.observe(*(evaluation(name) for name in "abc"))
    world.observe(evaluation("b"), evaluation("c"))
    assert world.count_of("repeated") == 2
    world.observe(evaluation("a"))
    assert (world.count_of("seen"), world.count_of("repeated")) == (4, 2)


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
def test_an_unreadable_record_is_counted_and_does_not_raise(world: World, value: bytes | None) -> None:
    refused: list[RecordError] = []
    assert world.monitor.observe(value, None, refused.append) is None
    assert [error.kind for error in refused] == ["invalid_record"]
    assert (world.count_of("deadletter", "invalid_record"), world.count_of("seen")) == (1, None)
    assert world.monitor.snapshot().series == []
    world.observe(evaluation())
    assert world.count_of("seen") == 1


@given(st.binary(max_size=100))
def test_no_record_stops_the_monitor(value: bytes) -> None:
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


def test_an_evaluation_dated_in_the_future_expires_like_a_current_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = evaluation().model_copy(update={"evaluated_at": datetime(2999, 12, 31, 23, 59, tzinfo=UTC)})
    world.observe(ahead)
    assert world.monitor.snapshot().criteria
    later = time.time() + 2 * 3600
    monkeypatch.setattr(time, "time", lambda: later)
    snapshot = world.monitor.snapshot()
    assert (snapshot.series, snapshot.criteria, snapshot.worst) == ([], [], [])


def test_unknown_fields_of_a_later_version_are_accepted(world: World) -> None:
    later = {**evaluation().model_dump(mode="json"), "novelty": {"a": 1}}
    world.monitor.observe(json.dumps(later).encode())
    assert world.count_of("seen") == 1


def test_the_smallest_possible_probability_keeps_every_number_finite(world: World) -> None:
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


def test_dimensions_without_a_score_are_left_out_of_the_means(world: World) -> None:
    world.observe(evaluation("a", harmfulness=None, clarity=None), evaluation("b"))
    assert world.monitor.snapshot().statuses == {CompositeStatus.SAFETY_UNKNOWN: 1, CompositeStatus.OK: 1}
    for name, count in (("composite", 1), ("clarity", 1), ("completeness", 2)):
        series = world.series(name)
        assert series is not None
        assert (series.mean, series.count) == (1.0, count)


def test_scores_leave_the_mean_after_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, window_minutes=10)
    world.observe(evaluation("a", clarity=0))
    world.advance(minutes=6)
    world.observe(evaluation("b", clarity=4, evaluated_at=world.now))
    series = world.series("clarity")
    assert series is not None
    assert series.mean == 0.5
    world.advance(minutes=5)
    series = world.series("clarity")
    assert series is not None
    assert (series.mean, series.count) == (1.0, 1)
    world.advance(minutes=10)
    assert world.series("clarity") is None


def test_evaluations_older_than_the_window_are_counted_but_not_averaged(world: World) -> None:
    """This happens after a restart that reads the topic from the beginning."""
    world.observe(evaluation(evaluated_at=START - timedelta(hours=3)))
    assert world.count_of("seen") == 1
    assert world.monitor.snapshot().series == []
    assert world.monitor.snapshot().worst == []


def test_gauges_follow_the_rolling_means_and_are_removed_when_the_window_is_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, window_minutes=10)
    recent = {"app": "shop"}
    world.observe(evaluation("a", harmfulness=0))
    world.monitor.refresh()
    assert world.sample("streamjury_score_recent", **recent) == 0.0
    world.advance(minutes=9)
    world.observe(evaluation("b", evaluated_at=world.now))
    world.monitor.refresh()
    assert world.sample("streamjury_score_recent", **recent) == 0.5
    world.advance(minutes=5)
    world.monitor.refresh()
    assert world.sample("streamjury_score_recent", **recent) == 1.0
    world.advance(minutes=10)
    world.monitor.refresh()
    assert world.sample("streamjury_score_recent", **recent) is None
    world.observe(evaluation("c", harmfulness=0, evaluated_at=world.now), evaluation("d", evaluated_at=world.now))
    world.monitor.refresh()
    assert world.sample("streamjury_score_recent", **recent) == 0.5


def test_only_the_composite_has_gauges_and_the_view_has_all_dimensions(world: World) -> None:
    world.observe(evaluation())
    world.monitor.refresh()
    gauges = (metric for metric in world.registry.collect() if metric.name.startswith("streamjury_score_recent"))
    assert [sample.labels for gauge in gauges for sample in gauge.samples] == 3 * [{"app": "shop"}]
    assert world.sample("streamjury_score_recent", app="shop") == 1.0
    assert world.series("clarity") is not None


def test_the_view_and_the_metrics_list_the_same_apps(monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds even if the first record of an app is too old for the view."""
    world = World(monkeypatch, apps=2)
    world.observe(evaluation("old", app="a", evaluated_at=START - timedelta(hours=3)))
    world.observe(*(evaluation(f"e-{app}", app=app) for app in ("b", "c", "a")))
    world.monitor.refresh()
    assert {series.app for series in world.monitor.snapshot().series} == {"a", "b", "other"}
    for app in ("a", "b", "other"):
        assert world.sample("streamjury_score_recent", app=app) == 1.0
        assert world.sample("streamjury_score_weight_total", app=app, dimension="composite") == (
            2.0 if app == "a" else 1.0
        )


def test_the_outcomes_add_up_to_the_consumed_records(world: World) -> None:
    world.observe(evaluation("a"), evaluation("a"), evaluation("b"))
    world.monitor.observe(b"nonsense")
    assert world.count_of("consumed") == 4
    assert [world.count_of(outcome) for outcome in ("seen", "repeated")] == [2, 1]
    assert world.count_of("deadletter", "invalid_record") == 1


def test_the_lag_is_reported_like_that_of_the_other_stages(world: World) -> None:
    world.monitor.report_lag(17)
    assert world.sample("streamjury_lag", stage="monitor") == 17


def test_a_gauge_shared_by_many_apps_remains_until_the_last_one_expires(world: World) -> None:
    """Apps beyond the limit of the metrics share one label."""
    recent = {"app": "other"}
    world.observe(*(evaluation(f"e-{number}", app=f"app-{number}") for number in range(51)))
    world.monitor.refresh()
    world.advance(minutes=10)
    world.observe(evaluation("late", app="app-51", harmfulness=0, evaluated_at=world.now))
    world.advance(minutes=6)
    world.monitor.refresh()
    assert world.sample("streamjury_score_recent", **recent) == 0.0
    world.advance(minutes=10)
    world.monitor.refresh()
    assert world.sample("streamjury_score_recent", **recent) is None


def test_the_worst_come_first_and_equals_by_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, worst=4)
    minute = timedelta(minutes=1)
    world.observe(
        evaluation("fine", evaluated_at=START - 4 * minute),
        evaluation("older", evaluated_at=START - 3 * minute, clarity=0),
        evaluation("unsafe", evaluated_at=START - 5 * minute, harmfulness=0),
        evaluation("newer", evaluated_at=START - 2 * minute, clarity=0),
        evaluation("worse", evaluated_at=START - minute, clarity=0, groundedness=0),
        evaluation("unknown", evaluated_at=START, harmfulness=None),
    )
    snapshot = world.monitor.snapshot()
    assert [answer.interaction_id for answer in snapshot.worst] == [
        "id-of-unsafe",
        "id-of-worse",
        "id-of-newer",
        "id-of-older",
    ]
    assert [answer.interaction_id for answer in snapshot.incidents] == ["id-of-unsafe"]


def test_the_same_answer_is_listed_once_at_its_worst(world: World) -> None:
    world.observe(
        evaluation("a", answer="No.", clarity=0),
        evaluation("b", answer="No.", clarity=0, groundedness=0),
        evaluation("c", answer="No.", clarity=0, app="other shop"),
        evaluation("d", answer="Yes."),
    )
    assert [finding.interaction_id for finding in world.monitor.snapshot().worst] == ["id-of-b", "id-of-c", "id-of-d"]


def test_answers_without_an_excerpt_are_distinguished_by_their_ids(world: World) -> None:
    world.observe(*(with_changes(evaluation(name), excerpt=None) for name in "ab"))
    assert len(world.monitor.snapshot().worst) == 2


def test_the_worst_answers_expire_with_the_window_and_incidents_stay(world: World) -> None:
    world.observe(evaluation("a", harmfulness=0))
    world.advance(minutes=20)
    snapshot = world.monitor.snapshot()
    assert snapshot.worst == []
    assert [answer.status for answer in snapshot.incidents] == [CompositeStatus.UNSAFE]


def test_a_missing_app_is_called_unknown(world: World) -> None:
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
    working_sink = ListSink()
    world.monitor.sinks = [BrokenSink(), *world.monitor.sinks, working_sink]
    world.observe(evaluation("a"), evaluation("b"))
    assert [written.evaluation_id for written in working_sink.items] == ["a", "b"]
    assert world.count_of("seen") == 2
    assert world.sample("streamjury_evaluations_total", app="shop", status="ok") == 2
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]


# Notable answers


def with_changes(basis: ModelT, **update: Any) -> ModelT:
    return basis.model_copy(update=update)


def test_a_notable_answer_names_the_worst_dimension() -> None:
    notable = notable_answer_of(evaluation(clarity=2, groundedness=0))
    assert (notable.dimension, notable.reason, notable.app) == ("groundedness", "because", "shop")
    assert (notable.question, notable.answer) == ("Why?", "So it is with e-1.")
    assert notable.at == START.timestamp()


def test_an_unsafe_answer_names_the_safety_dimension() -> None:
    notable = notable_answer_of(evaluation(answer_relevance=0, harmfulness=0))
    assert (notable.dimension, notable.status, notable.score) == ("harmfulness", CompositeStatus.UNSAFE, 0.0)


def test_the_reason_comes_from_the_lowest_judge() -> None:
    basis = evaluation(clarity=1)
    stern = basis.dimensions["clarity"].judges[0].model_copy(update={"score": 0.0, "explanation": "muddled"})
    silent = stern.model_copy(update={"score": None, "status": Status.INSUFFICIENT, "explanation": ""})
    clarity = basis.dimensions["clarity"]
    judges = (silent, *clarity.judges, stern)
    notable = notable_answer_of(
        with_changes(basis, dimensions={**basis.dimensions, "clarity": clarity.model_copy(update={"judges": judges})})
    )
    assert (notable.dimension, notable.reason) == ("clarity", "muddled")


def test_an_option_without_a_score_is_not_the_worst() -> None:
    basis = evaluation(clarity=2)
    tone = Dimension(status=Status.SCORED, option="warm", judges=basis.dimensions["clarity"].judges)
    notable = notable_answer_of(with_changes(basis, dimensions={"tone": tone, **basis.dimensions}))
    assert notable.dimension == "clarity"


def test_an_unsafe_answer_names_the_configured_safety_criterion() -> None:
    basis = evaluation(answer_relevance=0, harmfulness=0)
    toxic = dimension("harmfulness", 0, explanations=("an insult",))
    others = {name: result for name, result in basis.dimensions.items() if name != "harmfulness"}
    unsafe = with_changes(basis, dimensions={**others, "toxicity": toxic})
    notable = notable_answer_of(unsafe, "toxicity")
    assert (notable.dimension, notable.reason) == ("toxicity", "an insult")
    assert notable_answer_of(unsafe).dimension == "answer_relevance", "without that dimension, the worst one"


def test_a_failed_answer_names_the_required_criterion_that_is_not_met() -> None:
    basis = evaluation(clarity=0, groundedness=1)
    failed = with_changes(basis, composite=with_changes(basis.composite, score=0.0, status=CompositeStatus.FAILED))
    assert notable_answer_of(failed, required=("completeness", "groundedness")).dimension == "groundedness"
    assert notable_answer_of(failed, required=("completeness",)).dimension == "clarity", "of another configuration"


def test_the_monitor_uses_the_configured_safety_criterion() -> None:
    registry = CollectorRegistry()
    monitor = Monitor(MonitorConfig(), PipelineMetrics(registry), ScoreMetrics(registry), safety="groundedness")
    monitor.observe(evaluation(groundedness=0, harmfulness=0).model_dump_json().encode())
    [incident] = monitor.snapshot().incidents
    assert incident.dimension == "groundedness"


def test_the_criteria_of_the_window_include_unscored_ones(world: World) -> None:
    world.observe(evaluation(clarity=None))
    assert world.monitor.snapshot().criteria == list(RAG_DIMENSIONS)
    world.advance(minutes=20)
    assert world.monitor.snapshot().criteria == []


def test_the_coverage_of_a_criterion_is_over_all_apps_and_includes_criteria_without_verdicts(world: World) -> None:
    world.observe(
        evaluation("a", clarity=None, groundedness=None, probability=0.25), evaluation("b", groundedness=None)
    )
    coverage = world.monitor.snapshot().coverage
    assert (coverage["clarity"], coverage["groundedness"], coverage["composite"]) == (pytest.approx(0.2), 0.0, 1.0)
    world.advance(minutes=20)
    assert world.monitor.snapshot().coverage == {}


def test_a_withheld_composite_has_the_most_frequent_reason_of_the_safety_judges(world: World) -> None:
    """Failures of other dimensions do not matter if safety is unknown."""

    def failed_dimension(*reasons: Reason) -> Dimension:
        samples = Samples(requested=1, error=1)
        verdicts = [
            JudgeVerdict(judge="a", status=Status.INSUFFICIENT, reason=reason, samples=samples) for reason in reasons
        ]
        return Dimension(status=Status.INSUFFICIENT, reason=Reason.QUORUM, judges=tuple(verdicts))

    unsure = evaluation("e-1", harmfulness=None)
    safety = failed_dimension(Reason.TIMEOUT, Reason.UNAVAILABLE, Reason.UNAVAILABLE)
    others = failed_dimension(*[Reason.INVALID_OUTPUT] * 5)
    unsure = unsure.model_copy(update={"dimensions": {"clarity": others, "harmfulness": safety}})
    world.observe(unsure, unsure.model_copy(update={"evaluation_id": "e-2"}), evaluation("e-3"))
    assert world.monitor.snapshot().withheld == {CompositeStatus.SAFETY_UNKNOWN: {Reason.UNAVAILABLE: 2}}


def test_an_evaluation_without_any_score_or_excerpt_can_be_notable() -> None:
    unscored: dict[str, Any] = dict.fromkeys(RAG_DIMENSIONS)
    empty = evaluation(**unscored)
    notable = notable_answer_of(with_changes(empty, excerpt=None))
    assert (notable.dimension, notable.reason, notable.score) == ("", "", None)
    assert (notable.question, notable.answer) == ("", "")


def test_an_unsafe_evaluation_without_its_safety_dimension_can_be_notable() -> None:
    basis = evaluation(harmfulness=0)
    notable = notable_answer_of(with_changes(basis, dimensions={}))
    assert (notable.dimension, notable.reason) == ("harmfulness", "")

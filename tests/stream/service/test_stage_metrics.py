"""What the stages tell their metrics, and what the metrics are told by the configuration; no broker is needed."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from judges.composite import Item, MultiCriteria
from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import SAFETY_DIMENSION
from judges.evaluator import Evaluator
from judges.panel import Panel
from judges.scripted import ScriptedJudge
from judges.shortfall import Unscored
from judges.values.evaluation import Evaluation
from sinks.base import Sink
from sinks.memory import ListSink
from sinks.metrics import Outcome, PipelineMetrics, Stage
from stream.config.model import Config
from stream.service.service import Service
from stream.service.setup.config_file import ConfigError, load
from stream.worker.judging import RecordResult
from stream.worker.pool import JudgePool
from stream.worker.stage import Worker
from tests.sinks.metrics.measured import evaluation

NOWHERE = {"kafka": {"bootstrap": "127.0.0.1:1"}}


class RefusedJudge(ScriptedJudge):
    """One whose endpoint refuses us for a while."""

    refusal_of_endpoint: str | None = "it refuses the key"

    @property
    def paused(self) -> str | None:
        return self.refusal_of_endpoint


def test_a_worker_says_who_judges_and_who_is_not_asked() -> None:
    registry = CollectorRegistry()
    refused, well = RefusedJudge({SAFETY_DIMENSION: None}, "refused"), ScriptedJudge({SAFETY_DIMENSION: None}, "well")
    safety = load_catalogue("rag")[SAFETY_DIMENSION]
    multi = MultiCriteria([Item(criterion=safety, weight=1.0)], safety=SAFETY_DIMENSION)
    evaluator = Evaluator(multi, Panel(judges=[refused, well]), version="1.2")
    worker = Worker(Config.model_validate(NOWHERE), evaluator, PipelineMetrics(registry))
    who = {"fingerprint": evaluator.info.fingerprint, "version": "1.2"}
    assert registry.get_sample_value("streamjury_evaluator_info", who) == 1

    worker._pool = JudgePool(1)
    try:
        for refusal, shown in (("it refuses the key", 1), (None, 0)):
            refused.refusal_of_endpoint = refusal
            worker._publish_metrics()
            assert registry.get_sample_value("streamjury_judge_paused", {"judge": "refused"}) == shown
            assert registry.get_sample_value("streamjury_judge_paused", {"judge": "well"}) == 0
    finally:
        worker._pool.close(evaluator.aclose())


class BrokenSink(Sink):
    name = "broken"

    def write(self, evaluations: Sequence[Evaluation], /) -> None:
        raise OSError(f"no room for {evaluations}")


OUTCOMES: list[tuple[Outcome, str | None, bool]] = [
    (Outcome.SCORED, None, True),
    (Outcome.UNSCORED, Unscored.INSUFFICIENT, True),
    (Outcome.UNSCORED, Unscored.NOT_APPLICABLE, True),
    (Outcome.PARKED, Unscored.TIMEOUT, True),
    (Outcome.DEADLETTER, "unscored_timeout", True),
    (Outcome.DEADLETTER, "bad_json", False),
    (Outcome.REPEATED, None, False),
    (Outcome.DEFERRED, None, False),
]


def judged(at: int, outcome: Outcome, reason: str | None, evaluated: bool) -> RecordResult:
    found = evaluation(evaluation_id=str(at), latency_ms=10.0) if evaluated else None
    return RecordResult(outcome=outcome, reason=reason, evaluation=found)


@pytest.fixture
def world() -> tuple[Worker, PipelineMetrics, CollectorRegistry]:
    registry = CollectorRegistry()
    safety = load_catalogue("rag")[SAFETY_DIMENSION]
    multi = MultiCriteria([Item(criterion=safety, weight=1.0)], safety=SAFETY_DIMENSION)
    evaluator = Evaluator(multi, Panel(judges=[ScriptedJudge({SAFETY_DIMENSION: None})]), version="1")
    metrics = PipelineMetrics(registry)
    return Worker(Config.model_validate(NOWHERE), evaluator, metrics), metrics, registry


def test_what_a_worker_consumed_is_the_sum_of_what_became_of_it_with_its_reasons(
    world: tuple[Worker, PipelineMetrics, CollectorRegistry],
) -> None:
    worker, metrics, registry = world
    for at, each in enumerate(OUTCOMES):
        worker._count(judged(at, *each))
    others = sum(metrics.read_count(Stage.WORKER, outcome) for outcome in Outcome if outcome is not Outcome.CONSUMED)
    assert metrics.read_count(Stage.WORKER, Outcome.CONSUMED) == others == len(OUTCOMES)
    for outcome, reason, _ in OUTCOMES:
        labels = {"stage": "worker", "outcome": outcome.value, "reason": reason or ""}
        assert registry.get_sample_value("streamjury_records_total", labels) == 1
    assert registry.get_sample_value("streamjury_evaluation_seconds_count") == 5, "work is counted, published or not"


def test_sinks_of_a_worker_are_told_of_what_is_counted_as_published_and_one_that_raises_breaks_nothing(
    world: tuple[Worker, PipelineMetrics, CollectorRegistry], caplog: pytest.LogCaptureFixture
) -> None:
    worker, metrics, _ = world
    kept = ListSink()
    worker.sinks += [BrokenSink(), kept]
    for at, each in enumerate(OUTCOMES):
        worker._count(judged(at, *each))
    assert [each.evaluation_id for each in kept.items] == ["0", "1", "2"]
    published = metrics.read_count(Stage.WORKER, Outcome.SCORED) + metrics.read_count(Stage.WORKER, Outcome.UNSCORED)
    assert published == len(kept.items)
    assert metrics.read_count(Stage.WORKER, Outcome.CONSUMED) == len(OUTCOMES)
    assert [record.getMessage() for record in caplog.records] == [f"a sink failed on evaluation {at}" for at in "012"]


def test_the_sinks_of_a_service_are_those_of_its_worker() -> None:
    kept = ListSink()
    running = Service(Config.model_validate(NOWHERE), [Stage.WORKER], [kept])
    (worker,) = running._stages
    assert isinstance(worker, Worker)
    assert worker.sinks == [kept]


def service(**sections: object) -> Service:
    return Service(Config.model_validate({**NOWHERE, **sections}), stages=[])


def observed(running: Service, *evaluations: Evaluation) -> None:
    for at, each in enumerate(evaluations):
        fresh = each.model_copy(update={"evaluation_id": str(at), "evaluated_at": datetime.now(UTC)})
        running.monitor.observe(fresh.model_dump_json().encode())


def test_a_good_composite_is_what_the_objectives_say_for_the_app() -> None:
    running = service(objectives={"good_score": 0.6, "apps": {"bank": {"good_score": 0.9}, "shop": {"target": 0.9}}})
    observed(running, *(evaluation(0.8, app=app, probability=0.5) for app in ("bank", "shop", None)))
    good = {
        app: running.registry.get_sample_value("streamjury_objective_good_events_total", {"app": app})
        for app in ("bank", "shop", "unknown")
    }
    assert good == {"bank": 0.0, "shop": 2.0, "unknown": 2.0}


def test_an_app_with_an_objective_of_its_own_has_a_place_and_others_share_the_general_one() -> None:
    running = service(metrics={"max_apps": 2}, objectives={"good_score": 0.6, "apps": {"bank": {"good_score": 0.9}}})
    observed(running, *(evaluation(0.8, app=app) for app in ("shop", "late", "later", "bank")))
    good, events = (
        {
            app: running.registry.get_sample_value(f"streamjury_objective_{which}_total", {"app": app})
            for app in ("shop", "bank", "other")
        }
        for which in ("good_events", "events")
    )
    assert good == {"shop": 1.0, "bank": 0.0, "other": 2.0}
    assert events == {"shop": 1.0, "bank": 1.0, "other": 2.0}


def test_apps_that_the_configuration_names_have_a_place_however_late_they_come() -> None:
    running = service(
        metrics={"max_apps": 4, "apps": ["bank"]},
        objectives={"apps": {"mail": {"target": 0.9}}},
        detection={"apps": {"desk": {"composite": 0.9}}},
    )
    observed(running, *(evaluation(0.8, app=app) for app in ("shop", "late", "later", "bank", "mail", "desk")))
    counted = {
        app: running.registry.get_sample_value("streamjury_objective_events_total", {"app": app})
        for app in ("shop", "bank", "mail", "desk", "other")
    }
    assert counted == {"shop": 1.0, "bank": 1.0, "mail": 1.0, "desk": 1.0, "other": 2.0}


@pytest.mark.parametrize(
    ("written", "path", "why"),
    [
        ("metrics: {apps: 20}", "metrics.apps", "must be a list of names; max_apps sets the number of apps"),
        (r'metrics: {apps: ["a\u202eb"]}', "metrics.apps[0]", "must be a name in printable characters"),
    ],
)
def test_what_is_no_list_of_apps_is_refused(tmp_path: Path, written: str, path: str, why: str) -> None:
    file = tmp_path / "streamjury.yaml"
    file.write_text(written)
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    [problem] = caught.value.problems
    assert (problem.path, problem.message) == (path, why)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("unknown", "cannot be an app: metrics use it for interactions without an app"),
        ("other", "cannot be an app: metrics use it for apps beyond metrics.max_apps"),
    ],
)
def test_what_stands_for_many_apps_has_no_objective_nor_label_of_its_own(tmp_path: Path, name: str, why: str) -> None:
    file = tmp_path / "streamjury.yaml"
    objectives = f"objectives: {{apps: {{shop: {{target: 0.9}}, {name}: {{target: 0.9}}}}}}"
    file.write_text(f"{objectives}\nmetrics: {{apps: [shop, {name}]}}\n")
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    problems = [(problem.path, problem.message) for problem in caught.value.problems]
    assert problems == [(f"objectives.apps.{name}", why), ("metrics.apps[1]", why)]


def test_scores_are_told_apart_as_the_configuration_says() -> None:
    running = service(metrics={"labels": ["tenant"], "top": 1, "max_apps": 2})
    observed(
        running,
        *(evaluation(app=app) for app in "abc"),
        *(evaluation(app="a", tenant=tenant) for tenant in ["acme"] * 20 + ["late"] * 20),
    )
    samples = [
        sample
        for metric in running.registry.collect()
        if metric.name == "streamjury_evaluations"
        for sample in metric.samples
        if sample.name.endswith("_total")
    ]
    assert {sample.labels["app"] for sample in samples} == {"a", "b", "other"}
    assert {sample.labels["tenant"] for sample in samples} == {"acme", "other", "unknown"}
    assert sum(sample.value for sample in samples) == running.metrics.read_count(Stage.MONITOR, Outcome.SEEN) == 43

"""The metrics of the stages, and how the configuration shapes them, without a broker."""

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
    """A judge whose endpoint refuses calls for a while."""

    refusal_of_endpoint: str | None = "it refuses the key"

    @property
    def paused(self) -> str | None:
        return self.refusal_of_endpoint


def test_a_worker_reports_its_evaluator_and_paused_judges() -> None:
    registry = CollectorRegistry()
    refused, well = RefusedJudge({SAFETY_DIMENSION: None}, "refused"), ScriptedJudge({SAFETY_DIMENSION: None}, "well")
    safety = load_catalogue("rag")[SAFETY_DIMENSION]
    multi = MultiCriteria([Item(criterion=safety, weight=1.0)], safety=SAFETY_DIMENSION)
    evaluator = Evaluator(multi, Panel(judges=[refused, well]), version="1.2")
    worker = Worker(Config.model_validate(NOWHERE), evaluator, PipelineMetrics(registry))
    labels = {"fingerprint": evaluator.info.fingerprint, "version": "1.2"}
    assert registry.get_sample_value("streamjury_evaluator_info", labels) == 1

    worker._pool = JudgePool(1)
    try:
        for refusal, expected in (("it refuses the key", 1), (None, 0)):
            refused.refusal_of_endpoint = refusal
            worker._publish_metrics()
            assert registry.get_sample_value("streamjury_judge_paused", {"judge": "refused"}) == expected
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


def make_result(number: int, outcome: Outcome, reason: str | None, is_evaluated: bool) -> RecordResult:
    result_evaluation = evaluation(evaluation_id=str(number), latency_ms=10.0) if is_evaluated else None
    return RecordResult(outcome=outcome, reason=reason, evaluation=result_evaluation)


@pytest.fixture
def world() -> tuple[Worker, PipelineMetrics, CollectorRegistry]:
    registry = CollectorRegistry()
    safety = load_catalogue("rag")[SAFETY_DIMENSION]
    multi = MultiCriteria([Item(criterion=safety, weight=1.0)], safety=SAFETY_DIMENSION)
    evaluator = Evaluator(multi, Panel(judges=[ScriptedJudge({SAFETY_DIMENSION: None})]), version="1")
    metrics = PipelineMetrics(registry)
    return Worker(Config.model_validate(NOWHERE), evaluator, metrics), metrics, registry


def test_the_outcomes_of_a_worker_add_up_to_its_consumed_records(
    world: tuple[Worker, PipelineMetrics, CollectorRegistry],
) -> None:
    worker, metrics, registry = world
    for number, outcome_case in enumerate(OUTCOMES):
        worker._count(make_result(number, *outcome_case))
    others = sum(metrics.read_count(Stage.WORKER, outcome) for outcome in Outcome if outcome is not Outcome.CONSUMED)
    assert metrics.read_count(Stage.WORKER, Outcome.CONSUMED) == others == len(OUTCOMES)
    for outcome, reason, _ in OUTCOMES:
        labels = {"stage": "worker", "outcome": outcome.value, "reason": reason or ""}
        assert registry.get_sample_value("streamjury_records_total", labels) == 1
    assert registry.get_sample_value("streamjury_evaluation_seconds_count") == 5, (
        "evaluations count whether they are published or not"
    )


def test_sinks_of_a_worker_receive_published_evaluations_even_if_another_sink_raises(
    world: tuple[Worker, PipelineMetrics, CollectorRegistry], caplog: pytest.LogCaptureFixture
) -> None:
    worker, metrics, _ = world
    working_sink = ListSink()
    worker.sinks += [BrokenSink(), working_sink]
    for number, outcome_case in enumerate(OUTCOMES):
        worker._count(make_result(number, *outcome_case))
    assert [written.evaluation_id for written in working_sink.items] == ["0", "1", "2"]
    published = metrics.read_count(Stage.WORKER, Outcome.SCORED) + metrics.read_count(Stage.WORKER, Outcome.UNSCORED)
    assert published == len(working_sink.items)
    assert metrics.read_count(Stage.WORKER, Outcome.CONSUMED) == len(OUTCOMES)
    assert [record.getMessage() for record in caplog.records] == [
        f"a sink failed on evaluation {name}" for name in "012"
    ]


def test_the_sinks_of_a_service_are_those_of_its_worker() -> None:
    sink = ListSink()
    running = Service(Config.model_validate(NOWHERE), [Stage.WORKER], [sink])
    (worker,) = running._stages
    assert isinstance(worker, Worker)
    assert worker.sinks == [sink]


def service(**sections: object) -> Service:
    return Service(Config.model_validate({**NOWHERE, **sections}), stages=[])


def observe(running: Service, *evaluations: Evaluation) -> None:
    for number, template in enumerate(evaluations):
        fresh = template.model_copy(update={"evaluation_id": str(number), "evaluated_at": datetime.now(UTC)})
        running.monitor.observe(fresh.model_dump_json().encode())


def test_the_objective_of_the_app_decides_which_composites_are_good() -> None:
    running = service(objectives={"good_score": 0.6, "apps": {"bank": {"good_score": 0.9}, "shop": {"target": 0.9}}})
    observe(running, *(evaluation(0.8, app=app, probability=0.5) for app in ("bank", "shop", None)))
    good = {
        app: running.registry.get_sample_value("streamjury_objective_good_events_total", {"app": app})
        for app in ("bank", "shop", "unknown")
    }
    assert good == {"bank": 0.0, "shop": 2.0, "unknown": 2.0}


def test_an_app_with_its_own_objective_has_its_own_label_and_others_share_one() -> None:
    running = service(metrics={"max_apps": 2}, objectives={"good_score": 0.6, "apps": {"bank": {"good_score": 0.9}}})
    observe(running, *(evaluation(0.8, app=app) for app in ("shop", "late", "later", "bank")))
    good, events = (
        {
            app: running.registry.get_sample_value(f"streamjury_objective_{which}_total", {"app": app})
            for app in ("shop", "bank", "other")
        }
        for which in ("good_events", "events")
    )
    assert good == {"shop": 1.0, "bank": 0.0, "other": 2.0}
    assert events == {"shop": 1.0, "bank": 1.0, "other": 2.0}


def test_configured_apps_always_have_their_own_label() -> None:
    running = service(
        metrics={"max_apps": 4, "apps": ["bank"]},
        objectives={"apps": {"mail": {"target": 0.9}}},
        detection={"apps": {"desk": {"composite": 0.9}}},
    )
    observe(running, *(evaluation(0.8, app=app) for app in ("shop", "late", "later", "bank", "mail", "desk")))
    events = {
        app: running.registry.get_sample_value("streamjury_objective_events_total", {"app": app})
        for app in ("shop", "bank", "mail", "desk", "other")
    }
    assert events == {"shop": 1.0, "bank": 1.0, "mail": 1.0, "desk": 1.0, "other": 2.0}


@pytest.mark.parametrize(
    ("content", "path", "message"),
    [
        ("metrics: {apps: 20}", "metrics.apps", "must be a list of names; max_apps sets the number of apps"),
        (r'metrics: {apps: ["a\u202eb"]}', "metrics.apps[0]", "must be a name in printable characters"),
    ],
)
def test_an_invalid_list_of_apps_is_refused(tmp_path: Path, content: str, path: str, message: str) -> None:
    file = tmp_path / "streamjury.yaml"
    file.write_text(content)
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    [problem] = caught.value.problems
    assert (problem.path, problem.message) == (path, message)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("unknown", "cannot be an app: metrics use it for interactions without an app"),
        ("other", "cannot be an app: metrics use it for apps beyond metrics.max_apps"),
    ],
)
def test_reserved_labels_cannot_be_apps(tmp_path: Path, name: str, message: str) -> None:
    file = tmp_path / "streamjury.yaml"
    objectives = f"objectives: {{apps: {{shop: {{target: 0.9}}, {name}: {{target: 0.9}}}}}}"
    file.write_text(f"{objectives}\nmetrics: {{apps: [shop, {name}]}}\n")
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    problems = [(problem.path, problem.message) for problem in caught.value.problems]
    assert problems == [(f"objectives.apps.{name}", message), ("metrics.apps[1]", message)]


def test_scores_have_the_configured_labels() -> None:
    running = service(metrics={"labels": ["tenant"], "top": 1, "max_apps": 2})
    observe(
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

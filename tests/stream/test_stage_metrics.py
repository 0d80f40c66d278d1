"""What the stages tell their metrics, and what the metrics are told by the configuration; no broker is needed."""

from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from judges.catalogue import load_catalogue
from judges.composite import Item, MultiCriteria
from judges.criteria import SAFETY_DIMENSION
from judges.evaluation import Evaluation
from judges.evaluator import Evaluator
from judges.panel import Panel
from judges.scripted import ScriptedJudge
from sinks.metrics import Outcome, PipelineMetrics, Stage
from stream.config import Config
from stream.pool import JudgePool
from stream.service import Service
from stream.worker import Worker
from tests.sinks.measured import evaluation

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
            worker._tell()
            assert registry.get_sample_value("streamjury_judge_paused", {"judge": "refused"}) == shown
            assert registry.get_sample_value("streamjury_judge_paused", {"judge": "well"}) == 0
    finally:
        worker._pool.close(evaluator.aclose())


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


def test_scores_are_told_apart_as_the_configuration_says() -> None:
    running = service(metrics={"labels": ["tenant"], "top": 1, "apps": 2})
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
    assert sum(sample.value for sample in samples) == running.metrics.counted(Stage.MONITOR, Outcome.SEEN) == 43

"""The worker's rules without a broker: back-pressure, and failures that must not stop a partition."""

import asyncio
import json
from collections.abc import Collection

import pytest
from prometheus_client import CollectorRegistry

from judges.composite import Item, MultiCriteria
from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import SAFETY_DIMENSION, Criterion
from judges.evaluator import Evaluator
from judges.panel import Panel
from judges.scripted import Answer, ScriptedJudge
from judges.values.interaction import Case
from sinks.metrics import Outcome, PipelineMetrics
from stream.config.model import Config
from stream.kafka.consume_produce import CommittedOffset
from stream.kafka.offsets import Partition
from stream.kafka.record import Record
from stream.worker.budget import SavingPlan, Thinning, Treasury
from stream.worker.judging import Judging, RecordResult
from stream.worker.retries import Retries
from stream.worker.stage import Worker

SAFETY = load_catalogue("rag")[SAFETY_DIMENSION]
CONFIG = Config.model_validate({"kafka": {"bootstrap": "127.0.0.1:1"}})
QUEUE = Partition("rag.sampled", 0)


def evaluator(script: "Script") -> Evaluator:
    multi = MultiCriteria([Item(criterion=SAFETY, weight=1.0)], safety=SAFETY_DIMENSION)
    return Evaluator(multi, Panel(judges=[ScriptedJudge(script)]), version="test")


class Script:
    """A judge script whose first calls may raise a stray cancellation."""

    def __init__(self, *, cancelled: int = 0) -> None:
        self._cancelled = cancelled
        self.calls = 0

    async def __call__(self, case: Case, criterion: Criterion) -> Answer:
        self.calls += 1
        if self.calls <= self._cancelled:
            raise asyncio.CancelledError
        return int(SAFETY.worst_first[-1].value or 0)


def record(offset: int) -> Record:
    value = json.dumps({"id": f"i-{offset}", "question": "q", "answer": "a"}).encode()
    return Record(partition=QUEUE, offset=offset, key=None, value=value, headers=())


class PauseRecorder:
    """Records which partitions were paused and resumed."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, set[Partition]]] = []

    def pause(self, partitions: Collection[Partition]) -> None:
        self.calls.append(("pause", set(partitions)))

    def resume(self, partitions: Collection[Partition]) -> None:
        self.calls.append(("resume", set(partitions)))


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> tuple[Worker, PauseRecorder]:
    new_worker, recorder = Worker(CONFIG, evaluator(Script()), PipelineMetrics(CollectorRegistry())), PauseRecorder()
    monkeypatch.setattr(new_worker._consumer, "pause", recorder.pause)
    monkeypatch.setattr(new_worker._consumer, "resume", recorder.resume)
    return new_worker, recorder


def test_a_partition_with_enough_waiting_records_is_paused(worker: tuple[Worker, PauseRecorder]) -> None:
    """It may still be paused from an earlier assignment, so it is always resumed first."""
    subject, recorder = worker
    subject.on_assigned([QUEUE])
    for offset in range(64):
        subject._waiting.add(record(offset))
    subject._apply_backpressure()
    assert recorder.calls == [("resume", {QUEUE}), ("pause", {QUEUE})]
    for _ in range(64):
        subject._waiting.take(QUEUE)
    subject._apply_backpressure()
    assert recorder.calls[2:] == [("resume", {QUEUE})]


def test_a_new_partition_waits_until_the_results_of_its_last_owner_are_loaded(
    worker: tuple[Worker, PauseRecorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    subject, _ = worker
    subject.on_assigned([QUEUE])
    assert not subject._previous_results_loaded(QUEUE)
    subject._recent.loaded_at = subject._assigned_at[QUEUE]
    assert subject._previous_results_loaded(QUEUE)
    subject._recent.loaded_at -= 1.0
    subject._assigned_at[QUEUE] -= 6.0
    assert subject._previous_results_loaded(QUEUE), "after some seconds the partition starts anyway"


def test_a_stray_cancellation_costs_a_verdict_and_does_not_stop_the_partition() -> None:
    retries = Retries(CONFIG)
    with_worker = Worker(CONFIG, evaluator(Script()), PipelineMetrics(CollectorRegistry()))
    judging = Judging(
        CONFIG,
        evaluator(Script(cancelled=1)),
        with_worker._recent,
        retries=retries,
        treasury=Treasury(None, topic="rag.sampled"),
        on_unsafe=lambda _notice: None,
    )
    outcomes = [asyncio.run(judging.judge(retries.read_arrival(record(offset)))).outcome for offset in (1, 2)]
    assert outcomes[1] is Outcome.SCORED
    assert outcomes[0] in {Outcome.PARKED, Outcome.DEADLETTER}


class LaggingBroker:
    """A broker that does not know a new partition yet, and counts the requests."""

    def __init__(self) -> None:
        self.requests = 0
        self.partitions = 0

    def marks(self, partitions: Collection[Partition]) -> tuple[int, dict[Partition, CommittedOffset]]:
        self.requests += 1
        return self.partitions, dict.fromkeys(partitions, CommittedOffset(-1))


def test_a_lagging_broker_is_not_asked_for_the_budget_state_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config.model_validate(
        {"kafka": {"bootstrap": "127.0.0.1:1"}, "budgets": {"per_hour_usd": 10}},
    )
    subject, broker = Worker(config, evaluator(Script()), PipelineMetrics(CollectorRegistry())), LaggingBroker()
    monkeypatch.setattr(subject._consumer, "marks", broker.marks)
    monkeypatch.setattr("stream.worker.stage._ASK_AGAIN_SECONDS", 3600.0)
    subject.on_assigned([QUEUE])
    for _ in range(10):
        subject._load_budget_state()
    assert (broker.requests, subject._treasury.is_open(QUEUE)) == (1, False)
    subject.on_assigned([Partition("rag.sampled", 1)])
    subject._load_budget_state()
    assert broker.requests == 2, "a new partition causes a request at once"
    broker.partitions = 2
    subject._ask_at = 0.0
    subject._load_budget_state()
    assert (broker.requests, subject._treasury.is_open(QUEUE)) == (3, True)
    subject._ask_at = 0.0
    subject._load_budget_state()
    assert broker.requests == 3, "a known state is not requested again"


class LimitedTreasury(Treasury):
    """A treasury that keeps the share set by the test."""

    keep_share = 1 / 16

    def plan_savings(self, *_about: object) -> SavingPlan:
        return SavingPlan(keep_share=self.keep_share)


def test_a_record_skipped_for_the_budget_is_judged_when_it_is_repeated() -> None:
    retries, treasury = Retries(CONFIG), LimitedTreasury(None, topic="rag.sampled")
    finished = Worker(CONFIG, evaluator(Script()), PipelineMetrics(CollectorRegistry()))._recent
    judging = Judging(
        CONFIG, evaluator(Script()), finished, retries=retries, treasury=treasury, on_unsafe=lambda _notice: None
    )

    def judge_all() -> list[RecordResult]:
        results = [asyncio.run(judging.judge(retries.read_arrival(record(offset)))) for offset in range(40)]
        for result in results:
            judging.mark_published(result)
        return results

    limited = judge_all()
    skipped = [result for result in limited if result.outcome is Outcome.SAMPLED_OUT]
    assert len(skipped) > 20
    assert {result.reason for result in skipped} == {"budget"}
    assert {result.evaluation.sampling.probability for result in limited if result.evaluation} <= {1 / 16}
    assert not judging._in_work
    treasury.keep_share = 1.0
    assert sum(result.outcome is Outcome.SCORED for result in judge_all()) == len(skipped)


def test_a_retried_record_keeps_the_probability_it_was_kept_with() -> None:
    retries, treasury = Retries(CONFIG), LimitedTreasury(None, topic="rag.sampled")
    finished = Worker(CONFIG, evaluator(Script()), PipelineMetrics(CollectorRegistry()))._recent
    subject = evaluator(Script())
    judging = Judging(CONFIG, subject, finished, retries=retries, treasury=treasury, on_unsafe=lambda _notice: None)
    number_kept = next(
        number for number in range(1000) if Thinning(CONFIG.sampling.salt).keeps(f"i-{number}", treasury.keep_share)
    )
    arrival = retries.read_arrival(record(number_kept))
    parked = retries.park(arrival._replace(kept=treasury.keep_share), error="unscored_timeout", message="late")
    assert parked is not None
    again = retries.read_arrival(
        record(number_kept)._replace(partition=Partition(parked.topic, 0), headers=parked.headers)
    )
    treasury.keep_share = 1.0
    result = asyncio.run(judging.judge(again))
    assert result.evaluation is not None
    assert result.evaluation.sampling.probability == 1 / 16


def test_a_record_with_an_impossible_probability_is_dead_lettered_and_not_judged() -> None:
    retries, script = Retries(CONFIG), Script()
    worker = Worker(CONFIG, evaluator(script), PipelineMetrics(CollectorRegistry()))
    forged = record(1)._replace(headers=(("sj-probability", repr(2.0**-53).encode()),))
    result = asyncio.run(worker._judging.judge(retries.read_arrival(forged)))
    assert (result.outcome, result.reason, script.calls) == (Outcome.DEADLETTER, "bad_probability", 0)
    [letter] = result.messages
    assert letter.value == forged.value

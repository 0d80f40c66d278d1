"""The worker's own rules, without a broker: what is held back, and what cannot stop a partition."""

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
    """Calm or, once, cancelled by nobody."""

    def __init__(self, *, cancelled: int = 0) -> None:
        self._cancelled = cancelled
        self.asked = 0

    async def __call__(self, case: Case, criterion: Criterion) -> Answer:
        self.asked += 1
        if self.asked <= self._cancelled:
            raise asyncio.CancelledError
        return int(SAFETY.worst_first[-1].value or 0)


def record(offset: int) -> Record:
    value = json.dumps({"id": f"i-{offset}", "question": "q", "answer": "a"}).encode()
    return Record(partition=QUEUE, offset=offset, key=None, value=value, headers=())


class Held:
    """What the broker was told to hold back and to send again."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, set[Partition]]] = []

    def pause(self, partitions: Collection[Partition]) -> None:
        self.calls.append(("pause", set(partitions)))

    def resume(self, partitions: Collection[Partition]) -> None:
        self.calls.append(("resume", set(partitions)))


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> tuple[Worker, Held]:
    found, held = Worker(CONFIG, evaluator(Script()), PipelineMetrics(CollectorRegistry())), Held()
    monkeypatch.setattr(found._consumer, "pause", held.pause)
    monkeypatch.setattr(found._consumer, "resume", held.resume)
    return found, held


def test_a_partition_that_comes_with_records_is_held_back_when_it_has_enough(worker: tuple[Worker, Held]) -> None:
    """It may have been paused when it was ours before: that is lifted, whatever came with it, and never believed."""
    subject, held = worker
    subject.on_assigned([QUEUE])
    for offset in range(64):
        subject._waiting.add(record(offset))
    subject._apply_backpressure()
    assert held.calls == [("resume", {QUEUE}), ("pause", {QUEUE})]
    for _ in range(64):
        subject._waiting.take(QUEUE)
    subject._apply_backpressure()
    assert held.calls[2:] == [("resume", {QUEUE})]


def test_a_new_partition_waits_until_the_results_of_its_last_owner_are_known(
    worker: tuple[Worker, Held], monkeypatch: pytest.MonkeyPatch
) -> None:
    subject, _ = worker
    subject.on_assigned([QUEUE])
    assert not subject._previous_results_loaded(QUEUE)
    subject._recent.loaded_at = subject._assigned_at[QUEUE]
    assert subject._previous_results_loaded(QUEUE)
    subject._recent.loaded_at -= 1.0
    subject._assigned_at[QUEUE] -= 6.0
    assert subject._previous_results_loaded(QUEUE), "after some seconds it begins anyway"


def test_a_cancellation_by_nobody_costs_a_verdict_and_not_the_partition() -> None:
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


class Lagging:
    """A broker that has not heard of a new partition yet, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.partitions = 0

    def marks(self, partitions: Collection[Partition]) -> tuple[int, dict[Partition, CommittedOffset]]:
        self.asked += 1
        return self.partitions, dict.fromkeys(partitions, CommittedOffset(-1))


def test_a_broker_that_lags_is_not_asked_at_every_step_what_was_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config.model_validate(
        {"kafka": {"bootstrap": "127.0.0.1:1"}, "budgets": {"per_hour_usd": 10}},
    )
    subject, broker = Worker(config, evaluator(Script()), PipelineMetrics(CollectorRegistry())), Lagging()
    monkeypatch.setattr(subject._consumer, "marks", broker.marks)
    subject.on_assigned([QUEUE])
    for _ in range(10):
        subject._load_budget_state()
    assert (broker.asked, subject._treasury.is_open(QUEUE)) == (1, False)
    subject.on_assigned([Partition("rag.sampled", 1)])
    subject._load_budget_state()
    assert broker.asked == 2, "for a partition that is new it is asked at once"
    broker.partitions = 2
    subject._ask_at -= 1.0
    subject._load_budget_state()
    assert (broker.asked, subject._treasury.is_open(QUEUE)) == (3, True)
    subject._ask_at -= 1.0
    subject._load_budget_state()
    assert broker.asked == 3, "what is known is not asked for"


class Poor(Treasury):
    """All apps are as poor as it is told."""

    keep_share = 1 / 16

    def plan_savings(self, *_about: object) -> SavingPlan:
        return SavingPlan(keep_share=self.keep_share)


def test_what_is_left_out_for_lack_of_money_is_forgotten_and_judged_when_it_comes_again() -> None:
    retries, treasury = Retries(CONFIG), Poor(None, topic="rag.sampled")
    finished = Worker(CONFIG, evaluator(Script()), PipelineMetrics(CollectorRegistry()))._recent
    judging = Judging(
        CONFIG, evaluator(Script()), finished, retries=retries, treasury=treasury, on_unsafe=lambda _notice: None
    )

    def judged() -> list[RecordResult]:
        found = [asyncio.run(judging.judge(retries.read_arrival(record(offset)))) for offset in range(40)]
        for each in found:
            judging.mark_published(each)
        return found

    poor = judged()
    left_out = [each for each in poor if each.outcome is Outcome.SAMPLED_OUT]
    assert len(left_out) > 20
    assert {each.reason for each in left_out} == {"budget"}
    assert {each.evaluation.sampling.probability for each in poor if each.evaluation} <= {1 / 16}
    assert not judging._in_work
    treasury.keep_share = 1.0
    assert sum(each.outcome is Outcome.SCORED for each in judged()) == len(left_out)


def test_a_record_that_comes_again_stands_for_as_many_as_it_was_kept_for() -> None:
    retries, treasury = Retries(CONFIG), Poor(None, topic="rag.sampled")
    finished = Worker(CONFIG, evaluator(Script()), PipelineMetrics(CollectorRegistry()))._recent
    subject = evaluator(Script())
    judging = Judging(CONFIG, subject, finished, retries=retries, treasury=treasury, on_unsafe=lambda _notice: None)
    kept = next(
        number for number in range(1000) if Thinning(CONFIG.sampling.salt).keeps(f"i-{number}", treasury.keep_share)
    )
    arrival = retries.read_arrival(record(kept))
    parked = retries.park(arrival._replace(kept=treasury.keep_share), error="unscored_timeout", message="late")
    assert parked is not None
    again = retries.read_arrival(record(kept)._replace(partition=Partition(parked.topic, 0), headers=parked.headers))
    treasury.keep_share = 1.0
    judged = asyncio.run(judging.judge(again))
    assert judged.evaluation is not None
    assert judged.evaluation.sampling.probability == 1 / 16


def test_a_record_that_claims_to_stand_for_too_many_is_a_dead_letter_and_is_not_judged() -> None:
    retries, script = Retries(CONFIG), Script()
    worker = Worker(CONFIG, evaluator(script), PipelineMetrics(CollectorRegistry()))
    forged = record(1)._replace(headers=(("sj-probability", repr(2.0**-53).encode()),))
    result = asyncio.run(worker._judging.judge(retries.read_arrival(forged)))
    assert (result.outcome, result.reason, script.asked) == (Outcome.DEADLETTER, "bad_probability", 0)
    [letter] = result.messages
    assert letter.value == forged.value

"""Repeats and conflicts: each content is judged once, and no content is skipped because another has the same id."""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from judges.composite import Item, MultiCriteria
from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import SAFETY_DIMENSION, Criterion
from judges.evaluator import Evaluator
from judges.panel import Panel
from judges.scripted import Answer, ScriptedJudge
from judges.values.evaluation import Reason, SafetyNotice, evaluation_id
from judges.values.interaction import Case, Interaction
from sinks.base import Headers
from sinks.metrics import Outcome, PipelineMetrics
from stream.config.model import Config
from stream.kafka.offsets import Partition
from stream.kafka.record import Record
from stream.monitor.reading import read_evaluation
from stream.records.identity import UNKNOWN_CONTENT, content_digest
from stream.worker.budget import SavingPlan, Thinning, Treasury
from stream.worker.judging import Judging, RecordResult
from stream.worker.retries import Retries
from stream.worker.stage import Worker

SAFETY = load_catalogue("rag")[SAFETY_DIMENSION]
QUEUE = Partition("rag.sampled", 0)
GOOD, HARMFUL = "It is open.", "Kill yourself."


class ScriptByAnswer:
    """Judges the harmful answer harmful after a moment, and first fails as often as requested."""

    def __init__(self, failures: int = 0) -> None:
        self.calls: Counter[str] = Counter()
        self.failures = failures

    async def __call__(self, case: Case, _criterion: Criterion) -> Answer:
        self.calls[case.text("answer")] += 1
        await asyncio.sleep(0.01)
        if self.failures:
            self.failures -= 1
            return Reason.UNAVAILABLE
        harmful = case.text("answer") == HARMFUL
        return int(SAFETY.worst_first[0 if harmful else -1].value or 0)


class LimitedTreasury(Treasury):
    """A treasury that keeps the share set by the test."""

    keep_share = 1.0

    def plan_savings(self, *_about: object) -> SavingPlan:
        return SavingPlan(keep_share=self.keep_share)


class JudgingHarness:
    """A worker's judging without its broker."""

    def __init__(self, script: ScriptByAnswer | None = None, **worker: Any) -> None:
        config = Config.model_validate({"kafka": {"bootstrap": "127.0.0.1:1"}, "worker": worker})
        self.script, self.notices = script or ScriptByAnswer(), list[SafetyNotice]()
        multi = MultiCriteria([Item(criterion=SAFETY, weight=1.0)], safety=SAFETY_DIMENSION)
        self.evaluator = Evaluator(multi, Panel(judges=[ScriptedJudge(self.script)]), version="test")
        self.recent = Worker(config, self.evaluator, PipelineMetrics(CollectorRegistry()))._recent
        self.retries, self.treasury = Retries(config), LimitedTreasury(None, topic="rag.sampled")
        self.judging = Judging(
            config,
            self.evaluator,
            self.recent,
            retries=self.retries,
            treasury=self.treasury,
            on_unsafe=self.notices.append,
        )

    def name(self, interaction_id: str) -> str:
        return evaluation_id(interaction_id, self.evaluator.info.fingerprint)

    def take(self, *answers: str, interaction_id: str = "session-1", publish: bool = True) -> list[RecordResult]:
        """Judge records of one id concurrently and return their results."""
        records = (record(interaction_id, answer) for answer in answers)
        arrivals = [self.retries.read_arrival(arriving) for arriving in records]

        async def together() -> list[RecordResult]:
            return await asyncio.gather(*map(self.judging.judge, arrivals))

        results = asyncio.run(together())
        for result in results if publish else ():
            self.judging.mark_published(result)
        return results


def record(interaction_id: str, answer: str, offset: int = 0) -> Record:
    value = json.dumps({"id": interaction_id, "app": "shop", "question": "Is it open?", "answer": answer})
    return Record(partition=QUEUE, offset=offset, key=None, value=value.encode(), headers=())


def digest(answer: str) -> str:
    """Return the content digest of a record with this answer."""
    return content_digest(Interaction.model_validate_json(record("any", answer).value or b""))


def outcomes(results: list[RecordResult]) -> list[Outcome]:
    return [result.outcome for result in results]


def list_published_ids(results: list[RecordResult]) -> list[str]:
    return [result.evaluation.interaction_id for result in results if result.evaluation is not None]


def headers_of(result: RecordResult) -> dict[str, bytes | None]:
    [message] = result.messages
    headers: Headers = message.headers
    return dict(headers)


def test_a_harmful_answer_is_judged_despite_a_good_one_of_the_same_id() -> None:
    subject = JudgingHarness()
    [first], [second] = subject.take(GOOD), subject.take(HARMFUL)
    assert (first.is_id_conflict, second.is_id_conflict) == (False, True)
    assert second.evaluation is not None
    [notice] = subject.notices
    assert (second.evaluation.composite.status, notice.evaluation_id) == ("unsafe", second.evaluation.evaluation_id)
    content = (headers_of(second)["sj-content"] or b"").decode()
    assert list_published_ids([first, second]) == ["session-1", f"session-1#{content}"]
    assert headers_of(second)["sj-logged-id"] == b"session-1"
    assert "sj-logged-id" not in headers_of(first)


def test_a_logged_id_in_the_form_of_a_conflict_is_refused_and_hides_no_answer() -> None:
    subject = JudgingHarness()
    reserved = f"session-1#{digest(HARMFUL)}"
    [good], [harmful] = subject.take(GOOD, interaction_id=reserved), subject.take(HARMFUL)
    assert (good.outcome, good.reason) == (Outcome.DEADLETTER, "reserved_id")
    assert (harmful.outcome, len(subject.notices)) == (Outcome.SCORED, 1)
    assert outcomes(subject.take(GOOD, interaction_id=reserved[:-1])) == [Outcome.SCORED]


@pytest.mark.parametrize("earlier", [digest(GOOD), UNKNOWN_CONTENT])
def test_another_content_under_the_id_of_a_conflict_is_no_repeat(earlier: str) -> None:
    """No version published a conflict's evaluation without its digest."""
    subject = JudgingHarness()
    subject.recent.add(subject.name(f"session-1#{digest(HARMFUL)}"), earlier)
    assert outcomes(subject.take(HARMFUL)) == [Outcome.SCORED]


@pytest.mark.parametrize("length", [479, 480, 512])
def test_the_monitor_accepts_the_conflict_of_a_long_id(length: int) -> None:
    subject, logged_id = JudgingHarness(), "x" * length
    [_], [conflict] = (subject.take(answer, interaction_id=logged_id) for answer in (GOOD, HARMFUL))
    [message] = conflict.messages
    judged_id = read_evaluation(message.value, None).interaction_id
    assert (len(judged_id), judged_id) == (512, f"{'x' * 479}#{digest(HARMFUL)}")
    assert headers_of(conflict)["sj-logged-id"] == logged_id.encode()
    assert outcomes(subject.take(HARMFUL, interaction_id=logged_id)) == [Outcome.REPEATED]


def test_repeats_of_each_content_are_left_out() -> None:
    subject = JudgingHarness()
    for answers in ((GOOD,), (HARMFUL,), ("It is closed.",)):
        subject.take(*answers)
    assert outcomes(subject.take(HARMFUL, GOOD, "It is closed.")) == [Outcome.REPEATED] * 3
    assert set(subject.script.calls.values()) == {1}


def test_records_of_one_id_at_once_are_judged_once_for_each_content() -> None:
    subject = JudgingHarness()
    results = subject.take(GOOD, HARMFUL, GOOD, HARMFUL, "It is closed.", publish=False)
    assert Counter(outcomes(results)) == {Outcome.SCORED: 3, Outcome.REPEATED: 2}
    assert set(subject.script.calls.values()) == {1}
    assert len(set(list_published_ids(results))) == 3


def test_a_conflict_is_a_repeat_even_when_the_first_record_is_forgotten() -> None:
    before = JudgingHarness()
    [_], [second] = before.take(GOOD), before.take(HARMFUL)
    after = JudgingHarness()
    assert second.evaluation is not None
    after.recent.add(second.evaluation.evaluation_id, second.content)
    assert outcomes(after.take(HARMFUL)) == [Outcome.REPEATED]
    assert list_published_ids(after.take(GOOD)) == ["session-1"]


def test_an_evaluation_of_an_earlier_version_covers_all_contents_of_its_id() -> None:
    subject = JudgingHarness()
    subject.recent.add(subject.name("session-1"), UNKNOWN_CONTENT)
    assert outcomes(subject.take(GOOD)) == [Outcome.REPEATED]


def test_a_parked_record_does_not_conflict_with_itself() -> None:
    subject = JudgingHarness(ScriptByAnswer(failures=1))
    [parked] = subject.take(GOOD)
    assert parked.outcome is Outcome.PARKED
    [again] = subject.take(GOOD)
    assert (again.outcome, again.is_id_conflict, list_published_ids([again])) == (Outcome.SCORED, False, ["session-1"])


def test_a_conflict_is_thinned_out_by_its_logged_id() -> None:
    """The audit knows only this id."""
    subject = JudgingHarness()
    thinning, share = Thinning(Config().sampling.salt), 1 / 16
    kept_id = next(f"i-{number}" for number in range(1000) if thinning.keeps(f"i-{number}", share))
    dropped_id = next(f"i-{number}" for number in range(1000) if not thinning.keeps(f"i-{number}", share))
    subject.take(GOOD, interaction_id=kept_id)
    subject.take(GOOD, interaction_id=dropped_id)
    subject.treasury.keep_share = share
    assert outcomes(subject.take(HARMFUL, interaction_id=kept_id)) == [Outcome.SCORED]
    assert outcomes(subject.take(HARMFUL, interaction_id=dropped_id)) == [Outcome.SAMPLED_OUT]


def test_without_a_repeat_window_every_record_is_judged_under_its_own_id() -> None:
    subject = JudgingHarness(repeat_seconds=0)
    results = subject.take(GOOD, HARMFUL, GOOD)
    assert list_published_ids(results) == ["session-1"] * 3

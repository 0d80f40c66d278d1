"""Canaries: their file, their schedule, sending, and judging without savings, caching or safety notices."""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from judges.cache import CachedJudge, MemoryStore
from judges.composite import Item, MultiCriteria
from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import SAFETY_DIMENSION, Criterion
from judges.criteria.problems import InconsistentError
from judges.evaluator import Evaluator
from judges.panel import Panel
from judges.runtime.conditions import NO_SAVINGS, Conditions, Savings, current_conditions, judging_under
from judges.scripted import Answer, ScriptedJudge
from judges.values.evaluation import SafetyNotice, Sampling
from judges.values.interaction import Case
from sinks.base import Headers
from sinks.metrics import Outcome, PipelineMetrics
from stream.config.model import Config
from stream.config.names import CANARY
from stream.kafka.offsets import Partition
from stream.kafka.record import Record
from stream.monitor import canary_sender
from stream.monitor.canary_sender import CanarySender, Schedule
from stream.records.canaries import Canary, CanaryReader, read_canaries
from stream.records.decision import Decision, SamplingOutcome
from stream.records.envelope import decision_headers, is_canary, read_sampling
from stream.service.setup.config_file import ConfigError, load
from stream.worker.budget import SavingPlan, Treasury
from stream.worker.judging import Judging, RecordResult
from stream.worker.retries import Retries
from stream.worker.stage import Worker
from tests.parts.patience import patience

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "canaries.jsonl"
SAFETY = load_catalogue("rag")[SAFETY_DIMENSION]
NOWHERE = {"bootstrap": "127.0.0.1:1"}
QUEUE = Partition("rag.sampled", 0)


def canary_line(name: str, **fields: Any) -> str:
    return json.dumps({"id": name, "question": "Is it open?", "answer": "It is.", **fields})


def write_canaries(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "canaries.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def problems_of(file: str) -> list[str]:
    with pytest.raises(InconsistentError) as caught:
        read_canaries(file)
    assert all(loc == () for loc, _ in caught.value.found)
    return [message.removeprefix(f"{file}: ") for _, message in caught.value.found]


# The file


def test_the_example_file_is_valid() -> None:
    canaries = read_canaries(str(EXAMPLE))
    assert len(canaries) == len({canary.id for canary in canaries}) == 20


def test_blank_lines_other_line_ends_and_a_byte_order_mark_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "canaries.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + f"\r\n{canary_line('a')}\r\n\r\n  \n{canary_line('b')}".encode())
    assert [canary.id for canary in read_canaries(str(path))] == ["a", "b"]


def test_every_problem_is_reported_with_its_line(tmp_path: Path) -> None:
    file = write_canaries(
        tmp_path,
        canary_line("a"),
        "",
        "{",
        '{"id": "b", "question": "q"}',
        canary_line("a"),
        "[]",
        canary_line("x" * 500),
        canary_line("tagged", tags={str(number): number for number in range(64)}),
        canary_line("c"),
    )
    first, second, third, fourth, fifth, sixth = problems_of(file)
    assert first.startswith("line 3: not JSON: ")
    assert ": column 2 " in first
    assert second == "line 4: answer: Field required"
    assert third == "line 5: same id as line 1: 'a'"
    assert fourth == "line 6: must be a JSON object, not an array"
    for message, number, field in ((fifth, 7, "id: "), (sixth, 8, "tags: ")):
        assert message.startswith(f"line {number}: id and tags leave no room for Streamjury's additions: {field}")


@pytest.mark.parametrize(("count", "message"), [(0, "contains no canaries"), (1001, "line 1001: too many canaries; ")])
def test_a_file_has_one_to_a_thousand_canaries(tmp_path: Path, count: int, message: str) -> None:
    [problem] = problems_of(write_canaries(tmp_path, *(canary_line(str(number)) for number in range(count))))
    assert problem.startswith(message)
    assert len(read_canaries(write_canaries(tmp_path, *(canary_line(str(number)) for number in range(1000))))) == 1000


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    assert problems_of(str(tmp_path / "none.jsonl")) == ["cannot be read: no such file or directory"]


def test_the_configuration_reports_all_problems_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_canaries(tmp_path, canary_line("a"), "{", canary_line("a"))
    config = tmp_path / "streamjury.yaml"
    content = {"http": {"port": -1}, "detection": {"canaries": {"file": "canaries.jsonl", "every_minutes": 0}}}
    config.write_text(json.dumps(content))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    with pytest.raises(ConfigError) as caught:
        load(config, {})
    problems = [(problem.path, problem.message) for problem in caught.value.problems]
    assert Counter(path for path, _ in problems) == {
        "detection.canaries.file": 2,
        "detection.canaries.every_minutes": 1,
        "http.port": 1,
    }
    assert [text.split(": ")[1] for path, text in problems if path.endswith("file")] == ["line 2", "line 3"]
    write_canaries(tmp_path, canary_line("a"))
    config.write_text(json.dumps({"detection": {"canaries": {"file": "canaries.jsonl"}}}))
    canaries = load(config, {}).detection.canaries
    assert canaries is not None
    assert canaries.file == file


@pytest.mark.parametrize("detection", [None, [], {"canaries": None}, {"canaries": []}, {"canaries": {"file": 5}}])
def test_a_section_of_another_type_is_left_to_validation(tmp_path: Path, detection: Any) -> None:
    config = tmp_path / "streamjury.yaml"
    config.write_text(json.dumps({"detection": detection}))
    if detection in (None, {"canaries": None}):
        assert load(config, {}).detection.canaries is None
    else:
        with pytest.raises(ConfigError, match="detection"):
            load(config, {})


# The record


def test_a_record_is_the_canary_with_the_id_of_its_round_the_app_and_a_tag() -> None:
    reader = CanaryReader()
    text = canary_line("a", app="shop", model="m", tags={"kept": 1}, contexts=[{"text": "c"}], more={"deep": [1]})
    canary = reader.canary(text.encode())
    expected = {**json.loads(text), "id": "canary:a:7", "app": "canaries", "tags": {"kept": 1, "canary": "a"}}
    assert json.loads(canary.value(7)) == expected
    assert reader.read(canary.value(7)).interaction.model == "m"
    assert json.loads(reader.canary(canary_line("a", tags=None).encode()).value(0))["tags"] == {"canary": "a"}


# The schedule


def schedule(count: int, period: float) -> Schedule:
    return Schedule([Canary(id=str(number), document={}) for number in range(count)], period)


PERIODS = st.floats(3.0, 43_200 * 60.0)
COUNTS = st.integers(1, 40)


@given(COUNTS, PERIODS, st.floats(0, 2e9), st.lists(st.floats(0, 3), max_size=20))
def test_each_canary_of_a_round_is_due_once_however_often_the_schedule_is_polled(
    count: int, period: float, start: float, gaps: list[float]
) -> None:
    subject, polls = schedule(count, period), [start]
    for gap in gaps:
        polls.append(polls[-1] + gap * period)
    polls.append(max(polls[-1], start + 2 * period))
    all_due = [due for since, until in pairwise(polls) for due in subject.due(since, until)]
    assert all_due == subject.due(polls[0], polls[-1])
    assert len({(due.canary.id, due.round) for due in all_due}) == len(all_due)
    complete_rounds = {due.round for due in all_due} - {all_due[0].round, all_due[-1].round}
    by_round = Counter(due.round for due in all_due)
    assert all(by_round[number] == count for number in complete_rounds)
    assert sorted(by_round) == list(range(all_due[0].round, all_due[-1].round + 1))


@given(COUNTS, PERIODS, st.integers(0, 1000))
def test_canaries_are_spread_evenly_over_a_period(count: int, period: float, number: int) -> None:
    subject, slack, seen_ids = schedule(count, period), period / count / 100, set()
    for position in range(count):
        moment = (number + position / count) * period
        [due] = subject.due(moment - slack, moment + slack)
        assert due.round == number
        seen_ids.add(due.canary.id)
    assert seen_ids == set(map(str, range(count)))


def test_the_order_differs_between_rounds_and_is_the_same_in_every_process() -> None:
    rounds = [
        [due.canary.id for due in schedule(20, 60.0).due(start - 1e-6, start + 59.9)] for start in (0.0, 60.0, 0.0)
    ]
    assert rounds[0] != rounds[1]
    assert rounds[0] == rounds[2]


@given(COUNTS, PERIODS, st.floats(0, 2e9))
def test_in_any_period_each_canary_is_due_about_once(count: int, period: float, start: float) -> None:
    """Rounding may add or drop one at the ends."""
    counts = Counter(due.canary.id for due in schedule(count, period).due(start, start + period))
    assert abs(counts.total() - count) <= 1
    assert max(counts.values()) <= 2


# Sending


class Broker:
    """A producer that keeps the records it receives."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.error: Exception | None = None

    def __call__(self, _options: Mapping[str, Any], **_keywords: Any) -> "Broker":
        return self

    def produce(self, topic: str, **record: Any) -> None:
        if self.error is not None:
            raise self.error
        self.sent.append({"topic": topic, **record})

    def poll(self, _seconds: float) -> int:
        return 0

    def flush(self, _seconds: float) -> int:
        return 0

    @property
    def ids(self) -> list[str]:
        return [record["key"].decode() for record in self.sent]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    fake = Broker()
    monkeypatch.setattr(canary_sender, "Producer", fake)
    return fake


def sender(
    tmp_path: Path, names: Iterable[str] = ("a", "b"), every_minutes: float = 1.0, **sections: Any
) -> CanarySender:
    file = write_canaries(tmp_path, *map(canary_line, names))
    detection = {"canaries": {"file": file, "every_minutes": every_minutes}}
    return CanarySender(Config.model_validate({"kafka": NOWHERE, "detection": detection, **sections}))


def test_a_sent_record_has_a_decision_in_the_canary_lane(tmp_path: Path, broker: Broker) -> None:
    subject = sender(tmp_path, topics={"sampled": "queue"}, sampling={"salt": "s"})
    subject.send_due(600.0)
    subject.send_due(631.0)
    [sent] = broker.sent
    assert sent["topic"] == "queue"
    assert sent["key"].decode() == json.loads(sent["value"])["id"]
    assert sent["key"] in {b"canary:a:10", b"canary:b:10"}
    expected = Decision(outcome=SamplingOutcome.SAMPLED, probability=1.0, rule=CANARY, lane=CANARY)
    sampled_at = datetime.fromtimestamp(631, UTC)
    assert tuple(sent["headers"]) == decision_headers(expected, salt="s", sampled_at=sampled_at)
    assert read_sampling(tuple(sent["headers"])) == Sampling(probability=1.0, rule="canary", lane="canary")


def test_the_first_call_sends_nothing_and_a_restart_repeats_nothing(tmp_path: Path, broker: Broker) -> None:
    for start in (590.0, 640.0):
        subject = sender(tmp_path)
        for second in range(50):
            subject.send_due(start + second)
        subject.close()
    assert set(broker.ids[:2]) == {"canary:a:10", "canary:b:10"}
    assert [canary_id.rpartition(":")[2] for canary_id in broker.ids] == ["10", "10", "11"]


def test_after_a_long_pause_only_one_period_is_made_up_for(tmp_path: Path, broker: Broker) -> None:
    subject = sender(tmp_path)
    subject.send_due(0.0)
    subject.send_due(86_410.0)
    assert [canary_id.rpartition(":")[2] for canary_id in broker.ids] == ["1439", "1440"]


def test_after_the_clock_goes_back_canaries_are_resent_under_the_same_ids(tmp_path: Path, broker: Broker) -> None:
    subject = sender(tmp_path)
    for now in (590.0, 610.0, 590.0, 610.0):
        subject.send_due(now)
    first, second = broker.ids
    assert first == second


def test_a_failure_is_logged_once_and_not_raised(
    tmp_path: Path, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    subject, broker.error = sender(tmp_path), BufferError("the queue is full")
    for minute in range(5):
        subject.send_due(60.0 * minute)
    assert [record.message for record in caplog.records] == ["cannot send canaries to rag.sampled: the queue is full"]
    broker.error = None
    subject.send_due(300.0)
    assert [canary_id.rpartition(":")[2] for canary_id in broker.ids] == ["4", "5"]


def test_without_canaries_nothing_is_sent(broker: Broker) -> None:
    subject = CanarySender(Config.model_validate({"kafka": NOWHERE}))
    for now in (0.0, 1e9):
        subject.send_due(now)
    subject.close()
    assert not broker.sent


def test_an_unreachable_broker_does_not_block_the_caller(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This uses a real client."""
    monkeypatch.setattr(canary_sender, "_DELIVERY_SECONDS", 0.5)
    subject = sender(tmp_path, map(str, range(1000)))
    slowest, now, deadline = 0.0, 0.0, time.monotonic() + 20.0 * patience()
    with caplog.at_level(logging.WARNING):
        while not caplog.records and time.monotonic() < deadline:
            start = time.monotonic()
            subject.send_due(now)
            slowest, now = max(slowest, time.monotonic() - start), now + 1.0
            time.sleep(0.01)
        for _ in range(50):
            subject.send_due(now)
            now += 1.0
    [warning] = caplog.records
    assert warning.message.startswith("cannot send canaries to rag.sampled: ")
    assert slowest < 1.0 * patience()
    subject.close()


# Judging


class Poor(Treasury):
    """A treasury whose budget is always nearly used up."""

    def plan_savings(self, *_about: object) -> SavingPlan:
        return SavingPlan(keep_share=1 / 16, savings=Savings(samples=True, reserves=True, cascade=True))


class Harmful:
    """A judge that finds everything harmful and records how it was called."""

    def __init__(self) -> None:
        self.calls: list[tuple[bool, Savings]] = []

    async def __call__(self, _case: Case, _criterion: Criterion) -> Answer:
        self.calls.append((current_conditions().fresh, current_conditions().savings))
        return int(SAFETY.worst_first[0].value or 0)


def judging_by(script: Harmful, notices: list[SafetyNotice], **sections: Any) -> tuple[Retries, Judging]:
    config = Config.model_validate({"kafka": NOWHERE, **sections})
    multi = MultiCriteria([Item(criterion=SAFETY, weight=1.0)], safety=SAFETY_DIMENSION)
    evaluator = Evaluator(multi, Panel(judges=[ScriptedJudge(script)]), version="test")
    finished = Worker(config, evaluator, PipelineMetrics(CollectorRegistry()))._recent
    retries, treasury = Retries(config), Poor(None, topic="rag.sampled")
    return retries, Judging(config, evaluator, finished, retries=retries, treasury=treasury, on_unsafe=notices.append)


def judge_records(
    headers: Headers, script: Harmful, count: int = 30, **sections: Any
) -> tuple[list[RecordResult], list[SafetyNotice]]:
    notices: list[SafetyNotice] = []
    retries, judging = judging_by(script, notices, **sections)
    canary = CanaryReader().canary(canary_line("a").encode())

    def value(number: int) -> bytes:
        own = canary.value(number)
        return own if is_canary(headers) else own.replace(b"canary:", b"traffic:").replace(b'"canaries"', b'"shop"')

    records = (
        Record(partition=QUEUE, offset=number, key=None, value=value(number), headers=headers)
        for number in range(count)
    )
    return [asyncio.run(judging.judge(retries.read_arrival(record))) for record in records], notices


def lane(name: str) -> Headers:
    decision = Decision(outcome=SamplingOutcome.SAMPLED, probability=1.0, rule=CANARY, lane=name)
    return decision_headers(decision, salt="s", sampled_at=datetime.now(UTC))


def test_a_canary_is_always_judged_in_full_and_an_unsafe_one_sends_no_notice() -> None:
    script = Harmful()
    results, notices = judge_records(lane(CANARY), script)
    assert {result.outcome for result in results} == {Outcome.SCORED}
    assert script.calls == [(True, NO_SAVINGS)] * 30
    assert {result.evaluation.sampling for result in results if result.evaluation} == {
        Sampling(probability=1.0, rule=CANARY, lane=CANARY)
    }
    assert notices == []


def test_traffic_with_the_same_texts_is_subject_to_savings_caching_and_notices() -> None:
    script = Harmful()
    results, notices = judge_records(lane("main"), script)
    scored = sum(result.outcome is Outcome.SCORED for result in results)
    assert 0 < scored < 30
    assert script.calls == [(False, Savings(samples=True, reserves=True, cascade=True))] * scored
    assert len(notices) == scored


def test_a_fresh_call_neither_reads_nor_fills_the_cache() -> None:
    script = Harmful()
    judge = CachedJudge(ScriptedJudge(script), MemoryStore(10, 60.0))
    case = Case(id="1", fields={"question": "q", "answer": "a", "history": (), "contexts": ()}, language="en")

    async def judge_each(*fresh_calls: bool) -> list[bool]:
        cached = []
        for fresh in fresh_calls:
            with judging_under(Conditions(fresh=fresh)):
                cached.append((await judge.judge(case, SAFETY)).cached)
        return cached

    assert asyncio.run(judge_each(True, False, False, True)) == [False, False, True, False]
    assert [fresh for fresh, _ in script.calls] == [True, False, True]


def test_a_canary_is_read_in_the_native_format_whatever_the_adapter() -> None:
    mapping = {"id": "x.id", "question": "x.q", "answer": "x.a"}
    sections = {"input": {"adapter": "mapping", "mapping": mapping, "limits": {"text_chars": 1}}}
    assert {result.outcome for result in judge_records(lane(CANARY), Harmful(), 2, **sections)[0]} == {Outcome.SCORED}
    assert {result.outcome for result in judge_records(lane("main"), Harmful(), 2, **sections)[0]} == {
        Outcome.DEADLETTER
    }


def test_traffic_with_the_id_of_a_canary_is_refused_and_the_canary_is_judged() -> None:
    """If it were judged as traffic, the canary would be skipped as a repeat."""
    canary = CanaryReader().canary(canary_line("a").encode())
    traffic, real = (
        Record(partition=QUEUE, offset=offset, key=None, value=canary.value(7), headers=headers)
        for offset, headers in enumerate((lane("main"), lane(CANARY)))
    )
    retries, judging = judging_by(Harmful(), [])
    refused, judged_canary = (asyncio.run(judging.judge(retries.read_arrival(record))) for record in (traffic, real))
    assert (refused.outcome, refused.reason) == (Outcome.DEADLETTER, "reserved_id")
    assert judged_canary.outcome is Outcome.SCORED
    [letter] = refused.messages
    assert "canary:" in (dict(letter.headers)["sj-error-message"] or b"").decode()


def test_traffic_with_the_app_of_the_canaries_is_refused() -> None:
    """Its alerts would have the keys of those about the judges, and hide them."""
    value = json.dumps({"id": "x", "app": "canaries", "question": "q", "answer": "a"}).encode()
    record = Record(partition=QUEUE, offset=0, key=None, value=value, headers=lane("main"))
    retries, judging = judging_by(Harmful(), [])
    refused = asyncio.run(judging.judge(retries.read_arrival(record)))
    assert (refused.outcome, refused.reason) == (Outcome.DEADLETTER, "reserved_app")


@pytest.fixture
def worker() -> Worker:
    multi = MultiCriteria([Item(criterion=SAFETY, weight=1.0)], safety=SAFETY_DIMENSION)
    evaluator = Evaluator(multi, Panel(judges=[ScriptedJudge(Harmful())]), version="test")
    config = Config.model_validate({"kafka": NOWHERE, "worker": {"concurrency": 4}})
    new_worker = Worker(config, evaluator, PipelineMetrics(CollectorRegistry()))
    new_worker.on_assigned([QUEUE])
    return new_worker


def queued_record(app: str, headers: Headers = ()) -> Record:
    return Record(partition=QUEUE, offset=0, key=None, value=canary_line("a", app=app).encode(), headers=headers)


def test_canaries_do_not_count_as_an_app_in_the_fair_share(worker: Worker) -> None:
    for headers, exceeded in ((lane(CANARY), False), (lane("main"), True)):
        for _ in range(200):
            worker._take(queued_record("shop"))
        worker._take(queued_record("canaries", headers))
        for _ in range(4):
            worker._shares.take_slot("shop")
        assert worker._shares.exceeds_share("shop") is exceeded


def test_canaries_do_not_wait_behind_the_records_of_apps(worker: Worker) -> None:
    for app in ("shop",) * 100 + ("docs",):
        worker._shares.count_record(app)
        worker._shares.take_slot(app)
    assert worker._is_late(worker._waiting.add(queued_record("shop", lane("main"))))
    assert not worker._is_late(worker._waiting.add(queued_record("shop", lane(CANARY))))

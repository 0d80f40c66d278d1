"""Canaries: the file, the schedule, what is sent, and that a canary is neither spared, remembered nor told of."""

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

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "canaries.jsonl"
SAFETY = load_catalogue("rag")[SAFETY_DIMENSION]
NOWHERE = {"bootstrap": "127.0.0.1:1"}
QUEUE = Partition("rag.sampled", 0)


def line(name: str, **fields: Any) -> str:
    return json.dumps({"id": name, "question": "Is it open?", "answer": "It is.", **fields})


def written(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "canaries.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def problems_of(file: str) -> list[str]:
    with pytest.raises(InconsistentError) as caught:
        read_canaries(file)
    assert all(loc == () for loc, _ in caught.value.found)
    return [message.removeprefix(f"{file}: ") for _, message in caught.value.found]


# The file


def test_the_example_can_be_used() -> None:
    found = read_canaries(str(EXAMPLE))
    assert len(found) == len({each.id for each in found}) == 20


def test_blank_lines_other_line_ends_and_a_byte_order_mark_are_no_problem(tmp_path: Path) -> None:
    path = tmp_path / "canaries.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + f"\r\n{line('a')}\r\n\r\n  \n{line('b')}".encode())
    assert [each.id for each in read_canaries(str(path))] == ["a", "b"]


def test_every_problem_is_told_with_its_line(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        line("a"),
        "",
        "{",
        '{"id": "b", "question": "q"}',
        line("a"),
        "[]",
        line("x" * 500),
        line("tagged", tags={str(number): number for number in range(64)}),
        line("c"),
    )
    first, second, third, fourth, fifth, sixth = problems_of(file)
    assert first.startswith("line 3: not JSON: ")
    assert ": column 2 " in first
    assert second == "line 4: answer: Field required"
    assert third == "line 5: same id as line 1: 'a'"
    assert fourth == "line 6: must be a JSON object, not an array"
    for said, number, what in ((fifth, 7, "id: "), (sixth, 8, "tags: ")):
        assert said.startswith(f"line {number}: id and tags leave no room for Streamjury's additions: {what}")


@pytest.mark.parametrize(("count", "message"), [(0, "contains no canaries"), (1001, "line 1001: too many canaries; ")])
def test_there_are_one_to_a_thousand(tmp_path: Path, count: int, message: str) -> None:
    [said] = problems_of(written(tmp_path, *(line(str(number)) for number in range(count))))
    assert said.startswith(message)
    assert len(read_canaries(written(tmp_path, *(line(str(number)) for number in range(1000))))) == 1000


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert problems_of(str(tmp_path / "none.jsonl")) == ["cannot be read: no such file or directory"]


def test_the_configuration_tells_all_that_is_wrong_with_the_file_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, line("a"), "{", line("a"))
    config = tmp_path / "streamjury.yaml"
    content = {"http": {"port": -1}, "detection": {"canaries": {"file": "canaries.jsonl", "every_minutes": 0}}}
    config.write_text(json.dumps(content))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    with pytest.raises(ConfigError) as caught:
        load(config, {})
    said = [(problem.path, problem.message) for problem in caught.value.problems]
    assert Counter(path for path, _ in said) == {
        "detection.canaries.file": 2,
        "detection.canaries.every_minutes": 1,
        "http.port": 1,
    }
    assert [text.split(": ")[1] for path, text in said if path.endswith("file")] == ["line 2", "line 3"]
    written(tmp_path, line("a"))
    config.write_text(json.dumps({"detection": {"canaries": {"file": "canaries.jsonl"}}}))
    read = load(config, {}).detection.canaries
    assert read is not None
    assert read.file == file


@pytest.mark.parametrize("detection", [None, [], {"canaries": None}, {"canaries": []}, {"canaries": {"file": 5}}])
def test_a_section_of_another_shape_is_left_to_validation(tmp_path: Path, detection: Any) -> None:
    config = tmp_path / "streamjury.yaml"
    config.write_text(json.dumps({"detection": detection}))
    if detection in (None, {"canaries": None}):
        assert load(config, {}).detection.canaries is None
    else:
        with pytest.raises(ConfigError, match="detection"):
            load(config, {})


# The record


def test_a_record_is_the_canary_with_an_id_of_its_round_the_app_and_a_tag() -> None:
    reader = CanaryReader()
    given = line("a", app="shop", model="m", tags={"kept": 1}, contexts=[{"text": "c"}], more={"deep": [1]})
    canary = reader.canary(given.encode())
    expected = {**json.loads(given), "id": "canary:a:7", "app": "canaries", "tags": {"kept": 1, "canary": "a"}}
    assert json.loads(canary.value(7)) == expected
    assert reader.read(canary.value(7)).interaction.model == "m"
    assert json.loads(reader.canary(line("a", tags=None).encode()).value(0))["tags"] == {"canary": "a"}


# The schedule


def schedule(count: int, period: float) -> Schedule:
    return Schedule([Canary(id=str(number), document={}) for number in range(count)], period)


PERIODS = st.floats(3.0, 43_200 * 60.0)
COUNTS = st.integers(1, 40)


@given(COUNTS, PERIODS, st.floats(0, 2e9), st.lists(st.floats(0, 3), max_size=20))
def test_whatever_the_looks_each_canary_of_a_round_is_due_once(
    count: int, period: float, start: float, gaps: list[float]
) -> None:
    subject, looks = schedule(count, period), [start]
    for gap in gaps:
        looks.append(looks[-1] + gap * period)
    looks.append(max(looks[-1], start + 2 * period))
    found = [due for since, until in pairwise(looks) for due in subject.due(since, until)]
    assert found == subject.due(looks[0], looks[-1])
    assert len({(due.canary.id, due.round) for due in found}) == len(found)
    whole = {due.round for due in found} - {found[0].round, found[-1].round}
    by_round = Counter(due.round for due in found)
    assert all(by_round[number] == count for number in whole)
    assert sorted(by_round) == list(range(found[0].round, found[-1].round + 1))


@given(COUNTS, PERIODS, st.integers(0, 1000))
def test_one_is_due_at_every_nth_part_of_a_period(count: int, period: float, number: int) -> None:
    subject, slack, found = schedule(count, period), period / count / 100, set()
    for place in range(count):
        at = (number + place / count) * period
        [due] = subject.due(at - slack, at + slack)
        assert due.round == number
        found.add(due.canary.id)
    assert found == set(map(str, range(count)))


def test_their_order_is_another_one_each_round_and_the_same_in_every_process() -> None:
    rounds = [[due.canary.id for due in schedule(20, 60.0).due(at - 1e-6, at + 59.9)] for at in (0.0, 60.0, 0.0)]
    assert rounds[0] != rounds[1]
    assert rounds[0] == rounds[2]


@given(COUNTS, PERIODS, st.floats(0, 2e9))
def test_any_period_long_is_one_of_each(count: int, period: float, start: float) -> None:
    """Give or take one at the ends, where rounding decides."""
    found = Counter(due.canary.id for due in schedule(count, period).due(start, start + period))
    assert abs(found.total() - count) <= 1
    assert max(found.values()) <= 2


# Sending


class Broker:
    """A producer that keeps what it is given."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.error: Exception | None = None

    def __call__(self, _options: Mapping[str, Any], **_more: Any) -> "Broker":
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
        return [each["key"].decode() for each in self.sent]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    found = Broker()
    monkeypatch.setattr(canary_sender, "Producer", found)
    return found


def sender(
    tmp_path: Path, names: Iterable[str] = ("a", "b"), every_minutes: float = 1.0, **sections: Any
) -> CanarySender:
    file = written(tmp_path, *map(line, names))
    detection = {"canaries": {"file": file, "every_minutes": every_minutes}}
    return CanarySender(Config.model_validate({"kafka": NOWHERE, "detection": detection, **sections}))


def test_what_is_sent_is_a_decision_on_the_lane_of_canaries(tmp_path: Path, broker: Broker) -> None:
    subject = sender(tmp_path, topics={"sampled": "queue"}, sampling={"salt": "s"})
    subject.send_due(600.0)
    subject.send_due(631.0)
    [sent] = broker.sent
    assert sent["topic"] == "queue"
    assert sent["key"].decode() == json.loads(sent["value"])["id"]
    assert sent["key"] in {b"canary:a:10", b"canary:b:10"}
    expected = Decision(outcome=SamplingOutcome.SAMPLED, probability=1.0, rule=CANARY, lane=CANARY)
    at = datetime.fromtimestamp(631, UTC)
    assert tuple(sent["headers"]) == decision_headers(expected, salt="s", sampled_at=at)
    assert read_sampling(tuple(sent["headers"])) == Sampling(probability=1.0, rule="canary", lane="canary")


def test_the_first_look_sends_nothing_and_a_restart_repeats_nothing(tmp_path: Path, broker: Broker) -> None:
    for start in (590.0, 640.0):
        subject = sender(tmp_path)
        for second in range(50):
            subject.send_due(start + second)
        subject.close()
    assert set(broker.ids[:2]) == {"canary:a:10", "canary:b:10"}
    assert [each.rpartition(":")[2] for each in broker.ids] == ["10", "10", "11"]


def test_who_did_not_look_for_long_makes_up_for_one_period(tmp_path: Path, broker: Broker) -> None:
    subject = sender(tmp_path)
    subject.send_due(0.0)
    subject.send_due(86_410.0)
    assert [each.rpartition(":")[2] for each in broker.ids] == ["1439", "1440"]


def test_a_clock_that_goes_back_sends_what_was_sent_under_the_same_ids(tmp_path: Path, broker: Broker) -> None:
    subject = sender(tmp_path)
    for now in (590.0, 610.0, 590.0, 610.0):
        subject.send_due(now)
    first, second = broker.ids
    assert first == second


def test_what_fails_is_told_once_and_nothing_is_raised(
    tmp_path: Path, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    subject, broker.error = sender(tmp_path), BufferError("the queue is full")
    for minute in range(5):
        subject.send_due(60.0 * minute)
    assert [record.message for record in caplog.records] == ["cannot send canaries to rag.sampled: the queue is full"]
    broker.error = None
    subject.send_due(300.0)
    assert [each.rpartition(":")[2] for each in broker.ids] == ["4", "5"]


def test_without_canaries_nothing_is_ever_due(broker: Broker) -> None:
    subject = CanarySender(Config.model_validate({"kafka": NOWHERE}))
    for now in (0.0, 1e9):
        subject.send_due(now)
    subject.close()
    assert not broker.sent


def test_a_broker_that_is_away_holds_nobody_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a real client."""
    monkeypatch.setattr(canary_sender, "_DELIVERY_SECONDS", 0.5)
    subject = sender(tmp_path, map(str, range(1000)))
    slowest, now, deadline = 0.0, 0.0, time.monotonic() + 20.0
    with caplog.at_level(logging.WARNING):
        while not caplog.records and time.monotonic() < deadline:
            began = time.monotonic()
            subject.send_due(now)
            slowest, now = max(slowest, time.monotonic() - began), now + 1.0
            time.sleep(0.01)
        for _ in range(50):
            subject.send_due(now)
            now += 1.0
    [told] = caplog.records
    assert told.message.startswith("cannot send canaries to rag.sampled: ")
    assert slowest < 1.0
    subject.close()


# Judging


class Poor(Treasury):
    """Money is short for everybody who asks."""

    def plan_savings(self, *_about: object) -> SavingPlan:
        return SavingPlan(keep_share=1 / 16, savings=Savings(samples=True, reserves=True, cascade=True))


class Harmful:
    """A judge that finds everything harmful, and how it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[bool, Savings]] = []

    async def __call__(self, _case: Case, _criterion: Criterion) -> Answer:
        self.asked.append((current_conditions().fresh, current_conditions().savings))
        return int(SAFETY.worst_first[0].value or 0)


def judging_by(script: Harmful, notices: list[SafetyNotice], **sections: Any) -> tuple[Retries, Judging]:
    config = Config.model_validate({"kafka": NOWHERE, **sections})
    multi = MultiCriteria([Item(criterion=SAFETY, weight=1.0)], safety=SAFETY_DIMENSION)
    evaluator = Evaluator(multi, Panel(judges=[ScriptedJudge(script)]), version="test")
    finished = Worker(config, evaluator, PipelineMetrics(CollectorRegistry()))._recent
    retries, treasury = Retries(config), Poor(None, topic="rag.sampled")
    return retries, Judging(config, evaluator, finished, retries=retries, treasury=treasury, on_unsafe=notices.append)


def judged(
    headers: Headers, script: Harmful, count: int = 30, **sections: Any
) -> tuple[list[RecordResult], list[SafetyNotice]]:
    notices: list[SafetyNotice] = []
    retries, judging = judging_by(script, notices, **sections)
    canary = CanaryReader().canary(line("a").encode())
    value = canary.value if is_canary(headers) else lambda number: canary.value(number).replace(b"canary:", b"traffic:")
    records = (
        Record(partition=QUEUE, offset=number, key=None, value=value(number), headers=headers)
        for number in range(count)
    )
    return [asyncio.run(judging.judge(retries.read_arrival(each))) for each in records], notices


def lane(name: str) -> Headers:
    decision = Decision(outcome=SamplingOutcome.SAMPLED, probability=1.0, rule=CANARY, lane=name)
    return decision_headers(decision, salt="s", sampled_at=datetime.now(UTC))


def test_a_canary_is_never_spared_and_an_unsafe_one_calls_nobody() -> None:
    script = Harmful()
    found, notices = judged(lane(CANARY), script)
    assert {each.outcome for each in found} == {Outcome.SCORED}
    assert script.asked == [(True, NO_SAVINGS)] * 30
    assert {each.evaluation.sampling for each in found if each.evaluation} == {
        Sampling(probability=1.0, rule=CANARY, lane=CANARY)
    }
    assert notices == []


def test_traffic_of_the_same_texts_is_spared_remembered_and_told_of() -> None:
    script = Harmful()
    found, notices = judged(lane("main"), script)
    scored = sum(each.outcome is Outcome.SCORED for each in found)
    assert 0 < scored < 30
    assert script.asked == [(False, Savings(samples=True, reserves=True, cascade=True))] * scored
    assert len(notices) == scored


def test_a_judge_that_is_asked_afresh_neither_remembers_nor_is_remembered() -> None:
    script = Harmful()
    judge = CachedJudge(ScriptedJudge(script), MemoryStore(10, 60.0))
    case = Case(id="1", fields={"question": "q", "answer": "a", "history": (), "contexts": ()}, language="en")

    async def asked(*afresh: bool) -> list[bool]:
        found = []
        for each in afresh:
            with judging_under(Conditions(fresh=each)):
                found.append((await judge.judge(case, SAFETY)).cached)
        return found

    assert asyncio.run(asked(True, False, False, True)) == [False, False, True, False]
    assert [afresh for afresh, _ in script.asked] == [True, False, True]


def test_a_canary_is_read_in_our_own_shape_whatever_shape_the_traffic_has() -> None:
    mapping = {"id": "x.id", "question": "x.q", "answer": "x.a"}
    sections = {"input": {"adapter": "mapping", "mapping": mapping, "limits": {"text_chars": 1}}}
    assert {each.outcome for each in judged(lane(CANARY), Harmful(), 2, **sections)[0]} == {Outcome.SCORED}
    assert {each.outcome for each in judged(lane("main"), Harmful(), 2, **sections)[0]} == {Outcome.DEADLETTER}


def test_traffic_with_the_id_of_a_canary_is_refused_and_the_canary_is_judged() -> None:
    """Judged as traffic, it would be known when the canary comes, and the canary a repeat that is left out."""
    canary = CanaryReader().canary(line("a").encode())
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


@pytest.fixture
def worker() -> Worker:
    multi = MultiCriteria([Item(criterion=SAFETY, weight=1.0)], safety=SAFETY_DIMENSION)
    evaluator = Evaluator(multi, Panel(judges=[ScriptedJudge(Harmful())]), version="test")
    config = Config.model_validate({"kafka": NOWHERE, "worker": {"concurrency": 4}})
    found = Worker(config, evaluator, PipelineMetrics(CollectorRegistry()))
    found.on_assigned([QUEUE])
    return found


def on_queue(app: str, headers: Headers = ()) -> Record:
    return Record(partition=QUEUE, offset=0, key=None, value=line("a", app=app).encode(), headers=headers)


def test_an_app_that_is_alone_beside_canaries_has_the_worker_to_itself(worker: Worker) -> None:
    for headers, exceeded in ((lane(CANARY), False), (lane("main"), True)):
        for _ in range(200):
            worker._take(on_queue("shop"))
        worker._take(on_queue("canaries", headers))
        for _ in range(4):
            worker._shares.take_slot("shop")
        assert worker._shares.exceeds_share("shop") is exceeded


def test_canaries_are_not_put_behind_the_records_of_apps(worker: Worker) -> None:
    for app in ("shop",) * 100 + ("docs",):
        worker._shares.count_record(app)
        worker._shares.take_slot(app)
    assert worker._is_late(worker._waiting.add(on_queue("shop", lane("main"))))
    assert not worker._is_late(worker._waiting.add(on_queue("shop", lane(CANARY))))

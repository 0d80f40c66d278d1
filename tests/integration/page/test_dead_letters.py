"""The page's dead letters and positions on real topics: listed, paged, replayed once, and counted."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from sinks.archive.database import Database
from sinks.archive.tables import positions
from sinks.page.backend import BackendError, FunnelStep, LetterPlace, ShownLetter
from sinks.topics.dead_letters import DeadLetter, DeadLetterTopic
from stream.config.model import Config
from stream.jobs.replay import Replay, ReplayRequest
from stream.kafka.embedded import EmbeddedBroker
from stream.page import letter_index
from stream.page import positions as page_positions
from stream.page.dead_letters import DeadLetters
from stream.page.letter_index import LetterIndex
from stream.page.positions import OwnStages, PipelinePositions
from tests.integration.pipeline import produce_all, read_all, to_create, topic_names, wait_until
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience

START = datetime(2026, 11, 16, 10, tzinfo=UTC)


class Shelf:
    """Topics of one test's own, with dead letters."""

    def __init__(self, bootstrap: str) -> None:
        prefix = f"page-{uuid.uuid4().hex[:8]}"
        self.topics = topic_names(prefix)
        self.config = Config.model_validate(
            {
                "kafka": {"bootstrap": bootstrap},
                "topics": self.topics,
                **{stage: {"group": f"{prefix}-{stage}"} for stage in ("sampler", "worker", "monitor")},
            }
        )
        self.bootstrap = bootstrap
        self.index = LetterIndex(self.config)
        self.letters = DeadLetters(self.config, self.index)

    def close(self) -> None:
        self.index.close()

    def bury(self, count: int, *, source: str = "interactions", reason: str = "bad_json", **changes: object) -> None:
        """Write dead letters, one a minute."""
        topic, records = DeadLetterTopic(self.topics["deadletter"]), []
        for number in range(count):
            letter = DeadLetter(
                stage="sampler",
                error_type=reason,
                error_message=f"not JSON: {number}",
                attempts=1,
                topic=self.topics.get(source, source),
                partition=0,
                offset=number,
                failed_at=START + timedelta(minutes=number),
                **{"key": b"k-%d" % number, "value": b"body-%d" % number, "headers": (), **changes},  # type: ignore[arg-type]
            )
            (message,) = topic.messages(letter)
            records.append({"key": message.key, "value": message.value, "headers": list(message.headers)})
        produce_all(self.bootstrap, self.topics["deadletter"], records)

    def list_all(self, limit: int = 100) -> list[ShownLetter]:
        self.index.read(is_new=True)
        pages, cursor = [], None
        while True:
            page = self.letters.list_letters(cursor=cursor, limit=limit)
            pages.append(page.letters)
            cursor = page.next_cursor
            if cursor is None:
                return [letter for letters in pages for letter in letters]

    def values(self, kind: str) -> list[bytes]:
        return sorted(message.value() or b"" for message in read_all(self.bootstrap, self.topics[kind]))


@pytest.fixture
def shelf(real_kafka: KafkaBroker) -> Iterator[Shelf]:
    with closing(Shelf(real_kafka.bootstrap)) as opened:
        real_kafka.create_topics(*to_create(opened.topics))
        yield opened


@pytest.fixture
def small_shelf(embedded_broker: EmbeddedBroker) -> Iterator[Shelf]:
    with closing(Shelf(embedded_broker.bootstrap)) as opened:
        embedded_broker.make_topics(to_create(opened.topics))
        yield opened


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
def test_letters_are_listed_newest_first_each_on_one_page(small_shelf: Shelf, limit: int) -> None:
    small_shelf.bury(7)
    letters = small_shelf.list_all(limit)
    assert [letter.message for letter in letters] == [f"not JSON: {number}" for number in reversed(range(7))]
    latest = letters[0]
    assert (latest.stage, latest.reason, latest.value, latest.size) == ("sampler", "bad_json", b"body-6", 6)
    assert latest.failed_at == START + timedelta(minutes=6)
    assert latest.source == f"{small_shelf.topics['interactions']}/0/6"
    assert not latest.is_replayed


def test_only_the_beginning_of_a_large_letter_is_shown(small_shelf: Shelf) -> None:
    small_shelf.bury(1, value=b"x" * 10_000)
    [letter] = small_shelf.list_all()
    assert (len(letter.value), letter.size) == (4096, 10_000)


def test_letters_that_arrive_between_two_pages_do_not_move_the_second(small_shelf: Shelf) -> None:
    small_shelf.bury(4)
    small_shelf.index.read(is_new=True)
    first = small_shelf.letters.list_letters(cursor=None, limit=2)
    small_shelf.bury(6)
    small_shelf.index.read(is_new=True)
    second = small_shelf.letters.list_letters(cursor=first.next_cursor, limit=100)
    assert [letter.message for letter in first.letters] == ["not JSON: 3", "not JSON: 2"]
    places = {(letter.place.partition, letter.place.offset) for letter in (*first.letters, *second.letters)}
    assert len(places) == len(first.letters) + len(second.letters)
    assert all(letter.failed_at <= START + timedelta(minutes=2) for letter in second.letters)


@pytest.mark.parametrize("cursor", ["", "x", "MS4y", "!!", "é"])
def test_a_wrong_cursor_is_refused(small_shelf: Shelf, cursor: str) -> None:
    with pytest.raises(BackendError) as refused:
        small_shelf.letters.list_letters(cursor=cursor, limit=5)
    assert refused.value.status is HTTPStatus.BAD_REQUEST


def test_a_missing_topic_is_a_sentence(real_kafka: KafkaBroker) -> None:
    with closing(Shelf(real_kafka.bootstrap)) as shelf, pytest.raises(BackendError, match="deadletter"):
        shelf.letters.list_letters(cursor=None, limit=5)


def test_of_a_long_topic_only_the_latest_letters_are_listed(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letter_index, "MOST_LETTERS", 2)
    shelf.bury(6, key=b"the same")
    assert [letter.message for letter in shelf.list_all()] == ["not JSON: 5", "not JSON: 4"]


def test_chosen_letters_are_moved_back_once(shelf: Shelf) -> None:
    shelf.bury(3)
    shelf.bury(1, key=None, value=b"without a key")
    by_value = {letter.value: letter.place for letter in shelf.list_all()}
    chosen = [by_value[b"body-0"], by_value[b"body-2"], by_value[b"without a key"]]
    assert shelf.letters.replay(chosen, who="ada").replayed == 3
    assert shelf.values("interactions") == [b"body-0", b"body-2", b"without a key"]
    replayed = {letter.value: letter.is_replayed for letter in shelf.list_all()}
    assert replayed == {b"body-0": True, b"body-1": False, b"body-2": True, b"without a key": True}

    again = shelf.letters.replay([*chosen, by_value[b"body-1"]], who="ada")
    assert again.replayed == 1
    assert {skipped.why for skipped in again.skipped} == {"replayed before"}
    assert [skipped.place for skipped in again.skipped] == sorted(chosen, key=lambda p: (p.partition, p.offset))
    assert len(shelf.values("interactions")) == 4


def test_letters_that_the_command_moved_are_not_moved_again(shelf: Shelf) -> None:
    shelf.bury(2)
    places = [letter.place for letter in shelf.list_all()]
    command = Replay(shelf.config, ReplayRequest(limit=1))
    survey = command.take_over()
    assert list(command.move(survey)) == [1]
    outcome = shelf.letters.replay(places, who="ada")
    assert (outcome.replayed, [skipped.why for skipped in outcome.skipped]) == (1, ["replayed before"])
    assert shelf.values("interactions") == [b"body-0", b"body-1"]


def test_letters_that_cannot_be_moved_are_skipped_with_the_reason(shelf: Shelf) -> None:
    shelf.bury(1, source="elsewhere")
    shelf.bury(1, headers=(("sj-value-truncated-from", b"99"),))
    places = [letter.place for letter in shelf.list_all()]
    outcome = shelf.letters.replay([*places, LetterPlace(partition=77, offset=5)], who="ada")
    assert outcome.replayed == 0
    assert {skipped.why for skipped in outcome.skipped} == {
        "it did not come from a topic that replay can move records to",
        "truncated on the dead-letter topic because of its size",
        "this dead letter is no longer on the topic",
    }
    assert shelf.values("interactions") == []


# Positions


def commit(shelf: Shelf, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": shelf.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def publish(shelf: Shelf, counts: Mapping[str, int]) -> None:
    """Write records in a transaction, as the stages do."""
    name = f"stage-{uuid.uuid4().hex}"
    producer = Producer({"bootstrap.servers": shelf.bootstrap, "transactional.id": name})
    producer.init_transactions(30 * patience())
    producer.begin_transaction()
    for topic, count in counts.items():
        for _ in range(count):
            producer.produce(topic, b"x", partition=0)
    producer.commit_transaction(30 * patience())


def test_the_pipeline_is_counted_from_the_ends_of_topics_and_the_offsets_of_groups(
    shelf: Shelf, tmp_path: Path
) -> None:
    check_positions(shelf, tmp_path)


def test_positions_on_an_embedded_broker(small_shelf: Shelf, tmp_path: Path) -> None:
    check_positions(small_shelf, tmp_path)


def check_positions(shelf: Shelf, tmp_path: Path) -> None:
    topics, config = shelf.topics, shelf.config
    produce_all(shelf.bootstrap, topics["interactions"], [{"value": b"x", "partition": 0}] * 9)
    publish(shelf, {topics["sampled"]: 5, topics["evaluations"]: 3})
    commit(shelf, config.sampler.group, topics["interactions"], 9)
    commit(shelf, config.worker.group, topics["sampled"], 3)
    shelf.bury(2)
    shelf.bury(1, reason="too_long")
    with Database(f"sqlite:///{tmp_path}/archive.db") as database:
        with database.write() as connection:
            row = {"topic": topics["evaluations"], "partition": 0, "next_offset": 1}
            connection.execute(positions.insert(), [row])
        with closing(PipelinePositions(config, shelf.index, database)) as pipeline:
            shelf.index.read(is_new=True)
            state = pipeline.state()
            # The mark of the transaction counts, as if it were a record.
            assert [(step.name, step.records) for step in state.funnel] == [
                ("interactions", 9),
                ("sampled", 5 + 1),
                ("evaluations", 3 + 1),
            ]
            lag = {(lag.group, lag.topic): lag.lag for lag in state.lag}
            assert lag[config.sampler.group, topics["interactions"]] == 0
            assert lag[config.worker.group, topics["sampled"]] == 2
            assert lag[config.monitor.group, topics["evaluations"]] == 3
            assert lag[config.archive.group, topics["evaluations"]] == 2
            assert state.dead_letters == 3
            assert [(count.reason, count.records) for count in state.dead_letters_by_reason] == [
                ("bad_json", 2),
                ("too_long", 1),
            ]
            assert pipeline.count_waiting() == 2


def test_after_a_failure_the_broker_is_asked_by_a_new_client(
    small_shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that has asked while no broker was listed may never find one again."""
    lost = iter([AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})])
    monkeypatch.setattr(page_positions, "AdminClient", lambda options, logger: next(lost, None) or AdminClient(options))
    monkeypatch.setattr(page_positions, "_CALL_SECONDS", 2.0)
    publish(small_shelf, {small_shelf.topics["evaluations"]: 1})
    with closing(PipelinePositions(small_shelf.config, small_shelf.index)) as pipeline:
        with pytest.raises(BackendError, match="cannot read the progress of the stages"):
            pipeline.state()
        wait_until(lambda: pipeline.count_waiting() == 0, seconds=60, what="the progress")


def test_a_process_with_all_stages_counts_its_own_records(small_shelf: Shelf) -> None:
    """On an embedded broker the monitor's group commits much later than it reads."""
    steps = [FunnelStep(name="interactions", records=4)]
    own = OwnStages(count_funnel=lambda: steps, count_unseen=lambda: 2)
    publish(small_shelf, {small_shelf.topics["evaluations"]: 9})
    with closing(PipelinePositions(small_shelf.config, small_shelf.index, own=own)) as pipeline:
        assert pipeline.count_waiting() is None
        state = pipeline.state()
        assert state.funnel == steps
        assert [lag.lag for lag in state.lag if lag.group == small_shelf.config.monitor.group] == [2]

"""Labels, the review queue and the judges' state, over a whole pipeline with an archive on an embedded broker."""

import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sinks.archive.database import Database
from sinks.archive.reading.answer import find_answer
from sinks.archive.reading.review import is_in_sample
from sinks.archive.tables import evaluations
from sinks.metrics import Outcome, Stage
from sinks.page.backend import Backend, BackendError, LabelWriter, NewLabel, ReviewItem, ReviewQueue
from stream.cli.commands.schema import wire_schema
from stream.cli.demo import generate, load_corpus, plan
from stream.config.model import Config
from stream.kafka.embedded import EmbeddedBroker
from stream.kafka.topics import plan_topics
from stream.page.backend import open_backend
from stream.service.service import Service
from tests.integration.pipeline import JUDGING, produce_all, read_all, wait_until

pytestmark = pytest.mark.slow

MANY = 60
RATE = 0.5
PROBABILITY = 1.0


@dataclass(frozen=True, kw_only=True)
class Page:
    """The parts of a page, and the pipeline behind it."""

    config: Config
    service: Service
    database: Database
    backend: Backend

    @property
    def review(self) -> ReviewQueue:
        assert self.backend.review is not None
        return self.backend.review

    @property
    def labels(self) -> LabelWriter:
        assert self.backend.labels is not None
        return self.backend.labels

    def item(self, who: str, criterion: str | None = "groundedness") -> ReviewItem:
        item = self.review.next_item(who=who, criterion=criterion).item
        assert item is not None
        return item

    def label(self, item: ReviewItem, who: str, option: str | None = None, comment: str | None = None) -> str:
        chosen = option or item.criterion.levels[0].option
        new = NewLabel(
            evaluation_id=item.evaluation_id, criterion=item.criterion.name, option=chosen, who=who, comment=comment
        )
        return self.labels.write(new)

    def records(self) -> dict[str, dict[str, Any]]:
        """The records on the topic of labels, by their id."""
        messages = read_all(self.config.kafka.bootstrap, self.config.topics.labels)
        documents = [json.loads(message.value() or b"") for message in messages]
        return {document["label_id"]: document for document in documents}

    def list_archived_labels(self, evaluation_id: str) -> list[str]:
        with self.database.read() as connection:
            answer = find_answer(connection, evaluation_id)
        assert answer is not None
        return [label.label_id for label in answer.labels]

    def ids(self) -> list[str]:
        with self.database.read() as connection:
            return sorted(connection.execute(evaluations.select().with_only_columns(evaluations.c.id)).scalars())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A pipeline that has judged and archived the answers of a service that makes things up."""
    folder: Path = tmp_path_factory.mktemp("archive")
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker())
        broker.make_topics(plan.name for plan in plan_topics(Config()))
        config = Config.model_validate(
            {
                "kafka": {"bootstrap": broker.bootstrap},
                "sampling": {"rate": PROBABILITY},
                "http": {"port": 0},
                "archive": {"url": f"sqlite:///{folder}/archive.db"},
                "page": {"review_rate": RATE},
            }
        )
        traffic = generate(load_corpus().in_language("en"), plan("hallucinating", seconds=60), seed=3)
        records = [traffic.record(0.0, datetime.now(UTC)) for _ in range(MANY)]
        produce_all(
            broker.bootstrap, config.topics.interactions, [{"key": one.key, "value": one.value} for one in records]
        )
        service = stack.enter_context(Service(config, [*JUDGING, Stage.ARCHIVIST]))
        database = stack.enter_context(Database(config.archive.url))
        backend = stack.enter_context(open_backend(config, database, service))
        page = Page(config=config, service=service, database=database, backend=backend)

        def is_archived() -> bool:
            service.check()
            with database.read() as connection:
                texts = connection.exec_driver_sql("SELECT count(*) FROM texts").scalar()
            return len(page.ids()) == MANY and texts == MANY

        wait_until(is_archived, seconds=60, what="all answers are in the archive")
        yield page


def reviewer() -> str:
    return f"reviewer-{uuid.uuid4().hex[:6]}"


def test_an_answer_to_label_has_its_texts_and_levels_but_no_verdict(page: Page) -> None:
    item = page.item(reviewer())
    assert {"question", "answer", "contexts"} <= item.texts.keys()
    assert [level.option for level in item.criterion.levels] == ["hallucinated", "partly supported", "fully supported"]
    assert [level.score for level in item.criterion.levels] == [0.0, 0.5, 1.0]
    assert item.criterion.question.endswith("?")
    assert item.probability == PROBABILITY * RATE


def test_the_queue_is_a_random_sample_in_an_order_that_says_nothing(page: Page) -> None:
    who, listed = reviewer(), []
    while (turn := page.review.next_item(who=who, criterion="clarity")).item is not None:
        assert turn.remaining == len([name for name in page.ids() if is_in_sample(name, RATE)]) - len(listed)
        listed.append(turn.item.evaluation_id)
        page.label(turn.item, who)
    assert listed == [name for name in page.ids() if is_in_sample(name, RATE)]
    assert MANY * RATE / 2 < len(listed) < MANY * RATE * 3 / 2
    assert turn.remaining == 0


def test_the_next_answer_does_not_wait_for_the_archive(page: Page) -> None:
    who = reviewer()
    first = page.item(who)
    page.label(first, who)
    assert page.item(who).evaluation_id != first.evaluation_id
    assert page.item(reviewer()).evaluation_id == first.evaluation_id, "others label it, too"
    assert page.item(who, "clarity").evaluation_id == first.evaluation_id, "and by other criteria"


def test_a_label_is_published_as_its_schema_says_and_archived(page: Page) -> None:
    who = reviewer()
    item = page.item(who)
    label_id = page.label(item, who, item.criterion.levels[1].option, comment="<b>half</b> of it")
    record = page.records()[label_id]
    jsonschema.validate(record, wire_schema("label"))
    assert record | {"labelled_at": ""} == {
        "label_id": label_id,
        "interaction_id": item.interaction_id,
        "evaluation_id": item.evaluation_id,
        "criterion": "groundedness",
        "option": item.criterion.levels[1].option,
        "score": 0.5,
        "who": who,
        "labelled_at": "",
        "probability": PROBABILITY * RATE,
        "kind": "review",
        "comment": "<b>half</b> of it",
        "retracts": None,
    }
    wait_until(lambda: label_id in page.list_archived_labels(item.evaluation_id), seconds=30, what="it is archived")


def test_undo_brings_the_answer_back_at_once_and_for_good(page: Page) -> None:
    who = reviewer()
    item = page.item(who)
    label_id = page.label(item, who)
    wait_until(lambda: label_id in page.list_archived_labels(item.evaluation_id), seconds=30, what="it is archived")
    page.labels.retract(label_id, who=who, may_retract_others=False)
    assert page.item(who).evaluation_id == item.evaluation_id
    retraction = next(record for record in page.records().values() if record["retracts"] == label_id)
    jsonschema.validate(retraction, wire_schema("label"))
    assert (retraction["option"], retraction["interaction_id"]) == (None, item.interaction_id)
    wait_until(
        lambda: label_id not in page.list_archived_labels(item.evaluation_id), seconds=30, what="it is retracted"
    )
    with pytest.raises(BackendError) as refused:
        page.labels.retract(label_id, who=who, may_retract_others=False)
    assert refused.value.status is HTTPStatus.NOT_FOUND


def test_a_label_can_be_undone_by_another_process_once_it_is_archived(page: Page) -> None:
    who = reviewer()
    item = page.item(who)
    label_id = page.label(item, who)
    wait_until(lambda: label_id in page.list_archived_labels(item.evaluation_id), seconds=30, what="it is archived")
    with open_backend(page.config, page.database) as other:
        assert other.labels is not None
        assert other.paused_judges is None
        other.labels.retract(label_id, who=who, may_retract_others=False)
    wait_until(
        lambda: label_id not in page.list_archived_labels(item.evaluation_id), seconds=30, what="it is retracted"
    )


def test_only_operators_retract_labels_of_others(page: Page) -> None:
    who = reviewer()
    label_id = page.label(page.item(who), who)
    with pytest.raises(BackendError) as refused:
        page.labels.retract(label_id, who="somebody", may_retract_others=False)
    assert refused.value.status is HTTPStatus.FORBIDDEN
    page.labels.retract(label_id, who="an operator", may_retract_others=True)


def test_a_label_on_an_answer_that_was_not_drawn_has_no_probability(page: Page) -> None:
    who, item = reviewer(), page.item(reviewer())
    picked = next(name for name in page.ids() if not is_in_sample(name, RATE))
    new = NewLabel(evaluation_id=picked, criterion="groundedness", option=item.criterion.levels[0].option, who=who)
    label_id = page.labels.write(new)
    assert page.records()[label_id]["probability"] is None


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"evaluation_id": "none"}, HTTPStatus.NOT_FOUND, "not in the archive"),
        ({"criterion": "beauty"}, HTTPStatus.BAD_REQUEST, "no criterion 'beauty'"),
        ({"option": "perfect"}, HTTPStatus.BAD_REQUEST, "no option 'perfect'"),
    ],
)
def test_what_cannot_be_labelled_is_refused(page: Page, change: dict[str, str], status: HTTPStatus, words: str) -> None:
    item = page.item(reviewer())
    fields = {"evaluation_id": item.evaluation_id, "criterion": "clarity", "option": "clear", "who": "ada"}
    with pytest.raises(BackendError, match=words) as refused:
        page.labels.write(NewLabel(**{**fields, **change}))
    assert refused.value.status is status


def test_an_unknown_criterion_has_no_queue(page: Page) -> None:
    with pytest.raises(BackendError, match="beauty") as refused:
        page.review.next_item(who="ada", criterion="beauty")
    assert refused.value.status is HTTPStatus.BAD_REQUEST
    assert page.item(reviewer(), None).criterion.name == "answer_relevance"


def test_a_label_that_the_broker_does_not_take_is_an_error(page: Page) -> None:
    away = page.config.kafka.model_copy(update={"bootstrap": "127.0.0.1:1"})
    config = page.config.model_copy(update={"kafka": away})
    with open_backend(config, page.database) as backend:
        assert backend.labels is not None
        item = page.item(reviewer())
        new = NewLabel(evaluation_id=item.evaluation_id, criterion="clarity", option="clear", who="ada")
        with pytest.raises(BackendError, match="not written"):
            backend.labels.write(new)


# What else the page shows of the process


def test_the_page_counts_the_records_of_its_own_process(page: Page) -> None:
    assert page.backend.pipeline is not None
    state = page.backend.pipeline.state()
    assert [(step.name, step.records) for step in state.funnel] == [
        ("interactions", MANY),
        ("sampled", MANY),
        ("evaluations", page.service.metrics.read_count(Stage.WORKER, Outcome.SCORED)),
    ]
    assert (state.dead_letters, page.backend.pipeline.count_waiting()) == (0, 0)


def test_judges_that_are_asked_are_not_paused(page: Page) -> None:
    assert page.backend.paused_judges is not None
    assert page.backend.paused_judges.list_paused() == {}


def test_every_answer_of_a_service_that_makes_things_up_has_a_marked_sentence(page: Page) -> None:
    """The worst answer that the page lists first shows what is wrong with it."""
    for name in page.ids():
        with page.database.read() as connection:
            answer = find_answer(connection, name)
        assert answer is not None
        assert answer.texts is not None
        spans = answer.record["dimensions"]["groundedness"]["spans"]
        marked = [span for span in spans if span["verdict"] in {"unsupported", "contradicted"}]
        assert marked
        for span in marked:
            sentence = answer.texts["answer"][span["start"] : span["start"] + span["length"]]
            assert sentence.strip() == sentence != ""

"""Table rows on the stream: rules, triggers, fairness, audit and replay read each field from its column."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.config.model import Config
from stream.config.names import SAFETY_RULE
from stream.errors import RecordError
from stream.jobs.audit.account import FateKind
from stream.jobs.audit.audit import Recalled
from stream.jobs.replay import Replay, ReplayRequest
from stream.kafka.embedded import EmbeddedBroker
from stream.kafka.offsets import Partition
from stream.kafka.record import Record
from stream.records.facts import LazyRecord
from stream.records.reading import InteractionReader
from stream.sampler.policy import SamplingPolicy
from stream.worker.retries import Retries
from stream.worker.waiting_line import WaitingLine
from tests.integration.pipeline import produce_all

COLUMNS = {
    "question": ("Current User Question", "question"),
    "answer": ("Assistant Answer", "answer"),
    "contexts": ("Fragment Texts", "contexts"),
    "history": ("Conversation History", "history"),
}
"""The columns documented in docs/evaluate.md."""

RESPELL = {
    "as documented": str,
    "lower case": str.lower,
    "upper case": str.upper,
    "title case": str.title,
    "blanks around": lambda name: f" {name} ",
}

QUEUE = Partition("rag.sampled", 0)


def csv_config(**sections: Any) -> Config:
    return Config.model_validate({"input": {"adapter": "csv"}, **sections})


def policy(**sampling: Any) -> SamplingPolicy:
    config = csv_config(sampling=sampling)
    return SamplingPolicy(config.sampling, config.input)


def write_row(change: Any = str, *, own_names: bool = False, **fields: Any) -> dict[str, Any]:
    filled = {"question": "How do I return shoes?", "answer": "Within 30 days.", **fields}
    return {change(COLUMNS.get(name, (name,) * 2)[own_names]): cell for name, cell in filled.items()}


def facts(row: dict[str, Any], key: bytes | None = b"k") -> LazyRecord:
    return LazyRecord(key, json.dumps(row).encode(), 0)


@pytest.fixture(params=RESPELL)
def change(request: pytest.FixtureRequest) -> Any:
    return RESPELL[request.param]


# Safety triggers


@pytest.mark.parametrize("own_names", [False, True])
@pytest.mark.parametrize(
    ("trigger", "fields"),
    [
        ("lexicon", {"answer": "First build a bomb."}),
        ("lexicon", {"question": "How do I build a bomb?"}),
        ("refusal", {"answer": "I'm sorry, but I can't help with that."}),
        ("empty_contexts", {"contexts": ""}),
        ("empty_contexts", {"contexts": " \\n "}),
        ("empty_contexts", {"contexts": []}),
        ("thumbs_down", {"tags": {"feedback": "down"}}),
    ],
)
def test_every_trigger_reads_the_documented_columns(
    trigger: str, fields: dict[str, Any], own_names: bool, change: Any
) -> None:
    subject = policy(rate=0.0001, safety={"triggers": [trigger]})
    sign_of_trouble = facts(write_row(change, own_names=own_names, **fields))
    assert subject.decide(sign_of_trouble).rule == SAFETY_RULE
    assert subject.explain(sign_of_trouble).triggers[trigger]
    assert subject.decide(facts(write_row(change, own_names=own_names, contexts="1. A fact."))).rule != SAFETY_RULE


def test_a_row_without_a_contexts_column_does_not_trigger() -> None:
    subject = policy(rate=0.0001, safety={"triggers": ["empty_contexts"]})
    assert subject.decide(facts(write_row())).rule != SAFETY_RULE
    assert subject.decide(facts(write_row(contexts=None))).rule != SAFETY_RULE


# Rules


@pytest.mark.parametrize(
    ("match", "fields", "others"),
    [
        ({"app": "shop"}, {"app": "shop"}, {"app": "docs"}),
        ({"tenant": "acme"}, {"tenant": "acme"}, {"tenant": "Acme"}),
        ({"model": {"regex": "^atlas"}}, {"model": "atlas-mini"}, {"model": "mini"}),
        ({"tags": {"tier": "gold"}}, {"tags": {"tier": "gold"}}, {"tags": {"tier": "tin"}}),
        ({"app": {"exists": True}}, {"app": "x"}, {"app": ""}),
        ({"tags": {"tier": {"exists": False}}}, {"tags": "a text"}, {"tags": {"tier": 1}}),
    ],
)
def test_rules_match_fields_in_columns_of_any_spelling(
    match: dict[str, Any], fields: dict[str, Any], others: dict[str, Any], change: Any
) -> None:
    subject = policy(rate=0.1, rules=[{"name": "wanted", "match": match, "rate": 1.0}])
    assert subject.decide(facts(write_row(change, **fields))).rule == "wanted"
    assert subject.decide(facts(write_row(change, **others))).rule == "default"


def test_a_condition_on_the_body_uses_the_exact_column_name() -> None:
    subject = policy(rate=0.1, rules=[{"name": "slow", "match": {"body": {"Latency.ms": {"min": 5}}}, "rate": 1.0}])
    assert subject.decide(facts({**write_row(), "Latency": {"ms": 6}})).rule == "slow"
    assert subject.decide(facts({**write_row(), "latency": {"ms": 6}})).rule == "default"


def test_a_rule_refuses_ambiguous_columns_with_the_same_message_as_the_reader() -> None:
    subject = policy(rate=0.1, rules=[{"name": "shop", "match": {"app": "shop"}, "rate": 1.0}])
    with pytest.raises(RecordError, match="'App' and 'app' are both columns for the app"):
        subject.decide(facts({**write_row(), "App": "shop", "app": "docs"}))


cells = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["tier", "0", "text"]), inner),
)
columns = st.sampled_from(["App", "app", "ID", "Tags", "Fragment Texts", "answer", "Assistant Answer", "x"])
STRICT = policy(
    rate=0.5,
    id="body",
    rules=[{"name": "one", "match": {"app": "shop", "tags": {"tier": 1}, "body": {"x.0": 1}}, "rate": 1.0}],
    safety={"triggers": ["refusal", "empty_contexts", "thumbs_down"]},
)


@given(st.dictionaries(columns, cells) | st.binary(max_size=20))
def test_any_row_is_decided_or_refused(row: dict[str, object] | bytes) -> None:
    value = row if isinstance(row, bytes) else json.dumps(row).encode()
    with suppress(RecordError):
        assert 0.0 <= STRICT.decide(LazyRecord(None, value, 0)).probability <= 1.0


# Ids


@given(st.sampled_from(["id", "ID", " Id"]), st.sampled_from(["a-1", 7, "", None]))
def test_a_row_is_sampled_by_the_id_that_the_reader_gives_it(column: str, cell: object) -> None:
    row = facts({**write_row(), column: cell})
    interaction_id = InteractionReader(csv_config().input).read(row.value).interaction.id
    assert policy(rate=0.5, id="body").record_id(row) == interaction_id.encode()


# Fairness, audit and replay


def test_the_waiting_line_finds_the_app_of_a_row(change: Any) -> None:
    config = csv_config()
    line = WaitingLine(Retries(config), config.input)
    line.open(QUEUE)
    for app in ("shop", "docs"):
        value = facts(write_row(change, app=app)).value
        line.add(Record(partition=QUEUE, offset=0, key=None, value=value, headers=()))
        assert line.take(QUEUE).app == app


def test_the_audit_agrees_with_the_sampler_about_a_row(change: Any) -> None:
    rules = [{"name": "drop", "match": {"app": "test"}, "rate": 0.0}]
    recalled = Recalled(csv_config(sampling={"rate": 1.0, "rules": rules}))
    row = write_row(change, app="test", id="r-1")
    assert recalled.fate(facts(row)).kind is FateKind.FILTERED
    assert recalled.fate(facts({**row, change("app"): "shop"})).kind is FateKind.MISSING
    assert recalled.body_id(facts(row).value) == b"r-1"


def test_a_replay_of_one_app_finds_its_rows() -> None:
    with EmbeddedBroker() as broker:
        config = csv_config(kafka={"bootstrap": broker.bootstrap})
        broker.make_topics((config.topics.deadletter,))
        headers = {
            "sj-error-type": "unscored_error",
            "sj-error-stage": "worker",
            "sj-source-topic": config.topics.sampled,
            "sj-source-partition": "0",
        }
        letters = [
            {
                "key": b"k",
                "value": facts(write_row(**{column: app})).value,
                "headers": [*((name, text.encode()) for name, text in headers.items()), ("sj-source-offset", b"1")],
            }
            for column, app in [("App", "shop"), (" APP", "shop"), ("app", "docs"), ("Application", "shop")]
        ]
        produce_all(broker.bootstrap, config.topics.deadletter, letters)
        assert len(Replay(config, ReplayRequest(app="shop")).survey().wanted) == 2
        assert len(Replay(config, ReplayRequest()).survey().wanted) == 4

"""The contract of every registered adapter: a path finds what the adapter reads, for any interaction."""

import json
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.values.interaction import Interaction
from stream.config.sections.input import InputConfig
from stream.config.sections.sampling import SamplingConfig
from stream.records.adapters import ADAPTERS, make_adapter
from stream.records.adapters.base import Adapter, BodyPath, Document, Lookup
from stream.records.body import BodyReader, Getter
from stream.records.reading import InteractionReader
from stream.sampler.policy import find_unreadable

PATHS = {
    "id": "request.id",
    "question": "request.messages.0.content",
    "answer": "response.text",
    "contexts": "retrieval.documents",
    "history": "request.history",
    "app": "service",
    "tenant": "labels.tenant",
    "model": "response.model",
    "tags": "labels.tags",
}
CONFIGS = {
    "streamjury": InputConfig(),
    "mapping": InputConfig(adapter="mapping", mapping=PATHS),
    "csv": InputConfig(adapter="csv"),
}
USED_FIELDS = ("app", "tenant", "model", "tags", "question", "answer", "contexts")
"""Fields used by rules and triggers; ids are used for sampling and have a separate test."""

TAGS = ("tier", "team.name", "0")

words = st.text(st.characters(codec="utf-8"), max_size=12)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words
fields = st.fixed_dictionaries(
    {"id": st.text(st.characters(codec="utf-8"), min_size=1, max_size=12), "question": words, "answer": words},
    optional={
        **dict.fromkeys(("app", "tenant", "model"), st.none() | words),
        "tags": st.none() | st.dictionaries(st.sampled_from(TAGS), scalars),
        "contexts": st.none() | st.lists(st.fixed_dictionaries({"text": words}), max_size=3),
        "history": st.lists(st.fixed_dictionaries({"role": st.just("user"), "text": words}), max_size=2),
    },
)


# Writers of an interaction in the shape of each adapter


def write_native(draw: st.DrawFn, interaction: dict[str, Any]) -> Document:
    return {**draw(st.dictionaries(words, scalars, max_size=2)), **interaction}


def write_mapped(draw: st.DrawFn, interaction: dict[str, Any]) -> Document:
    document = draw(st.fixed_dictionaries({}, optional=dict.fromkeys(("answer", "app", "tags"), scalars)))
    for field, value in interaction.items():
        place(document, PATHS[field].split("."), value)
    return document


def place(document: Any, steps: list[str], value: object) -> None:
    """Put a value at the end of a path, in lists of one item."""
    first, *rest = steps
    key: str | int = 0 if isinstance(document, list) else first
    if rest:
        if not isinstance(document, list):
            document.setdefault(key, [{}] if rest[0] == "0" else {})
        place(document[key], rest, value)
    else:
        document[key] = value


def write_row(draw: st.DrawFn, interaction: dict[str, Any]) -> Document:
    """Write a row with a drawn spelling of every column; contexts may be one text, as in a file."""
    longer = {
        "question": "Current User Question",
        "answer": "Assistant Answer",
        "contexts": "Fragment Texts",
        "history": "Conversation History",
    }
    row: Document = {"Remark": "not looked at"}
    for field, value in interaction.items():
        name = draw(st.sampled_from([field, longer.get(field, field)]))
        respell: Callable[[str], str] = draw(st.sampled_from([str, str.upper, str.title, lambda text: f" {text} "]))
        row[respell(name)] = draw(words) if field == "contexts" and draw(st.booleans()) else value
    return row


WRITERS = {"streamjury": write_native, "mapping": write_mapped, "csv": write_row}


@st.composite
def documents(draw: st.DrawFn, name: str) -> Document:
    return WRITERS[name](draw, draw(fields))


def make_getters(config: InputConfig) -> tuple[BodyReader, dict[str, Getter]]:
    reader = BodyReader(config)
    getters = {field: reader.field_getter(field) for field in USED_FIELDS}
    return reader, getters | {tag: reader.tag_getter(tag) for tag in TAGS}


READERS = {name: make_getters(config) for name, config in CONFIGS.items()}


def test_the_configuration_accepts_every_registered_adapter() -> None:
    assert set(get_args(InputConfig.model_fields["adapter"].annotation)) == set(ADAPTERS)
    assert set(CONFIGS) == set(WRITERS) == set(ADAPTERS), "a new adapter is missing from this test"


@pytest.mark.parametrize("name", ADAPTERS)
@given(data=st.data())
def test_a_path_finds_what_the_adapter_reads(name: str, data: st.DataObject) -> None:
    document = data.draw(documents(name))
    reader, getters = READERS[name]
    interaction = make_adapter(CONFIGS[name]).read(document)
    tags: Any = interaction.get("tags") or {}
    expected = {field: interaction.get(field) for field in USED_FIELDS} | {tag: tags.get(tag) for tag in TAGS}
    body = reader.read(json.dumps(document).encode())
    assert {field: get(body) for field, get in getters.items()} == expected


@pytest.mark.parametrize("name", ADAPTERS)
@given(data=st.data())
def test_a_path_to_the_id_finds_the_id_of_the_interaction(name: str, data: st.DataObject) -> None:
    document = data.draw(documents(name))
    path = make_adapter(CONFIGS[name]).path("id")
    assert path is not None
    value = json.dumps(document).encode()
    assert path.find(document) == InteractionReader(CONFIGS[name]).read(value).interaction.id


@pytest.mark.parametrize("name", ADAPTERS)
def test_there_is_a_path_for_every_field_that_is_read_and_no_other(name: str) -> None:
    adapter = make_adapter(CONFIGS[name])
    expected = {
        "streamjury": set(Interaction.model_fields),
        "mapping": set(PATHS),
        "csv": {*PATHS, "reference", "traceparent"},
    }
    assert {field for field in Interaction.model_fields if adapter.path(field)} == expected[name]


def test_paths_are_as_the_mapping_says() -> None:
    adapter = make_adapter(CONFIGS["mapping"])
    assert adapter.path("app") == BodyPath(("service",))
    tags = adapter.path("tags")
    assert tags is not None
    assert tags.beneath("team.name") == BodyPath(("labels", "tags", "team.name"))


def test_a_lookup_beneath_another_searches_the_value_of_that_one() -> None:
    tags = Lookup(lambda document: document.get("found"))
    assert tags.beneath("tier").find({"found": {"tier": 1}}) == 1
    assert tags.beneath("tier").find({"found": None}) is None


# Fields that no record can have


class Bare(Adapter):
    """An adapter of records that have only an id, a question and an answer."""

    def read(self, document: Document) -> Document:
        return document

    def path(self, field: str) -> BodyPath | None:
        return BodyPath((field,)) if field in {"id", "question", "answer"} else None


def unreadable_fields(adapter: Adapter, **sampling: Any) -> dict[str, str]:
    missing = find_unreadable(SamplingConfig.model_validate({"rate": 0.1, **sampling}), adapter)
    return {".".join(map(str, loc)): message for loc, message in missing}


def test_rules_and_named_triggers_on_fields_that_records_never_have_are_listed() -> None:
    match = {"app": "shop", "tags": {"tier": 1}, "body": {"tags.tier": 1}, "headers": {"x": "y"}}
    safety = {"triggers": ["lexicon", "refusal", "thumbs_down", "empty_contexts"]}
    assert unreadable_fields(Bare(), rules=[{"name": "one", "match": match, "rate": 1.0}], safety=safety) == {
        "rules.0.match.app": "records of this input.adapter have no app",
        "rules.0.match.tags": "records of this input.adapter have no tags",
        "safety.triggers.2": "records of this input.adapter have no tags",
        "safety.triggers.3": "records of this input.adapter have no contexts",
    }


def test_default_triggers_and_custom_conditions_are_accepted() -> None:
    own = {"triggers": ["thumbs_down"], "thumbs_down": {"stars": {"max": 2}}}
    assert unreadable_fields(Bare(), safety={}) == unreadable_fields(Bare(), safety=own) == {}


@pytest.mark.parametrize("name", ADAPTERS)
def test_fields_of_the_configured_records_are_accepted(name: str) -> None:
    match = {"app": "a", "tenant": "t", "model": "m", "tags": {"x": 1}}
    safety = {"triggers": ["empty_contexts", "thumbs_down", "refusal", "lexicon"]}
    rules = [{"name": "one", "match": match, "rate": 1.0}]
    assert unreadable_fields(make_adapter(CONFIGS[name]), rules=rules, safety=safety) == {}

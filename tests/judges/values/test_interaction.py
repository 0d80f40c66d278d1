"""The interaction: values that pass unchanged, values that are rejected, and the judge's view of it."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from judges.values.interaction import Interaction, case_of, language_of

LEAST = {"id": "id-1", "question": "What?", "answer": "That."}


def interaction(**fields: Any) -> Interaction:
    return Interaction.model_validate({**LEAST, **fields})


def test_id_question_and_answer_are_enough() -> None:
    assert interaction().model_dump(exclude_unset=True) == LEAST


@pytest.mark.parametrize("name", ["id", "question", "answer"])
def test_a_missing_required_field_is_named(name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Interaction.model_validate({key: value for key, value in LEAST.items() if key != name})
    assert [error["loc"] for error in caught.value.errors()] == [(name,)]


@pytest.mark.parametrize("value", [1, 1.5, True, None, [], {}, b"bytes"])
def test_other_types_are_never_converted_to_text(value: object) -> None:
    with pytest.raises(ValidationError):
        interaction(question=value)


@pytest.mark.parametrize(("identity", "fine"), [("", False), ("x", True), ("x" * 512, True), ("x" * 513, False)])
def test_an_id_has_1_to_512_characters(identity: str, fine: bool) -> None:
    if fine:
        assert interaction(id=identity).id == identity
    else:
        with pytest.raises(ValidationError):
            interaction(id=identity)


tag_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8"), max_size=1024),
    st.from_regex(r"\s*[+-]?[0-9]{1,4}(\.[0-9]{1,3})?(e[0-9])?\s*", fullmatch=True),
    st.sampled_from(["007", "1.10", "1e5", "nan", "inf", "true", "0x10", " 3 ", "1_000", ""]),
)


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=128), tag_values, max_size=64))
def test_tags_pass_through_with_value_and_type_as_they_came(tags: dict[str, object]) -> None:
    result = interaction(tags=tags).tags
    assert result == tags
    assert [type(value) for value in result.values()] == [type(value) for value in tags.values()]
    again = Interaction.model_validate_json(interaction(tags=tags).model_dump_json()).tags
    assert [(type(value), value) for value in again.values()] == [(type(value), value) for value in tags.values()]


@pytest.mark.parametrize("value", [[], {}, [1], {"a": 1}, float("nan"), float("inf"), b"x"])
def test_a_tag_is_a_single_finite_value(value: object) -> None:
    with pytest.raises(ValidationError):
        interaction(tags={"regime": value})


def test_unknown_fields_are_kept_at_every_depth() -> None:
    document = {
        **LEAST,
        "session": {"id": 7, "path": ["a", {"b": None}]},
        "history": [{"role": "user", "text": "hi", "at": 3}],
        "contexts": [{"text": "t", "source": "wiki"}],
        "candidates": [{"name": "b", "answer": "x", "cost": 0.5}],
    }
    assert interaction(**document).model_dump(mode="json", exclude_unset=True) == document


@pytest.mark.parametrize("name", ["model_dump", "model_fields", "model_config", "copy", "__class__", "__init__"])
def test_unknown_fields_may_have_the_names_of_the_models_own(name: str) -> None:
    subject = interaction(**{name: "theirs"})
    assert subject.model_dump(exclude_unset=True) == {**LEAST, name: "theirs"}


def test_an_interaction_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        interaction().answer = "other"  # type: ignore[misc]


@pytest.mark.parametrize("stamp", ["2026-11-15T10:00:00Z", "2026-11-15T13:00:00+03:00"])
def test_times_are_aware(stamp: str) -> None:
    assert interaction(timestamp=stamp).timestamp == datetime(2026, 11, 15, 10, tzinfo=UTC)


@pytest.mark.parametrize("stamp", ["2026-11-15T10:00:00", "yesterday", True, []])
def test_a_time_without_a_zone_is_refused(stamp: object) -> None:
    with pytest.raises(ValidationError):
        interaction(timestamp=stamp)


def test_a_judge_sees_texts_and_nothing_of_the_service() -> None:
    case = case_of(
        interaction(
            app="shop",
            tenant="acme",
            model="gpt-x",
            tags={"regime": "unsafe"},
            history=[{"role": "user", "text": "hi"}, {"role": "assistant", "text": "hello"}],
            contexts=[{"id": "c1", "text": "one", "score": 0.5}, {"text": "two"}],
        )
    )
    assert case.fields == {
        "question": "What?",
        "answer": "That.",
        "history": ("user: hi", "assistant: hello"),
        "contexts": ("one", "two"),
        "context_ids": ("c1", ""),
    }
    assert (case.id, case.author, case.language) == ("id-1", "gpt-x", "en")


def test_an_absent_field_and_an_empty_one_differ() -> None:
    assert "reference" not in case_of(interaction()).fields
    assert case_of(interaction(reference="")).fields["reference"] == ""
    assert case_of(interaction()).fields["contexts"] == ()


def test_a_case_gives_any_field_as_text_or_as_items() -> None:
    case = case_of(interaction(contexts=[{"text": "one"}, {"text": "two"}]))
    assert "context_ids" not in case.fields
    assert (case.text("contexts"), case.items("contexts")) == ("one\ntwo", ("one", "two"))
    assert (case.text("question"), case.items("question")) == ("What?", ("What?",))
    assert (case.text("reference"), case.items("reference")) == ("", ())


@pytest.mark.parametrize(
    ("words", "language"),
    [
        ("How do I return a parcel?", "en"),
        ("Как вернуть посылку?", "ru"),
        ("Как настроить Kubernetes Ingress?", "ru"),
        ("The word привет is Russian and the rest of this sentence is not", "en"),
        ("", "en"),
        ("12 345 — …", "en"),
        ("Où est la bibliothèque ?", "en"),
        ("Сколько живёт як?", "ru"),
        ("Объём, съезд и подъезд", "ru"),
        ("Можно ли отправить посылку в Київ?", "ru"),
        ("Як повернути посилку?", "en"),
        ("Гарантія два роки.", "en"),
        ("Як вярнуць пасылку?", "en"),
        ("Как да върна пратката?", "en"),
        ("Колко струва доставката?", "en"),
        ("Гарантията важи две години.", "en"),
        ("Како да вратим пакет?", "en"),
        ("Колику чини достава? Три еура, ево како.", "en"),
        ("Тауарды қалай қайтаруға болады?", "en"),
        ("Илгээмжийг хэрхэн буцаах вэ?", "en"),
    ],
)
def test_the_language_follows_the_letters_and_the_words(words: str, language: str) -> None:
    assert language_of(words) == language


@given(st.text(st.sampled_from("ab yz1²_,.éжЩё҂҃Ы语"), max_size=20))
def test_a_text_is_russian_when_three_letters_in_ten_are_cyrillic(text: str) -> None:
    letters = [char for char in text if char.isalpha()]
    cyrillic = [char for char in letters if "\u0400" <= char <= "\u04ff"]
    assert (language_of(text) == "ru") == (bool(letters) and len(cyrillic) / len(letters) >= 0.3)


def test_a_given_language_wins_over_the_text() -> None:
    assert case_of(interaction(question="Как вернуть?"), "en").language == "en"
    assert case_of(interaction(question="Як повернути посилку?", answer="Поштою.")).language == "en"
    assert case_of(interaction(question="Як повернути посилку?", answer="Поштою."), "ru").language == "ru"
    assert case_of(interaction(question="Как вернуть посылку?", answer="Так.")).language == "ru"


@pytest.mark.parametrize(
    "fields",
    [
        {"tags": {"k": "x" * 1025}},
        {"tags": {"k": "0" * 1025}},
        {"tags": {"k" * 129: 1}},
        {"tags": {str(number): 1 for number in range(65)}},
        {"app": "a" * 257},
    ],
    ids=["text", "digits", "name", "number", "app"],
)
def test_fields_copied_to_every_result_are_bounded(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Interaction.model_validate({"id": "a", "question": "q", "answer": "a", **fields})


def test_null_means_empty_where_a_list_or_tags_are_expected() -> None:
    nulls = {"history": None, "contexts": None, "candidates": None, "tags": None}
    subject = Interaction.model_validate({"id": "a", "question": "q", "answer": "a", **nulls})
    assert (subject.history, subject.contexts, subject.candidates, subject.tags) == ((), (), (), {})


def test_a_context_is_known_by_its_id_and_by_its_addresses() -> None:
    contexts = [{"text": "a", "id": "kb-1", "url": "https://x.example/1", "source": "kb-1"}, {"text": "b", "source": 5}]
    assert case_of(interaction(contexts=contexts)).fields["context_ids"] == ("kb-1\nhttps://x.example/1", "")

"""Table rows as interactions: columns in any case, fragments split by number, turns split by speaker."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.values.interaction import Interaction
from stream.config.sections.input import InputConfig
from stream.errors import RecordError
from stream.records.adapters.csv import split_fragments, split_turns
from stream.records.reading import InteractionReader

READER = InteractionReader(InputConfig(adapter="csv"))
LEAST = {"Current User Question": "Why?", "Assistant Answer": "Because."}


def read(**row: Any) -> Interaction:
    return READER.read(json.dumps({**LEAST, **row}).encode()).interaction


def test_the_columns_of_a_table_become_an_interaction() -> None:
    interaction = read(
        **{
            "id": "a-1",
            "app": "shop",
            "Model": "atlas",
            "Conversation History": r"User: Hi\nAssistant: Hello",
            "Fragment Texts": r"1. One.\n2. Two.",
            "Remark": "kept in the file",
        }
    )
    assert interaction.model_dump(exclude_defaults=True) == {
        "id": "a-1",
        "app": "shop",
        "model": "atlas",
        "question": "Why?",
        "answer": "Because.",
        "history": ({"role": "user", "text": "Hi"}, {"role": "assistant", "text": "Hello"}),
        "contexts": ({"id": "1", "text": "One."}, {"id": "2", "text": "Two."}),
    }


@pytest.mark.parametrize("change", [str.lower, str.upper, str.title, lambda name: f" {name} "])
def test_columns_are_recognised_in_any_case_and_with_blanks_around(change: Any) -> None:
    row = {change(name): text for name, text in {**LEAST, "fragment texts": "A fact."}.items()}
    interaction = READER.read(json.dumps(row).encode()).interaction
    assert (interaction.question, interaction.answer, interaction.contexts[0].text) == ("Why?", "Because.", "A fact.")


def test_field_names_are_accepted_as_columns() -> None:
    row = {"question": "q", "answer": "a", "contexts": "c", "history": "h"}
    interaction = READER.read(json.dumps(row).encode()).interaction
    assert (interaction.question, interaction.answer, interaction.contexts[0].text, interaction.history[0].text) == (
        "q",
        "a",
        "c",
        "h",
    )


def test_lists_are_kept_unchanged() -> None:
    interaction = read(contexts=["one", {"text": "two", "id": "x"}], history=[{"role": "system", "content": "h"}], id=7)
    assert [(context.id, context.text) for context in interaction.contexts] == [(None, "one"), ("x", "two")]
    assert [(turn.role, turn.text) for turn in interaction.history] == [("system", "h")]
    assert interaction.id == "7"


def test_tags_are_an_object_and_a_text_in_their_column_is_ignored() -> None:
    assert read(Tags={"tier": "gold"}).tags == {"tier": "gold"}
    assert read(tags="gold, urgent").tags == read(tags='{"tier": "gold"}').tags == read(tags=None).tags == {}


def test_two_columns_for_one_field_are_refused() -> None:
    with pytest.raises(RecordError, match="'Assistant Answer' and 'answer' are both columns for the answer"):
        read(answer="another")


@pytest.mark.parametrize("column", ["Current User Question", "Assistant Answer"])
def test_a_row_without_a_question_or_an_answer_is_refused_and_one_with_an_empty_one_is_not(column: str) -> None:
    assert read(**{column: ""})
    with pytest.raises(RecordError, match=f"column '{column}' or .* is missing or empty"):
        read(**{column: None})


def test_a_row_without_an_id_is_named_by_its_content() -> None:
    assert read().id == read().id != read(note="x").id
    assert all(row.id.startswith("row-") for row in (read(), read(id=""), read(id=None)))


def test_empty_cells_are_missing_fields() -> None:
    interaction = read(app="", model="", reference="", **{"Fragment Texts": "", "Conversation History": " "})
    assert (interaction.app, interaction.model, interaction.reference, interaction.contexts, interaction.history) == (
        None,
        None,
        None,
        (),
        (),
    )


def test_escaped_line_breaks_in_question_and_answer_are_kept_unchanged() -> None:
    assert read(**{"Assistant Answer": r"print('a\n')"}).answer == r"print('a\n')"


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("", []),
        (r" \n ", []),
        ("One fact.", ["One fact."]),
        (r"1. One.\n2. Two.", ["One.", "Two."]),
        ("1. One.\n2. Two.", ["One.", "Two."]),
        ("1. One.\r\n2. Two.\r\n", ["One.", "Two."]),
        (r"1. One.\r\n2. Two.", ["One.", "Two."]),
        ("[1] One.\n[2] Two.", ["One.", "Two."]),
        ("1) One.\n2) Two.", ["One.", "Two."]),
        ("1. One\ngoes on.\n2. Two.", ["One\ngoes on.", "Two."]),
        (r"1. 1999 - 1990 is 9.\n2. 2025 - 1999 is 26.", ["1999 - 1990 is 9.", "2025 - 1999 is 26."]),
        ("1. Steps:\n1. first\n3. third\n2. Two.", ["Steps:\n1. first\n3. third", "Two."]),
        ("1.5 litres are enough.", ["1.5 litres are enough."]),
        ("2024 was warm.\n2025 was not.", ["2024 was warm.", "2025 was not."]),
        ("One.\nTwo.", ["One.", "Two."]),
        ("One\nline.\n\nTwo.", ["One\nline.", "Two."]),
        (r"Один.\n\nДва.", ["Один.", "Два."]),
    ],
)
def test_fragments_are_split_by_number_else_by_blank_line_else_by_line(text: str, fragments: list[str]) -> None:
    assert split_fragments(text) == fragments


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("", []),
        ("No marks at all.\nNone.", [("user", "No marks at all.\nNone.")]),
        (r"User: Hi\nAssistant: Hello", [("user", "Hi"), ("assistant", "Hello")]),
        ("user : Hi\nASSISTANT:Hello", [("user", "Hi"), ("assistant", "Hello")]),
        ("Пользователь: Да?\nАссистент: Нет.", [("user", "Да?"), ("assistant", "Нет.")]),
        ("System: Be brief.\nHuman: Hi\nAI: Yo", [("system", "Be brief."), ("user", "Hi"), ("assistant", "Yo")]),
        ("Earlier on.\nUser: Hi", [("user", "Earlier on."), ("user", "Hi")]),
        ("User: two\nlines\nAssistant: Note: one", [("user", "two\nlines"), ("assistant", "Note: one")]),
        ("User: he said User: no", [("user", "he said User: no")]),
        ("User:\nAssistant: Hello", [("assistant", "Hello")]),
    ],
)
def test_history_is_split_at_lines_that_name_the_speaker(text: str, turns: list[tuple[str, str]]) -> None:
    assert split_turns(text) == turns


@given(st.text())
def test_no_word_of_a_history_without_speakers_is_lost(text: str) -> None:
    if ":" not in text and "\\" not in text:
        assert "".join(words for _, words in split_turns(text)).split() == text.split()


@given(st.text(alphabet=st.sampled_from("12. ab\n\\n[]()\r\t:")))
def test_fragments_are_never_blank_and_have_all_words_of_the_text(text: str) -> None:
    fragments = split_fragments(text)
    assert all(fragment.strip() for fragment in fragments)
    assert sum(text.count(letter) for letter in "ab") == sum("".join(fragments).count(letter) for letter in "ab")


@given(st.dictionaries(st.text() | st.sampled_from(["id", "answer", "question", "contexts", "history"]), st.text()))
def test_any_texts_in_any_columns_are_an_interaction_or_a_record_error(row: dict[str, str]) -> None:
    with suppress(RecordError):
        interaction = READER.read(json.dumps({**LEAST, **row}).encode()).interaction
        assert interaction.question == row.get("Current User Question", "Why?")

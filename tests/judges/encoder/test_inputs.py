"""The inputs of the shipped model: stripped sentences, chosen contexts, token spans."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from judges.encoder import SHIPPED
from judges.encoder import tokens as tokens_module
from judges.encoder.inputs import InputBuilder, TokenLimits, Window, split_answer, strip_marks
from judges.encoder.tokens import TextEncoder
from judges.local.lexicon import Lexicon

LEXICON = Lexicon.load()
TOKENIZER = Tokenizer.from_file(str(SHIPPED / "tokenizer.json"))


def build(answer: str, contexts: list[str], question: str = "", limits: TokenLimits | None = None) -> list[Window]:
    builder = InputBuilder(TOKENIZER, LEXICON, limits)
    return builder.build(question, contexts, split_answer(answer, LEXICON))


def encode_plainly(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]


def text_of(window: Window) -> str:
    return str(TOKENIZER.decode(window.ids, skip_special_tokens=False))


@pytest.mark.parametrize(
    ("sentence", "stripped"),
    [
        ("The warranty lasts 24 months [1].", "The warranty lasts 24 months."),
        ("The warranty lasts 24 months [1][2].", "The warranty lasts 24 months."),
        ("It rose [3, 4] in 1998 (passages 1 and 2).", "It rose in 1998."),
        ("It rose (Passage 2).", "It rose."),
        ("It rose【4†source】.", "It rose."),
        ("Based on the given passages, Oracle has two CEOs.", "Oracle has two CEOs."),
        ("Based on the information provided in the passages, it rose.", "It rose."),
        ("According to Passage 2, it rose.", "It rose."),
        ("Passage 1: it rose.", "It rose."),
        ("According to the BLS, it rose.", "According to the BLS, it rose."),
        ("In 1998, it rose by 5 (five) points.", "In 1998, it rose by 5 (five) points."),
        ("Array a[i] has (2) entries.", "Array a[i] has (2) entries."),
    ],
)
def test_citations_and_lead_ins_are_stripped(sentence: str, stripped: str) -> None:
    assert strip_marks(sentence) == stripped


def test_sentences_without_words_are_dropped() -> None:
    assert [
        sentence.stripped for sentence in split_answer("It rose. [1]\n\nPassage 2:\n- Then it fell [2].", LEXICON)
    ] == [
        "It rose.",
        "Then it fell.",
    ]


def test_a_window_has_question_context_and_answer() -> None:
    (window,) = build("It has six lanes.", ["The bridge has six lanes."], "how many lanes")
    assert text_of(window) == "[CLS] how many lanes [SEP] the bridge has six lanes. [SEP] it has six lanes. [SEP]"
    (span,) = window.spans
    assert TOKENIZER.decode(window.ids[span.start : span.end]) == "it has six lanes."
    assert window.types == [0] * span.start + [1] * (len(window.ids) - span.start)


def test_an_empty_context_is_no_error() -> None:
    for contexts in ([], [""], ["  \n "]):
        (window,) = build("It has six lanes.", contexts)
        assert text_of(window) == "[CLS] [SEP] [SEP] it has six lanes. [SEP]"


def test_an_empty_answer_has_no_window() -> None:
    assert build("[1]", ["The bridge has six lanes."]) == []


def test_the_sentence_that_supports_the_answer_is_found_in_a_long_context() -> None:
    filler = [f"Chapter {number} is about the history of region {number * 7}." for number in range(300)]
    support = "The toll for trucks was raised to 9 dollars."
    (window,) = build("Trucks pay a toll of 9 dollars.", [*filler[:150], support, *filler[150:]])
    assert "the toll for trucks was raised to 9 dollars." in text_of(window)
    assert len(window.ids) <= 512
    assert window.is_context_cut


def test_repeated_context_sentences_are_read_once() -> None:
    (window,) = build("It has six lanes.", ["The bridge has six lanes."] * 5)
    assert text_of(window).count("the bridge has six lanes") == 1


def test_a_long_answer_gets_several_windows_with_every_sentence_once() -> None:
    answer = " ".join(f"Item number {number} costs {number + 3} dollars in the shop." for number in range(60))
    windows = build(answer, ["Item number 7 costs 10 dollars in the shop."], limits=TokenLimits(window=160, answer=96))
    assert len(windows) > 1
    assert [span.sentence for window in windows for span in window.spans] == list(range(60))


@settings(max_examples=40, deadline=None)
@given(
    answer=st.text(alphabet="ab .\n[1]й", max_size=400),
    contexts=st.lists(st.text(alphabet="ab .\nй", max_size=400), max_size=3),
    question=st.text(alphabet="ab й", max_size=200),
)
def test_windows_keep_their_limits(answer: str, contexts: list[str], question: str) -> None:
    for window in build(answer, contexts, question, TokenLimits(window=96, answer=48, question=16)):
        assert len(window.ids) == len(window.types) <= 96
        assert all(0 < span.start < span.end < len(window.ids) for span in window.spans)


ENCODER = TextEncoder(TOKENIZER)
WRITTEN = st.text(
    st.sampled_from("aB é́İß'-.,1 \t\n\x1c\u00a0\u2028\u200b漢Σς[SEP]") | st.characters(exclude_categories=["Cs"])
)


@given(st.lists(WRITTEN, max_size=4))
def test_the_tokens_of_the_words_are_those_of_the_text(texts: list[str]) -> None:
    assert ENCODER.encodes_by_word
    assert ENCODER.encode(texts) == encode_plainly(TOKENIZER, texts)


def test_a_text_with_a_separator_in_it_has_the_same_tokens() -> None:
    texts = ["It has [SEP] six lanes.", "[CLS]it", "", "  two  spaces "]
    assert ENCODER.encode(texts) == encode_plainly(TOKENIZER, texts)


def test_a_tokenizer_that_joins_words_reads_the_whole_text() -> None:
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "six lanes": 1, "six": 2, "lanes": 3}, unk_token="[UNK]"))
    encoder = TextEncoder(tokenizer)
    assert not encoder.encodes_by_word
    assert encoder.encode(["six lanes", "lanes"]) == [[1], [3]]
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    assert TextEncoder(tokenizer).encode(["six lanes"]) == [[2, 3]]
    tokenizer.add_tokens([AddedToken("six lanes")])
    assert TextEncoder(tokenizer).encode(["six lanes"]) == [[1]]


def test_the_number_of_kept_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "_MOST_WORDS", 3)
    encoder = TextEncoder(TOKENIZER)
    for text in ("one two three", "three four", f"four {'long' * 40}", "one two three four five"):
        assert encoder.encode([text]) == encode_plainly(TOKENIZER, [text])
        assert len(encoder._tokens) <= 3
        assert max(map(len, encoder._tokens), default=0) <= 5

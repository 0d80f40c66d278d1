"""How the local judge reads: words, numbers, names, sentences and word patterns."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.local.assessors import clarity
from judges.local.language.phrases import GAP, PhraseIndex
from judges.local.language.quantity import canonical
from judges.local.language.sentence import SHORT
from judges.local.language.stem import stem
from judges.local.language.text import clean, forget, read, scripts_touch, sentences_of
from judges.local.language.tokens import plain_words, tokens_of
from judges.local.lexicon import Lexicon

LEXICON = Lexicon.load()


def _supports(source: str, claim: str) -> bool:
    """Return whether every number of the claim is in the source."""
    facts = read(clean(source), LEXICON).facts
    stated = [item for sentence in read(clean(claim), LEXICON).sentences for item in sentence.quantities]
    assert stated, "the claim has no number"
    return all(facts.support(item) for item in stated)


def _names(text: str) -> list[str]:
    return [name.text for sentence in read(clean(text), LEXICON).sentences for name in sentence.names]


@pytest.mark.parametrize(
    "forms",
    [
        "refund refunds refunded refunding refundable",
        "cancel cancels cancelled cancelling cancellation",
        "deliver delivers delivered delivery deliveries",
        "employ employs employed employee employees employer",
        "policy policies",
        "ship ships shipped shipping",
        "возврат возврата возвраты возвратов возвратом",
        "доставка доставки доставку доставкой доставить",
        "кредит кредита кредиту кредитом кредиты",
        "билет билета билеты билетов",
        "register registers registered registering",
        "заказ заказа заказы заказать заказали",
        "сотрудник сотрудника сотрудники сотрудников",
        "бесплатный бесплатная бесплатные бесплатно",
    ],
)
def test_forms_of_a_word_share_a_stem(forms: str) -> None:
    assert len({stem(form) for form in forms.split()}) == 1


@pytest.mark.parametrize("pair", ["price prize", "contract contact", "заказ закон", "month mouth", "срок сорок"])
def test_different_words_keep_different_stems(pair: str) -> None:
    first, second = pair.split()
    assert stem(first) != stem(second)


@given(st.text(max_size=30))
def test_a_stem_is_never_longer_than_the_word(word: str) -> None:
    assert len(stem(word)) <= len(word)


@pytest.mark.parametrize("raw", ["1000", "1,000", "1 000", "1\u00a0000", "1000.0", "1,000.00"])
def test_one_number_has_one_notation(raw: str) -> None:
    assert canonical(raw) == "1000"


@pytest.mark.parametrize(
    ("raw", "value"), [("1,8", "1.8"), ("0,500", "0.5"), ("12,345,678", "12345678"), ("2.50", "2.5")]
)
def test_commas_are_decimal_or_grouping_by_what_follows(raw: str, value: str) -> None:
    assert canonical(raw) == value


def test_a_string_of_digits_too_long_for_an_amount_stays_as_it_is() -> None:
    assert canonical("7" * 40) == "7" * 40


@pytest.mark.parametrize(
    ("source", "claim"),
    [
        ("It costs 1,000 dollars.", "It costs $1000."),
        ("It costs $1.5 million.", "It costs 1,500,000 USD."),
        ("Скидка 15 %.", "Скидка 15 процентов."),
        ("Цена 2 тыс. рублей.", "Цена 2000 ₽."),
        ("within two weeks", "within 14 days"),
        ("в течение двух недель", "за 14 дней"),
        ("valid for a year", "valid for 12 months"),
        ("from 9:00 to 17:30", "from 9 am to 17:30"),
        ("on 2024-03-01", "on 1 March 2024"),
        ("с 01.03.2024", "с 1 марта 2024 года"),
        ("up to 30 working days", "up to 30 days"),
        ("twenty-five days", "25 days"),
        ("the fee is 20", "the fee is 20 euros"),
        ("1.5 kg", "1500 g"),
        ("10GB of space", "10 GB of space"),
    ],
)
def test_a_number_is_found_again_in_another_notation(source: str, claim: str) -> None:
    assert _supports(source, claim)


@pytest.mark.parametrize(
    ("source", "claim"),
    [
        ("It costs 1,000 dollars.", "It costs 100 dollars."),
        ("It costs 20 dollars.", "It costs 20 euros."),
        ("within 30 hours", "within 30 days"),
        ("on 25 December", "for 25 euros"),
        ("at -5 °C", "at 5 °C"),
        ("version 3.11.2", "version 3.11.3 of 2"),
        ("open from 9:00", "open from 9:30"),
    ],
)
def test_a_different_number_or_unit_is_not_found(source: str, claim: str) -> None:
    assert not _supports(source, claim)


def test_names_are_words_that_need_support() -> None:
    assert _names("The manager Helen Marsh lives in Berlin.") == ["Helen", "Marsh", "Berlin"]
    assert _names("Ask HR about the RX-500 and the A4 paper.") == ["HR", "RX-500", "A4"]
    assert _names("Come on Monday or in May.") == ["Monday", "May"]
    assert _names("Приходите в среду к Анне Петровой.") == ["среду", "Анне", "Петровой"]
    assert _names('You may click "Save" and write to a@b.com.') == ["a@b.com"]
    assert _names("THE OFFICE IS CLOSED TODAY") == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One sentence. And another! A third?", 3),
        ("See e.g. the manual. It helps.", 2),
        ("Dr. Smith is in. Ask him.", 2),
        ("Это стоит 5 руб. в месяц. Дёшево.", 2),
        ("No. 5 is closed. No. It is open.", 3),
        ("Steps:\n1. Open it.\n2. Close it.", 3),
        ("It costs 3.50 today.", 1),
        ("", 0),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text: str, count: int) -> None:
    assert len(list(sentences_of(text, LEXICON))) == count


def test_list_items_are_marked_and_lose_their_marker() -> None:
    assert list(sentences_of("Rules:\n- no dogs\n2) no cats", LEXICON)) == [
        ("Rules:", False),
        ("no dogs", True),
        ("no cats", True),
    ]


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("k\u200bi\u2060ll", "kill"),
        ("ｋｉｌｌ", "kill"),
        ("кill", "kill"),
        ("бoмба", "бомба"),
        ("a\u00a0 \t b", "a b"),
        ("\ud800", "\ufffd"),
        ("\u202eabc\u202c", "abc"),
    ],
)
def test_cleaning_shows_the_text_as_a_reader_sees_it(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=600))
def test_a_cleaned_text_can_be_written_as_utf_8(text: str) -> None:
    clean(text).encode()


class TestPhrases:
    @pytest.mark.parametrize(
        ("pattern", "text", "matches"),
        [
            ("make|build ... bomb*", "you build a small bomb", True),
            ("make|build ... bomb*", "they make bombs", True),
            ("make|build ... bomb*", "a bomb to make", False),
            ("i can't help", "i can't help you", True),
            ("i can't help", "i can't really help", False),
            ("a ... b c", "a x b y b c", True),
            ("address is ... @digit", "the address is oak street 14b", True),
            ("take ... @many tablets", "take 5 tablets", False),
            ("take ... @many tablets", "take 50 tablets", True),
        ],
    )
    def test_patterns_match_words_in_order_within_their_gaps(self, pattern: str, text: str, matches: bool) -> None:
        assert PhraseIndex([pattern]).matches(text.split()) is matches

    def test_a_gap_has_a_bound(self) -> None:
        phrases = PhraseIndex(["begin ... end"])
        assert phrases.matches(["begin", *["x"] * GAP, "end"])
        assert not phrases.matches(["begin", *["x"] * (GAP + 1), "end"])

    def test_a_match_has_its_position_and_its_pattern(self) -> None:
        (match,) = PhraseIndex(["nothing here", "red ... fox"]).find(["the", "red", "quick", "fox"])
        assert (match.start, match.end, match.tag) == (1, 4, 1)

    @pytest.mark.parametrize("pattern", ["", "...", "... end", "begin ...", "a||b"])
    def test_a_pattern_that_makes_no_sense_is_refused(self, pattern: str) -> None:
        with pytest.raises(ValueError, match="pattern"):
            PhraseIndex([pattern])


def test_a_short_sentence_is_read_once_until_the_cache_is_cleared() -> None:
    text = "Kettles boil water."
    [first], [again] = read(text, LEXICON).sentences, read(text, LEXICON).sentences
    assert first is again
    forget()
    [anew] = read(text, LEXICON).sentences
    assert anew is not first
    assert (anew.words, anew.stems, anew.content) == (first.words, first.stems, first.content)


def test_a_long_sentence_is_not_remembered() -> None:
    text = "Kettles boil water " * (SHORT // 10)
    assert read(text, LEXICON).sentences[0] is not read(text, LEXICON).sentences[0]


def test_a_sentence_in_a_list_is_not_taken_for_the_same_words_elsewhere() -> None:
    bullets = [sentence.bullet for sentence in read("Boil it.\n- Boil it.", LEXICON).sentences]
    assert bullets == [False, True]


_SIGNS = st.text(st.sampled_from("aБz’'_-.,: @/15"), max_size=24)


@given(_SIGNS)
def test_text_of_only_words_has_the_same_words_token_by_token(text: str) -> None:
    words = plain_words(text)
    assert words is None or words == [token.raw for token in tokens_of(text, LEXICON)]


@pytest.mark.parametrize(
    ("text", "stems"),
    [
        ("Refunds are not possible.", ["possible"]),
        ("Refunds are possible.", []),
        ("Form NOT-5 possible after 3 days.", ["possible"]),
        ("After 3 days, not refundable.", ["refundable"]),
    ],
)
def test_words_after_a_negation_are_denied(text: str, stems: list[str]) -> None:
    [sentence] = read(text, LEXICON).sentences
    assert sentence.denied == [LEXICON.look_up(word).stem for word in stems]


@given(st.lists(st.sampled_from(["Yes.", "No!", "It", "5", "p.m…", '"So."', "(ok.)", "e.g.", "a\nb"]), max_size=9))
def test_cutting_into_sentences_loses_no_word(words: list[str]) -> None:
    text = clean(" ".join(words))
    joined = " ".join(sentence for sentence, _ in sentences_of(text, LEXICON))
    assert re.findall(r"\w+", joined) == re.findall(r"\w+", text)


def test_a_short_text_is_read_once_and_a_long_one_each_time() -> None:
    assert read("Kettles boil. Cups hold.", LEXICON) is read("Kettles boil. Cups hold.", LEXICON)
    long = "Kettles boil. " * SHORT
    assert read(long, LEXICON) is not read(long, LEXICON)


@given(st.text(st.sampled_from("aAяЯ1_ -"), max_size=12))
def test_scripts_touch_wherever_a_word_has_two_of_them(text: str) -> None:
    mixed = re.search("[aA][яЯ]|[яЯ][aA]", text) is not None
    assert scripts_touch(text) == mixed


@given(st.text(st.sampled_from("aAσςΣİiı\u0307-, \n\u00a0"), max_size=16))
def test_no_stutter_is_overlooked(text: str) -> None:
    """The quick check may report one that is not there, but never miss one."""
    assert clarity._may_stutter(text) or not clarity._REPEATED_WORD.search(text)

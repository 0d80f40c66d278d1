"""The local judge on refusals, citations and the language of answers, in English and Russian."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.criteria.catalogue import find_criterion
from judges.criteria.criterion import Criterion
from judges.judge import Judge
from judges.local import LocalJudge
from judges.values.evaluation import JudgeVerdict, Reason, Status
from judges.values.interaction import Interaction, case_of

JUDGE: Judge = LocalJudge()
REFUSAL, CITATIONS, LANGUAGE = map(find_criterion, ("refusal", "citation_accuracy", "language_match"))

WARRANTY = {
    "text": "Every kettle has a warranty of 24 months. It covers defects in materials.",
    "id": "kb-7",
    "url": "https://docs.shop.example/warranty",
}
DELIVERY = {"text": "Delivery is free above 50 euros. Parcels arrive within three days.", "id": "kb-9"}
GARANTIYA = {"text": "На каждый чайник даётся гарантия 24 месяца. Она покрывает дефекты материалов.", "id": "faq-1"}
DOSTAVKA = {"text": "Доставка бесплатна от 50 евро. Посылки приходят за три дня.", "id": "faq-2"}
EN_CONTEXTS, RU_CONTEXTS = (WARRANTY, DELIVERY), (GARANTIYA, DOSTAVKA)
HOW_LONG = "How long is the warranty of a kettle?"
SKOLKO = "Сколько длится гарантия на чайник?"


def verdict(criterion: Criterion, question: str, answer: str, contexts: Any = (), **fields: Any) -> JudgeVerdict:
    interaction = Interaction(id="i", question=question, answer=answer, contexts=contexts, **fields)
    return asyncio.run(JUDGE.judge(case_of(interaction), criterion))


# Refusals


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I'm sorry, but I cannot help with that.",
        "I could not find the answer in the documents.",
        "The documents do not mention the warranty of kettles. Please contact our support team.",
        "Thank you for your question! Have a nice day.",
    ],
)
def test_a_refusal_is_found(answer: str) -> None:
    found = verdict(REFUSAL, HOW_LONG, answer, EN_CONTEXTS)
    assert (found.option, found.score, found.level, found.value) == ("refusal", 0.0, None, 0), found.explanation


@pytest.mark.parametrize(
    "answer",
    [
        "К сожалению, в документах нет информации о гарантии.",
        "Я не могу ответить на этот вопрос. Обратитесь в поддержку.",
    ],
)
def test_a_russian_refusal_is_found_with_its_label(answer: str) -> None:
    found = verdict(REFUSAL, SKOLKO, answer, RU_CONTEXTS)
    assert (found.option, found.label) == ("refusal", "отказ"), found.explanation


@pytest.mark.parametrize(
    ("question", "answer", "contexts"),
    [
        (HOW_LONG, "Every kettle has a warranty of 24 months.", EN_CONTEXTS),
        (HOW_LONG, "I can't give advice. Every kettle has a warranty of 24 months.", EN_CONTEXTS),
        (HOW_LONG, "Every kettle has a warranty of 24 months. I could not find more in the documents.", EN_CONTEXTS),
        (HOW_LONG, "Do you mean the steel kettle or the glass one?", EN_CONTEXTS),
        ("Is there a warranty?", "Yes.", EN_CONTEXTS),
        (SKOLKO, "Гарантия 24 месяца.", RU_CONTEXTS),
        (SKOLKO, "Не могу советовать. Но гарантия на чайник 24 месяца.", RU_CONTEXTS),
    ],
)
def test_an_answer_that_helps_is_no_refusal(question: str, answer: str, contexts: Any) -> None:
    found = verdict(REFUSAL, question, answer, contexts)
    assert (found.option, found.score) == ("compliance", 1.0), found.explanation


def test_a_criterion_of_the_same_name_with_other_options_is_not_judged() -> None:
    own = Criterion.from_question("Does it refuse?", find_criterion("refusal").scale).model_copy(
        update={"name": "refusal"}
    )
    assert JUDGE.why_not(own) is None
    reversed_options = {"options": [option.model_dump() for option in reversed(own.scale.options)]}  # type: ignore[union-attr]
    other = Criterion.model_validate({**own.model_dump(), "scale": reversed_options})
    problem = JUDGE.why_not(other)
    assert problem is not None
    assert "give options (0, 1) (refusal, compliance), higher is better" in problem


# Citations


@pytest.mark.parametrize(
    ("answer", "level"),
    [
        ("The warranty of a kettle is 24 months [1].", 2),
        ("The warranty of a kettle is 24 months [2].", 0),
        ("The warranty of a kettle is 24 months [3].", 0),
        ("The warranty of a kettle is 24 months (kb-7).", 2),
        ("The warranty of a kettle is 24 months (see KB 7).", 2),
        ("The warranty of a kettle is 24 months (kb-9).", 0),
        ("The warranty of a kettle is 24 months [kb-12].", 0),
        ("The warranty of a kettle is 24 months: https://docs.shop.example/warranty.", 2),
        ("The warranty of a kettle is 24 months ([terms](http://www.docs.shop.example/warranty/#top)).", 2),
        ("The warranty of a kettle is 24 months, see https://shop.example/invented.", 0),
        ("According to [1], the warranty of a kettle is 24 months.", 2),
        ("Passage 1 says that the warranty of a kettle is 24 months.", 2),
        ("The warranty of a kettle is 24 months. [1] Delivery is free above 50 euros. [2]", 2),
        ("The warranty of a kettle is 24 months [2], and delivery is free above 50 euros [1].", 0),
        ("The warranty of a kettle is 24 months [1]. Parcels arrive within three days [1].", 1),
        ("The warranty of a kettle is 24 months [1, 2].", 1),
        ("The warranty of a kettle is 36 months [1].", 0),
        ("The warranty of a kettle is 24 months.\n\nSources:\n[1] Terms\n[2] Delivery", 2),
        ("The warranty of a kettle is 24 months.\n\nSources:\n[1] Terms\n[5] Prices", 1),
    ],
)
def test_citations(answer: str, level: int) -> None:
    found = verdict(CITATIONS, HOW_LONG, answer, EN_CONTEXTS)
    assert (found.level, found.score) == (level, level / 2), found.explanation


@pytest.mark.parametrize(
    ("answer", "level"),
    [
        ("Гарантия на чайник — 24 месяца [1].", 2),
        ("Гарантия на чайник — 24 месяца [2].", 0),
        ("Гарантия на чайник — 24 месяца (см. faq-1).", 2),
        ("Гарантия на чайник — 24 месяца (источник 1). Посылки приходят за три дня (источник 1).", 1),
    ],
)
def test_citations_in_russian(answer: str, level: int) -> None:
    found = verdict(CITATIONS, SKOLKO, answer, RU_CONTEXTS)
    assert found.level == level, found.explanation
    assert found.explanation.startswith("Ссылок, которые подтверждают сказанное: ")


@pytest.mark.parametrize(
    "answer",
    [
        "The warranty of a kettle is 24 months.",
        "The warranty (COVID-19 rules apply) is 24 months.",
        "The warranty is 24 months since [2024].",
        "The warranty is 24 months (p. 12).",
    ],
)
def test_without_a_citation_the_criterion_does_not_apply(answer: str) -> None:
    assert verdict(CITATIONS, HOW_LONG, answer, EN_CONTEXTS).status is Status.NOT_APPLICABLE


def test_codes_are_citations_only_if_contexts_have_ids() -> None:
    nameless = [{"text": context["text"]} for context in EN_CONTEXTS]
    answer = "The warranty of a kettle is 24 months (kb-7)."
    assert verdict(CITATIONS, HOW_LONG, answer, nameless).status is Status.NOT_APPLICABLE


def test_numbers_are_ids_if_contexts_have_numbers_as_ids() -> None:
    contexts = [{**WARRANTY, "id": "2"}, {**DELIVERY, "id": "1"}]
    assert verdict(CITATIONS, HOW_LONG, "The warranty of a kettle is 24 months [2].", contexts).level == 2


def test_an_address_that_the_user_asked_about_is_no_citation() -> None:
    question = "What is on https://shop.example/kettles?"
    answer = "The warranty of a kettle is 24 months, on https://shop.example/kettles too."
    assert verdict(CITATIONS, question, answer, EN_CONTEXTS).status is Status.NOT_APPLICABLE


FACTS = [
    ("The red lamp has a weight of 12 kilograms.", "Красная лампа весит 12 килограммов."),
    ("A green ticket costs 35 euros for students.", "Зелёный билет стоит 35 евро для студентов."),
    ("The northern library opens at nine on Monday.", "Северная библиотека открывается в девять утра."),
    ("Blue paint dries within six hours outdoors.", "Синяя краска сохнет шесть часов на улице."),
    ("The old harbour was built by monks.", "Старую гавань построили монахи."),
]


@given(st.permutations(range(len(FACTS))), st.integers(2, len(FACTS)), st.sampled_from((0, 1)), st.integers(0, 4))
def test_sentences_of_contexts_with_their_numbers_are_right_and_with_other_numbers_wrong(
    order: list[int], count: int, language: int, shift: int
) -> None:
    sentences = [FACTS[place][language] for place in order[:count]]
    contexts = [{"text": text} for text in sentences]
    cited = [f"{text.rstrip('.')} [{(place + shift) % count + 1}]." for place, text in enumerate(sentences)]
    found = verdict(CITATIONS, "What is it like?", " ".join(cited), contexts)
    assert found.level == (2 if shift % count == 0 else 0), (cited, found.explanation)


# Language


@pytest.mark.parametrize(
    ("question", "answer", "passes"),
    [
        (HOW_LONG, "The warranty lasts two years.", True),
        (HOW_LONG, "Two years.", True),
        (HOW_LONG, "42", True),
        (HOW_LONG, "Гарантия длится два года.", False),
        (HOW_LONG, "Два года.", False),
        (HOW_LONG, "Die Garantie für den Kessel beträgt zwei Jahre und ist nicht übertragbar.", False),
        (HOW_LONG, "保証は二年間です。", False),
        (HOW_LONG, "The warranty lasts two years. Гарантия покрывает все дефекты материалов и сборки.", False),
        (HOW_LONG, "It is called «Гарантия и сервис» in the terms of the shop.", True),
        (SKOLKO, "Два года.", True),
        (SKOLKO, "Команда: `git push --force origin main`. Затем перезапустите сервис на сервере.", True),
        (SKOLKO, "PostgreSQL 16", True),
        (SKOLKO, "The warranty of this kettle lasts two years.", False),
        (SKOLKO, "Гарантія на чайник діє два роки, якщо є чек.", False),
        ("Wie lange ist die Garantie für den Kessel?", "It is two years for all of the kettles.", False),
        ("保証は何年ですか", "二年間です。", True),
    ],
)
def test_language(question: str, answer: str, passes: bool) -> None:
    found = verdict(LANGUAGE, question, answer)
    assert (found.score, found.level) == (float(passes), int(passes)), found.explanation
    assert found.option == ("pass" if passes else "fail")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Translate into Russian: good morning", "Доброе утро."),
        ("Как сказать по-английски «спасибо»?", "Thank you, as in all of the films."),
        ("Wie lange ist die Garantie für den Kessel?", "Die Garantie ist für zwei Jahre."),
        ("?", "Two years."),
    ],
)
def test_a_language_that_the_rules_cannot_tell_is_not_judged(question: str, answer: str) -> None:
    found = verdict(LANGUAGE, question, answer)
    assert (found.status, found.reason) == (Status.INSUFFICIENT, Reason.UNSUPPORTED)


@given(st.lists(st.sampled_from(FACTS), min_size=1, max_size=5), st.sampled_from((0, 1)), st.sampled_from((0, 1)))
def test_sentences_of_one_language_match_a_question_in_it_and_no_other(
    facts: list[tuple[str, str]], asked: int, given_language: int
) -> None:
    question = (HOW_LONG, SKOLKO)[asked]
    answer = " ".join(fact[given_language] for fact in facts)
    assert verdict(LANGUAGE, question, answer).level == int(asked == given_language)


# Any text


PIECES = st.sampled_from(
    ["[1]", "(kb-7)", "[", "]", "https://x.example/", "Passage 2", "«", "sorry, I cannot", "24 months", "\n", "。", "`"]
)


@given(st.text(max_size=60), st.lists(st.text(max_size=20) | PIECES, max_size=12))
def test_any_text_gets_a_verdict_or_a_reason(question: str, pieces: list[str]) -> None:
    answer = " ".join(pieces)
    for criterion in (REFUSAL, CITATIONS, LANGUAGE):
        found = verdict(criterion, question, answer, EN_CONTEXTS)
        assert found.reason is not Reason.UNAVAILABLE, found.detail
        assert (found.score is None) == (found.status is not Status.SCORED)

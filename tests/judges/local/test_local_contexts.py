"""The local judge on contexts: sufficiency, precision and recall, in English and Russian."""

import asyncio
from typing import Any

import pytest

from judges.criteria.catalogue import load_catalogue
from judges.judge import Judge
from judges.local import LocalJudge
from judges.local.case_reading import CONTEXTS_LIMIT
from judges.values.context_verdicts import context_verdicts
from judges.values.evaluation import JudgeVerdict, Reason, Status
from judges.values.interaction import Case, language_of

RETRIEVAL = load_catalogue("retrieval")
JUDGE: Judge = LocalJudge()

WARRANTY = "Every kettle has a warranty of 24 months. It covers defects in materials."
DELIVERY = "Delivery is free above 50 euros. Parcels arrive within three days."
OFFICE = "Our head office is in Lisbon and has a small museum."
GARANTIYA = "На каждый чайник даётся гарантия 24 месяца. Она покрывает дефекты материалов."
DOSTAVKA = "Доставка бесплатна от 50 евро. Посылки приходят за три дня."
OFIS = "Наш главный офис находится в Лиссабоне, там есть маленький музей."

HOW_LONG = "How long is the warranty of a kettle?"
SKOLKO = "Сколько длится гарантия на чайник?"


def verdict(name: str, question: str, *contexts: str, **fields: Any) -> JudgeVerdict:
    all_fields = {"question": question, "answer": "Yes.", "history": (), "contexts": contexts, **fields}
    case = Case(id="case", fields=all_fields, language=language_of(question))
    return asyncio.run(JUDGE.judge(case, RETRIEVAL[name]))


@pytest.mark.parametrize(
    ("question", "contexts", "level"),
    [
        (HOW_LONG, (WARRANTY, DELIVERY), 2),
        (HOW_LONG, (DELIVERY, OFFICE), 0),
        (f"{HOW_LONG} And where is the head office?", (WARRANTY, DELIVERY), 1),
        (f"{HOW_LONG} And where is the head office?", (WARRANTY, OFFICE), 2),
        # The subject without the number that is asked for.
        (HOW_LONG, ("The warranty of a kettle covers defects in materials.",), 1),
        (SKOLKO, (GARANTIYA, DOSTAVKA), 2),
        (SKOLKO, (DOSTAVKA, OFIS), 0),
        (f"{SKOLKO} И где находится главный офис?", (GARANTIYA, DOSTAVKA), 1),
    ],
)
def test_sufficiency(question: str, contexts: tuple[str, ...], level: int) -> None:
    found = verdict("context_sufficiency", question, *contexts)
    assert (found.level, found.score) == (level, level / 2), found.explanation


@pytest.mark.parametrize(
    ("question", "contexts", "useful", "score"),
    [
        (HOW_LONG, (WARRANTY, DELIVERY, OFFICE), [True, False, False], 1.0),
        (HOW_LONG, (DELIVERY, WARRANTY), [False, True], 0.5),
        (HOW_LONG, (DELIVERY, "", OFFICE), [False, False, False], 0.0),
        (SKOLKO, (GARANTIYA, DOSTAVKA), [True, False], 1.0),
        (SKOLKO, (OFIS, DOSTAVKA, GARANTIYA), [False, False, True], 1 / 3),
    ],
)
def test_precision(question: str, contexts: tuple[str, ...], useful: list[bool], score: float) -> None:
    found = verdict("context_precision", question, *contexts)
    assert found.contexts == context_verdicts(useful)
    assert found.score == pytest.approx(score)
    assert found.value == found.score


@pytest.mark.parametrize(
    ("question", "reference", "contexts", "level"),
    [
        (HOW_LONG, "The warranty of every kettle is 24 months.", (DELIVERY, WARRANTY), 2),
        (HOW_LONG, "The warranty of every kettle is 24 months.", (DELIVERY, OFFICE), 0),
        (HOW_LONG, "The warranty of every kettle is 24 months. Batteries have 6 months.", (WARRANTY,), 1),
        (SKOLKO, "На каждый чайник даётся гарантия 24 месяца.", (GARANTIYA,), 2),
        (SKOLKO, "На каждый чайник даётся гарантия 24 месяца.", (OFIS,), 0),
    ],
)
def test_recall(question: str, reference: str, contexts: tuple[str, ...], level: int) -> None:
    found = verdict("context_recall", question, *contexts, reference=reference)
    assert found.level == level, found.explanation
    assert found.spans is None


def test_without_a_reference_recall_does_not_apply() -> None:
    assert verdict("context_recall", HOW_LONG, WARRANTY).status is Status.NOT_APPLICABLE


@pytest.mark.parametrize("thanks", ["Great. Thank you so much!", "Спасибо большое!"])
def test_thanks_ask_for_nothing(thanks: str) -> None:
    assert verdict("context_sufficiency", thanks, WARRANTY).status is Status.NOT_APPLICABLE


@pytest.mark.parametrize("name", ["context_sufficiency", "context_precision"])
def test_a_question_in_another_language_than_the_contexts_is_not_judged(name: str) -> None:
    found = verdict(name, SKOLKO, WARRANTY)
    assert (found.status, found.reason) == (Status.INSUFFICIENT, Reason.UNSUPPORTED)


def test_contexts_that_are_too_long_to_read_are_not_found_insufficient() -> None:
    endless = f"{OFFICE} " * (2 * CONTEXTS_LIMIT // len(OFFICE))
    for name in ("context_sufficiency", "context_precision"):
        assert verdict(name, HOW_LONG, endless).reason is Reason.TRUNCATED


def test_the_answer_does_not_change_the_verdict_on_contexts() -> None:
    for name in ("context_sufficiency", "context_precision"):
        plain = verdict(name, HOW_LONG, DELIVERY)
        knowing = verdict(name, HOW_LONG, DELIVERY, answer="The warranty of a kettle is 24 months.")
        assert plain.score == knowing.score == 0.0

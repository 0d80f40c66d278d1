"""The sentences that the local judge names: where they are in the answer, and what the contexts say about them."""

import asyncio
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import RAG_DIMENSIONS, Criterion
from judges.evaluator import Submission
from judges.judge import Judge
from judges.local import LocalJudge
from judges.local.assessors.groundedness import CLAIMS_LIMIT, SPANS_LIMIT
from judges.local.language.places import find_places
from judges.local.language.text import clean, read
from judges.local.lexicon import Lexicon
from judges.panel import Panel
from judges.scripted import ScriptedJudge
from judges.values.evaluation import Dimension, JudgeVerdict, Sampling, Status
from judges.values.interaction import Case, Context, Interaction, language_of
from stream.config.model import Config
from stream.service.setup.evaluator import build_evaluator

CATALOGUE = load_catalogue()
JUDGE = LocalJudge()
LEXICON = Lexicon.load()

CONTEXTS = (
    "Delivery is free above 50 euros.",
    "",
    "Every kettle has a warranty of 24 months. It covers defects in materials and workmanship.",
)


def verdict(answer: str, dimension: str = "groundedness", **fields: Any) -> JudgeVerdict:
    all_fields = {
        "question": "What about the warranty?",
        "answer": answer,
        "contexts": CONTEXTS,
        "history": (),
    } | fields
    case = Case(id="case", fields=all_fields, language=language_of(answer))
    return asyncio.run(JUDGE.judge(case, CATALOGUE[dimension]))


def list_spans(answer: str, **fields: Any) -> list[tuple[str, str, tuple[int, ...]]]:
    spans = verdict(answer, **fields).spans or ()
    return [(answer[span.start : span.end], span.verdict.value, span.contexts) for span in spans]


def test_every_sentence_gets_the_verdict_on_its_claims_and_the_contexts_behind_it() -> None:
    answer = (
        "Sure! The warranty lasts 24 months.\n\n- The warranty lasts 36 months for every kettle.\n"
        "- Head office is in Lisbon. Delivery is free above 50 euros."
    )
    assert list_spans(answer) == [
        ("Sure!", "no_claim", ()),
        ("The warranty lasts 24 months.", "supported", (2,)),
        ("The warranty lasts 36 months for every kettle.", "contradicted", (2,)),
        ("Head office is in Lisbon.", "unsupported", ()),
        ("Delivery is free above 50 euros.", "supported", (0,)),
    ]


def test_a_sentence_with_two_claims_has_the_worse_verdict() -> None:
    text = "The warranty lasts 24 months; support is in Lisbon, Portugal."
    assert list_spans(text) == [(text, "unsupported", ())]


def test_a_claim_from_two_contexts_names_both() -> None:
    contexts = ("The kettle has a steel body and a glass lid.", "Its cordless base has a rubber foot and a long cable.")
    text = "The kettle has a steel body, a glass lid, a cordless base, a rubber foot and a long cable."
    assert list_spans(text, contexts=contexts) == [(text, "supported", (0, 1))]


def test_places_are_those_of_the_answer_as_logged_not_as_cleaned() -> None:
    hidden = "\u200b\u200bСтоимость\u00a0доставки…  Гарантия\u200b   24 месяца… №\u00a05 é\u0301.\t\n• Ко\u0301нец."
    texts = [text for text, _, _ in list_spans(hidden, contexts=("Гарантия 24 месяца.",))]
    assert texts == ["Стоимость\u00a0доставки…", "Гарантия\u200b   24 месяца…", "№\u00a05 é\u0301.", "Ко\u0301нец."]


def test_a_text_that_cannot_be_aligned_has_no_spans_but_a_verdict() -> None:
    hangul = "The warranty lasts 24 months. \u1112\u1161\u11ab"
    result = verdict(hangul)
    assert (result.status, result.spans) == (Status.SCORED, None)


def test_an_answer_of_which_only_the_ends_are_read_has_no_spans() -> None:
    result = verdict("The warranty lasts 24 months. " + "\u200b" * 400_000 + "It covers defects in materials.")
    assert (result.status, result.spans) == (Status.SCORED, None)


def test_where_only_the_first_claims_are_checked_the_others_are_not_marked() -> None:
    sentence = "The warranty lasts 24 months."
    assert len(list_spans(" ".join([sentence] * (CLAIMS_LIMIT + 20)))) == CLAIMS_LIMIT


def test_a_record_does_not_grow_without_bound() -> None:
    assert len(list_spans("The warranty lasts 24 months. " + "Ok. " * 1_000)) == SPANS_LIMIT


@pytest.mark.parametrize("dimension", sorted({*RAG_DIMENSIONS} - {"groundedness"}))
def test_other_dimensions_name_no_sentences(dimension: str) -> None:
    assert verdict("The warranty lasts 24 months.", dimension).spans is None


@pytest.mark.parametrize("fields", [{"contexts": ()}, {"contexts": ("Гарантия действует два года.",)}])
def test_without_a_verdict_there_are_no_spans(fields: dict[str, Any]) -> None:
    result = verdict("The warranty lasts 24 months.", **fields)
    assert result.status is not Status.SCORED
    assert result.spans is None


def test_a_criterion_about_another_field_has_no_spans_of_the_answer() -> None:
    criterion = Criterion.model_validate(CATALOGUE["groundedness"].model_dump() | {"to_evaluate": "summary"})
    fields = {"summary": "The warranty lasts 24 months.", "answer": "No.", "question": "?", "contexts": CONTEXTS}
    case = Case(id="case", fields=fields, language="en")
    result = asyncio.run(JUDGE.judge(case, criterion))
    assert (result.status, result.spans) == (Status.SCORED, None)


# In a panel and in an evaluation


SENTENCES = "The warranty lasts 24 months. Head office is in Lisbon."


def assess(*judges: Judge) -> Dimension:
    fields = {"question": "What about it?", "answer": SENTENCES, "contexts": CONTEXTS, "history": ()}
    case = Case(id="case", fields=fields, language="en")
    return asyncio.run(Panel(judges=judges).assess(case, CATALOGUE["groundedness"]))


def test_a_panel_takes_the_spans_of_the_judges_that_name_sentences() -> None:
    mute = ScriptedJudge(lambda _case, _criterion: 2, "mute")
    alone = assess(LocalJudge())
    assert [span.verdict.value for span in alone.spans or ()] == ["supported", "unsupported"]
    assert assess(mute, LocalJudge()).spans == alone.spans == assess(LocalJudge("one"), LocalJudge("two")).spans
    assert assess(mute).spans is None


def test_where_contexts_were_truncated_no_sentence_is_marked_by_the_panel() -> None:
    """The missing text may support it; the verdict of the judge remains, as all verdicts do."""
    interaction = Interaction(id="1", question="?", answer=SENTENCES, contexts=tuple(Context(text=t) for t in CONTEXTS))
    evaluator = build_evaluator(Config())

    def spans(*truncated: str) -> tuple[bool, bool]:
        submission = Submission(interaction=interaction, sampling=Sampling(), truncated=truncated)
        evaluation = asyncio.run(evaluator.evaluate(submission, deadline=None, on_unsafe=lambda _notice: None))
        dimension = evaluation.dimensions["groundedness"]
        return dimension.spans is not None, dimension.judges[0].spans is not None

    assert spans() == (True, True)
    assert spans("contexts[3:]") == (False, True)


WORDS = st.sampled_from(["The", "warranty", "24", "months", "Гарантия", "é", "e\u0301", "№", "ﬁt", "e.g.", "…", "1."])
GLUE = st.sampled_from([" ", "  ", "\u00a0", "\n", ". ", "! ", "? ", "\u200b", "\t", "; ", " \n- ", "\r\n", ", but "])
TEXTS = st.lists(st.one_of(WORDS, GLUE, st.characters()), max_size=40).map("".join)


def normalise_spaces(text: str) -> str:
    """The text as a person sees it, whatever the spaces."""
    return re.sub(r"\s+", " ", clean(text)).strip()


@given(TEXTS)
@example("- -\n1. 1.")
def test_spans_lie_in_the_answer_sorted_and_without_overlaps(answer: str) -> None:
    spans = verdict(answer).spans
    for span in spans or ():
        assert 0 <= span.start < span.end <= len(answer)
        assert all(index in (0, 2) for index in span.contexts)
    assert all(one.end <= other.start for one, other in pairwise(spans or ()))


@given(TEXTS)
@example("\ufdfa. \ufdfa…  a")
def test_the_text_of_a_place_is_the_sentence(answer: str) -> None:
    cleaned = clean(answer)
    sentences = [sentence.text for sentence in read(cleaned, LEXICON).sentences]
    places = find_places(answer, cleaned, sentences)
    if places is None:
        # Only letters that merge with their neighbours, as in Hangul, cannot be followed.
        assert cleaned != answer
        assert not answer.isascii()
        return
    if cleaned == answer:
        assert [answer[place.start : place.stop] for place in places] == sentences
    assert [normalise_spaces(answer[place.start : place.stop]) for place in places if place] == [
        normalise_spaces(sentence) for sentence, place in zip(sentences, places, strict=True) if place
    ]

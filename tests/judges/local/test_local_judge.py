"""The local judge as a judge: its contract, and its properties for every text."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import RAG_DIMENSIONS, Criterion
from judges.criteria.scale import PASS_FAIL, YES_NO
from judges.judge import Judge
from judges.local import LocalJudge
from judges.values.evaluation import JudgeVerdict, Reason, Samples, Status
from judges.values.interaction import Case, Language, language_of
from tests.parts.patience import patience

CATALOGUE = load_catalogue()
JUDGE: Judge = LocalJudge()

QUESTION = "How long is the warranty and what does it cover?"
ANSWER = "The warranty lasts 24 months and covers defects in materials."
CONTEXTS = ("Every kettle has a warranty of 24 months. It covers defects in materials and workmanship.",)


def case(language: Language = "en", **fields: Any) -> Case:
    given_fields = {"question": QUESTION, "answer": ANSWER, "contexts": CONTEXTS, "history": ()} | fields
    return Case(id="case", fields=given_fields, language=language)


def judge(subject: Case, dimension: str, by: Judge = JUDGE) -> JudgeVerdict:
    return asyncio.run(by.judge(subject, CATALOGUE[dimension]))


def levels(subject: Case) -> Mapping[str, int | None]:
    return {dimension: judge(subject, dimension).level for dimension in RAG_DIMENSIONS}


def change_criterion(dimension: str, **changes: Any) -> Criterion:
    return Criterion.model_validate(CATALOGUE[dimension].model_dump() | changes)


def with_levels(dimension: str, *values: int) -> Criterion:
    label = {"en": "level {}", "ru": "уровень {}"}
    items = [
        {
            "value": value,
            "label": {key: text.format(value) for key, text in label.items()},
            "description": {"en": "-", "ru": "-"},
        }
        for value in values
    ]
    return change_criterion(dimension, scale={"kind": "levels", "levels": items})


@pytest.mark.parametrize(
    ("dimension", "fields"),
    [
        # The supporting sentence is beyond the part that is read of each passage.
        ("groundedness", {"contexts": (*(("Other things. " * 1_100,) * 12), "Words. " * 2_000 + CONTEXTS[0])}),
        ("completeness", {"answer": "Let me say first how glad I am. " * 700 + ANSWER}),
    ],
)
def test_below_the_best_there_is_no_verdict_where_the_rules_could_not_read_everything(
    dimension: str, fields: dict[str, Any]
) -> None:
    verdict = judge(case(**fields), dimension)
    assert (verdict.status, verdict.reason, verdict.score) == (Status.INSUFFICIENT, Reason.TRUNCATED, None)
    assert "too long to be read whole" in (verdict.detail or "")


class TestContract:
    def test_a_good_answer_has_the_best_level_of_every_dimension(self) -> None:
        assert levels(case()) == {
            dimension: CATALOGUE[dimension].scale.choices[-1].value for dimension in RAG_DIMENSIONS
        }

    @pytest.mark.parametrize("dimension", RAG_DIMENSIONS)
    def test_a_verdict_carries_score_option_samples_and_latency(self, dimension: str) -> None:
        verdict = judge(case(), dimension)
        assert verdict.judge == "local"
        assert verdict.status is Status.SCORED
        assert verdict.score == 1.0
        assert verdict.value == verdict.level
        assert verdict.option == CATALOGUE[dimension].scale.choices[-1].label.en
        assert verdict.samples == Samples(requested=1, valid=1)
        assert verdict.latency_ms > 0.0
        assert verdict.explanation.endswith(".")

    def test_the_caller_sets_the_name_and_the_identity_covers_rules_and_lexicon(self) -> None:
        named = LocalJudge("second opinion")
        assert named.name == "second opinion"
        assert judge(case(), "clarity", named).judge == "second opinion"
        assert named.identity == JUDGE.identity
        assert "rules=" in named.identity
        assert "lexicon=" in named.identity
        assert "\n" not in named.identity

    def test_a_criterion_without_rules_is_unsupported_and_the_detail_names_both(self) -> None:
        verdict = asyncio.run(JUDGE.judge(case(), change_criterion("clarity", name="humour")))
        assert verdict.status is Status.INSUFFICIENT
        assert verdict.reason is Reason.UNSUPPORTED
        assert verdict.score is None
        assert verdict.detail is not None
        assert verdict.detail == JUDGE.why_not(change_criterion("clarity", name="humour"))
        assert "humour" in verdict.detail
        assert all(dimension in verdict.detail for dimension in RAG_DIMENSIONS)

    @pytest.mark.parametrize("values", [(0, 1), (1, 2, 3), (0, 1, 2, 3, 4), (0, 2)])
    def test_a_changed_scale_is_unsupported_and_never_clamped(self, values: tuple[int, ...]) -> None:
        verdict = asyncio.run(JUDGE.judge(case(), with_levels("groundedness", *values)))
        assert verdict.reason is Reason.UNSUPPORTED
        assert verdict.level is None

    @pytest.mark.parametrize("dimension", RAG_DIMENSIONS)
    def test_the_dimensions_of_the_catalogue_are_supported(self, dimension: str) -> None:
        assert JUDGE.why_not(CATALOGUE[dimension]) is None

    @pytest.mark.parametrize("scale", [YES_NO, PASS_FAIL], ids=["options", "binary"])
    def test_another_kind_of_scale_under_a_known_name_is_unsupported(self, scale: Any) -> None:
        criterion = change_criterion("conciseness", scale=scale)
        assert scale.kind in (JUDGE.why_not(criterion) or "")
        assert asyncio.run(JUDGE.judge(case(), criterion)).reason is Reason.UNSUPPORTED

    def test_a_scale_turned_around_is_unsupported(self) -> None:
        verdict = asyncio.run(JUDGE.judge(case(), change_criterion("harmfulness", higher_is="worse")))
        assert verdict.reason is Reason.UNSUPPORTED
        assert verdict.score is None

    @pytest.mark.parametrize(
        ("dimension", "field"),
        [
            ("answer_relevance", "question"),
            ("completeness", "question"),
            ("harmfulness", "answer"),
            ("clarity", "answer"),
        ],
    )
    def test_a_missing_field_is_an_error_that_names_it_and_the_record(self, dimension: str, field: str) -> None:
        fields = {name: value for name, value in case().fields.items() if name != field}
        verdict = judge(Case(id="case", fields=fields, language="en"), dimension)
        assert verdict.status is Status.INSUFFICIENT
        assert verdict.reason is Reason.MISSING_FIELD
        assert verdict.detail is not None
        assert repr(field) in verdict.detail
        assert "record case" in verdict.detail
        assert verdict.samples == Samples(requested=0)

    @pytest.mark.parametrize("contexts", [(), ("",), None])
    def test_groundedness_does_not_apply_without_contexts(self, contexts: tuple[str, ...] | None) -> None:
        fields = dict(case().fields)
        if contexts is None:
            del fields["contexts"]
        else:
            fields["contexts"] = contexts
        verdict = judge(Case(id="case", fields=fields, language="en"), "groundedness")
        assert verdict.status is Status.NOT_APPLICABLE
        assert verdict.score is None

    def test_the_field_under_evaluation_is_the_criterions(self) -> None:
        criterion = change_criterion("clarity", to_evaluate="reference")
        subject = case(reference="THIS IS ALL IN CAPITAL LETTERS AND NOBODY WANTS TO READ THAT")
        shouted = asyncio.run(JUDGE.judge(subject, criterion)).level
        assert shouted is not None
        assert shouted < 4
        assert judge(subject, "clarity").level == 4

    def test_a_defect_in_a_rule_costs_the_verdict_and_is_named(self) -> None:
        verdict = judge(case(answer=5), "clarity")
        assert verdict.status is Status.INSUFFICIENT
        assert verdict.reason is Reason.UNAVAILABLE
        assert verdict.detail is not None
        assert "TypeError" in verdict.detail

    def test_the_verdict_of_a_case_does_not_depend_on_the_cases_judged_between(self) -> None:
        first = case()
        before = levels(first)
        for number in range(300):
            judge(case(answer=f"Answer {number} is about kettles."), "clarity")
        assert levels(first) == before

    def test_a_sentence_that_two_contexts_share_does_not_make_them_one(self) -> None:
        """It is evidence where the rest of the context fits, and not where the rest is about something else."""
        shared = "The kettle warranty is blue."
        unrelated = case(
            question="Does the kettle warranty cover descaling?",
            answer="Parrots need a large cage.",
            contexts=(f"It covers descaling. {shared}", f"{shared} Parrots need a large cage."),
        )
        assert judge(unrelated, "answer_relevance").level == 0

    def test_it_only_computes_and_forgets_when_it_is_closed(self) -> None:
        own = LocalJudge()
        before = [judge(case(), dimension, own).level for dimension in RAG_DIMENSIONS]
        own.close()
        assert [judge(case(), dimension, own).level for dimension in RAG_DIMENSIONS] == before
        assert own.waits is False

    @pytest.mark.parametrize(
        "answer", ["这是一个关于退款政策的回答。", "هذه إجابة عن سياسة الاسترداد", "זו תשובה על החזר כספי"]
    )
    def test_other_alphabets_are_not_judged_rather_than_guessed(self, answer: str) -> None:
        for dimension in RAG_DIMENSIONS:
            verdict = judge(case(answer=answer), dimension)
            assert verdict.status is Status.INSUFFICIENT
            assert verdict.reason is Reason.UNSUPPORTED

    def test_support_across_languages_is_not_judged_rather_than_guessed(self) -> None:
        verdict = judge(case(language="ru", answer="Гарантия на чайник действует два года."), "groundedness")
        assert verdict.reason is Reason.UNSUPPORTED


# Fragments that trigger the rules more often than random characters do.
PIECES = (
    "The warranty lasts 24 months.", "Гарантия действует 24 месяца.", "Never mix bleach with ammonia.", "kill", "не",
    "1 000", "1,000.50", "9:30", "31.12.2025", "45 %", "$", "(", "]", "«", "<b>", "```", "http://x.y/z", "a@b.co",
    "I can't help with that.", "?", "!!!", "...", "\n- ", "\n1. ", ";", ", but ", "\u200b", "\u202e", "e\u0301\u0327",
    "\ud83d", "😀", "שלום", "кill", "٣٤", "½", "№", "Ⅻ", "ﷺ", "September", "в сентябре", "'", "’s", "\x00", "\t",
)  # fmt: skip
texts = st.one_of(
    st.text(max_size=80),
    st.text(alphabet=st.characters(exclude_categories=[]), max_size=40),
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=12).map(" ".join),
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
)
cases = st.builds(
    lambda question, answer, contexts, history: Case(
        id="any",
        fields={"question": question, "answer": answer, "contexts": tuple(contexts), "history": tuple(history)},
        language=language_of(question + answer),
    ),
    texts,
    texts,
    st.lists(texts, max_size=4),
    st.lists(texts, max_size=2),
)


class TestEveryText:
    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(cases)
    def test_a_verdict_is_a_level_of_the_scale_or_a_reason_without_one(self, subject: Case) -> None:
        for dimension, criterion in CATALOGUE.items():
            verdict = judge(subject, dimension)
            assert verdict.reason is not Reason.UNAVAILABLE, verdict.detail
            if verdict.status is Status.SCORED:
                assert verdict.level is not None
                assert verdict.level in [choice.value for choice in criterion.scale.choices]
                assert verdict.score == criterion.normalise(verdict.level)
                assert verdict.explanation
            else:
                assert verdict.level is None
                assert verdict.score is None
                assert verdict.reason is not None
                assert verdict.status is Status.INSUFFICIENT or dimension == "groundedness"
            verdict.model_dump_json()

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(cases)
    def test_the_same_case_gets_the_same_verdict_from_every_judge(self, subject: Case) -> None:
        copy = Case(id=subject.id, fields=dict(subject.fields), language=subject.language)
        for dimension in RAG_DIMENSIONS:
            first, second = judge(subject, dimension), judge(copy, dimension, _SECOND)
            untimed = {"latency_ms": 0.0, "asked_at": None}
            assert first.model_copy(update=untimed) == second.model_copy(update=untimed)

    @settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(cases, st.randoms(use_true_random=False))
    def test_the_order_of_the_contexts_changes_no_level(self, subject: Case, random: Any) -> None:
        shuffled = list(subject.items("contexts")) + list(CONTEXTS)
        subject = Case(id="any", fields={**subject.fields, "contexts": tuple(shuffled)}, language=subject.language)
        before = levels(subject)
        random.shuffle(shuffled)
        after = Case(id="any", fields={**subject.fields, "contexts": tuple(shuffled)}, language=subject.language)
        assert levels(after) == before

    @settings(max_examples=100, deadline=None)
    @given(
        st.lists(
            st.sampled_from([*CONTEXTS, ANSWER, "It covers defects.", "Hello!", "The colour is blue."]), max_size=5
        ),
        st.sampled_from(
            [
                "The warranty lasts 60 months.",
                "Our Lisbon branch paints murals.",
                "The warranty does not cover defects in materials.",
                "Penguins breed on rocky islands.",
            ]
        ),
        st.integers(1, 3),
    )
    def test_another_unsupported_sentence_never_raises_groundedness(
        self, parts: list[str], unsupported: str, copies: int
    ) -> None:
        assert judge(case(answer=unsupported), "groundedness").level == 0
        before = judge(case(answer=" ".join(parts)), "groundedness").level
        assume(before is not None)
        after = judge(case(answer=" ".join([*parts, *[unsupported] * copies])), "groundedness").level
        assert after is not None
        assert before is not None
        assert after <= before


_SECOND = LocalJudge()

MILLION = 1_000_000
HUGE = {
    "one word": "a" * MILLION,
    "spaces": " " * MILLION,
    "lines": "\n" * MILLION,
    "tiny sentences": "a. " * (MILLION // 3),
    "dotted": "x.y-" * (MILLION // 4) + "@",
    "digits": "7" * MILLION,
    "numbers": "1 000 " * (MILLION // 6),
    "codes": "A-1 " * (MILLION // 4),
    "accents": "a" + "\u0300\u0327" * (MILLION // 2),
    "two alphabets": "аa" * (MILLION // 2),
    "brackets": "(" * MILLION,
    "backticks": "```x " * (MILLION // 5),
    "ligatures": "\ufdfa" * (MILLION // 3),
    "denials": "do not kill him " * (MILLION // 16),
    "denied sentences": "Do not kill him. " * (MILLION // 17),
    "threats": "kill him " * (MILLION // 9),
    "half a pattern": "make " * (MILLION // 5) + "bomb",
}


class TestHugeTexts:
    @pytest.mark.parametrize("field", ["answer", "question", "contexts"])
    @pytest.mark.parametrize("text", HUGE.values(), ids=HUGE.keys())
    @pytest.mark.slow
    def test_a_million_characters_take_about_a_second_at_most(self, text: str, field: str) -> None:
        fields: dict[str, Any] = {field: (text,) if field == "contexts" else text}
        subject = case(**fields)
        started = time.process_time()
        for dimension in RAG_DIMENSIONS:
            assert judge(subject, dimension).reason is not Reason.UNAVAILABLE
        # Quadratic work would take minutes.
        assert time.process_time() - started < 4.0 * patience()

    @pytest.mark.slow
    def test_a_long_answer_over_long_contexts_is_judged_in_time(self) -> None:
        contexts = tuple(
            f"Kettle {number} has a warranty of {number} months. It boils quickly." for number in range(5000)
        )
        answer = " ".join(f"Kettle {number} has a warranty of {number} months." for number in range(1000))
        started = time.process_time()
        levels(case(answer=answer, contexts=contexts))
        assert time.process_time() - started < 6.0 * patience()

    def test_an_explanation_says_when_not_everything_was_read(self) -> None:
        verdict = judge(case(answer="The warranty lasts 24 months. " * 2000), "groundedness")
        assert "Only the first" in verdict.explanation

    def test_an_answer_too_long_to_be_read_whole_is_never_called_safe(self) -> None:
        assert judge(case(answer="All is well. " * 30_000), "harmfulness").level == 1

    def test_harm_at_the_end_of_a_long_answer_is_found(self) -> None:
        answer = "All is well. " * 50_000 + "You should just kill yourself."
        assert judge(case(answer=answer), "harmfulness").level == 0

    def test_typical_interactions_are_judged_by_the_hundred_per_second(self) -> None:
        contexts = tuple(
            " ".join([*CONTEXTS, f"Kettle {number} weighs 2 kg and costs 49 euros."] * 3) for number in range(3)
        )
        subjects = [
            case(answer=f"Kettle {number}. {ANSWER} {ANSWER} It boils fast.", contexts=contexts) for number in range(60)
        ]
        started = time.process_time()
        for subject in subjects:
            levels(subject)
        # 300 a second on an idle core; the limit only notices a loss of an order of magnitude.
        assert len(subjects) / (time.process_time() - started) > 30 / patience()

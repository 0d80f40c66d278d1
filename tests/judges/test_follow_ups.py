"""A follow-up question is judged with the conversation before it, by the local judge and by a model."""

import asyncio
import re

import pytest

from judges import DirectJudge, OpenAIModel
from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import RAG_DIMENSIONS
from judges.local import LocalJudge
from judges.values.evaluation import JudgeVerdict, Status
from judges.values.interaction import Case, Context, Interaction, Turn, case_of
from tests.parts.endpoints.judge_endpoint import Body, JudgeEndpoint, Respond, Response, verdict_response

CATALOGUE = load_catalogue()
LOCAL = LocalJudge()
WITH_HISTORY = tuple(name for name in RAG_DIMENSIONS if name != "conciseness")

FERRY = ("Pensioners get a discount of 20 % on the ferry.", "Children under 12 pay half price.")
PAROM = ("Пенсионеры получают скидку 20 % на паром.", "Дети до 12 лет платят полцены.")
DISCOUNT = ("user: Is there a discount on the ferry for pensioners?", "assistant: Yes, it is 20 %.")
SKIDKA = ("user: Есть ли скидка на паром для пенсионеров?", "assistant: Да, 20 %.")


def follow_up(question: str, answer: str, history: tuple[str, ...], contexts: tuple[str, ...]) -> Case:
    turns = (turn.split(": ", 1) for turn in history)
    return case_of(
        Interaction(
            id="follow-up",
            question=question,
            answer=answer,
            history=tuple(Turn(role=role, text=text) for role, text in turns),
            contexts=tuple(Context(text=text) for text in contexts),
        )
    )


def local_verdict(dimension: str, case: Case) -> JudgeVerdict:
    return asyncio.run(LOCAL.judge(case, CATALOGUE[dimension]))


class TestLocalRelevance:
    @pytest.mark.parametrize(
        ("question", "answer", "history", "contexts", "level"),
        [
            ("And for children?", "Yes, half price.", DISCOUNT, FERRY, 3),
            ("What about children?", "Children pay half price.", DISCOUNT, FERRY, 3),
            ("And for children?", "Pensioners get a discount of 20 % on the ferry.", DISCOUNT, FERRY, 1),
            ("And for children?", "Penguins breed on rocky islands.", DISCOUNT, FERRY, 0),
            ("А для детей?", "Да, за полцены.", SKIDKA, PAROM, 3),
            ("А как насчёт детей?", "Дети едут за полцены.", SKIDKA, PAROM, 3),
            ("А для детей?", "Пенсионеры получают скидку 20 % на паром.", SKIDKA, PAROM, 1),
            ("А для детей?", "Пингвины живут на скалистых островах.", SKIDKA, PAROM, 0),
        ],
    )
    def test_an_elliptic_question_is_read_with_the_one_before_it(
        self, question: str, answer: str, history: tuple[str, ...], contexts: tuple[str, ...], level: int
    ) -> None:
        assert local_verdict("answer_relevance", follow_up(question, answer, history, contexts)).level == level

    @pytest.mark.parametrize(
        ("question", "answer", "asked", "answered"),
        [
            (
                "And for children?",
                "Yes, half price.",
                "user: Is there a discount for pensioners?",
                "assistant: Yes, pensioners pay half price.",
            ),
            (
                "А для детей?",
                "Да, тоже половина цены билета.",
                "user: Есть ли скидка для пенсионеров?",
                "assistant: Да, пенсионеры платят половину цены билета.",
            ),
        ],
    )
    def test_without_passages_the_previous_answer_shows_the_topic(
        self, question: str, answer: str, asked: str, answered: str
    ) -> None:
        assert local_verdict("answer_relevance", follow_up(question, answer, (asked, answered), ())).level == 3
        assert local_verdict("answer_relevance", follow_up(question, answer, (), ())).level == 0

    @pytest.mark.parametrize("between", [(), ("user: OK.",)])
    def test_a_turn_without_content_is_skipped(self, between: tuple[str, ...]) -> None:
        case = follow_up("And why?", "The discount on the ferry is paid by the city.", (*DISCOUNT, *between), ())
        verdict = local_verdict("answer_relevance", case)
        assert (verdict.level, "names no subject" in verdict.explanation) == (2, False)


ORDERED = "user: I ordered the Fibre 500 contract online six days ago."
CANCEL = ("A contract ordered online can be cancelled free of charge within 14 days.",)
STILL = "You ordered the Fibre 500 contract six days ago, so you can still cancel it free of charge within 14 days."
ZAKAZ = "user: Я заказал тариф «Волна» через сайт шесть дней назад."
OTMENA = ("Договор, заказанный через сайт, можно отменить бесплатно в течение 14 дней.",)
MOZHNO = "Вы заказали тариф «Волна» шесть дней назад, поэтому договор можно отменить бесплатно в течение 14 дней."


class TestLocalGroundedness:
    @pytest.mark.parametrize(
        ("answer", "history", "contexts", "level"),
        [
            (STILL, (ORDERED,), CANCEL, 2),
            (STILL, (), CANCEL, 0),
            (STILL, (ORDERED.replace("user", "assistant").replace("I ", "You "),), CANCEL, 0),
            (STILL, (ORDERED.replace("user", "userbot"),), CANCEL, 0),
            (STILL, (ORDERED.replace("six", "nine"),), CANCEL, 0),
            (STILL, ("user: Did I order the Fibre 500 contract six days ago?",), CANCEL, 0),
            ("You do not have a receipt.", ("customer: I do not have a receipt.",), CANCEL, 2),
            ("You have a receipt.", ("customer: I do not have a receipt.",), CANCEL, 0),
            (MOZHNO, (ZAKAZ,), OTMENA, 2),
            (MOZHNO, (), OTMENA, 0),
            (MOZHNO, (ZAKAZ.replace("user", "assistant").replace("Я заказал", "Вы заказали"),), OTMENA, 0),
            (MOZHNO, (ZAKAZ.replace("шесть", "девять"),), OTMENA, 0),
            (MOZHNO, ("user: Разве я заказал тариф «Волна» шесть дней назад?",), OTMENA, 0),
        ],
    )
    def test_facts_of_the_user_support_a_claim_and_nothing_else_of_the_history_does(
        self, answer: str, history: tuple[str, ...], contexts: tuple[str, ...], level: int
    ) -> None:
        assert local_verdict("groundedness", follow_up("So?", answer, history, contexts)).level == level

    @pytest.mark.parametrize(
        ("claim", "context"),
        [
            ("The warranty is 5 years.", "The warranty is 2 years from the purchase."),
            ("Batteries are covered by the warranty.", "Batteries are not covered by the warranty."),
            ("Гарантия действует 5 лет.", "Гарантия действует 2 года со дня покупки."),
            ("Товар можно вернуть.", "Товар нельзя вернуть после вскрытия."),
        ],
    )
    def test_contexts_win_over_contradicting_turns(self, claim: str, context: str) -> None:
        case = follow_up("Is that so?", claim, (f"user: {claim}",), (context,))
        assert local_verdict("groundedness", case).level == 0

    def test_a_number_belongs_to_the_thing_the_user_named(self) -> None:
        case = follow_up("How long?", "A refund takes 6 days.", (ORDERED,), ("Refunds are sent to the card.",))
        assert local_verdict("groundedness", case).level == 0

    def test_without_contexts_it_does_not_apply_whatever_the_user_said(self) -> None:
        case = follow_up("So?", STILL, (ORDERED,), ())
        assert local_verdict("groundedness", case).status is Status.NOT_APPLICABLE


def best_if_shown(turn: str) -> Respond:
    """A model that understands the answer only from this turn, in a separate field before the end of the data."""

    def respond(body: Body) -> Response:
        text = body["messages"][-1]["content"]
        labels = body["response_format"]["json_schema"]["schema"]["properties"]["verdict"]["enum"]
        labels = [label for label in labels if label != "not_applicable"]
        code = re.search(r"[0-9a-f]{6}", text)
        assert code is not None
        match = re.search(
            rf"^### (?:history|история) \d+ {code[0]}\n{re.escape(turn)}\n(?s:.*)^### (?:end|конец) {code[0]}$",
            text,
            re.MULTILINE,
        )
        return verdict_response(labels[-1 if match else 0])

    return respond


async def model_scores(endpoint: JudgeEndpoint, *cases: Case) -> list[dict[str, float | None]]:
    judge = DirectJudge(OpenAIModel("scripted", base_url=endpoint.base_url))
    scores = [{name: (await judge.judge(case, CATALOGUE[name])).score for name in RAG_DIMENSIONS} for case in cases]
    await judge.aclose()
    return scores


@pytest.mark.parametrize(
    ("question", "answer", "history", "contexts"),
    [
        ("And for children?", "Yes, half price.", DISCOUNT, FERRY),
        ("А для детей?", "Да, за полцены.", SKIDKA, PAROM),
    ],
    ids=["en", "ru"],
)
def test_a_model_is_shown_the_history_inside_the_fence_for_all_dimensions_but_conciseness(
    question: str, answer: str, history: tuple[str, ...], contexts: tuple[str, ...]
) -> None:
    case, alone = (follow_up(question, answer, turns, contexts) for turns in (history, ()))
    with JudgeEndpoint(best_if_shown(history[0])) as endpoint:
        in_context, blind = asyncio.run(model_scores(endpoint, case, alone))
    assert in_context == {name: float(name in WITH_HISTORY) for name in RAG_DIMENSIONS}
    assert blind == dict.fromkeys(RAG_DIMENSIONS, 0.0)


def test_the_prompt_says_that_facts_of_the_user_support_an_answer() -> None:
    question, ignore = CATALOGUE["groundedness"].question, CATALOGUE["groundedness"].ignore
    assert "facts that the user stated in the history" in question.en
    assert "факты, которые пользователь сообщил в истории" in question.ru
    assert ignore is not None
    assert "the assistant's earlier words" in ignore.en
    assert "прежние слова ассистента" in ignore.ru

"""Lists of instances: one result for each, in order, whatever happens to the others; blocking or not."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import Criterion
from judges.judge import Judge
from judges.llm.methods.direct import DirectJudge
from judges.local import LocalJudge
from judges.models import OpenAIModel
from judges.runtime.batch import as_case
from judges.runtime.sync import wait_for
from judges.values.evaluation import JudgeVerdict, Reason, Samples, Status
from judges.values.interaction import Case, Context, Interaction
from tests.parts.endpoints.judge_endpoint import (
    Body,
    JudgeEndpoint,
    Response,
    chat_response,
    delayed,
    error_response,
    verdict_response,
)
from tests.parts.patience import patience

CLARITY = load_catalogue()["clarity"]
GROUNDEDNESS = load_catalogue()["groundedness"]
POLITE = Criterion.of("Is it polite?")


@pytest.fixture
def endpoint() -> Iterator[JudgeEndpoint]:
    with JudgeEndpoint() as endpoint:
        yield endpoint


@pytest.fixture
def judge(endpoint: JudgeEndpoint) -> Iterator[DirectJudge]:
    judge = DirectJudge(OpenAIModel("tiny", base_url=endpoint.base_url), repairs=0)
    yield judge
    judge.close()


class _Judge(Judge):
    """A minimal judge, as users write them."""

    name = identity = "own"

    def __init__(self, work: Callable[[Case], Any]) -> None:
        self.work = work

    async def verdict(self, case: Case, criterion: Criterion, *, reverse: bool) -> JudgeVerdict:
        result = self.work(case)
        score = await result if asyncio.iscoroutine(result) else result
        return JudgeVerdict(judge=self.name, status=Status.SCORED, score=score, samples=Samples(requested=1, valid=1))


def task_of(body: Body) -> str:
    return str(body["messages"][1]["content"])


def yes_where(word: str) -> Callable[[Body], Response]:
    return lambda body: verdict_response("Yes" if word in task_of(body) else "No")


class TestOneCriterion:
    def test_a_text_and_a_question_in_plain_words_are_enough(self, endpoint: JudgeEndpoint) -> None:
        reply = '{"explanation": "It needs the client.", "verdict": "No", "feedback": "Name the client."}'
        endpoint.respond = lambda _: chat_response(reply)
        judge = DirectJudge(OpenAIModel("llama-3.3-70b", base_url=endpoint.base_url), feedback=True)
        [result] = judge.evaluate(
            ["Use the API client to fetch data from the server."], "Is the text self-explanatory and self-contained?"
        )
        judge.close()
        assert (result.option, result.score) == ("No", 0.0)
        assert (result.explanation, result.feedback) == ("It needs the client.", "Name the client.")
        assert "### answer" in task_of(endpoint.calls[0])
        assert "Use the API client" in task_of(endpoint.calls[0])

    def test_results_come_in_the_order_of_the_instances(self, endpoint: JudgeEndpoint, judge: DirectJudge) -> None:
        """Even if the first is answered last."""

        def slower_first(body: Body) -> Response:
            number = next(number for number in range(10) if f"text {number}." in task_of(body))
            return delayed(verdict_response("Yes", str(number)), (10 - number) * 0.02)

        endpoint.respond = slower_first
        results = judge.evaluate([f"This is text {number}." for number in range(10)], POLITE)
        assert [result.explanation for result in results] == [str(number) for number in range(10)]

    def test_no_instances_have_no_results(self, judge: DirectJudge) -> None:
        assert judge.evaluate([], POLITE) == []

    def test_fields_interactions_and_cases_are_instances_too(self, endpoint: JudgeEndpoint, judge: DirectJudge) -> None:
        endpoint.respond = lambda _: verdict_response("fully supported")
        fields = {"question": "Why?", "answer": "So.", "contexts": ["It is so."]}
        interaction = Interaction(id="i", question="Why?", answer="So.", contexts=(Context(text="It is so."),))
        case = Case(id="c", fields={**fields, "contexts": ("It is so.",)}, language="en")  # type: ignore[dict-item]
        results = judge.evaluate([fields, interaction, case], GROUNDEDNESS)
        assert [result.level for result in results] == [2, 2, 2]

    def test_a_judge_without_a_criterion_asks_for_one(self, judge: DirectJudge) -> None:
        with pytest.raises(ValueError, match=r"evaluate\(instances, criterion\)"):
            judge.evaluate(["Thanks."])

    def test_a_custom_judge_has_all_this_too(self) -> None:
        judge = _Judge(lambda case: len(case.text("answer")) / 10)
        assert [result.score for result in judge.evaluate(["abc", "abcde"], POLITE)] == [0.3, 0.5]

    @pytest.mark.parametrize("returned", [None, 0.5, {"status": "scored", "score": 1.0}])
    def test_a_result_that_is_not_a_verdict_fails_only_its_instance(self, returned: object) -> None:
        class Careless(_Judge):
            async def verdict(self, case: Case, criterion: Criterion, *, reverse: bool) -> JudgeVerdict:
                if case.text("answer") == "bad":
                    return returned  # type: ignore[return-value]
                return await super().verdict(case, criterion, reverse=reverse)

        results = Careless(lambda _: 1.0).evaluate(["good", "bad", "good"], POLITE)
        assert [result.score for result in results] == [1.0, None, 1.0]
        assert (results[1].reason, results[1].samples) == (Reason.UNAVAILABLE, Samples(requested=1, error=1))

    def test_an_unexpected_cancellation_fails_only_its_instance(self) -> None:
        def work(case: Case) -> float:
            if case.text("answer") == "bad":
                raise asyncio.CancelledError
            return 1.0

        results = _Judge(work).evaluate(["good", "bad", "good"], POLITE)
        assert [result.score for result in results] == [1.0, None, 1.0]
        assert results[1].reason is Reason.UNAVAILABLE

    def test_the_local_judge_has_it(self) -> None:
        results = LocalJudge().evaluate([{"question": "Why?", "answer": "Because the kettle boils."}, 7], CLARITY)  # type: ignore[list-item]
        assert [result.status for result in results] == [Status.SCORED, Status.INSUFFICIENT]


class TestBadInstances:
    BAD: tuple[tuple[Any, str], ...] = (
        (17, "not int"),
        (None, "not NoneType"),
        (["a", "b"], "not list"),
        ({"answer": 17}, "'answer'"),
        ({"answer": None}, "'answer'"),
        ({"answer": "So.", "question": ["a", 1]}, "question[1] must be a text, not int"),
        ({"answer": "So.", "contexts": [{"id": "kb-7", "text": "So."}]}, "contexts[0] is a mapping: pass Interaction("),
        ({"answer": "So.", "tags": {"release": "1"}}, "tags is a mapping: pass Interaction(**record), or plain texts"),
        ({1: "a", "answer": "So."}, "names of fields"),
    )

    @pytest.mark.parametrize(("bad", "words"), BAD, ids=[repr(bad) for bad, _ in BAD])
    def test_one_never_fails_its_batch_and_says_what_is_wrong(
        self, endpoint: JudgeEndpoint, judge: DirectJudge, bad: Any, words: str
    ) -> None:
        endpoint.respond = lambda _: verdict_response("Yes")
        first, second, third = judge.evaluate(["Thanks.", bad, "Please."], POLITE)
        assert (first.option, third.option) == ("Yes", "Yes")
        assert (second.status, second.score, second.samples) == (Status.INSUFFICIENT, None, Samples(requested=0))
        assert second.reason is Reason.MISSING_FIELD
        assert words in (second.detail or "")
        assert "instance 1" in (second.detail or "")
        assert len(endpoint.calls) == 2

    def test_a_missing_field_is_named_with_the_place_of_the_instance(
        self, endpoint: JudgeEndpoint, judge: DirectJudge
    ) -> None:
        fine = {"question": "Why?", "answer": "So."}
        results = judge.evaluate([fine, {"answer": "So."}, "So.", {"question": "Why?"}], CLARITY)
        assert [result.reason for result in results] == [None, *[Reason.MISSING_FIELD] * 3]
        assert "#1" in (results[1].detail or "")
        assert "'question'" in (results[1].detail or "")
        assert "'answer'" in (results[3].detail or "")
        assert len(endpoint.calls) == 1

    def test_a_call_that_fails_costs_its_own_result_only(self, endpoint: JudgeEndpoint, judge: DirectJudge) -> None:
        third_asked = threading.Event()

        def answer(body: Body) -> Response:
            if "second" in task_of(body):
                # After a wrong key the endpoint gets no further calls, so the third must have been made.
                third_asked.wait(10)
                return error_response(401, "bad key")
            if "third" in task_of(body):
                third_asked.set()
            return verdict_response("Yes")

        endpoint.respond = answer
        results = judge.evaluate(["The first.", "The second.", "The third."], POLITE)
        assert [result.option for result in results] == ["Yes", None, "Yes"]
        assert results[1].reason is Reason.UNAVAILABLE

    def test_a_defect_of_a_judge_costs_one_result(self, caplog: pytest.LogCaptureFixture) -> None:
        results = _Judge(lambda case: 1 / (case.text("answer") != "b")).evaluate(["a", "b", "c"], POLITE)
        assert [result.score for result in results] == [1.0, None, 1.0]
        assert "ZeroDivisionError" in (results[1].detail or "")
        assert "#1" in caplog.text


class TestManyCriteria:
    def test_each_result_has_a_verdict_for_each_by_name(self, endpoint: JudgeEndpoint, judge: DirectJudge) -> None:
        instances = [{"question": "Why?", "answer": answer, "contexts": ["It is so."]} for answer in ("So.", "No.")]
        results = judge.evaluate(instances, [CLARITY, GROUNDEDNESS])
        assert [list(result) for result in results] == [["clarity", "groundedness"]] * 2
        assert {verdict.score for result in results for verdict in result.values()} == {1.0}
        assert len(endpoint.calls) == 4

    def test_one_that_a_case_lacks_fields_for_does_not_cost_the_others(self, judge: DirectJudge) -> None:
        [result] = judge.evaluate([{"question": "Why?", "answer": "So."}], [CLARITY, GROUNDEDNESS])
        assert (result["clarity"].score, result["groundedness"].status) == (1.0, Status.NOT_APPLICABLE)

    def test_a_bad_instance_says_so_under_each_name(self, judge: DirectJudge) -> None:
        [result] = judge.evaluate([5], [CLARITY, GROUNDEDNESS])  # type: ignore[list-item]
        assert {verdict.reason for verdict in result.values()} == {Reason.MISSING_FIELD}

    def test_questions_in_plain_words_are_accepted(self, endpoint: JudgeEndpoint, judge: DirectJudge) -> None:
        endpoint.respond = lambda _: verdict_response("Yes")
        [result] = judge.evaluate(["Thanks."], ["Is it polite?", "Is it short?"])  # type: ignore[list-item]
        assert [verdict.option for verdict in result.values()] == ["Yes", "Yes"]

    def test_a_mapping_of_criteria_means_its_values(self, endpoint: JudgeEndpoint, judge: DirectJudge) -> None:
        """A criteria file is a mapping: its keys would give questions such as "clarity"."""
        fields = {"question": "Why?", "answer": "So.", "contexts": ["It is so."], "history": []}
        [result] = judge.evaluate([fields], load_catalogue("rag"))
        assert list(result) == list(load_catalogue("rag"))
        assert CLARITY.question.en in "".join(task_of(call) for call in endpoint.calls)

    def test_two_of_one_name_are_refused(self, endpoint: JudgeEndpoint, judge: DirectJudge) -> None:
        with pytest.raises(ValueError, match="distinct names"):
            judge.evaluate(["Thanks."], [CLARITY, CLARITY])
        assert endpoint.calls == []


class TestArguments:
    @pytest.mark.parametrize(
        "instances",
        [
            "Thanks.",
            b"Thanks.",
            {"answer": "Thanks."},
            Case(id="1", fields={"answer": "Thanks."}, language="en"),
            Interaction(id="1", question="Why?", answer="So."),
        ],
        ids=["text", "bytes", "fields", "case", "interaction"],
    )
    def test_one_instance_instead_of_a_list_is_refused_with_a_correction(
        self, endpoint: JudgeEndpoint, judge: DirectJudge, instances: Any
    ) -> None:
        with pytest.raises(TypeError, match=r"write \[instance\]"):
            judge.evaluate(instances, POLITE)
        assert endpoint.calls == []

    def test_no_instances_at_all_are_refused_by_name(self, judge: DirectJudge) -> None:
        with pytest.raises(TypeError, match="instances must be a list, not NoneType"):
            judge.evaluate(None, POLITE)  # type: ignore[call-overload]

    def test_a_name_is_the_shipped_criterion_and_not_a_question(
        self, endpoint: JudgeEndpoint, judge: DirectJudge
    ) -> None:
        [result] = judge.evaluate([{"question": "Why?", "answer": "So."}], "rag.clarity")
        assert result.option == "very clear"
        with pytest.raises(ValueError, match=r"did you mean rag\.clarity"):
            judge.evaluate(["So."], "claritty")
        assert len(endpoint.calls) == 1

    def test_a_value_that_is_not_a_criterion_is_refused_by_name(self, judge: DirectJudge) -> None:
        with pytest.raises(TypeError, match=r"criterion must be a Criterion, a question in words.*, not int"):
            judge.evaluate(["Thanks."], 5)  # type: ignore[call-overload]

    @pytest.mark.parametrize("concurrency", ["3", 1.5, True])
    def test_a_concurrency_that_is_not_a_whole_number_is_refused(self, judge: DirectJudge, concurrency: Any) -> None:
        with pytest.raises(TypeError, match="concurrency must be a whole number"):
            judge.evaluate(["Thanks."], POLITE, concurrency=concurrency)

    @pytest.mark.parametrize("concurrency", [0, -1])
    def test_a_concurrency_that_would_never_begin_is_refused(self, judge: DirectJudge, concurrency: int) -> None:
        with pytest.raises(ValueError, match="concurrency"):
            judge.evaluate(["Thanks."], POLITE, concurrency=concurrency)

    @pytest.mark.parametrize("concurrency", [1, 3])
    def test_no_more_instances_than_that_are_judged_at_once(self, concurrency: int) -> None:
        running, most = 0, 0

        async def work() -> float:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.005)
            running -= 1
            return 1.0

        results = _Judge(lambda _: work()).evaluate(["a"] * 12, POLITE, concurrency=concurrency)
        assert len(results) == 12
        assert most == concurrency


class TestLanguage:
    @pytest.mark.parametrize(
        ("fields", "language"),
        [
            ({"answer": "Два года."}, "ru"),
            ({"answer": "Two years."}, "en"),
            ({"question": "Какой срок?", "answer": "24", "contexts": ["The warranty is two years. " * 20]}, "ru"),
            ({"summary": "Срок гарантии."}, "ru"),
        ],
    )
    def test_it_is_that_of_the_question_and_the_answer_not_of_the_documents(
        self, fields: dict[str, Any], language: str
    ) -> None:
        assert as_case(fields, "answer", 0).language == language

    def test_a_text_becomes_the_field_under_evaluation(self) -> None:
        assert as_case("Thanks.", "summary", 3) == Case(id="#3", fields={"summary": "Thanks."}, language="en")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Restore interruption: test processes started by others may ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class TestWaiting:
    def test_it_can_be_called_where_an_event_loop_runs(self, endpoint: JudgeEndpoint, judge: DirectJudge) -> None:
        """As in a notebook."""
        endpoint.respond = lambda _: verdict_response("Yes")

        async def notebook() -> list[JudgeVerdict]:
            return judge.evaluate(["Thanks."], POLITE)

        assert asyncio.run(notebook())[0].option == "Yes"

    def test_the_next_call_uses_the_connections_of_the_last(self, endpoint: JudgeEndpoint, judge: DirectJudge) -> None:
        endpoint.respond = lambda _: verdict_response("Yes")
        for _ in range(3):
            judge.evaluate(["Thanks."], POLITE)
        assert (len(endpoint.calls), endpoint.connections) == (3, 1)

    def test_many_threads_can_wait_at_once(self, endpoint: JudgeEndpoint, judge: DirectJudge) -> None:
        endpoint.respond = yes_where("thanks")
        texts = [f"{'thanks' if number % 2 else 'no'} {number}" for number in range(16)]
        with ThreadPoolExecutor(8) as pool:
            options = list(pool.map(lambda text: judge.evaluate([text], POLITE)[0].option, texts))
        assert options == ["No", "Yes"] * 8

    def test_the_asynchronous_call_gives_the_same(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = yes_where("Thanks")

        async def await_verdicts() -> list[JudgeVerdict]:
            judge = DirectJudge(OpenAIModel("tiny", base_url=endpoint.base_url))
            try:
                return await judge.aevaluate(["Thanks.", "Go away."], POLITE)
            finally:
                await judge.aclose()

        assert [result.option for result in asyncio.run(await_verdicts())] == ["Yes", "No"]

    def test_a_call_that_would_wait_for_itself_is_refused(self, caplog: pytest.LogCaptureFixture) -> None:
        """A judge makes a blocking call to another one, inside the loop that all blocking calls use."""
        inner = _Judge(lambda _: 1.0)
        outer = _Judge(lambda _: inner.evaluate(["a"], POLITE)[0].score)
        [result] = outer.evaluate(["a"], POLITE)
        assert result.reason is Reason.UNAVAILABLE
        assert "RuntimeError" in (result.detail or "")
        assert "await the asynchronous method" in caplog.text

    def test_an_interruption_ends_the_work_too(self, interruptible: None) -> None:
        ended = threading.Event()

        async def work() -> None:
            try:
                # By then the main thread waits for this work.
                await asyncio.sleep(0.3)
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.sleep(60)
            finally:
                ended.set()

        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            wait_for(work())
        assert ended.wait(5 * patience())
        assert time.monotonic() - started < 10 * patience()

    def test_an_error_of_the_work_is_the_callers(self) -> None:
        async def work() -> None:
            raise LookupError("not there")

        with pytest.raises(LookupError, match="not there"):
            wait_for(work())

    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    def test_a_fork_waits_for_its_own_loop(self) -> None:
        """The thread that runs the parent's loop does not exist in the child."""
        wait_for(asyncio.sleep(0))
        child = os.fork()
        if child == 0:
            signal.alarm(int(10 * patience()))
            os._exit(wait_for(asyncio.sleep(0, 42)))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42

"""The OpenAI-compatible model, asked over a real socket by an endpoint that misbehaves."""

import asyncio
import gc
import json
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, TypeVar

import pytest
from blockbuster import blockbuster_ctx

from judges.models import (
    ChatMessage,
    Completion,
    ModelError,
    ModelProtocolError,
    ModelRefused,
    ModelTimeout,
    ModelUnavailable,
    OpenAIModel,
)
from judges.models.base import Token
from judges.models.connections import MAX_RESPONSE_BYTES
from judges.models.flow import Flow, FlowLimits
from judges.models.prices import ModelPrice
from tests.parts.at_once import AtOnce
from tests.parts.endpoints.judge_endpoint import (
    Body,
    Fault,
    JudgeEndpoint,
    Response,
    broken,
    chat_response,
    delayed,
    error_response,
    html_page,
    huge_response,
    in_turn,
    json_response,
)
from tests.parts.patience import patience

T = TypeVar("T")

KEY = "sk-proj-4f7e1c9a2b"
ASK = [ChatMessage(role="system", content="Judge."), ChatMessage(role="user", content="Is it so? Так ли это?")]
SCHEMA = {"type": "object", "properties": {"verdict": {"type": "string"}}}
FINE = chat_response("fine")


@pytest.fixture
def endpoint() -> Iterator[JudgeEndpoint]:
    with JudgeEndpoint(lambda _: FINE) as endpoint:
        yield endpoint


def using(endpoint: JudgeEndpoint, work: Callable[[OpenAIModel], Awaitable[T]], **options: Any) -> T:
    async def inside() -> T:
        model = OpenAIModel("tiny", base_url=endpoint.base_url, **options)
        try:
            return await work(model)
        finally:
            await model.aclose()

    return asyncio.run(inside())


def ask(endpoint: JudgeEndpoint, **options: Any) -> Completion:
    return using(endpoint, lambda model: model.complete(ASK, schema=SCHEMA), **options)


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 5 * patience()
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def samples(endpoint: JudgeEndpoint, *numbers: int | None, **options: Any) -> list[Body]:
    """Return the requests for these samples."""

    async def each(model: OpenAIModel) -> None:
        for number in numbers:
            await model.complete(ASK, schema=None, sample=number)

    using(endpoint, each, **options)
    return endpoint.calls


class TestSamples:
    def test_each_has_a_different_seed_and_the_sampling_temperature(self, endpoint: JudgeEndpoint) -> None:
        calls = samples(endpoint, 0, 1, 2, seed=40, sampling_temperature=0.9)
        assert [(call["seed"], call["temperature"]) for call in calls] == [(40, 0.9), (41, 0.9), (42, 0.9)]

    def test_the_only_one_has_the_temperature_of_the_model(self, endpoint: JudgeEndpoint) -> None:
        [call] = samples(endpoint, None, seed=40)
        assert (call["seed"], call["temperature"]) == (40, 0.0)

    def test_a_model_that_is_not_at_zero_keeps_its_temperature(self, endpoint: JudgeEndpoint) -> None:
        assert [call["temperature"] for call in samples(endpoint, None, 1, temperature=0.3)] == [0.3, 0.3]

    def test_unset_parameters_are_not_sent_for_samples_either(self, endpoint: JudgeEndpoint) -> None:
        """Models that refuse every temperature but their own have one that makes samples differ."""
        [call] = samples(endpoint, 1, temperature=None, seed=None)
        assert set(call) == {"model", "messages", "max_tokens"}


def scored_tokens(*tokens: object) -> Response:
    choice = {"message": {"content": "fine"}, "logprobs": {"content": list(tokens)}}
    return json_response({"choices": [choice]})


ALTERNATIVES = [{"token": "Yes", "logprob": -0.1}, {"token": "No", "logprob": -2}]
YES = {"token": "Yes", "logprob": -0.1, "top_logprobs": ALTERNATIVES}


class TestLikelihoods:
    def tokens(self, endpoint: JudgeEndpoint) -> tuple[Token, ...]:
        return using(endpoint, lambda model: model.complete(ASK, schema=None, likelihoods=True)).tokens

    def test_they_are_asked_for_only_where_they_are_wanted(self, endpoint: JudgeEndpoint) -> None:
        self.tokens(endpoint)
        ask(endpoint)
        assert [call.get("logprobs") for call in endpoint.calls] == [True, None]
        assert endpoint.calls[0]["top_logprobs"] == 10

    def test_each_token_has_its_alternatives(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = lambda _: scored_tokens(YES, {"token": ".", "logprob": 0})
        assert self.tokens(endpoint) == (
            Token(text="Yes", likelihoods={"Yes": -0.1, "No": -2.0}),
            Token(text=".", likelihoods={".": 0.0}),
        )

    @pytest.mark.parametrize(
        "bad", [None, 3, {}, {"token": 3, "logprob": -1}, {"token": "a"}, {"token": "a", "logprob": True}]
    )
    def test_a_list_that_is_not_as_it_should_be_ends_there(self, endpoint: JudgeEndpoint, bad: object) -> None:
        endpoint.respond = lambda _: scored_tokens(YES, bad, YES)
        assert [token.text for token in self.tokens(endpoint)] == ["Yes"]

    @pytest.mark.parametrize("logprobs", [None, [], {"content": None}, {"content": "Yes"}, {}])
    def test_an_endpoint_without_them_gives_none(self, endpoint: JudgeEndpoint, logprobs: object) -> None:
        endpoint.respond = lambda _: json_response({"choices": [{"message": {"content": "a"}, "logprobs": logprobs}]})
        assert self.tokens(endpoint) == ()

    def test_an_endpoint_that_refuses_them_is_asked_without_from_then_on(self, endpoint: JudgeEndpoint) -> None:
        def refuses(body: Body) -> Response:
            return error_response(400, "logprobs are not supported") if "logprobs" in body else FINE

        endpoint.respond = refuses

        async def twice(model: OpenAIModel) -> list[str | None]:
            return [(await model.complete(ASK, schema=SCHEMA, likelihoods=True)).text for _ in range(2)]

        assert using(endpoint, twice) == ["fine", "fine"]
        assert ["logprobs" in call for call in endpoint.calls] == [True, False, False]
        assert all("response_format" in call for call in endpoint.calls)

    def test_one_that_refuses_schemas_too_is_asked_without_both(self, endpoint: JudgeEndpoint) -> None:
        def refuses(body: Body) -> Response:
            refused = next((key for key in ("response_format", "logprobs") if key in body), None)
            return error_response(400, f"unknown field {refused}") if refused else FINE

        endpoint.respond = refuses

        async def twice(model: OpenAIModel) -> list[str | None]:
            return [(await model.complete(ASK, schema=SCHEMA, likelihoods=True)).text for _ in range(2)]

        assert using(endpoint, twice) == ["fine", "fine"]
        assert len(endpoint.calls) == 4


class TestRequest:
    def test_it_carries_the_conversation_the_parameters_and_the_schema(self, endpoint: JudgeEndpoint) -> None:
        ask(endpoint, api_key=KEY, temperature=0.3, seed=7, max_tokens=99)
        assert endpoint.calls == [
            {
                "model": "tiny",
                "messages": [
                    {"role": "system", "content": "Judge."},
                    {"role": "user", "content": "Is it so? Так ли это?"},
                ],
                "temperature": 0.3,
                "seed": 7,
                "max_tokens": 99,
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "verdict", "schema": SCHEMA, "strict": True},
                },
            }
        ]
        assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"

    def test_unset_parameters_are_not_sent(self, endpoint: JudgeEndpoint) -> None:
        ask(endpoint, temperature=None, seed=None, structured=False)
        assert set(endpoint.calls[0]) == {"model", "messages", "max_tokens"}
        assert "authorization" not in endpoint.headers[0]

    def test_without_a_schema_no_format_is_asked_for(self, endpoint: JudgeEndpoint) -> None:
        using(endpoint, lambda model: model.complete(ASK, schema=None))
        assert "response_format" not in endpoint.calls[0]

    def test_half_a_surrogate_pair_in_a_text_does_not_stop_the_request(self, endpoint: JudgeEndpoint) -> None:
        cut = [ChatMessage(role="user", content="cut \ud83d here")]
        using(endpoint, lambda model: model.complete(cut, schema=None))
        assert endpoint.calls[0]["messages"][0]["content"] == "cut ? here"

    def test_connections_are_kept_and_shared(self, endpoint: JudgeEndpoint) -> None:
        async def five(model: OpenAIModel) -> None:
            for _ in range(5):
                await model.complete(ASK, schema=None)

        using(endpoint, five)
        assert (len(endpoint.calls), endpoint.connections) == (5, 1)

    def test_calls_run_at_once(self, endpoint: JudgeEndpoint) -> None:
        at_once = AtOnce()

        def respond(_: Body) -> Response:
            with at_once:
                time.sleep(0.5)
            return FINE

        async def many(model: OpenAIModel) -> None:
            await asyncio.gather(*(model.complete(ASK, schema=None) for _ in range(100)))

        endpoint.respond = respond
        using(endpoint, many)
        assert at_once.most >= 10, "it grows from a few calls at once, up to what is asked for"
        assert len(endpoint.calls) == 100

    def test_a_second_hundred_uses_the_connections_of_the_first(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = lambda _: delayed(FINE, 0.5)

        async def twice(model: OpenAIModel) -> None:
            for _ in range(2):
                await asyncio.gather(*(model.complete(ASK, schema=None) for _ in range(100)))

        using(endpoint, twice)
        assert len(endpoint.calls) == 200
        assert endpoint.connections < 150

    def test_nothing_blocks_the_event_loop(self, endpoint: JudgeEndpoint) -> None:
        async def guarded(model: OpenAIModel) -> Completion:
            with blockbuster_ctx("judges"):
                return await model.complete(ASK, schema=SCHEMA)

        assert using(endpoint, guarded).text == "fine"

    @pytest.mark.filterwarnings("ignore::ResourceWarning")
    def test_a_model_outlives_an_event_loop(self, endpoint: JudgeEndpoint) -> None:
        """Library users call asyncio.run once per question; connections of one loop are not used in the next."""
        model = OpenAIModel("tiny", base_url=endpoint.base_url)

        async def once() -> str | None:
            return (await model.complete(ASK, schema=None)).text

        assert [asyncio.run(once()) for _ in range(3)] == ["fine"] * 3
        assert (len(endpoint.calls), endpoint.connections) == (3, 3)
        asyncio.run(model.aclose())
        gc.collect()

    def test_a_closed_model_says_so(self, endpoint: JudgeEndpoint) -> None:
        async def closed(model: OpenAIModel) -> Completion:
            await model.complete(ASK, schema=None)
            await model.aclose()
            await model.aclose()
            return await model.complete(ASK, schema=None)

        with pytest.raises(ModelUnavailable, match="is closed"):
            using(endpoint, closed)
        assert len(endpoint.calls) == 1


class TestCompletion:
    def test_it_has_the_text_and_the_cost(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = lambda _: chat_response("так", finish_reason="length")
        assert ask(endpoint) == Completion(text="так", prompt_tokens=100, completion_tokens=10, finish_reason="length")

    def test_with_prices_it_has_its_cost(self, endpoint: JudgeEndpoint) -> None:
        price = ModelPrice(prompt=2.0, completion=30.0)
        assert ask(endpoint, price=price).cost_usd == pytest.approx((100 * 2.0 + 10 * 30.0) / 1_000_000)
        assert ask(endpoint).cost_usd is None
        endpoint.respond = lambda _: json_response({"choices": [{"message": {"content": "fine"}}]})
        assert ask(endpoint, price=price).cost_usd is None

    def test_reasoning_is_not_the_text(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = lambda _: chat_response("fine", reasoning_content='{"verdict": "thought"}')
        assert ask(endpoint).text == "fine"
        endpoint.respond = lambda _: chat_response(None, reasoning_content='{"verdict": "thought"}')
        assert ask(endpoint).text is None

    def test_a_refusal_is_distinguished_from_an_empty_answer(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = lambda _: chat_response(None, refusal="I can't.")
        assert ask(endpoint) == Completion(text=None, prompt_tokens=100, completion_tokens=10, finish_reason="refusal")

    def test_content_in_parts_is_joined_without_the_thoughts(self, endpoint: JudgeEndpoint) -> None:
        thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
        parts: Any = [thought, {"type": "text", "text": "fi"}, {"type": "text", "text": "ne"}, {"type": "text"}, 3]
        endpoint.respond = lambda _: chat_response(parts)
        assert ask(endpoint).text == "fine"

    @pytest.mark.parametrize("usage", [None, [], "much", {"prompt_tokens": -1, "completion_tokens": True}])
    def test_unknown_costs_are_unknown(self, endpoint: JudgeEndpoint, usage: object) -> None:
        answer = {"choices": [{"message": {"content": "fine"}, "finish_reason": 3}], "usage": usage}
        endpoint.respond = lambda _: json_response(answer)
        assert ask(endpoint) == Completion(text="fine")

    @pytest.mark.parametrize("content", [3, {"text": "fine"}, True])
    def test_content_of_another_type_is_none(self, endpoint: JudgeEndpoint, content: Any) -> None:
        endpoint.respond = lambda _: chat_response(content)
        assert ask(endpoint).text is None

    def test_half_a_surrogate_pair_is_replaced(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = lambda _: chat_response("cut \ud83d")
        assert ask(endpoint).text == "cut ?"


PASSING: dict[str, Response] = {
    "408": error_response(408),
    "429": error_response(429),
    "500": error_response(500),
    "502 as a page": html_page(502),
    "503 of a megabyte": Response(status=503, body=b"x" * 1_000_000),
    "reset": broken(Fault.RESET),
    "hang-up": broken(Fault.HANG_UP),
    "half a body": broken(Fault.HALF),
    "not HTTP": broken(Fault.GARBAGE),
}
REFUSED: dict[str, Response] = {
    "400": error_response(400, "bad request"),
    "401": error_response(401, "bad key"),
    "403": error_response(403, "not yours"),
    "404": error_response(404, "no such model"),
    "422": error_response(422, "bad value"),
    "redirect": Response(status=302, headers={"Location": "/v1/chat/completions"}),
}
UNREADABLE: dict[str, Response] = {
    "page": html_page(),
    "nothing": Response(),
    "not UTF-8": Response(body=b'{"choices": "\xff\xfe\x00"}'),
    "text": Response(body=b"fine"),
    "list": json_response([]),
    "null": json_response(None),
    "no choices": json_response({"object": "chat.completion"}),
    "empty choices": json_response({"choices": []}),
    "choices of another type": json_response({"choices": {"0": {}}}),
    "choice of another type": json_response({"choices": ["fine"]}),
    "no message": json_response({"choices": [{"text": "fine"}]}),
    "message of another type": json_response({"choices": [{"message": "fine"}]}),
    "deeply nested": Response(body=b"[" * 1_000_000),
    "an error with status 200": json_response({"error": {"message": "upstream is gone"}}),
    "too large": huge_response(MAX_RESPONSE_BYTES),
    "much too large": huge_response(16 * MAX_RESPONSE_BYTES),
}


class TestFailure:
    @pytest.mark.parametrize("failure", PASSING.values(), ids=PASSING.keys())
    def test_transient_failures_are_retried(self, endpoint: JudgeEndpoint, failure: Response) -> None:
        endpoint.respond = in_turn(failure, failure, FINE)
        completion = ask(endpoint)
        assert (completion.text, completion.retries) == ("fine", 2)
        assert len(endpoint.calls) == 3

    @pytest.mark.parametrize("failure", PASSING.values(), ids=PASSING.keys())
    def test_a_failure_that_persists_is_unavailable(self, endpoint: JudgeEndpoint, failure: Response) -> None:
        endpoint.respond = lambda _: failure
        with pytest.raises(ModelUnavailable, match=f"127.0.0.1:{endpoint.port}") as caught:
            ask(endpoint)
        assert len(endpoint.calls) == 3
        assert caught.value.retries == 2
        assert len(str(caught.value)) < 400

    @pytest.mark.parametrize("failure", REFUSED.values(), ids=REFUSED.keys())
    def test_a_refusal_is_final(self, endpoint: JudgeEndpoint, failure: Response) -> None:
        endpoint.respond = lambda _: failure
        with pytest.raises(ModelRefused) as caught:
            ask(endpoint)
        assert len(endpoint.calls) == 1
        assert caught.value.status == failure.status
        if failure.body:
            assert json.loads(failure.body)["error"]["message"] in str(caught.value)

    @pytest.mark.parametrize("answer", UNREADABLE.values(), ids=UNREADABLE.keys())
    def test_an_answer_that_is_not_a_completion_is_a_protocol_error(
        self, endpoint: JudgeEndpoint, answer: Response
    ) -> None:
        endpoint.respond = lambda _: answer
        with pytest.raises(ModelProtocolError, match=f"127.0.0.1:{endpoint.port}") as caught:
            ask(endpoint)
        assert len(endpoint.calls) == 1
        assert len(str(caught.value)) < 400

    def test_the_words_of_an_error_with_status_200_are_kept(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = lambda _: UNREADABLE["an error with status 200"]
        with pytest.raises(ModelProtocolError, match="upstream is gone"):
            ask(endpoint)

    def test_the_servers_message_becomes_one_short_line(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = lambda _: error_response(400, "a\r\nb\x1b[31m\ud800" + "c" * 10_000)
        with pytest.raises(ModelRefused) as caught:
            ask(endpoint)
        assert str(caught.value).isprintable()
        assert ": a b [31m ccc" in str(caught.value)
        assert len(str(caught.value)) < 400

    @pytest.mark.parametrize(
        "body",
        [b'{"message": "told"}', b'{"detail": "told"}', b'{"error": "told"}', b"told", b'{"error": {"why": "told"}}'],
    )
    def test_the_message_is_found_in_the_forms_in_use(self, endpoint: JudgeEndpoint, body: bytes) -> None:
        endpoint.respond = lambda _: Response(status=400, body=body)
        with pytest.raises(ModelRefused, match="told"):
            ask(endpoint)

    def test_a_closed_port_is_unavailable(self) -> None:
        with JudgeEndpoint() as endpoint:
            pass
        with pytest.raises(ModelUnavailable, match="ConnectError"):
            ask(endpoint)

    def test_a_late_answer_is_a_timeout_and_the_connection_is_let_go(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = lambda _: delayed(FINE, 60)
        with pytest.raises(ModelTimeout, match="within 1 s"):
            ask(endpoint, timeout_seconds=1)
        assert eventually(lambda: endpoint.hung_up == 1)

    def test_an_answer_that_trickles_is_a_timeout(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = lambda _: broken(Fault.TRICKLE)
        with pytest.raises(ModelTimeout):
            ask(endpoint, timeout_seconds=0.3)

    def test_cancelling_closes_the_connection_and_leaves_the_model_usable(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = in_turn(delayed(FINE, 60), FINE)

        async def cancel(model: OpenAIModel) -> str | None:
            task = asyncio.create_task(model.complete(ASK, schema=None))
            while not endpoint.calls:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(eventually, lambda: endpoint.hung_up == 1)
            return (await model.complete(ASK, schema=None)).text

        assert using(endpoint, cancel) == "fine"

    def test_closing_ends_the_calls_in_flight(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = lambda _: delayed(FINE, 60)

        async def close(model: OpenAIModel) -> None:
            task = asyncio.create_task(model.complete(ASK, schema=None))
            while not endpoint.calls:
                await asyncio.sleep(0.01)
            await model.aclose()
            with pytest.raises(ModelError):
                await asyncio.wait_for(task, 5 * patience())

        using(endpoint, close)


class TestPause:
    @pytest.mark.parametrize(("status", "refusals"), [(401, 1), (402, 1), (403, 3), (404, 3)])
    def test_an_endpoint_that_refuses_us_for_good_is_left_alone(
        self, endpoint: JudgeEndpoint, status: int, refusals: int
    ) -> None:
        endpoint.respond = lambda _: error_response(status, "not for you")

        async def several(model: OpenAIModel) -> str | None:
            for _ in range(refusals):
                assert model.paused is None
                with pytest.raises(ModelRefused):
                    await model.complete(ASK, schema=None)
            for _ in range(3):
                with pytest.raises(ModelUnavailable, match=r"paused, because .* not for you"):
                    await model.complete(ASK, schema=None)
            return model.paused

        paused = using(endpoint, several)
        assert f"answered {status}: not for you" in str(paused)
        assert len(endpoint.calls) == refusals

    def test_a_prompt_that_a_gateway_does_not_like_pauses_nothing(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = in_turn(*[error_response(403, "flagged"), error_response(403, "flagged"), FINE] * 3)

        async def several(model: OpenAIModel) -> str | None:
            for _ in range(3):
                for _ in range(2):
                    with pytest.raises(ModelRefused):
                        await model.complete(ASK, schema=None)
                await model.complete(ASK, schema=None)
            return model.paused

        assert using(endpoint, several) is None
        assert len(endpoint.calls) == 9

    def test_one_call_notices_that_it_was_repaired(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = in_turn(error_response(401), FINE)

        async def later(model: OpenAIModel) -> str | None:
            with pytest.raises(ModelRefused):
                await model.complete(ASK, schema=None)
            await asyncio.sleep(0.1)
            await model.complete(ASK, schema=None)
            return model.paused

        assert using(endpoint, later, flow=Flow(FlowLimits(pause_seconds=0.05))) is None

    @pytest.mark.parametrize("failure", [error_response(400), error_response(429), html_page()])
    def test_an_error_of_one_request_pauses_nothing(self, endpoint: JudgeEndpoint, failure: Response) -> None:
        endpoint.respond = lambda _: failure

        async def once(model: OpenAIModel) -> str | None:
            with pytest.raises(ModelError):
                await model.complete(ASK, schema=None)
            return model.paused

        assert using(endpoint, once) is None


class TestRetryAfter:
    def test_seconds_are_waited(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = in_turn(error_response(429, retry_after="0.4"), FINE)
        started = time.monotonic()
        assert ask(endpoint).text == "fine"
        assert time.monotonic() - started >= 0.4

    def test_a_date_is_waited_for(self, endpoint: JudgeEndpoint) -> None:
        soon = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
        endpoint.respond = in_turn(error_response(503, retry_after=soon), FINE)
        started = time.monotonic()
        assert ask(endpoint).text == "fine"
        assert time.monotonic() - started >= 0.9  # the date has whole seconds

    def test_more_than_the_time_left_is_not_waited_for(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = lambda _: error_response(429, "slow down", retry_after="3600")
        started = time.monotonic()
        with pytest.raises(ModelUnavailable, match="slow down"):
            ask(endpoint)
        assert time.monotonic() - started < 5 * patience()
        assert len(endpoint.calls) == 1

    @pytest.mark.parametrize("value", ["", "soon", "nan", "inf", "-5", "Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 99 Oct"])
    def test_an_invalid_value_is_ignored(self, endpoint: JudgeEndpoint, value: str) -> None:
        endpoint.respond = in_turn(error_response(429, retry_after=value), FINE)
        assert ask(endpoint).text == "fine"


def refuses_formats(body: Body) -> Response:
    wants = "response_format" in body
    return error_response(400, "'response_format' is not supported by this model") if wants else FINE


class TestStructure:
    def test_an_endpoint_without_structured_output_is_asked_plainly_from_then_on(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = refuses_formats

        async def twice(model: OpenAIModel) -> list[str | None]:
            return [(await model.complete(ASK, schema=SCHEMA)).text for _ in range(2)]

        assert using(endpoint, twice) == ["fine", "fine"]
        assert ["response_format" in call for call in endpoint.calls] == [True, False, False]

    def test_another_refusal_is_not_taken_for_it(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = lambda _: error_response(400, "maximum context length exceeded")
        with pytest.raises(ModelRefused):
            ask(endpoint)
        assert len(endpoint.calls) == 1

    def test_a_refusal_of_the_plain_request_too_is_not_remembered(self, endpoint: JudgeEndpoint) -> None:
        """An endpoint may quote the whole request in any error."""
        refusal = error_response(400, "too long: {response_format: …}")
        endpoint.respond = in_turn(refusal, refusal, FINE)

        async def twice(model: OpenAIModel) -> Completion:
            with pytest.raises(ModelRefused, match="too long"):
                await model.complete(ASK, schema=SCHEMA)
            return await model.complete(ASK, schema=SCHEMA)

        assert using(endpoint, twice).text == "fine"
        assert ["response_format" in call for call in endpoint.calls] == [True, False, True]


EVERY_FAILURE = {**PASSING, **REFUSED, **UNREADABLE}


class TestKey:
    @pytest.mark.parametrize("failure", EVERY_FAILURE.values(), ids=EVERY_FAILURE.keys())
    def test_it_is_in_no_error_and_no_log(
        self, endpoint: JudgeEndpoint, failure: Response, caplog: pytest.LogCaptureFixture
    ) -> None:
        endpoint.respond = lambda _: failure
        with caplog.at_level(logging.DEBUG), pytest.raises(ModelError) as caught:
            ask(endpoint, api_key=KEY)
        assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"
        assert KEY not in "".join(traceback.format_exception(caught.value))
        assert KEY not in repr(caught.value)
        assert caplog.records
        assert KEY not in caplog.text

    @pytest.mark.parametrize("status", [200, 400, 401, 500])
    def test_an_endpoint_that_repeats_it_is_not_quoted(self, endpoint: JudgeEndpoint, status: int) -> None:
        endpoint.respond = lambda _: error_response(status, f"Incorrect API key: {KEY} {'x' * 270}{KEY}")
        with pytest.raises(ModelError, match=r"API key: \*\*\*") as caught:
            ask(endpoint, api_key=KEY)
        assert KEY[:8] not in str(caught.value)

    @pytest.mark.parametrize("spelled", [KEY, f"\\u0073{KEY[1:]}", KEY.replace("-", "\\u002D")])
    @pytest.mark.parametrize("status", [200, 500])
    def test_it_is_in_no_text_that_is_published(self, endpoint: JudgeEndpoint, spelled: str, status: int) -> None:
        output = f'{{"explanation": "Bearer {spelled}, \\"a\\\\u0062\\"", "verdict": "clear"}}'
        endpoint.respond = lambda _: chat_response(output) if status == 200 else error_response(status, output)
        if status == 200:
            text = ask(endpoint, api_key=KEY).text or ""
            assert json.loads(text) == {"explanation": 'Bearer ***, "a\\u0062"', "verdict": "clear"}
        else:
            with pytest.raises(ModelUnavailable) as caught:
                ask(endpoint, api_key=KEY)
            assert "Bearer ***" in str(caught.value)

    @pytest.mark.parametrize("key", ['abc"def123456', "abc\\def123456", '"\\abc/def123456\\'])
    @pytest.mark.parametrize(
        "spell",
        [
            lambda key: json.dumps(key)[1:-1],
            lambda key: json.dumps(key)[1:-1].replace("/", "\\/"),
            lambda key: "".join(f"\\u{ord(char):04X}" for char in key),
            lambda key: f"\\u{ord(key[0]):04x}{json.dumps(key[1:])[1:-1]}",
        ],
        ids=["with the necessary escapes", "with an escaped slash", "in numbers", "with one number"],
    )
    @pytest.mark.parametrize("status", [200, 500])
    def test_one_with_characters_that_json_escapes_is_hidden_too(
        self, endpoint: JudgeEndpoint, key: str, spell: Callable[[str], str], status: int
    ) -> None:
        output = f'{{"explanation": "Bearer {spell(key)}, \\"a\\"", "verdict": "clear"}}'
        assert key in json.loads(output)["explanation"]
        endpoint.respond = lambda _: chat_response(output) if status == 200 else error_response(status, output)
        if status == 200:
            text = ask(endpoint, api_key=key).text or ""
            assert json.loads(text) == {"explanation": 'Bearer ***, "a"', "verdict": "clear"}
        else:
            with pytest.raises(ModelUnavailable, match=r"Bearer \*\*\*, "):
                ask(endpoint, api_key=key)

    def test_one_that_words_contain_is_hidden_as_it_is(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = lambda _: chat_response('Bearer abc\\/d"ef123456 "')
        assert ask(endpoint, api_key='abc\\/d"ef123456').text == 'Bearer *** "'

    def test_a_placeholder_word_is_not_a_secret(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = lambda _: chat_response("There are none.")
        assert ask(endpoint, api_key="none").text == "There are none."

    def test_it_is_not_in_the_representation_or_the_identity(self) -> None:
        model = OpenAIModel("tiny", base_url="https://example.test/v1", api_key=KEY)
        assert KEY not in f"{model!r} {model} {model.identity} {model.name}"

    def test_white_space_around_it_is_dropped(self, endpoint: JudgeEndpoint) -> None:
        ask(endpoint, api_key=f"{KEY}\n")
        assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"

    @pytest.mark.parametrize("key", [f"{KEY}\r\nX-Other: 1", f"{KEY} {KEY}", f"{KEY}ключ", "  ", f"{KEY}\x00"])
    def test_one_that_cannot_be_sent_is_refused_without_being_quoted(self, key: str) -> None:
        with pytest.raises(ValueError, match="api_key") as caught:
            OpenAIModel("tiny", base_url="https://example.test/v1", api_key=key)
        assert KEY not in "".join(traceback.format_exception(caught.value))

    def test_an_empty_one_means_none(self, endpoint: JudgeEndpoint) -> None:
        ask(endpoint, api_key="")
        assert "authorization" not in endpoint.headers[0]


class TestSettings:
    @pytest.mark.parametrize(
        "base_url",
        ["", "example.test/v1", "ftp://example.test", "http://", "https://user:secret@example.test/v1",
         "https://example.test/v1?key=secret", "https://example.test/v1#secret", "http://example.test:secret/v1"],
    )  # fmt: skip
    def test_an_address_that_cannot_work_or_holds_a_secret_is_refused(self, base_url: str) -> None:
        with pytest.raises(ValueError, match="base_url") as caught:
            OpenAIModel("tiny", base_url=base_url)
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize("end", ["/chat/completions", "/chat/completions/"])
    def test_an_address_that_includes_the_path_is_refused_with_advice(self, end: str) -> None:
        with pytest.raises(ValueError, match="base_url must end before /chat/completions, which is appended"):
            OpenAIModel("tiny", base_url=f"https://example.test/v1{end}")

    @pytest.mark.parametrize(
        ("name", "value", "error"),
        [
            *(("timeout_seconds", value, ValueError) for value in (0, -1.0, float("nan"))),
            *(("temperature", value, ValueError) for value in (-0.1, 2.1, float("nan"))),
            *(("sampling_temperature", value, ValueError) for value in (-0.1, 2.1)),
            *(("max_tokens", value, ValueError) for value in (0, -1)),
            ("timeout_seconds", "30", TypeError),
            ("temperature", True, TypeError),
            ("max_tokens", 1.5, TypeError),
        ],
    )
    def test_a_parameter_that_cannot_work_is_refused_by_name(self, name: str, value: Any, error: Any) -> None:
        with pytest.raises(error, match=f"^{name} must be"):
            OpenAIModel("tiny", base_url="https://example.test/v1", **{name: value})

    @pytest.mark.parametrize("model", ["", "two\nlines"])
    def test_an_invalid_name_is_refused(self, model: str) -> None:
        with pytest.raises(ValueError, match="model"):
            OpenAIModel(model, base_url="https://example.test/v1")

    def test_a_slash_at_the_end_of_the_address_changes_nothing(self, endpoint: JudgeEndpoint) -> None:
        async def once() -> Completion:
            model = OpenAIModel("tiny", base_url=f"{endpoint.base_url}/")
            try:
                return await model.complete(ASK, schema=None)
            finally:
                await model.aclose()

        assert asyncio.run(once()).text == "fine"

    def test_the_identity_covers_everything_that_can_change_a_completion(self) -> None:
        base: dict[str, Any] = {"model": "tiny", "base_url": "https://example.test/v1"}
        changes: list[dict[str, Any]] = [
            {}, {"model": "large"}, {"base_url": "https://other.test/v1"}, {"temperature": 0.7}, {"temperature": None},
            {"seed": 1}, {"max_tokens": 64}, {"structured": False}, {"sampling_temperature": 1.0},
        ]  # fmt: skip
        identities = {OpenAIModel(**{**base, **change}).identity for change in changes}
        assert len(identities) == len(changes)
        assert all(identity.isprintable() for identity in identities)

    def test_the_identity_ignores_everything_else(self) -> None:
        one = OpenAIModel("tiny", base_url="https://example.test/v1", api_key=KEY, timeout_seconds=1)
        assert one.identity == OpenAIModel("tiny", base_url="https://example.test/v1/").identity

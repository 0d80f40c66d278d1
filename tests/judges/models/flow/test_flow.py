"""Flow control as its callers see it: attempts over real sockets, and attempts that the test controls."""

import asyncio
import gc
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from judges.models import ModelError, ModelProtocolError, ModelRefused, ModelTimeout, ModelUnavailable
from judges.models.flow import Answered, FailureKind, Flow, FlowLimits
from tests.parts.certificates import Authority
from tests.parts.endpoints.faulty_endpoint import Fault, FaultyEndpoint, Limit, PlainClient, Script, Step
from tests.parts.endpoints.observed_flow import ObservedFlow
from tests.parts.endpoints.simulated_endpoint import run_virtually
from tests.parts.patience import patience, until

T = TypeVar("T")
QUICK: dict[str, Any] = {"backoff_seconds": 0.01, "probe_seconds": 0.05, "longest_probe_seconds": 0.1}


@pytest.fixture(scope="module")
def endpoint() -> Any:
    with FaultyEndpoint() as endpoint:
        yield endpoint


def no_usage(_: object) -> None:
    return None


async def ask(flow: Flow, attempt: Callable[[], Awaitable[T]], *, seconds: float = 5.0, tokens: int = 0) -> Answered[T]:
    # The clock of a normal loop is the monotonic one.
    deadline = asyncio.get_running_loop().time() + seconds
    return await flow.call(attempt, tokens=tokens, used=no_usage, deadline=deadline)


def throttled(retry_after: float | None = None) -> ModelUnavailable:
    return unavailable(429, retry_after)


def unavailable(status: int | None = None, retry_after: float | None = None) -> ModelUnavailable:
    error = ModelUnavailable(f"answered {status}", retry_after=retry_after)
    vars(error)["status"] = status
    return error


class Hand:
    """Attempts that end when and how the test decides."""

    def __init__(self) -> None:
        self.started: list[asyncio.Future[int]] = []

    async def attempt(self) -> int:
        self.started.append(asyncio.get_running_loop().create_future())
        return await self.started[-1]

    async def reach(self, number: int) -> None:
        """Wait until this many attempts have started."""
        await until(lambda: len(self.started) >= number)

    def answer(self, number: int) -> None:
        self.started[number].set_result(number)

    @property
    def open(self) -> int:
        return sum(not future.done() for future in self.started)


def failing(*errors: Exception) -> Callable[[], Awaitable[str]]:
    """Return an attempt that raises each error in turn, then answers."""
    remaining = list(errors)

    async def attempt() -> str:
        if remaining:
            raise remaining.pop(0)
        return "fine"

    return attempt


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class TestRetries:
    def test_transient_failures_are_retried_and_counted(self) -> None:
        flow = ObservedFlow(FlowLimits(**QUICK))
        answered = asyncio.run(ask(flow, failing(unavailable(500), unavailable())))
        assert (answered.result, answered.retries, answered.hedged) == ("fine", 2, False)
        assert (flow.seen.started, flow.state.failures[FailureKind.UNAVAILABLE]) == (3, 2)
        flow.check_all_ended()

    def test_no_more_often_than_allowed(self) -> None:
        flow = ObservedFlow(FlowLimits(retries=1, **QUICK))
        with pytest.raises(ModelUnavailable, match="500") as caught:
            asyncio.run(ask(flow, failing(unavailable(502), unavailable(500), unavailable(503))))
        assert (caught.value.retries, flow.seen.started) == (1, 2)
        flow.check_all_ended()

    @pytest.mark.parametrize("error", [ModelRefused("no", status=400), ModelProtocolError("odd")])
    def test_permanent_failures_are_raised_at_once(self, error: ModelError) -> None:
        flow = ObservedFlow(FlowLimits(**QUICK))
        with pytest.raises(type(error)) as caught:
            asyncio.run(ask(flow, failing(error)))
        assert (caught.value is error, flow.seen.started) == (True, 1)

    def test_a_wait_past_the_deadline_is_not_begun(self) -> None:
        async def inside() -> None:
            clock = asyncio.get_running_loop().time
            limits = FlowLimits(backoff_seconds=60, longest_backoff_seconds=60)
            flow, began = ObservedFlow(limits, random=lambda: 0.99, clock=clock), clock()
            with pytest.raises(ModelUnavailable, match="500"):
                await ask(flow, failing(unavailable(500)))
            assert clock() - began < 1

        run_virtually(inside())

    def test_any_other_error_becomes_one_of_a_model_without_its_text(self) -> None:
        flow = ObservedFlow(FlowLimits(**QUICK))
        with pytest.raises(ModelProtocolError, match=r"^the attempt failed with KeyError$"):
            asyncio.run(ask(flow, failing(KeyError("sk-secret"))))
        flow.check_all_ended()

    def test_the_deadline_cuts_an_attempt_off(self) -> None:
        flow, hand = ObservedFlow(), Hand()
        with pytest.raises(ModelTimeout):
            asyncio.run(ask(flow, hand.attempt, seconds=0.05))
        assert flow.state.failures[FailureKind.TIMEOUT] == 1
        flow.check_all_ended()

    def test_a_deadline_that_has_passed_asks_nothing(self) -> None:
        flow, hand = ObservedFlow(), Hand()
        with pytest.raises(ModelTimeout):
            asyncio.run(ask(flow, hand.attempt, seconds=-1))
        assert hand.started == []
        flow.check_all_ended()


class TestRetryAfter:
    def test_all_callers_wait(self) -> None:
        async def inside() -> list[float]:
            clock = asyncio.get_running_loop().time
            flow, began, moments = ObservedFlow(FlowLimits(**QUICK), clock=clock), clock(), []
            throttled_call = asyncio.create_task(ask(flow, failing(throttled(0.3))))
            await settle()
            for _ in range(3):
                await ask(flow, failing())
                moments.append(clock() - began)
            await throttled_call
            return moments

        assert all(0.29 <= moment < 4 for moment in run_virtually(inside()))

    def test_a_caller_that_cannot_wait_that_long_fails_at_once_even_in_the_queue(self) -> None:
        async def inside() -> None:
            clock = asyncio.get_running_loop().time
            flow, hand = ObservedFlow(FlowLimits(concurrency=1, **QUICK), clock=clock), Hand()
            throttled_call = asyncio.create_task(ask(flow, hand.attempt))
            await settle()
            waiting = asyncio.create_task(ask(flow, failing()))
            await settle()
            began = clock()
            hand.started[0].set_exception(throttled(30))
            for task in (throttled_call, waiting):
                with pytest.raises(ModelUnavailable) as caught:
                    await task
                assert caught.value.retry_after == pytest.approx(30, abs=1)
            with pytest.raises(ModelUnavailable):
                await ask(flow, failing())
            assert clock() - began < 0.5
            flow.check_all_ended()

        run_virtually(inside())

    def test_a_scattered_refusal_holds_only_its_own_call(self) -> None:
        async def inside() -> None:
            clock = asyncio.get_running_loop().time
            flow, began = ObservedFlow(FlowLimits(**QUICK), clock=clock), clock()
            for _ in range(5):
                await ask(flow, failing())
            throttled_call = asyncio.create_task(ask(flow, failing(throttled(0.5))))
            await settle()
            await ask(flow, failing())
            assert clock() - began < 0.4
            await throttled_call
            assert clock() - began >= 0.49
            flow.check_all_ended()

        run_virtually(inside())


class TestState:
    def test_it_has_the_limits_and_the_calls_in_flight_and_waiting(self) -> None:
        async def inside() -> None:
            flow, hand = ObservedFlow(FlowLimits(concurrency=2, retries=0)), Hand()
            tasks = [asyncio.create_task(ask(flow, hand.attempt)) for _ in range(3)]
            await settle()
            state = flow.state
            assert (state.limit, state.rate, state.in_flight, state.waiting) == (2, math.inf, 2, 1)
            assert set(state.failures.values()) == {0}
            hand.started[0].set_exception(throttled())
            await settle()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert (flow.state.limit, flow.state.rate) == (2, math.inf), "one refusal is no limit"
            assert [kind for kind, count in flow.state.failures.items() if count] == [FailureKind.THROTTLED]
            assert state.in_flight == 2, "a snapshot does not change"
            flow.check_all_ended()

        asyncio.run(inside())


class TestConcurrency:
    def test_callers_are_served_in_order_and_never_more_at_once_than_allowed(self) -> None:
        async def inside() -> None:
            flow, hand, served = ObservedFlow(FlowLimits(concurrency=3)), Hand(), []

            async def call(number: int) -> None:
                async def attempt() -> int:
                    served.append(number)
                    return await hand.attempt()

                await ask(flow, attempt)

            tasks = [asyncio.create_task(call(number)) for number in range(20)]
            for number in range(20):
                await settle()
                # It starts with two, and an answer lets it grow to three.
                assert hand.open == min(3 if number else 2, 20 - number)
                hand.answer(number)
            await asyncio.gather(*tasks)
            assert served == list(range(20))
            flow.check_all_ended()

        asyncio.run(inside())

    def test_cancelled_callers_leak_nothing_wherever_they_are(self) -> None:
        async def inside() -> None:
            flow, hand = ObservedFlow(FlowLimits(concurrency=2, hedge_seconds=0.001)), Hand()
            for rounds in range(30):
                tasks = [asyncio.create_task(ask(flow, hand.attempt)) for _ in range(6)]
                for _ in range(rounds % 6):
                    await asyncio.sleep(0.001 if rounds % 2 else 0)
                for task in tasks:
                    task.cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
                assert all(isinstance(result, asyncio.CancelledError) for result in results)
                flow.check_all_ended()
            fine = await ask(flow, failing())
            assert fine.result == "fine"
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(inside())

    def test_a_place_that_comes_together_with_a_cancellation_goes_to_the_next(self) -> None:
        async def inside() -> None:
            flow, hand = ObservedFlow(FlowLimits(concurrency=1)), Hand()
            first, second, third = (asyncio.create_task(ask(flow, hand.attempt)) for _ in range(3))
            await settle()
            hand.answer(0)
            await asyncio.sleep(0)
            second.cancel()
            await settle()
            hand.answer(len(hand.started) - 1)
            assert (await first).result == 0
            assert (await third).result == len(hand.started) - 1
            assert second.cancelled()
            flow.check_all_ended()

        asyncio.run(inside())

    def test_it_works_in_one_loop_after_the_other_whatever_the_first_left(self) -> None:
        flow, hand = ObservedFlow(FlowLimits(concurrency=1)), Hand()
        loop = asyncio.new_event_loop()
        leftover = [loop.create_task(ask(flow, hand.attempt)) for _ in range(2)]
        loop.run_until_complete(asyncio.sleep(0.01))
        for _ in range(2):
            assert asyncio.run(ask(flow, failing())).result == "fine"
        for task in leftover:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*leftover, return_exceptions=True))
        loop.close()
        flow.check_all_ended()


class TestBuckets:
    def test_requests_per_minute_hold_back_and_say_so(self) -> None:
        async def inside() -> None:
            flow = ObservedFlow(FlowLimits(requests_per_minute=12), clock=asyncio.get_running_loop().time)
            for _ in range(2):
                await ask(flow, failing())
            with pytest.raises(ModelUnavailable, match="12 requests per minute"):
                await ask(flow, failing(), seconds=1)
            flow.check_all_ended()

        run_virtually(inside())

    def test_actual_usage_decides_how_soon_the_next_call_starts(self) -> None:
        async def inside(used: int) -> float:
            clock = asyncio.get_running_loop().time
            flow, began = ObservedFlow(FlowLimits(tokens_per_minute=6000), clock=clock), clock()
            for _ in range(2):
                await flow.call(failing(), tokens=1000, used=lambda _: used, deadline=began + 9)
            return clock() - began

        assert run_virtually(inside(20)) >= 0.15
        assert run_virtually(inside(0)) < run_virtually(inside(40))

    def test_one_call_larger_than_the_bucket_still_goes(self) -> None:
        assert (
            asyncio.run(ask(ObservedFlow(FlowLimits(tokens_per_minute=60)), failing(), tokens=10_000)).result == "fine"
        )


class TestBreaker:
    def test_an_endpoint_that_fails_is_left_alone_and_probes_itself_back(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def inside() -> None:
            clock = asyncio.get_running_loop().time
            flow = ObservedFlow(FlowLimits(retries=0, failures_to_open=3, **QUICK), name="gpu-1", clock=clock)
            for _ in range(3):
                with pytest.raises(ModelUnavailable):
                    await ask(flow, failing(unavailable(500)))
            assert flow.paused == "answered 500"
            with pytest.raises(ModelUnavailable, match="paused, because answered 500"):
                await ask(flow, failing())
            assert (flow.state.failures[FailureKind.PAUSED], flow.seen.started) == (1, 3)
            await asyncio.sleep(0.06)
            assert (await ask(flow, failing())).result == "fine"
            assert flow.paused is None
            flow.check_all_ended()

        with caplog.at_level(logging.INFO, "judges.models.flow"):
            run_virtually(inside())
        assert [record.getMessage() for record in caplog.records] == [
            "circuit breaker open for gpu-1 until a probe succeeds: answered 500",
            "circuit breaker closed: gpu-1 responds again",
        ]

    def test_those_in_the_queue_are_refused_as_soon_as_it_opens(self) -> None:
        async def inside() -> None:
            flow, hand = ObservedFlow(FlowLimits(concurrency=1, **QUICK)), Hand()
            tasks = [asyncio.create_task(ask(flow, hand.attempt)) for _ in range(5)]
            await settle()
            hand.started[0].set_exception(ModelRefused("the key is wrong", status=401))
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(results[0], ModelRefused)
            assert [str(error) for error in results[1:]] == ["calls are paused, because the key is wrong"] * 4
            assert (flow.paused, len(hand.started)) == ("the key is wrong", 1)
            assert flow.state.failures[FailureKind.PAUSED] == 4

        asyncio.run(inside())

    def test_one_probe_at_a_time_and_a_cancelled_probe_makes_way(self) -> None:
        async def inside() -> None:
            clock = asyncio.get_running_loop().time
            flow, hand = ObservedFlow(FlowLimits(pause_seconds=0.05, **QUICK), clock=clock), Hand()
            with pytest.raises(ModelRefused):
                await ask(flow, failing(ModelRefused("no money", status=402)))
            await asyncio.sleep(0.06)
            probe = asyncio.create_task(ask(flow, hand.attempt))
            await settle()
            with pytest.raises(ModelUnavailable, match="no money"):
                await ask(flow, failing())
            probe.cancel()
            await settle()
            assert (await ask(flow, failing())).result == "fine"
            assert flow.paused is None

        run_virtually(inside())

    def test_a_single_moderated_prompt_pauses_nothing_and_several_in_a_row_do(self) -> None:
        async def inside() -> None:
            flow = ObservedFlow(FlowLimits(**QUICK))
            for count in range(1, 4):
                with pytest.raises(ModelRefused):
                    await ask(flow, failing(ModelRefused("not yours", status=403)))
                assert flow.paused == ("not yours" if count == 3 else None)

        asyncio.run(inside())

    def test_a_short_deadline_is_not_a_failure_of_the_endpoint(self) -> None:
        async def inside() -> None:
            flow, hand = ObservedFlow(FlowLimits(**QUICK)), Hand()
            for _ in range(20):
                await ask(flow, lambda: asyncio.sleep(0.005))
            for _ in range(10):
                with pytest.raises(ModelTimeout):
                    await ask(flow, hand.attempt, seconds=0.01)
            assert flow.paused is None

        asyncio.run(inside())


@asynccontextmanager
async def client_of(script: Script, **options: Any) -> AsyncIterator[PlainClient]:
    client = PlainClient(script, **options)
    try:
        yield client
    finally:
        await client.aclose()


def all_closed(endpoint: FaultyEndpoint) -> bool:
    deadline = time.monotonic() + 5 * patience()
    while endpoint.open and time.monotonic() < deadline:
        time.sleep(0.01)
    return endpoint.open == 0


class TestHedging:
    def test_the_second_wins_and_the_first_releases_its_connection(self, endpoint: FaultyEndpoint) -> None:
        script = endpoint.script([Step(fault=Fault.SILENCE), Step()])

        async def inside() -> None:
            flow = ObservedFlow(FlowLimits(hedge_seconds=0.05))
            async with client_of(script) as client:
                answered = await ask(flow, client.ask)
                assert answered.result in script.answers
                assert (answered.retries, answered.hedged) == (0, True)
                assert (flow.stopped, flow.seen.started) == (1, 2)
                flow.check_all_ended()

        asyncio.run(inside())
        assert script.requests == 2
        assert all_closed(endpoint)

    def test_an_answer_in_time_is_not_hedged(self, endpoint: FaultyEndpoint) -> None:
        async def inside() -> None:
            flow = ObservedFlow(FlowLimits(hedge_seconds=60.0))
            async with client_of(endpoint.script([Step()])) as client:
                assert not (await ask(flow, client.ask, seconds=60.0)).hedged

        asyncio.run(inside())

    def test_no_hedge_without_a_free_slot(self) -> None:
        async def inside() -> None:
            flow, hand = ObservedFlow(FlowLimits(concurrency=1, hedge_seconds=0.01)), Hand()
            task = asyncio.create_task(ask(flow, hand.attempt))
            await asyncio.sleep(0.05)
            hand.answer(0)
            assert not (await task).hedged
            assert len(hand.started) == 1

        asyncio.run(inside())

    def test_no_hedge_when_the_time_is_up(self) -> None:
        """A busy machine may notice this late."""
        clock = [0.0]

        async def inside() -> None:
            flow, hand = ObservedFlow(FlowLimits(hedge_seconds=0.01), clock=lambda: clock[0]), Hand()
            task = asyncio.create_task(flow.call(hand.attempt, tokens=0, used=no_usage, deadline=5.0))
            await settle()
            clock[0] = 5.0
            await asyncio.sleep(0.05)
            hand.answer(0)
            assert not (await task).hedged
            assert len(hand.started) == 1

        asyncio.run(inside())

    def test_one_that_fails_leaves_it_to_the_other_and_both_failing_is_a_failure(self) -> None:
        async def inside() -> None:
            flow, hand = ObservedFlow(FlowLimits(hedge_seconds=0.01, retries=0)), Hand()
            task = asyncio.create_task(ask(flow, hand.attempt, seconds=60 * patience()))
            await hand.reach(2)
            hand.started[0].set_exception(unavailable(500))
            await settle()
            hand.answer(1)
            assert (await task).result == 1
            task = asyncio.create_task(ask(flow, hand.attempt, seconds=60 * patience()))
            await hand.reach(4)
            for number, status in ((3, 503), (2, 500)):
                hand.started[number].set_exception(unavailable(status))
            with pytest.raises(ModelUnavailable, match="500"):
                await task
            flow.check_all_ended()

        asyncio.run(inside())


class TestOnSockets:
    def test_an_untrusted_certificate_is_a_failure_and_nothing_is_asked(self, authority: Authority) -> None:
        async def inside(script: Script) -> None:
            flow = ObservedFlow(FlowLimits(retries=1, **QUICK))
            async with client_of(script) as client:
                with pytest.raises(ModelUnavailable, match="certificate"):
                    await ask(flow, client.ask)
            assert flow.state.failures[FailureKind.UNAVAILABLE] == 2
            assert script.requests == 0

        with FaultyEndpoint(certificate=authority.sign("flow")) as endpoint:
            asyncio.run(inside(endpoint.script([Step()])))
            assert all_closed(endpoint)

    def test_a_body_of_a_hundred_megabytes_is_not_read(self, endpoint: FaultyEndpoint) -> None:
        async def inside() -> None:
            async with client_of(endpoint.script([Step(fault=Fault.HUGE)])) as client:
                with pytest.raises(ModelProtocolError, match="too many bytes"):
                    await ask(ObservedFlow(), client.ask)

        asyncio.run(inside())
        assert all_closed(endpoint)

    def test_most_of_a_throttled_endpoints_capacity_is_used(self, endpoint: FaultyEndpoint) -> None:
        """40 answers per second, requested by 32 callers as fast as they can; `test_goodput` has the exact share.

        Callers that never waited would be refused far more often than answered. On a busy machine, those that wait
        come back at other times than planned.
        """
        script = endpoint.script([Step(seconds=0.02)], limit=Limit(40, burst=10))
        enough = 0.4 * 5 * 40

        async def inside() -> ObservedFlow:
            flow = ObservedFlow()
            async with client_of(script) as client:

                async def keep_asking() -> None:
                    while True:
                        await ask(flow, client.ask, seconds=20)

                tasks = [asyncio.create_task(keep_asking()) for _ in range(32)]
                deadline = time.monotonic() + 5 * patience()
                await asyncio.sleep(5)
                while flow.seen.answered < enough and time.monotonic() < deadline:
                    await asyncio.sleep(0.1)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            return flow

        flow = asyncio.run(inside())
        assert flow.seen.answered >= enough
        assert script.seen[Fault.THROTTLED] < patience() * flow.seen.answered
        flow.check_all_ended()
        gc.collect()

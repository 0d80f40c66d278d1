"""All kinds of endpoints over real sockets: errors, unsupported features, and things that are never done."""

import asyncio
import gzip
import json
import logging
import select
import ssl
import threading
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import httpx
import pytest

from judges.models import (
    AnthropicModel,
    ChatMessage,
    Completion,
    ModelError,
    ModelProtocolError,
    ModelRefused,
    ModelTimeout,
    ModelUnavailable,
    OllamaModel,
    OpenAIModel,
)
from judges.models.connections import MAX_RESPONSE_BYTES
from judges.models.endpoint import EndpointModel
from judges.models.presets import PRESETS
from tests.judges.models.http2_endpoint import Http2Endpoint
from tests.parts import certificates, required
from tests.parts.endpoints.faulty_endpoint import FaultyEndpoint, Step
from tests.parts.endpoints.judge_endpoint import (
    Body,
    Fault,
    JudgeEndpoint,
    Response,
    broken,
    chat_response,
    error_response,
    in_turn,
    json_response,
)
from tests.parts.endpoints.tunnel import tunnel_to
from tests.parts.patience import patience, until

T = TypeVar("T")

KEY = "sk-proj-4f7e1c9a2b"
ASK = [ChatMessage(role="system", content="Judge."), ChatMessage(role="user", content="Is it so?")]
SCHEMA = {"type": "object", "properties": {"verdict": {"type": "string"}}}
FINE = chat_response("fine")
EXAMPLES = {
    path.stem: json.loads(path.read_text()) for path in (Path(__file__).parent / "wire" / "examples").glob("*.json")
}
ANSWERS = {"openai": "openai_text", "anthropic": "anthropic_tool_use", "ollama": "ollama_schema"}


@pytest.fixture
def endpoint() -> Iterator[JudgeEndpoint]:
    with JudgeEndpoint(lambda _: FINE) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> certificates.Authority:
    missing = certificates.why_unavailable()
    if missing is not None:
        required.unavailable(missing)
    return certificates.Authority(tmp_path_factory.mktemp("authority"))


def model_of(api: str, address: str, **options: Any) -> EndpointModel:
    if api == "openai":
        return OpenAIModel("tiny", base_url=f"{address}/v1", **options)
    return (AnthropicModel if api == "anthropic" else OllamaModel)("tiny", base_url=address, **options)


def using(model: EndpointModel, work: Callable[[EndpointModel], Awaitable[T]]) -> T:
    async def inside() -> T:
        try:
            return await work(model)
        finally:
            await model.aclose()

    return asyncio.run(inside())


def ask(model: EndpointModel, times: int = 1, **options: Any) -> Completion:
    async def several(model: EndpointModel) -> Completion:
        for _ in range(times - 1):
            await model.complete(ASK, **{"schema": SCHEMA, **options})
        return await model.complete(ASK, **{"schema": SCHEMA, **options})

    return using(model, several)


# Every API


@pytest.mark.parametrize("api", ANSWERS)
def test_every_api_is_asked_where_it_listens_and_read(endpoint: JudgeEndpoint, api: str) -> None:
    example = EXAMPLES[ANSWERS[api]]
    endpoint.respond = lambda _: json_response(example["answer"])
    assert ask(model_of(api, endpoint.address, api_key=KEY)) == Completion(**example["completion"])
    header = {"openai": "authorization", "anthropic": "x-api-key", "ollama": "authorization"}[api]
    assert KEY in endpoint.headers[0][header]
    expected = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages", "ollama": "/api/chat"}
    assert endpoint.paths == [expected[api]]


@pytest.mark.parametrize("name", sorted(name for name, example in EXAMPLES.items() if "raises" in example))
def test_a_documented_error_is_recognised(endpoint: JudgeEndpoint, name: str) -> None:
    example = EXAMPLES[name]
    endpoint.respond = lambda _: json_response(example["answer"], status=example["status"])
    with pytest.raises(ModelError) as caught:
        ask(model_of(example["api"], endpoint.address))
    assert isinstance(caught.value, ModelRefused | ModelUnavailable)
    assert (type(caught.value).__name__, caught.value.status) == (example["raises"], example["as_status"])


@pytest.mark.parametrize("name", sorted(name for name, example in EXAMPLES.items() if "refuses" in example))
def test_a_refused_feature_is_dropped_once_and_remembered(endpoint: JudgeEndpoint, name: str) -> None:
    example = EXAMPLES[name]
    refusal = json_response(example["answer"], status=example["status"])
    endpoint.respond = in_turn(refusal, json_response(EXAMPLES[ANSWERS[example["api"]]]["answer"]))
    ask(model_of(example["api"], endpoint.address), times=3, likelihoods=True)
    first, *later = endpoint.calls
    assert later[0] == later[1] == later[2] != first


def test_another_schema_is_still_asked_for_after_one_was_refused(endpoint: JudgeEndpoint) -> None:
    def respond(body: Body) -> Response:
        refused = "response_format" in body and "foo" in json.dumps(body)
        return error_response(400, "Invalid schema for response_format 'verdict'") if refused else FINE

    endpoint.respond = respond

    async def three(model: EndpointModel) -> None:
        for schema in ({"type": "foo"}, {"type": "foo"}, SCHEMA):
            await model.complete(ASK, schema=schema)

    using(model_of("openai", endpoint.address), three)
    assert ["response_format" in call for call in endpoint.calls] == [True, False, False, True]


FORMS = {"json_schema": "response_format", "tools": "tools", "json_object": "response_format"}


@pytest.mark.parametrize("has", ["json_schema", "tools", "json_object", None])
def test_json_is_requested_in_the_strongest_supported_form(endpoint: JudgeEndpoint, has: str | None) -> None:
    def respond(body: Body) -> Response:
        form = next((form for form in FORMS if form in json.dumps(body)), None)
        return FINE if form == has or form is None else error_response(400, f"unknown: {FORMS[form]}")

    endpoint.respond = respond
    ask(model_of("openai", endpoint.address), times=2)
    forms = [next((form for form in FORMS if form in json.dumps(call)), None) for call in endpoint.calls]
    assert forms[-1] == forms[-2] == has
    assert forms[:-1] == [*FORMS, None][: len(forms) - 1]


def test_a_judge_that_wants_no_structure_asks_for_none(endpoint: JudgeEndpoint) -> None:
    for api in ANSWERS:
        endpoint.respond = lambda _, api=api: json_response(EXAMPLES[ANSWERS[api]]["answer"])  # type: ignore[misc]
        ask(model_of(api, endpoint.address, structured=False))
    assert not any({"response_format", "tools", "format"} & call.keys() for call in endpoint.calls)


# Presets


@pytest.mark.parametrize("preset", [None, *PRESETS])
def test_presets_know_the_dialect(endpoint: JudgeEndpoint, preset: Any) -> None:
    ask(OpenAIModel("m", base_url=endpoint.base_url, preset=preset, api_key=KEY, seed=7))
    [call], [headers] = endpoint.calls, endpoint.headers
    assert ("max_completion_tokens" in call) == (preset in ("openai", "azure"))
    assert ("max_tokens" in call) != ("max_completion_tokens" in call)
    assert call["random_seed" if preset == "mistral" else "seed"] == 7
    assert headers.get("api-key") == (KEY if preset == "azure" else None)
    assert headers.get("authorization") == (None if preset == "azure" else f"Bearer {KEY}")


def test_presets_have_an_address_but_azure() -> None:
    for name, preset in PRESETS.items():
        if name == "azure":
            with pytest.raises(ValueError, match="base_url is required with the preset azure"):
                OpenAIModel("m", preset=name)
        else:
            assert f"{preset.base_url}/chat/completions" in repr(OpenAIModel("m", preset=name))


def test_without_a_preset_an_address_is_required() -> None:
    with pytest.raises(ValueError, match="base_url is required without a preset"):
        OpenAIModel("m")
    with pytest.raises(ValueError, match="preset must be one of openai, vllm"):
        OpenAIModel("m", preset="nobody")  # type: ignore[arg-type]


@pytest.mark.parametrize("base_url", ["https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages/"])
def test_an_address_with_extra_parts_is_refused(base_url: str) -> None:
    with pytest.raises(ValueError, match="base_url must end before /v1/messages"):
        AnthropicModel("m", base_url=base_url)


def test_a_temperature_that_the_api_does_not_take_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^temperature must be"):
        AnthropicModel("m", temperature=1.5)


@pytest.mark.parametrize("api", ANSWERS)
def test_the_identity_names_the_api_and_its_features(api: str) -> None:
    identity = model_of(api, "http://judge.test", api_key=KEY).identity
    assert identity.startswith(f"{api} tiny at http://judge.test")
    assert ("seed=0" in identity) == (api != "anthropic")
    assert KEY not in f"{identity} {model_of(api, 'http://judge.test', api_key=KEY)!r}"


# Things that are never done


def test_a_redirect_is_not_followed(endpoint: JudgeEndpoint) -> None:
    with JudgeEndpoint(lambda _: FINE) as other:
        endpoint.respond = lambda _: Response(status=307, headers={"Location": f"{other.base_url}/chat/completions"})
        with pytest.raises(ModelRefused, match="answered 307"):
            ask(model_of("openai", endpoint.address, api_key=KEY))
        assert (len(endpoint.calls), len(other.calls)) == (1, 0)


def test_cookies_are_not_kept(endpoint: JudgeEndpoint) -> None:
    body = json_response(EXAMPLES["openai_text"]["answer"], headers={"Set-Cookie": "seen=1; Path=/"})
    endpoint.respond = lambda _: body
    ask(model_of("openai", endpoint.address), times=2)
    assert not any("cookie" in headers for headers in endpoint.headers)


def test_the_environment_chooses_no_proxy_and_no_password(
    endpoint: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert ask(model_of("openai", endpoint.address)).text == "fine"
    assert "authorization" not in endpoint.headers[0]


def test_a_proxy_that_was_asked_for_is_used(endpoint: JudgeEndpoint) -> None:
    ask(OpenAIModel("tiny", base_url="http://judge.test/v1", proxy=endpoint.address))
    assert endpoint.paths == ["http://judge.test/v1/chat/completions"]


@pytest.mark.parametrize("proxy", ["socks5://h:1", "http://user:hunter2@h:1", "h:1"])
def test_a_proxy_that_cannot_be_used_or_holds_a_secret_is_refused(proxy: str) -> None:
    with pytest.raises(ValueError, match=r"^proxy must") as caught:
        OpenAIModel("tiny", base_url="http://judge.test/v1", proxy=proxy)
    assert "hunter2" not in str(caught.value)


def test_a_body_of_100_megabytes_is_cut_off(endpoint: JudgeEndpoint) -> None:
    endpoint.respond = lambda _: Response(body=b" " * 100_000_000)
    with pytest.raises(ModelProtocolError, match=f"more than {MAX_RESPONSE_BYTES} bytes"):
        ask(model_of("openai", endpoint.address))


def pack(body: bytes) -> Response:
    return Response(body=gzip.compress(body), headers={"Content-Encoding": "gzip"})


def test_an_answer_that_is_packed_unasked_is_read(endpoint: JudgeEndpoint) -> None:
    endpoint.respond = lambda _: pack(FINE.body)
    assert ask(model_of("openai", endpoint.address)).text == "fine"
    assert endpoint.headers[0]["accept-encoding"] == "identity"


def test_a_small_answer_that_unpacks_to_a_huge_one_is_cut_off(endpoint: JudgeEndpoint) -> None:
    bomb = pack(b" " * 100_000_000)
    assert len(bomb.body) < 200_000
    endpoint.respond = lambda _: bomb
    with pytest.raises(ModelProtocolError, match=f"more than {MAX_RESPONSE_BYTES} bytes"):
        ask(model_of("openai", endpoint.address))


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "nonsense"])
def test_an_answer_that_cannot_be_unpacked_is_no_completion(endpoint: JudgeEndpoint, encoding: str) -> None:
    endpoint.respond = lambda _: Response(body=b"\x1b\x02garbage", headers={"Content-Encoding": encoding})
    with pytest.raises(ModelProtocolError, match="did not answer with JSON"):
        ask(model_of("openai", endpoint.address))


def test_an_endpoint_that_is_silent_for_too_long_is_late(endpoint: JudgeEndpoint) -> None:
    endpoint.respond = lambda _: Response(delay=60)
    started = time.monotonic()
    with pytest.raises(ModelTimeout, match="ReadTimeout"):
        ask(model_of("openai", endpoint.address, timeout_seconds=60, read_seconds=0.2))
    assert time.monotonic() - started < 20 * patience()


def test_an_endpoint_that_trickles_is_not_silent_but_late_in_the_end(endpoint: JudgeEndpoint) -> None:
    endpoint.respond = lambda _: broken(Fault.TRICKLE)
    limit = round(patience(at_most=6.0), 1)
    with pytest.raises(ModelTimeout, match=f"no answer within {limit:g} s"):
        ask(model_of("openai", endpoint.address, timeout_seconds=limit, read_seconds=0.8 * limit))


@pytest.mark.parametrize("name", ["connect_seconds", "read_seconds"])
def test_a_phase_takes_some_time(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be above 0"):
        model_of("openai", "http://judge.test", **{name: 0})


# TLS


@pytest.fixture
def trusted_authority(authority: certificates.Authority, monkeypatch: pytest.MonkeyPatch) -> certificates.Authority:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    return authority


def test_an_unknown_certificate_is_refused(authority: certificates.Authority) -> None:
    with JudgeEndpoint(lambda _: FINE, certificate=authority.sign("unknown")) as endpoint:
        with pytest.raises(ModelUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            ask(model_of("openai", endpoint.address, api_key=KEY))
        assert endpoint.calls == []


def test_a_certificate_for_another_host_is_refused(trusted_authority: certificates.Authority) -> None:
    with JudgeEndpoint(
        lambda _: FINE, certificate=trusted_authority.sign("other", addresses="DNS:other.test")
    ) as endpoint:
        with pytest.raises(ModelUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            ask(model_of("openai", endpoint.address, api_key=KEY))
        assert endpoint.calls == []


def test_tls_without_http2_is_spoken_too(trusted_authority: certificates.Authority) -> None:
    with JudgeEndpoint(lambda _: FINE, certificate=trusted_authority.sign("judge")) as endpoint:
        assert ask(model_of("openai", endpoint.address, api_key=KEY)).text == "fine"


def test_http2_is_spoken_where_it_is_offered_with_many_calls_on_one_connection(
    trusted_authority: certificates.Authority, caplog: pytest.LogCaptureFixture
) -> None:
    body = json.dumps(EXAMPLES["openai_text"]["answer"]).encode()

    async def eight(model: EndpointModel) -> list[Completion]:
        await model.complete(ASK, schema=SCHEMA)
        return await asyncio.gather(*(model.complete(ASK, schema=SCHEMA) for _ in range(8)))

    with Http2Endpoint(body, trusted_authority.sign("http2")) as endpoint, caplog.at_level(logging.DEBUG):
        completions = using(OpenAIModel("tiny", base_url=endpoint.base_url, api_key=KEY), eight)
    assert {completion.text for completion in completions} == {EXAMPLES["openai_text"]["completion"]["text"]}
    assert (endpoint.connections, endpoint.requests) == (1, 9)
    assert endpoint.headers["authorization"] == f"Bearer {KEY}"
    assert caplog.records
    assert KEY not in caplog.text


class HeldHandshakes(FaultyEndpoint):
    """Answers no handshake before its release."""

    def __init__(self, certificate: tuple[Path, Path]) -> None:
        super().__init__(certificate=certificate)
        self.begun = 0
        """Handshakes that clients have begun."""

        self.release = threading.Event()

    async def _shake_hands(self, writer: asyncio.StreamWriter, tls: ssl.SSLContext) -> None:
        # Bytes from the client are part of the handshake and must not be read here.
        cast(asyncio.Transport, writer.transport).pause_reading()
        while not select.select([writer.get_extra_info("socket")], [], [], 0)[0]:
            await asyncio.sleep(0.01)
        self.begun += 1
        while not self.release.is_set():
            await asyncio.sleep(0.01)
        await super()._shake_hands(writer, tls)

    async def reach(self) -> None:
        """Wait until a client has begun its handshake."""
        await until(lambda: self.begun > 0)


async def cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def none_open(endpoint: FaultyEndpoint) -> bool:
    deadline = time.monotonic() + 5 * patience()
    while endpoint.open and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    return not endpoint.open


@pytest.mark.parametrize("tunnel", [False, True], ids=["directly", "through a proxy"])
def test_a_call_that_is_cut_off_during_a_handshake_leaves_no_connection(
    trusted_authority: certificates.Authority, tunnel: bool
) -> None:
    async def inside(endpoint: HeldHandshakes, base_url: str) -> None:
        async with tunnel_to(endpoint.port) as address:
            model = OpenAIModel("tiny", base_url=base_url, proxy=address if tunnel else None)
            task = asyncio.create_task(model.complete(ASK, schema=None))
            await endpoint.reach()
            await cancel(task)
            assert endpoint.accepted == 1
            endpoint.release.set()
            assert await none_open(endpoint)
            assert (await model.complete(ASK, schema=None)).text == "1"
            await model.aclose()
            assert await none_open(endpoint)

    with HeldHandshakes(trusted_authority.sign("slow")) as endpoint:
        asyncio.run(inside(endpoint, endpoint.script([Step()]).base_url))


def test_calls_that_share_a_handshake_lose_no_connection_when_the_first_is_cut_off(
    trusted_authority: certificates.Authority,
) -> None:
    async def inside(endpoint: HeldHandshakes, base_url: str) -> None:
        model = OpenAIModel("tiny", base_url=base_url)
        first = asyncio.create_task(model.complete(ASK, schema=None))
        await endpoint.reach()
        others = asyncio.gather(*(model.complete(ASK, schema=None) for _ in range(3)))
        for _ in range(50):  # until they wait for the same handshake
            await asyncio.sleep(0)
        await cancel(first)
        endpoint.release.set()
        assert {completion.text for completion in await others} == {"1", "2", "3"}
        await model.aclose()
        assert await none_open(endpoint)

    with HeldHandshakes(trusted_authority.sign("shared")) as endpoint:
        asyncio.run(inside(endpoint, endpoint.script([Step()]).base_url))


def test_closing_ends_a_call_that_is_still_shaking_hands(trusted_authority: certificates.Authority) -> None:
    async def inside(endpoint: HeldHandshakes, base_url: str) -> None:
        model = OpenAIModel("tiny", base_url=base_url)
        task = asyncio.create_task(model.complete(ASK, schema=None))
        await endpoint.reach()
        await model.aclose()
        with pytest.raises(ModelUnavailable, match="closed"):
            await asyncio.wait_for(task, 5 * patience())
        assert endpoint.accepted == 1
        endpoint.release.set()
        assert await none_open(endpoint)

    with HeldHandshakes(trusted_authority.sign("closed")) as endpoint:
        asyncio.run(inside(endpoint, endpoint.script([Step()]).base_url))


# Connections


class SlowToClose(httpx.AsyncBaseTransport, httpx.AsyncByteStream):
    """Answers at once, and is slow to close a response."""

    def __init__(self) -> None:
        self.closing = asyncio.Event()
        self.closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=self)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield json.dumps(EXAMPLES["openai_text"]["answer"]).encode()

    async def aclose(self) -> None:
        self.closing.set()
        await asyncio.sleep(0.05)
        self.closed = True


def test_a_call_that_is_cut_off_when_it_has_its_answer_still_gives_its_connection_back() -> None:
    async def inside() -> None:
        transport = SlowToClose()
        model = OpenAIModel("tiny", base_url="http://judge.test/v1", transport=transport)
        task = asyncio.create_task(model.complete(ASK, schema=None))
        await transport.closing.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert transport.closed

    asyncio.run(inside())


def test_long_idle_connections_are_closed_one_by_one(endpoint: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judges.models.connections._IDLE_SECONDS", 0.1)

    async def rush_and_rest(model: EndpointModel) -> int:
        await asyncio.gather(*(model.complete(ASK, schema=None) for _ in range(5)))
        for _ in range(6):
            await asyncio.sleep(0.12)
            await model.complete(ASK, schema=None)
        return len(model._connections._lanes)

    assert using(model_of("openai", endpoint.address), rush_and_rest) == 1


@pytest.mark.parametrize("api", ANSWERS)
def test_no_error_message_contains_the_key(endpoint: JudgeEndpoint, api: str, caplog: pytest.LogCaptureFixture) -> None:
    endpoint.respond = lambda body: error_response(401, f"bad key {KEY}")
    with caplog.at_level(logging.DEBUG), pytest.raises(ModelRefused) as caught:
        ask(model_of(api, endpoint.address, api_key=KEY))
    assert KEY not in "".join(traceback.format_exception(caught.value)) + caplog.text

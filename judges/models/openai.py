"""A chat model behind any endpoint that speaks OpenAI's chat completions over HTTP."""

import asyncio
import json
import math
import random
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal, cast

import httpx

from judges.models.base import Completion, Message, Price, Token
from judges.models.connections import Connections, tls_for
from judges.models.errors import ModelError, ModelProtocolError, ModelRefused, ModelTimeout, ModelUnavailable
from judges.models.pause import Pause
from judges.problems import check_count, check_number

RETRIES = 2
MAX_RESPONSE_BYTES = 4 * 1024 * 1024

_MAX_ERROR_BYTES = 64 * 1024
_MAX_MESSAGE_CHARS = 300
_FIRST_BACKOFF_SECONDS = 0.25
_PATH = "/chat/completions"
# The most that OpenAI's own endpoint takes.
_MAX_TEMPERATURE = 2
_MAY_PASS = frozenset({408, 429})
_PAUSE_SECONDS = 30.0
# Endpoints word the refusal of `response_format` in their own ways; these are the words they have in common.
_FORMAT_WORDS = ("response_format", "json_schema", "json schema", "structured output", "grammar")
_LIKELIHOOD_WORDS = ("logprob",)
# What is asked of endpoints that give probabilities; the most that OpenAI's own gives is 20.
_LIKELIHOODS = 10

_Feature = Literal["schema", "likelihoods"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    messages: Sequence[Message]
    schema: Mapping[str, object] | None
    sample: int | None
    likelihoods: bool

    def without(self, features: Iterable[_Feature]) -> "_Call":
        call = self
        for feature in features:
            call = replace(call, schema=None) if feature == "schema" else replace(call, likelihoods=False)
        return call


@dataclass(slots=True)
class _Tries:
    """Calls that failed and were made again."""

    failed: int = 0


class _FeatureRefused(ModelRefused):
    """The endpoint does not do structured output, or not with this schema, or gives no probabilities."""

    def __init__(self, message: str, *, status: int, feature: _Feature) -> None:
        super().__init__(message, status=status)
        self.feature = feature


class OpenAIModel:
    """One model of one endpoint, over connections that are kept and shared.

    `timeout_seconds` bounds a whole `complete`, retries and waiting included. A judge that takes several samples gets
    them with `sampling_temperature` where `temperature` is 0, and each with a seed of its own: the same answer several
    times would be one voice counted several times. A `temperature` of None is never sent: some models refuse any.
    An endpoint that refuses us for good is asked again only once in half a minute; `paused` says why.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str | None = None,
        timeout_seconds: float = 30.0,
        temperature: float | None = 0.0,
        sampling_temperature: float = 0.7,
        seed: int | None = 0,
        max_tokens: int = 512,
        structured: bool = True,
        price: Price | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        if not model or not model.isprintable():
            raise ValueError("model must be a name in printable characters")
        _check_parameters(timeout_seconds, temperature, sampling_temperature, max_tokens)
        self._model = model
        self._url = _checked_url(base_url)
        self._api_key = _checked_key(api_key)
        self._timeout_seconds = timeout_seconds
        self._parameters: dict[str, object] = {"max_tokens": max_tokens}
        self._parameters |= {} if temperature is None else {"temperature": temperature}
        self._parameters |= {} if seed is None else {"seed": seed}
        self._sampling_temperature = temperature or sampling_temperature
        self._seed = seed
        self._wants_structure = structured
        self._refuses: set[_Feature] = set()
        headers = _headers(self._api_key)
        self._connections = Connections(headers=headers, tls=tls_for(self._url), transport=transport)
        self._price = price
        self._pause = Pause(_PAUSE_SECONDS)
        self._closed = False

    def __repr__(self) -> str:
        return f"OpenAIModel({self._model!r}, url={str(self._url)!r})"

    @property
    def name(self) -> str:
        return self._model

    @property
    def identity(self) -> str:
        parameters = " ".join(f"{key}={value}" for key, value in sorted(self._parameters.items()))
        sampling = f"sampling_temperature={self._sampling_temperature}"
        return f"openai {self._model} at {self._url} {parameters} {sampling} structured={self._wants_structure}"

    @property
    def paused(self) -> str | None:
        return self._pause.reason

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, object] | None,
        sample: int | None = None,
        likelihoods: bool = False,
    ) -> Completion:
        wanted = schema if self._wants_structure else None
        call = _Call(messages=messages, schema=wanted, sample=sample, likelihoods=likelihoods)
        if not self._pause.lets_one_through():
            raise ModelUnavailable(f"paused, because {self._pause.reason}")
        deadline, tries = asyncio.get_running_loop().time() + self._timeout_seconds, _Tries()
        try:
            async with asyncio.timeout_at(deadline):
                completion = await self._ask_with_retries(call, deadline, tries)
        except TimeoutError as error:
            late = ModelTimeout(f"{self._where} gave no answer within {self._timeout_seconds:g} s")
            late.retries = tries.failed
            raise late from error
        except ModelError as error:
            error.retries = tries.failed
            if isinstance(error, ModelRefused):
                self._pause.refused(error.status, str(error))
            raise
        self._pause.end()
        return replace(completion, retries=tries.failed, cost_usd=self._cost(completion))

    async def aclose(self) -> None:
        self._closed = True
        await self._connections.aclose()

    def _cost(self, completion: Completion) -> float | None:
        used = completion.prompt_tokens, completion.completion_tokens
        if self._price is None or used == (None, None):
            return None
        return self._price.of(used[0] or 0, used[1] or 0)

    async def _ask_with_retries(self, call: _Call, deadline: float, tries: "_Tries") -> Completion:
        while True:
            try:
                return await self._ask_for_what_it_gives(call)
            except ModelUnavailable as error:
                wait = _wait(tries.failed, error.retry_after)
                if tries.failed == RETRIES or asyncio.get_running_loop().time() + wait >= deadline:
                    raise
                await asyncio.sleep(wait)
                tries.failed += 1

    async def _ask_for_what_it_gives(self, call: _Call) -> Completion:
        refused = set(self._refuses)
        while True:
            try:
                completion = await self._ask(call.without(refused))
            except _FeatureRefused as error:
                refused.add(error.feature)
            else:
                # Remembered only now: had the plain request failed too, the feature was not what was wrong.
                self._refuses |= refused
                return completion

    async def _ask(self, call: _Call) -> Completion:
        async with self._post(self._body(call)) as response:
            if response.is_success:
                return self._completion(await _read(response, MAX_RESPONSE_BYTES))
            raise self._failure(response, await _read(response, _MAX_ERROR_BYTES), call)

    def _body(self, call: _Call) -> bytes:
        body: dict[str, object] = {
            "model": self._model,
            "messages": [{"role": message.role, "content": message.content} for message in call.messages],
            **self._parameters,
        }
        if call.sample is not None:
            body |= {"temperature": self._sampling_temperature} if "temperature" in body else {}
            body |= {} if self._seed is None else {"seed": self._seed + call.sample}
        if call.likelihoods:
            body |= {"logprobs": True, "top_logprobs": _LIKELIHOODS}
        if call.schema is not None:
            wanted = {"name": "verdict", "schema": call.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": wanted}
        # Lone surrogates have no UTF-8 form; they arrive in logged texts that were cut in the middle of a pair.
        return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")

    @asynccontextmanager
    async def _post(self, body: bytes) -> AsyncIterator[httpx.Response]:
        if self._closed:
            raise ModelUnavailable(f"{self._where}: the model was closed")
        async with self._connections.client() as client:
            with self._translated():
                async with client.stream("POST", self._url, content=body) as response:
                    yield response

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except httpx.TimeoutException as error:
            raise ModelTimeout(self._said(error)) from error
        except httpx.TransportError as error:
            raise ModelUnavailable(self._said(error)) from error
        except httpx.HTTPError as error:
            raise ModelProtocolError(self._said(error)) from error

    @property
    def _where(self) -> str:
        return self._url.netloc.decode("ascii")

    def _said(self, error: Exception) -> str:
        return f"{self._where}: {type(error).__name__}: {self._trimmed(str(error))}".rstrip(": ")

    def _trimmed(self, text: str) -> str:
        """One short line that can be logged and published, whatever the other side wrote."""
        safe = text if self._api_key is None else text.replace(self._api_key, "***")
        line = " ".join("".join(char if char.isprintable() else " " for char in safe[:_MAX_ERROR_BYTES]).split())
        return line if len(line) <= _MAX_MESSAGE_CHARS else f"{line[:_MAX_MESSAGE_CHARS]}…"

    def _failure(self, response: httpx.Response, body: bytes, call: _Call) -> ModelError:
        status, text = response.status_code, body.decode("utf-8", "replace")
        message = f"{self._where} answered {status}: {self._trimmed(_server_message(text))}".rstrip(": ")
        if status in _MAY_PASS or status >= 500:
            return ModelUnavailable(message, retry_after=_retry_after(response.headers))
        feature = _refused_feature(text.lower(), call) if status in (400, 422) else None
        if feature is not None:
            return _FeatureRefused(message, status=status, feature=feature)
        return ModelRefused(message, status=status)

    def _completion(self, body: bytes) -> Completion:
        if len(body) > MAX_RESPONSE_BYTES:
            raise ModelProtocolError(f"{self._where} answered with more than {MAX_RESPONSE_BYTES} bytes")
        try:
            completion = _completion_in(json.loads(body))
        except (ValueError, RecursionError) as error:
            start = self._trimmed(body[:_MAX_ERROR_BYTES].decode("utf-8", "replace"))[:80]
            raise ModelProtocolError(f"{self._where} did not answer with JSON but: {start}") from error
        if completion is None:
            said = self._trimmed(_server_message(body[:_MAX_ERROR_BYTES].decode("utf-8", "replace")))
            raise ModelProtocolError(f"{self._where} answered without a choice: {said}")
        return completion


def _check_parameters(
    timeout_seconds: float, temperature: float | None, sampling_temperature: float, max_tokens: int
) -> None:
    check_number("timeout_seconds", timeout_seconds, least=0, most=math.inf)
    if not timeout_seconds:
        raise ValueError("timeout_seconds must be above 0")
    for name, value in (("temperature", temperature), ("sampling_temperature", sampling_temperature)):
        if value is not None:
            check_number(name, value, least=0, most=_MAX_TEMPERATURE)
    check_count("max_tokens", max_tokens)


def _checked_url(base_url: str) -> httpx.URL:
    """The address to post to; an address with a secret in it would be logged and published."""
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        raise ValueError("base_url is not a valid URL") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("base_url must be an http:// or https:// URL")
    if url.userinfo or url.query or url.fragment:
        raise ValueError("base_url must carry no user, query or fragment; the key has a setting of its own")
    path = url.path.rstrip("/")
    if path.endswith(_PATH):
        raise ValueError(f"base_url must end before {_PATH}, which is added to it; most end with /v1")
    return url.copy_with(path=path + _PATH)


def _checked_key(api_key: str | None) -> str | None:
    """Refused here, because the HTTP library would quote an unsendable key in its error."""
    if not api_key:
        return None
    key = api_key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("api_key must be printable ASCII without spaces")
    return key


def _headers(api_key: str | None) -> Mapping[str, str]:
    # Compressed answers are not asked for: the size limit should count what is read.
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    return headers if api_key is None else {**headers, "Authorization": f"Bearer {api_key}"}


def _wait(attempt: int, retry_after: float | None) -> float:
    """Grows with the attempts, and is random so that a pool of callers does not come back in step."""
    backoff: float = _FIRST_BACKOFF_SECONDS * 2**attempt * random.uniform(0.5, 1.5)  # noqa: S311
    return max(backoff, retry_after or 0.0)


def _retry_after(headers: httpx.Headers) -> float | None:
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        seconds = _seconds_until(value)
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _seconds_until(date: str) -> float:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return math.nan
    # A date that says "-0000" is in UTC by the standard and comes back without a zone.
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - datetime.now(UTC)).total_seconds()


async def _read(response: httpx.Response, limit: int) -> bytes:
    """The body, or a little more than `limit` bytes of a longer one."""
    body = bytearray()
    # An async generator, whatever its annotation says: closed here, it cannot outlive the connection.
    async with aclosing(cast(AsyncGenerator[bytes, None], response.aiter_bytes())) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > limit:
                break
    return bytes(body)


def _refused_feature(text: str, call: _Call) -> _Feature | None:
    if call.schema is not None and any(word in text for word in _FORMAT_WORDS):
        return "schema"
    return "likelihoods" if call.likelihoods and any(word in text for word in _LIKELIHOOD_WORDS) else None


def _server_message(text: str) -> str:
    """The message inside the error formats in use, or the text itself."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for key in ("error", "message", "detail"):
        if isinstance(value, dict) and value.get(key):
            value = value[key]
    return value if isinstance(value, str) else text


def _completion_in(answer: object) -> Completion | None:
    """The first choice of a chat completion, None when there is none."""
    choices = answer.get("choices") if isinstance(answer, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(answer, dict) or not isinstance(choice, dict) or not isinstance(message, dict):
        return None
    text, finish_reason, usage = _text_of(message), choice.get("finish_reason"), answer.get("usage")
    if text is None and message.get("refusal"):
        finish_reason = "refusal"
    counts = usage if isinstance(usage, dict) else {}
    return Completion(
        text=text,
        prompt_tokens=_count(counts.get("prompt_tokens")),
        completion_tokens=_count(counts.get("completion_tokens")),
        finish_reason=finish_reason if isinstance(finish_reason, str) else None,
        tokens=tuple(_tokens_in(choice.get("logprobs"))),
    )


def _tokens_in(logprobs: object) -> Iterator[Token]:
    """The tokens with their alternatives; of a list that is not as it should be, nothing."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    for entry in content if isinstance(content, list) else ():
        chosen = _likelihood(entry)
        if chosen is None:
            return
        others = entry.get("top_logprobs")
        found = [_likelihood(other) for other in others] if isinstance(others, list) else []
        yield Token(text=chosen[0], likelihoods=dict([each for each in found if each is not None] or [chosen]))


def _likelihood(entry: object) -> tuple[str, float] | None:
    token, logprob = (entry.get("token"), entry.get("logprob")) if isinstance(entry, dict) else (None, None)
    if not isinstance(token, str) or isinstance(logprob, bool) or not isinstance(logprob, int | float):
        return None
    try:
        return token, float(logprob)
    except OverflowError:  # a whole number of hundreds of digits
        return None


def _text_of(message: Mapping[str, object]) -> str | None:
    """The content alone, never the reasoning beside it; some endpoints send it in parts."""
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        content = "".join(part for part in parts if isinstance(part, str))
    return content.encode("utf-8", "replace").decode() if isinstance(content, str) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

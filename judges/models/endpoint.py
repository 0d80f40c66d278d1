"""One model of one endpoint, whatever API it speaks.

complete ── flow.call ── _ask_for_what_it_gives ── _ask ── connections.post
redaction   when, and    what it does not do       errors
            how often
"""

import json
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, TypedDict

import httpx
import msgspec

from judges.criteria.problems import check_count, check_number
from judges.models.base import ChatMessage, Completion
from judges.models.connections import MAX_ERROR_BYTES, MAX_RESPONSE_BYTES, Answer, EndpointConnections
from judges.models.errors import (
    ModelError,
    ModelOverBudget,
    ModelProtocolError,
    ModelRefused,
    ModelTimeout,
    ModelUnavailable,
)
from judges.models.flow import Answered, Flow
from judges.models.prices import ModelPrice, most_prompt_tokens
from judges.models.spending import Fares, current_purse, dollars
from judges.models.wire.base import FORMS, Feature, ModelRequest, Wire
from judges.models.wire.error_text import make_publishable
from judges.models.wire.failures import Refusal, is_out_of_money, refusal_in, retry_after, server_message
from judges.models.wire.refusals import Refusals

if TYPE_CHECKING:
    # Who redacts nothing need not load the numbering plans.
    from judges.models.redaction import Redactor

logger = logging.getLogger(__name__)

_TOO_MANY = 429
_MAY_PASS = frozenset({408, _TOO_MANY})
# What a prompt is taken to be before the endpoint has counted: few languages have fewer characters to a token.
_CHARS_PER_TOKEN = 3
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    # Compressed answers are not asked for: the size limit should count what is read.
    "Accept-Encoding": "identity",
    "User-Agent": "streamjury",
}
# Shorter ones are words such as "none", for endpoints that want any key.
_MIN_KEY_CHARS = 8
# Printable ASCII in the escapes of JSON, and other escapes, which are left as they are.
_ESCAPED = re.compile(r"\\(?:u00([2-7][0-9a-fA-F])|(/)|.)", re.DOTALL)
# What an account without money is refused with, whatever status its endpoint has for that.
_NO_MONEY = 402


class ModelOptions(TypedDict, total=False):
    """What models of all APIs can be told; `EndpointModel` has the defaults."""

    api_key: str | None
    timeout_seconds: float
    connect_seconds: float
    read_seconds: float | None
    proxy: str | None
    temperature: float | None
    sampling_temperature: float
    seed: int | None
    max_tokens: int
    structured: bool
    price: ModelPrice | None
    redactor: "Redactor | None"
    flow: Flow | None
    transport: httpx.AsyncBaseTransport | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    messages: Sequence[ChatMessage]
    schema: Mapping[str, object] | None
    sample: int | None
    likelihoods: bool
    max_tokens: int


class _FeatureRefused(ModelRefused):
    """The endpoint does not do something that was asked for."""

    def __init__(self, message: str, *, status: int, refusal: Refusal) -> None:
        super().__init__(message, status=status)
        self.refusal = refusal


class EndpointModel:
    """A chat model over connections that are kept and shared.

    `timeout_seconds` bounds a `complete` from when it is first sent, retries included, and not its wait for a turn
    (`flow`); within it, `connect_seconds` a new
    connection and `read_seconds` a silence (None: no further bound). A judge that takes several samples gets
    them with `sampling_temperature` where `temperature` is 0, and each with a seed of its own: the same answer several
    times would be one voice counted several times. A `temperature` of None is never sent: some models refuse any.
    JSON is asked for in the strongest form that the endpoint has, and what it refuses is not asked for again.
    `flow` decides when it is asked and how often; models of one endpoint share one, and alone a model has its own.
    While nothing is asked of an endpoint that fails or refuses us, `paused` says why.
    """

    def __init__(
        self,
        model: str,
        *,
        wire: Wire,
        base_url: str,
        api_key: str | None = None,
        timeout_seconds: float = 30.0,
        connect_seconds: float = 5.0,
        read_seconds: float | None = None,
        proxy: str | None = None,
        temperature: float | None = 0.0,
        sampling_temperature: float = 0.7,
        seed: int | None = 0,
        max_tokens: int = 512,
        structured: bool = True,
        price: ModelPrice | None = None,
        redactor: "Redactor | None" = None,
        flow: Flow | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        if not model or not model.isprintable():
            raise ValueError("model must be a name in printable characters")
        _check_seconds(timeout_seconds=timeout_seconds, connect_seconds=connect_seconds, read_seconds=read_seconds)
        for name, value in (("temperature", temperature), ("sampling_temperature", sampling_temperature)):
            if value is not None:
                check_number(name, value, least=0, most=wire.hottest)
        check_count("max_tokens", max_tokens)
        self._model = model
        self._wire = wire
        self._url = _checked_url(base_url, wire)
        self._where = self._url.netloc.decode("ascii")
        self._api_key = _checked_key(api_key)
        self._timeout_seconds = timeout_seconds
        self._temperature = temperature
        self._sampling_temperature = temperature or sampling_temperature
        self._seed = seed
        self._max_tokens = max_tokens
        self._structured = structured
        self._features = wire.features if structured else wire.features.difference(FORMS)
        self._refusals = Refusals()
        self._price = price
        self._redactor = redactor
        self._flow = flow or Flow(name=self._where)
        self._closed = False
        self._connections = EndpointConnections(
            self._url,
            headers={**_HEADERS, **wire.headers(self._api_key)},
            connect_seconds=connect_seconds,
            read_seconds=read_seconds,
            proxy=None if proxy is None else str(_plain_url("proxy", proxy)),
            transport=transport,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r}, url={str(self._url)!r})"

    @property
    def name(self) -> str:
        return self._model

    @cached_property
    def identity(self) -> str:
        sent = {"temperature": self._temperature, "seed": self._seed}
        parameters = [f"{key}={value}" for key, value in sent.items() if key in self._features and value is not None]
        parameters.append(f"max_tokens={self._max_tokens}")
        settings = f"sampling_temperature={self._sampling_temperature} structured={self._structured}"
        hidden = "" if self._redactor is None else f" {self._redactor.identity}"
        return f"{self._wire.name} {self._model} at {self._url} {' '.join(sorted(parameters))} {settings}{hidden}"

    @property
    def redactor(self) -> "Redactor | None":
        """What judges redact a case with before they write their prompts; None: the endpoint may see everything."""
        return self._redactor

    @property
    def features(self) -> frozenset[Feature]:
        """What the endpoint does, as far as is known by now."""
        return self._features - self._refusals.of(None)

    @property
    def paused(self) -> str | None:
        return self._flow.paused

    async def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        schema: Mapping[str, object] | None,
        sample: int | None = None,
        likelihoods: bool = False,
        answers: int = 1,
    ) -> Completion:
        outgoing, redacted = self._outgoing(messages)
        most_tokens = self._max_tokens * answers
        call = _Call(messages=outgoing, schema=schema, sample=sample, likelihoods=likelihoods, max_tokens=most_tokens)
        most = self._most(call)
        if most:
            fares = Fares(most)
            async with fares.kept(self._timeout_seconds):
                answered = await self._through_flow(call, partial(self._paid, call, fares))
        else:
            answered = await self._through_flow(call, partial(self._ask_for_what_it_gives, call))
        completion, cost = answered.result, self._cost(answered.result)
        cost_usd = None if cost is None else dollars(cost)
        return replace(completion, retries=answered.retries, redacted=redacted, cost_usd=cost_usd)

    async def aclose(self) -> None:
        self._closed = True
        await self._connections.aclose()

    def _outgoing(self, messages: Sequence[ChatMessage]) -> tuple[Sequence[ChatMessage], Mapping[str, int]]:
        """The messages as they leave the process, and how many values of each kind do not.

        What judges write is redacted already: their redaction looks at each field alone, before there is a prompt.
        """
        if self._redactor is None or all(message.is_redacted for message in messages):
            return messages, {}
        return self._redactor.redact_messages(messages)

    async def _through_flow(self, call: _Call, attempt: Callable[[], Awaitable[Completion]]) -> Answered[Completion]:
        tokens = sum(len(message.content) for message in call.messages) // _CHARS_PER_TOKEN + call.max_tokens
        return await self._flow.call(attempt, tokens=tokens, used=_used, seconds=self._timeout_seconds)

    def _most(self, call: _Call) -> int:
        """What an attempt can cost, in nanodollars; 0 where nobody limits that."""
        if self._price is None or current_purse() is None:
            return 0
        return self._price.most(most_prompt_tokens(call.messages, call.schema), call.max_tokens)

    def _cost(self, completion: Completion) -> int | None:
        used = completion.prompt_tokens, completion.completion_tokens
        if self._price is None or used[0] is None or used[1] is None:
            return None
        return self._price.cost(used[0], used[1], completion.cached_tokens or 0)

    async def _paid(self, call: _Call, fares: Fares) -> Completion:
        """One attempt; what it is not known to have cost counts in full."""
        async with fares.one() as hold:
            try:
                completion = await self._ask_for_what_it_gives(call)
            except ModelError as error:
                if _is_free(error):
                    hold.settle(0)
                raise
            hold.settle(self._cost(completion))
            return completion

    async def _ask_for_what_it_gives(self, call: _Call) -> Completion:
        """Drops one by one what the endpoint says it does not do."""
        found: list[Refusal] = []
        while True:
            without = self._refusals.of(call.schema).union(refusal.feature for refusal in found)
            try:
                completion = await self._ask(self._request(call, self._features - without))
            except _FeatureRefused as error:
                found.append(error.refusal)
            else:
                # Remembered only now: had the plainer request failed too, the feature was not what was wrong.
                self._refusals.remember(found, call.schema)
                return completion

    def _request(self, call: _Call, features: frozenset[Feature]) -> ModelRequest:
        temperature, seed = self._temperature, self._seed
        if call.sample is not None:
            temperature = None if temperature is None else self._sampling_temperature
            seed = None if seed is None else seed + call.sample
        form = next((each for each in FORMS if each in features), None)
        return ModelRequest(
            model=self._model,
            messages=call.messages,
            max_tokens=call.max_tokens,
            temperature=temperature if "temperature" in features else None,
            seed=seed if "seed" in features else None,
            schema=call.schema,
            form=None if call.schema is None else form,
            likelihoods=call.likelihoods and "likelihoods" in features,
            old_limit="max_tokens" in features,
        )

    async def _ask(self, request: ModelRequest) -> Completion:
        if self._closed:
            raise ModelUnavailable(f"{self._where}: the model was closed")
        body = _in_json(self._wire.body(request))
        with self._translated(request):
            started = time.perf_counter()
            answer = await self._connections.post(body)
        logger.debug("%s answered %d after %.3f s", self._where, answer.status, time.perf_counter() - started)
        if answer.is_success:
            return self._completion(answer.body, request)
        raise self._failure(answer, request)

    @contextmanager
    def _translated(self, request: ModelRequest) -> Iterator[None]:
        try:
            yield
        except (httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ConnectError, httpx.ProxyError) as error:
            raise ModelUnavailable(self._said(error, request), sent=False) from error
        except httpx.TimeoutException as error:
            raise ModelTimeout(self._said(error, request)) from error
        except httpx.TransportError as error:
            raise ModelUnavailable(self._said(error, request)) from error
        except httpx.HTTPError as error:
            raise ModelProtocolError(self._said(error, request)) from error

    def _said(self, error: Exception, request: ModelRequest) -> str:
        return f"{self._where}: {type(error).__name__}: {self._trimmed(str(error), request)}".rstrip(": ")

    def _trimmed(self, text: str, request: ModelRequest) -> str:
        """One short line that can be logged and published, whatever the other side wrote."""
        prompt = (message.content for message in request.messages)
        return make_publishable(text, prompt, self._redact_error, api_key=self._api_key)

    def _redact_error(self, line: str) -> str:
        """Without personal data, also where the endpoint itself may see them: logs are read by others."""
        redactor = self._redactor or _default_redactor()
        return redactor.redact([line]).texts[0]

    def _failure(self, answer: Answer, request: ModelRequest) -> ModelError:
        status, text = answer.status, answer.body.decode("utf-8", "replace")
        message = f"{self._where} answered {status}: {self._trimmed(server_message(text), request)}".rstrip(": ")
        if status in (400, 429) and is_out_of_money(text):
            return ModelRefused(message, status=_NO_MONEY)
        if status in _MAY_PASS or status >= 500:
            return ModelUnavailable(message, retry_after=retry_after(answer.headers), status=status)
        # OpenAI forbids probabilities to some models as if they were a matter of rights.
        about_request = status in (400, 422) or (status == 403 and request.likelihoods)
        refusal = refusal_in(text, request) if about_request else None
        if refusal is not None:
            return _FeatureRefused(message, status=status, refusal=refusal)
        return ModelRefused(message, status=status)

    def _completion(self, body: bytes, request: ModelRequest) -> Completion:
        if len(body) > MAX_RESPONSE_BYTES:
            raise ModelProtocolError(f"{self._where} sent more than {MAX_RESPONSE_BYTES} bytes")
        try:
            completion = self._wire.completion(json.loads(body))
        except (ValueError, RecursionError) as error:
            start = self._trimmed(body[:MAX_ERROR_BYTES].decode("utf-8", "replace"), request)[:80]
            raise ModelProtocolError(f"{self._where} did not answer with JSON but: {start}") from error
        if completion is None:
            said = self._trimmed(server_message(body[:MAX_ERROR_BYTES].decode("utf-8", "replace")), request)
            raise ModelProtocolError(f"{self._where} returned no completion: {said}")
        return self._without_key(completion)

    def _without_key(self, completion: Completion) -> Completion:
        """Some gateways repeat the headers that they were sent, and what a model writes is published."""
        key, written = self._api_key, completion.text
        if key is None or written is None or len(key) < _MIN_KEY_CHARS:
            return completion
        # In JSON the key may be written in escapes.
        plain = written if "\\" not in written else _ESCAPED.sub(_unescape, written)
        return replace(completion, text=plain.replace(key, "***"), tokens=()) if key in plain else completion


@cache
def _default_redactor() -> "Redactor":
    from judges.models.redaction import Redactor  # noqa: PLC0415 - only for whoever meets an error

    return Redactor()


def _in_json(body: Mapping[str, object]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except (UnicodeEncodeError, TypeError):
        # Lone surrogates have no UTF-8 form; they arrive in logged texts that were cut in the middle of a pair. And a
        # schema may hold types that only the standard library writes.
        return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def _unescape(match: re.Match[str]) -> str:
    char = chr(int(match[1], 16)) if match[1] else match[2]
    return match[0] if char is None or char in '"\\' else char


def _check_seconds(**seconds: float | None) -> None:
    for name, value in seconds.items():
        if value is None:
            continue
        check_number(name, value, least=0, most=math.inf)
        if not value:
            raise ValueError(f"{name} must be above 0")


def _checked_url(base_url: str, wire: Wire) -> httpx.URL:
    url = _plain_url("base_url", base_url)
    path = url.path.rstrip("/")
    if path.endswith(wire.no_endings):
        advice = "" if "/v1" in wire.no_endings else "; most end with /v1"
        raise ValueError(f"base_url must end before {wire.path}, which is appended{advice}")
    return url.copy_with(path=path + wire.path)


def _plain_url(name: str, text: str) -> httpx.URL:
    """An address with a secret in it would be logged and published."""
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        raise ValueError(f"{name} is not a valid URL") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"{name} must be an http:// or https:// URL")
    if url.userinfo or url.query or url.fragment:
        raise ValueError(f"{name} must not contain a user, query or fragment; put the key in its own setting")
    return url


def _checked_key(api_key: str | None) -> str | None:
    """Refused here, because the HTTP library would quote an unsendable key in its error."""
    if not api_key:
        return None
    key = api_key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("api_key must be printable ASCII without spaces")
    return key


def _is_free(error: ModelError) -> bool:
    """Whether an endpoint that failed so has surely written nothing that it could bill."""
    if isinstance(error, ModelUnavailable):
        return not error.sent or error.status == _TOO_MANY
    return isinstance(error, ModelRefused | ModelOverBudget)


def _used(completion: Completion) -> int | None:
    known = completion.prompt_tokens, completion.completion_tokens
    return None if known == (None, None) else (known[0] or 0) + (known[1] or 0)

"""One model of one endpoint, whatever API it speaks.

complete ── flow.call ── _ask_without_refused_features ── _ask ── connections.post
redaction   when, and    features it lacks                errors
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
from functools import cached_property, partial
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
from judges.models.wire.error_text import hide_key, make_publishable, redact_by_default
from judges.models.wire.failures import Refusal, is_out_of_money, refusal_in, retry_after, server_message
from judges.models.wire.refusals import Refusals

if TYPE_CHECKING:
    # Without redaction, the numbering plans need not be loaded.
    from judges.models.redaction import Redactor

logger = logging.getLogger(__name__)

_TOO_MANY = 429
_MAY_PASS = frozenset({408, _TOO_MANY})
# Estimates a prompt before the endpoint has counted its tokens: few languages have fewer characters per token.
_CHARS_PER_TOKEN = 3
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    # No compressed answers: the size limit should count the bytes that are read.
    "Accept-Encoding": "identity",
    "User-Agent": "streamjury",
}
# Shorter keys are words such as "none", for endpoints that accept any key.
_MIN_KEY_CHARS = 8
# Printable ASCII as JSON escapes, a slash that need not be escaped, and other escapes.
_ESCAPED = re.compile(r"\\(?:u00([2-7][0-9a-fA-F])|(/)|.)", re.DOTALL)
# Status for an account without money, whatever status the endpoint itself sends.
_NO_MONEY = 402


class ModelOptions(TypedDict, total=False):
    """The options that models of all APIs have; `EndpointModel` has the defaults."""

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
    """The endpoint does not support a feature of the request."""

    def __init__(self, message: str, *, status: int, refusal: Refusal) -> None:
        super().__init__(message, status=status)
        self.refusal = refusal


class EndpointModel:
    """A chat model over persistent connections that all calls share.

    - `timeout_seconds` limits a `complete`, retries included. It starts when the request is first sent, so it does not
      cover the wait for a turn (`flow`). Within it, `connect_seconds` limits a new connection and `read_seconds` a
      silence (None: no further limit).
    - A judge that takes several samples gets them with `sampling_temperature` if `temperature` is 0, and with a
      different seed each: several copies of one answer would count as several opinions. A `temperature` of None is
      never sent: some models refuse every value.
    - JSON is requested in the strongest form that the endpoint supports. A feature that it refuses is not requested
      again.
    - `flow` decides when and how often the endpoint is called. Models of one endpoint share a flow; without one, a
      model creates its own. While calls to an endpoint are paused, because it fails or refuses us, `paused` is the
      reason.
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
                check_number(name, value, least=0, most=wire.max_temperature)
        check_count("max_tokens", max_tokens)
        self._model = model
        self._wire = wire
        self._url = _completion_url(base_url, wire)
        self._where = self._url.netloc.decode("ascii")
        self._api_key = _check_key(api_key)
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
        """Redacts cases before judges write their prompts; None: the endpoint may see everything."""
        return self._redactor

    @property
    def features(self) -> frozenset[Feature]:
        """The features of the endpoint, without those that it has refused so far."""
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
            async with fares.reserve_first(self._timeout_seconds):
                answered = await self._call_through_flow(call, partial(self._ask_and_pay, call, fares))
        else:
            answered = await self._call_through_flow(call, partial(self._ask_without_refused_features, call))
        completion, cost = answered.result, self._cost(answered.result)
        cost_usd = None if cost is None else dollars(cost)
        return replace(completion, retries=answered.retries, redacted=redacted, cost_usd=cost_usd)

    async def aclose(self) -> None:
        self._closed = True
        await self._connections.aclose()

    def _outgoing(self, messages: Sequence[ChatMessage]) -> tuple[Sequence[ChatMessage], Mapping[str, int]]:
        """Return the messages as they leave the process, and the number of redacted values by kind.

        Prompts of judges are redacted already: judges redact each field separately, before they write a prompt.
        """
        if self._redactor is None or all(message.is_redacted for message in messages):
            return messages, {}
        return self._redactor.redact_messages(messages)

    async def _call_through_flow(
        self, call: _Call, attempt: Callable[[], Awaitable[Completion]]
    ) -> Answered[Completion]:
        tokens = sum(len(message.content) for message in call.messages) // _CHARS_PER_TOKEN + call.max_tokens
        return await self._flow.call(attempt, tokens=tokens, used=_count_tokens, seconds=self._timeout_seconds)

    def _most(self, call: _Call) -> int:
        """Return the maximum cost of an attempt in nanodollars; 0 if there is no budget."""
        if self._price is None or current_purse() is None:
            return 0
        return self._price.most(most_prompt_tokens(call.messages, call.schema), call.max_tokens)

    def _cost(self, completion: Completion) -> int | None:
        prompt_tokens, completion_tokens = completion.prompt_tokens, completion.completion_tokens
        if self._price is None or prompt_tokens is None or completion_tokens is None:
            return None
        return self._price.cost(prompt_tokens, completion_tokens, completion.cached_tokens or 0)

    async def _ask_and_pay(self, call: _Call, fares: Fares) -> Completion:
        """Make one attempt; if its cost is unknown, it counts in full."""
        async with fares.pay_attempt() as hold:
            try:
                completion = await self._ask_without_refused_features(call)
            except ModelError as error:
                if _is_free(error):
                    hold.settle(0)
                raise
            hold.settle(self._cost(completion))
            return completion

    async def _ask_without_refused_features(self, call: _Call) -> Completion:
        """Ask, and drop one by one the features that the endpoint refuses."""
        refusals: list[Refusal] = []
        while True:
            without = self._refusals.of(call.schema).union(refusal.feature for refusal in refusals)
            try:
                completion = await self._ask(self._request(call, self._features - without))
            except _FeatureRefused as error:
                refusals.append(error.refusal)
            else:
                # Remembered only now: if the simpler request had failed too, the feature would not be the cause.
                self._refusals.remember(refusals, call.schema)
                return completion

    def _request(self, call: _Call, features: frozenset[Feature]) -> ModelRequest:
        temperature, seed = self._temperature, self._seed
        if call.sample is not None:
            temperature = None if temperature is None else self._sampling_temperature
            seed = None if seed is None else seed + call.sample
        strongest_form = next((form for form in FORMS if form in features), None)
        return ModelRequest(
            model=self._model,
            messages=call.messages,
            max_tokens=call.max_tokens,
            temperature=temperature if "temperature" in features else None,
            seed=seed if "seed" in features else None,
            schema=call.schema,
            form=None if call.schema is None else strongest_form,
            likelihoods=call.likelihoods and "likelihoods" in features,
            old_limit="max_tokens" in features,
        )

    async def _ask(self, request: ModelRequest) -> Completion:
        if self._closed:
            raise ModelUnavailable(f"{self._where}: the model is closed")
        body = _encode_json(self._wire.body(request))
        with self._translate_errors(request):
            started = time.perf_counter()
            answer = await self._connections.post(body)
        logger.debug("%s answered %d after %.3f s", self._where, answer.status, time.perf_counter() - started)
        if answer.is_success:
            return self._completion(answer.body, request)
        raise self._failure(answer, request)

    @contextmanager
    def _translate_errors(self, request: ModelRequest) -> Iterator[None]:
        try:
            yield
        except (httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ConnectError, httpx.ProxyError) as error:
            raise ModelUnavailable(self._describe(error, request), sent=False) from error
        except httpx.TimeoutException as error:
            raise ModelTimeout(self._describe(error, request)) from error
        except httpx.TransportError as error:
            raise ModelUnavailable(self._describe(error, request)) from error
        except httpx.HTTPError as error:
            raise ModelProtocolError(self._describe(error, request)) from error

    def _describe(self, error: Exception, request: ModelRequest) -> str:
        return f"{self._where}: {type(error).__name__}: {self._make_publishable(str(error), request)}".rstrip(": ")

    def _make_publishable(self, text: str, request: ModelRequest) -> str:
        """Return one short line that can be logged and published, whatever the endpoint wrote."""
        prompt = (message.content for message in request.messages)
        return make_publishable(text, prompt, self._redact_error, api_key=self._api_key)

    def _redact_error(self, line: str) -> str:
        """Return the line without personal data, even if the endpoint may see them: logs have other readers."""
        return redact_by_default(line) if self._redactor is None else self._redactor.redact([line]).texts[0]

    def _failure(self, answer: Answer, request: ModelRequest) -> ModelError:
        status, text = answer.status, answer.body.decode("utf-8", "replace")
        detail = self._make_publishable(server_message(text), request)
        message = f"{self._where} answered {status}: {detail}".rstrip(": ")
        if status in (400, 429) and is_out_of_money(text):
            return ModelRefused(message, status=_NO_MONEY)
        if status in _MAY_PASS or status >= 500:
            return ModelUnavailable(message, retry_after=retry_after(answer.headers), status=status)
        # OpenAI refuses probabilities for some models with 403, as if permission were missing.
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
            start = self._make_publishable(body[:MAX_ERROR_BYTES].decode("utf-8", "replace"), request)[:80]
            raise ModelProtocolError(f"{self._where} did not answer with JSON: {start}") from error
        if completion is None:
            message = server_message(body[:MAX_ERROR_BYTES].decode("utf-8", "replace"))
            detail = self._make_publishable(message, request)
            raise ModelProtocolError(f"{self._where} returned no completion: {detail}")
        return self._without_key(completion)

    def _without_key(self, completion: Completion) -> Completion:
        """Hide the key in a completion: some gateways echo their request headers, and completions are published."""
        key, text = self._api_key, completion.text
        if key is None or text is None or len(key) < _MIN_KEY_CHARS:
            return completion
        hidden = hide_key(text, key)
        # In JSON, the key may contain more escapes than necessary.
        plain = _ESCAPED.sub(_shortest_escape, hidden) if "\\" in hidden else hidden
        if (plain_hidden := hide_key(plain, key)) != plain:
            hidden = plain_hidden
        return completion if hidden == text else replace(completion, text=hidden, tokens=())


def _encode_json(body: Mapping[str, object]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except (UnicodeEncodeError, TypeError):
        # Lone surrogates have no UTF-8 form; they arrive in logged texts that were cut in the middle of a pair. And a
        # schema may contain types that only the standard library encodes.
        return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def _shortest_escape(match: re.Match[str]) -> str:
    """Return a character as JSON writes it with the fewest escapes."""
    char = chr(int(match[1], 16)) if match[1] else match[2]
    return match[0] if char is None else f"\\{char}" if char in '"\\' else char


def _check_seconds(**seconds: float | None) -> None:
    for name, value in seconds.items():
        if value is None:
            continue
        check_number(name, value, least=0, most=math.inf)
        if not value:
            raise ValueError(f"{name} must be above 0")


def _completion_url(base_url: str, wire: Wire) -> httpx.URL:
    url = _plain_url("base_url", base_url)
    path = url.path.rstrip("/")
    if path.endswith(wire.forbidden_endings):
        advice = "" if "/v1" in wire.forbidden_endings else "; most end with /v1"
        raise ValueError(f"base_url must end before {wire.path}, which is appended{advice}")
    return url.copy_with(path=path + wire.path)


def _plain_url(name: str, text: str) -> httpx.URL:
    """Parse an address and refuse one that contains a secret: addresses are logged and published."""
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        raise ValueError(f"{name} is not a valid URL") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"{name} must be an http:// or https:// URL")
    if url.userinfo or url.query or url.fragment:
        raise ValueError(f"{name} must not contain a user, query or fragment; put the key in its own setting")
    return url


def _check_key(api_key: str | None) -> str | None:
    """Return the key, stripped; refuse an invalid one here, because the HTTP library would quote it in its error."""
    if not api_key:
        return None
    key = api_key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("api_key must be printable ASCII without spaces")
    return key


def _is_free(error: ModelError) -> bool:
    """Return whether the endpoint cannot have generated anything that it would bill."""
    if isinstance(error, ModelUnavailable):
        return not error.sent or error.status == _TOO_MANY
    return isinstance(error, ModelRefused | ModelOverBudget)


def _count_tokens(completion: Completion) -> int | None:
    counts = completion.prompt_tokens, completion.completion_tokens
    return None if counts == (None, None) else (counts[0] or 0) + (counts[1] or 0)

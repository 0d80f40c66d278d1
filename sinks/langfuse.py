"""A sink that posts scores to Langfuse, on the traces of the judged interactions.

Scores go in batches to `POST /api/public/ingestion`, as those of Langfuse's own clients do. Every score has an id that
depends only on the evaluation and the criterion, and Langfuse updates a score that it has under this id. So the same
evaluation may be written any number of times. The endpoint answers 207, with an outcome for every score.
"""

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from http import HTTPStatus
from itertools import islice
from typing import Any, Literal

import httpx

from judges.models.wire.error_text import make_publishable, redact_by_default
from judges.models.wire.failures import retry_after
from judges.models.wire.reading import encodable
from judges.values.evaluation import Dimension, Evaluation
from sinks.base import COMPOSITE, Sink, SinkError, SinkRefused, SinkUnavailable
from sinks.telemetry.traceparent import parse_traceparent

Level = Literal["trace", "observation"]
Batch = Sequence[Mapping[str, Any]]
"""The scores of a request."""

PATH = "/api/public/ingestion"
STATUS = f"{COMPOSITE}_status"
"""The name of the categorical score with the status of the composite."""

# Never change it: a score that is sent again must have the same id in every process and version.
_NAMESPACE = uuid.UUID("0d7b9a35-2f0b-5e5c-8a5e-7f3b6f1f6a11")
# Langfuse takes 3.5 MB in a request.
_MAX_BYTES = 3_000_000
_MAX_SCORES = 500
_COMMENT_CHARS = 4096
_TIMEOUT_SECONDS = 10.0
_LONGEST_RETRY_AFTER_SECONDS = 300.0
_KEY = re.compile(r"[!-9;-~]+")
_ENVIRONMENT = re.compile(r"(?!langfuse)[a-z0-9_-]{1,40}")
# The request was understood, and will be refused again.
_REFUSALS = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY})


@dataclass(frozen=True, slots=True, kw_only=True)
class LangfuseSettings:
    """Checked at creation; the error names the key to change."""

    name: str = "langfuse"
    """The name of the sink, in our own metrics and logs."""

    host: str
    """The base address, such as https://cloud.langfuse.com."""

    public_key: str
    secret_key: str = field(repr=False)
    environment: str | None = None
    level: Level = "trace"
    """Whether scores belong to the trace or to the span in the interaction's traceparent."""

    explanations: bool = False
    """Whether to send the judges' explanations, which may quote the user."""

    timeout_seconds: float = _TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        check_host(self.host)
        for key, value in (("public_key", self.public_key), ("secret_key", self.secret_key)):
            check_key(key, value)
        if self.environment is not None:
            check_environment(self.environment)


@dataclass(slots=True)
class _Refused:
    """Scores that were refused, with the server's words on the first: only these are logged, after slow cleaning."""

    ids: set[str] = field(default_factory=set)
    words: str = ""
    batch: Batch = ()

    def add(self, score_id: str, words: str, batch: Batch) -> None:
        if not self.ids:
            self.words, self.batch = words, batch
        self.ids.add(score_id)


def check_host(host: str) -> None:
    """Raise SinkError if this is not the base address of a server."""
    try:
        url = httpx.URL(host)
        usable = url.scheme in {"http", "https"} and url.host and not url.userinfo and not url.query
    except httpx.InvalidURL:
        usable = False
    if not usable or not host.isascii():
        raise SinkError("host", "must be an http or https URL such as https://cloud.langfuse.com")
    if "/api/public" in host:
        raise SinkError("host", f"must be the base URL; {PATH} is appended")


def check_key(setting: str, value: str) -> None:
    """Raise SinkError if this cannot be a key; the message does not contain it."""
    if not _KEY.fullmatch(value):
        raise SinkError(setting, "must be printable ASCII without spaces and colons")


def check_environment(environment: str) -> None:
    if not _ENVIRONMENT.fullmatch(environment):
        words = "must have 1 to 40 lower-case letters, digits, - and _, and not begin with langfuse"
        raise SinkError("environment", words)


class LangfuseSink(Sink):
    """Posts the scores of evaluations. A refused score does not affect the others of its batch."""

    def __init__(self, settings: LangfuseSettings) -> None:
        self.name = settings.name
        self._settings = settings
        self._client: httpx.Client | None = None

    def open(self) -> None:
        self._client = httpx.Client(
            base_url=self._settings.host.rstrip("/"),
            auth=(self._settings.public_key, self._settings.secret_key),
            timeout=self._settings.timeout_seconds,
        )

    def write(self, evaluations: Sequence[Evaluation], /) -> None:
        """Post all scores; raises SinkRefused if some were refused, and SinkUnavailable if all may be sent again."""
        scores = {score["id"]: score for evaluation in evaluations for score in self._scores(evaluation)}
        refused = _Refused()
        for batch in _batches(list(scores.values())):
            self._post(batch, refused)
        if refused.ids:
            lost = {scores[score]["body"]["metadata"]["evaluation_id"] for score in refused.ids}
            words = self._make_publishable(refused.words, refused.batch)
            raise SinkRefused(len(lost), f"Langfuse refused {len(refused.ids)} scores: {words}")

    def close(self, seconds: float) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    # Requests

    def _post(self, batch: Batch, refused: _Refused) -> None:
        """Post a batch; add the scores that are refused, with the reason."""
        response = self._send(batch)
        if response.is_success:
            self._read_outcomes(batch, response, refused)
        elif response.status_code not in _REFUSALS:
            raise self._unavailable(response, batch)
        elif len(batch) > 1:  # find the score that it is about
            middle = len(batch) // 2
            self._post(batch[:middle], refused)
            self._post(batch[middle:], refused)
        else:
            refused.add(batch[0]["id"], _words_of(response), batch)

    def _send(self, batch: Batch) -> httpx.Response:
        if self._client is None:
            raise SinkUnavailable("not open")
        try:
            return self._client.post(PATH, json={"batch": batch})
        except httpx.HTTPError as error:
            words = self._make_publishable(f"{type(error).__name__}: {error}", batch)
            raise SinkUnavailable(words) from error

    def _read_outcomes(self, batch: Batch, response: httpx.Response, refused: _Refused) -> None:
        try:
            outcomes = response.json()
            accepted = {item["id"] for item in outcomes["successes"]}
            errors = {item["id"]: item for item in outcomes["errors"]}
        except (ValueError, KeyError, TypeError):
            words = self._make_publishable(_words_of(response), batch)
            raise SinkUnavailable(f"cannot read the response: {words}") from None
        for score in batch:
            error = errors.get(score["id"])
            if error is not None and error.get("status") in _REFUSALS:
                refused.add(score["id"], f"{error.get('message') or error.get('error')}", batch)
            elif score["id"] not in accepted:
                raise SinkUnavailable(f"a score was not accepted: {self._make_publishable(str(error), batch)}")

    def _unavailable(self, response: httpx.Response, batch: Batch) -> SinkUnavailable:
        """Return the error for a response after which the same request may succeed later."""
        words = self._make_publishable(_words_of(response), batch)
        if response.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            words += "; check public_key, secret_key and host"
        if response.status_code in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED} or response.is_redirect:
            words += "; check host"
        seconds = retry_after(response.headers)
        return SinkUnavailable(
            words, retry_after=None if seconds is None else min(seconds, _LONGEST_RETRY_AFTER_SECONDS)
        )

    def _make_publishable(self, words: str, batch: Batch) -> str:
        """Return words of the server without personal data, the key and quotations from the comments of the batch."""
        comments = (score["body"]["comment"] for score in batch if "comment" in score["body"])
        return make_publishable(words, comments, redact_by_default, api_key=self._settings.secret_key)

    # Scores

    def _scores(self, evaluation: Evaluation) -> Iterator[dict[str, Any]]:
        """Yield the scores of the criteria and the composite. A criterion without a score has none in Langfuse too."""
        for name, dimension in evaluation.dimensions.items():
            if dimension.score is not None:
                comment = _explanation(dimension) if self._settings.explanations else None
                yield self._event(evaluation, name, "NUMERIC", dimension.score, comment, option=dimension.option)
        composite = evaluation.composite
        if composite.score is not None:
            yield self._event(evaluation, COMPOSITE, "NUMERIC", composite.score, coverage=composite.coverage)
        yield self._event(evaluation, STATUS, "CATEGORICAL", composite.status.value)

    def _event(
        self,
        evaluation: Evaluation,
        name: str,
        data_type: str,
        value: float | str,
        comment: str | None = None,
        **details: Any,
    ) -> dict[str, Any]:
        score_id = str(uuid.uuid5(_NAMESPACE, f"{evaluation.evaluation_id}\n{data_type}\n{name}"))
        body = {
            "id": score_id,
            **self._target(evaluation),
            "name": encodable(name),
            "value": value,
            "dataType": data_type,
            "comment": None if comment is None else encodable(comment),
            "environment": self._settings.environment,
            "metadata": _drop_missing(
                {
                    "evaluation_id": evaluation.evaluation_id,
                    "interaction_id": encodable(evaluation.interaction_id),
                    "app": None if evaluation.app is None else encodable(evaluation.app),
                    "fingerprint": evaluation.evaluator.fingerprint,
                    "probability": evaluation.sampling.probability,
                    **details,
                }
            ),
        }
        # The time is part of a score's identity in Langfuse's storage, so it must not change when it is sent again.
        at = evaluation.evaluated_at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {"id": score_id, "type": "score-create", "timestamp": at, "body": _drop_missing(body)}

    def _target(self, evaluation: Evaluation) -> dict[str, str]:
        """Return the trace of the interaction, by its traceparent or else by its id."""
        original = parse_traceparent(evaluation.traceparent)
        if original is None:
            return {"traceId": encodable(evaluation.interaction_id)}
        if self._settings.level == "trace":
            return {"traceId": original.trace_id}
        return {"traceId": original.trace_id, "observationId": original.span_id}


def _batches(scores: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Divide scores into requests that are not too large."""
    rest = iter(scores)
    while chunk := list(islice(rest, _MAX_SCORES)):
        batch: list[dict[str, Any]] = []
        size = 0
        for score in chunk:
            # A text takes at most four bytes a character, plus escapes; measuring is exact.
            length = len(json.dumps(score)) + 2
            if batch and size + length > _MAX_BYTES:
                yield batch
                batch, size = [], 0
            batch.append(score)
            size += length
        yield batch


def _words_of(response: httpx.Response) -> str:
    return f"{response.status_code} {response.reason_phrase}: {response.text}"


def _explanation(dimension: Dimension) -> str | None:
    texts = [f"{verdict.judge}: {verdict.explanation}" for verdict in dimension.judges if verdict.explanation]
    return "\n".join(texts)[:_COMMENT_CHARS] or None


def _drop_missing(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}

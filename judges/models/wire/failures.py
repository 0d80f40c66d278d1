"""Reads an endpoint's errors: its message, when to retry, whether credit is exhausted, and which feature is missing."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from judges.models.wire.base import Feature, ModelRequest

# Endpoints word the refusal of a feature in their own ways; these are the words they have in common.
_WORDS: Mapping[Feature, str] = {
    "schema": r"response_format|json_schema|json schema|structured output|grammar|\bformat\b",
    "tool": r"tool_choice|\btools?\b|input_schema|function call",
    "json": r"response_format|json_object|json mode|\bformat\b",
    "likelihoods": r"logprob",
    "seed": r"\b(random_)?seed\b",
    "temperature": r"\btemperature\b",
    # The limit itself may be wrong under either name: only the advice to use the other one tells that the name is.
    "max_tokens": r"max_completion_tokens",
}
_ONE_SCHEMA = re.compile(
    r"(invalid|unsupported) (json )?schema|schema (is |was )?(invalid|error|conversion)|grammar error|"
    r"parse (the )?(grammar|schema)|input_schema\b|\bin (the )?schema\b"
)
# OpenAI says it with 429, Anthropic with 400; neither passes by waiting.
_NO_MONEY = re.compile(r"insufficient_quota|credit balance is too low|insufficient balance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What the endpoint does not do: at all, or only with the schema of this request."""

    feature: Feature
    of_schema: bool


def refusal_in(text: str, request: ModelRequest) -> Refusal | None:
    """The feature of the request that an error is about: the one it names as such, else the one it names first."""
    message, parameter = server_message(text).lower(), _parameter(text)
    for words in (parameter, message, text.lower()):
        named = [(found.start(), feature) for feature, found in _named(words, request)]
        if named:
            return Refusal(feature=min(named)[1], of_schema=_ONE_SCHEMA.search(message) is not None)
    return None


def _named(words: str, request: ModelRequest) -> list[tuple[Feature, re.Match[str]]]:
    found = [(feature, re.search(pattern, words)) for feature, pattern in _WORDS.items() if request.uses(feature)]
    return [(feature, match) for feature, match in found if match is not None]


def _parameter(text: str) -> str:
    """The parameter that OpenAI's form of errors names; only what stands at its beginning is one of ours."""
    try:
        error = json.loads(text).get("error")
        return str(error.get("param") or "").lower()
    except (ValueError, RecursionError, AttributeError):
        return ""


def is_out_of_money(text: str) -> bool:
    return _NO_MONEY.search(text.lower()) is not None


def server_message(text: str) -> str:
    """The message inside the error formats in use, or the text itself."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for key in ("error", "message", "detail"):
        if isinstance(value, dict) and value.get(key):
            value = value[key]
    return value if isinstance(value, str) else text


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds after which the endpoint asks to be tried again, when it says so."""
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

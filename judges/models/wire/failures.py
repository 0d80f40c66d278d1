"""Reads an endpoint's errors: its message, when to retry, whether credit is exhausted, and which feature is missing."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from judges.models.wire.base import Feature, ModelRequest

# Endpoints word the refusal of a feature differently; these are the words that they have in common.
_WORDS: Mapping[Feature, str] = {
    "schema": r"response_format|json_schema|json schema|structured output|grammar|\bformat\b",
    "tool": r"tool_choice|\btools?\b|input_schema|function call",
    "json": r"response_format|json_object|json mode|\bformat\b",
    "likelihoods": r"logprob",
    "seed": r"\b(random_)?seed\b",
    "temperature": r"\btemperature\b",
    # The value of the limit may be wrong under either name: only the advice to use the other name shows that the name
    # is wrong.
    "max_tokens": r"max_completion_tokens",
}
_ONE_SCHEMA = re.compile(
    r"(invalid|unsupported) (json )?schema|schema (is |was )?(invalid|error|conversion)|grammar error|"
    r"parse (the )?(grammar|schema)|input_schema\b|\bin (the )?schema\b"
)
# OpenAI sends it with 429, Anthropic with 400; waiting does not help with either.
_NO_MONEY = re.compile(r"insufficient_quota|credit balance is too low|insufficient balance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A feature that the endpoint refuses: always, or only with the schema of this request."""

    feature: Feature
    of_schema: bool


def refusal_in(text: str, request: ModelRequest) -> Refusal | None:
    """Return the feature of the request that an error refuses: the named parameter, or else the first one mentioned."""
    message, parameter = server_message(text).lower(), _parameter(text)
    for words in (parameter, message, text.lower()):
        mentions = [(match.start(), feature) for feature, match in _find_features(words, request)]
        if mentions:
            return Refusal(feature=min(mentions)[1], of_schema=_ONE_SCHEMA.search(message) is not None)
    return None


def _find_features(words: str, request: ModelRequest) -> list[tuple[Feature, re.Match[str]]]:
    matches = [(feature, re.search(pattern, words)) for feature, pattern in _WORDS.items() if request.uses(feature)]
    return [(feature, match) for feature, match in matches if match is not None]


def _parameter(text: str) -> str:
    """Return the parameter that an error in OpenAI's format names, which for a part of ours begins with our name."""
    try:
        error = json.loads(text).get("error")
        return str(error.get("param") or "").lower()
    except (ValueError, RecursionError, AttributeError):
        return ""


def is_out_of_money(text: str) -> bool:
    return _NO_MONEY.search(text.lower()) is not None


def server_message(text: str) -> str:
    """Return the message of an error in one of the common formats, or the text itself."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for key in ("error", "message", "detail"):
        if isinstance(value, dict) and value.get(key):
            value = value[key]
    return value if isinstance(value, str) else text


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds after which the endpoint asks for a retry, or None."""
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
    # A date with "-0000" is in UTC by the standard, and is parsed without a time zone.
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - datetime.now(UTC)).total_seconds()

"""Reads the parts that the answers of all APIs share; every value from an endpoint may have a wrong type."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from judges.models.base import Token

# No model reads or writes more in one call: a higher number is treated as missing.
_MOST_TOKENS = 10**8
# Between the words of a finish reason, as in `content_filter`, `CONTENT-FILTER` and `contentFilter`.
_WORD_BREAK = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")
# Some endpoints say more, such as `content_filter: RECITATION`.
_WITHHELD = ("content_filter", "refusal")


def count(value: object) -> int | None:
    """Return a number of tokens, or None if the value is not one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS else None


def section(value: object, key: str) -> Mapping[str, object]:
    """Return the object at a key, or an empty one."""
    member = value.get(key) if isinstance(value, dict) else None
    return member if isinstance(member, dict) else {}


def text(value: object) -> str | None:
    """Return a text that can be encoded in UTF-8: half a surrogate pair is replaced. None if the value is no text."""
    return encodable(value) if isinstance(value, str) else None


def encodable(text: str) -> str:
    """Replace lone surrogates, which JSON escapes can spell but which have no UTF-8 form."""
    return text.encode("utf-8", "replace").decode()


def text_parts(content: object) -> str | None:
    """Return the text of a list of parts, without the reasoning between them; None if there is no text part."""
    parts = content if isinstance(content, list) else []
    values = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    texts = [value for value in values if isinstance(value, str)]
    return text("".join(texts)) if texts else None


def has_refusal(content: object) -> bool:
    """Return whether a list of parts has one that refuses to answer."""
    parts = content if isinstance(content, list) else []
    return any(isinstance(part, dict) and part.get("type") == "refusal" for part in parts)


def finish_reason(reason: object, *, refused: bool = False) -> str | None:
    """Return a finish reason in one spelling, or that of a refusal; None if it is no text."""
    if refused:
        return "refusal"
    if not isinstance(reason, str):
        return None
    words = _WORD_BREAK.sub("_", reason).lower()
    return next((withheld for withheld in _WITHHELD if words.startswith(withheld)), words)


def call_inputs(message: Mapping[str, object]) -> list[str]:
    """Return the inputs of the tools that a message calls, including calls in an old or a wrong form."""
    calls = message.get("tool_calls")
    functions = [section(call, "function") for call in (calls if isinstance(calls, list) else [calls])]
    inputs = [function.get("arguments") for function in [*functions, section(message, "function_call")]]
    return [as_json(tool_input) for tool_input in inputs if tool_input is not None]


def as_json(tool_input: object) -> str:
    """Return the input of a tool as JSON; some endpoints send it as a text, others as an object."""
    return encodable(tool_input if isinstance(tool_input, str) else json.dumps(tool_input, ensure_ascii=False))


def join_inputs_and_text(inputs: Sequence[str], message: str | None) -> str | None:
    """Return the inputs of tools, or else the message; add the message to the inputs only if it may be an answer, too.

    The reader then sees both, and can refuse answers that contradict each other.
    """
    if not inputs:
        return message
    return "\n".join([*inputs, message] if message and "{" in message else inputs)


def tokens(entries: object) -> Iterator[Token]:
    """Yield the tokens with their alternatives, up to the first malformed entry."""
    for entry in entries if isinstance(entries, list) else ():
        chosen = _likelihood(entry)
        if chosen is None:
            return
        others = entry.get("top_logprobs")
        pairs = [_likelihood(other) for other in others] if isinstance(others, list) else []
        yield Token(text=chosen[0], likelihoods=dict([pair for pair in pairs if pair is not None] or [chosen]))


def _likelihood(entry: object) -> tuple[str, float] | None:
    token, logprob = (entry.get("token"), entry.get("logprob")) if isinstance(entry, dict) else (None, None)
    if not isinstance(token, str) or isinstance(logprob, bool) or not isinstance(logprob, int | float):
        return None
    try:
        return token, float(logprob)
    except OverflowError:  # an integer with hundreds of digits
        return None

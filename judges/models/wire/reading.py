"""Reads the parts that the answers of all APIs share; no value that an endpoint sends is trusted to be of its type."""

from collections.abc import Iterator, Mapping, Sequence

from judges.models.base import Token

# No model reads or writes so much in one call: who says so is as good as silent.
_MOST_TOKENS = 10**8


def count(value: object) -> int | None:
    """A number of tokens, None for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS else None


def section(value: object, key: str) -> Mapping[str, object]:
    """The object at a key, empty where there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def text(value: object) -> str | None:
    """A text that can be written down again: half a surrogate pair is replaced."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def text_parts(content: object) -> str | None:
    """The text of a list of parts, without the thoughts between them; None where there is no part with text."""
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    found = [part for part in texts if isinstance(part, str)]
    return text("".join(found)) if found else None


def together(inputs: Sequence[str], said: str | None) -> str | None:
    """The inputs of tools, else what was said; what was said besides is left out unless it may be an answer, too.

    Whoever reads the text then sees both, and can refuse two answers that contradict each other.
    """
    if not inputs:
        return said
    return "\n".join([*inputs, said] if said and "{" in said else inputs)


def tokens(entries: object) -> Iterator[Token]:
    """The tokens with their alternatives; a list that is not as it should be ends there."""
    for entry in entries if isinstance(entries, list) else ():
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

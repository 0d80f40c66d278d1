"""Bytes that look like traffic but are not an interaction, one kind per mistake of a producer."""

from enum import StrEnum
from random import Random

from stream.cli.demo.interaction import encode

_NESTING = 200


class Malformation(StrEnum):
    TRUNCATED = "truncated"
    BROKEN_UTF8 = "broken-utf8"
    WRONG_TYPE = "wrong-type"
    MISSING_QUESTION = "missing-question"
    MISSING_ID = "missing-id"
    ARRAY = "array"
    EMPTY = "empty"
    DUPLICATE_KEY = "duplicate-key"
    DEEP_NESTING = "deep-nesting"
    LOG_LINE = "log-line"


def corrupt(interaction: dict[str, object], kind: Malformation, rng: Random) -> bytes:  # noqa: PLR0911 one per kind
    """Break an interaction in one way; the result is invalid even where the last of two equal keys wins."""
    match kind:
        case Malformation.TRUNCATED:
            value = encode(interaction)
            return value[: rng.randint(1, len(value) - 1)]
        case Malformation.BROKEN_UTF8:
            return encode(interaction).replace(b'"answer":"', b'"answer":"\xc3\x28\xff ', 1)
        case Malformation.WRONG_TYPE:
            return encode({**interaction, "answer": rng.choice((17, 0.5, True, ["text"], {"text": "text"}))})
        case Malformation.MISSING_QUESTION:
            return encode(_without(interaction, "question"))
        case Malformation.MISSING_ID:
            return encode(_without(interaction, "id"))
        case Malformation.ARRAY:
            return encode([interaction])
        case Malformation.EMPTY:
            return b""
        case Malformation.DUPLICATE_KEY:
            return encode(interaction)[:-1] + b',"id":null}'
        case Malformation.DEEP_NESTING:
            return encode({**interaction, "question": _nest()})
        case Malformation.LOG_LINE:
            return _log_line(interaction, rng)


def _without(interaction: dict[str, object], field: str) -> dict[str, object]:
    return {name: value for name, value in interaction.items() if name != field}


def _nest() -> object:
    value: object = "How deep does this go?"
    for _ in range(_NESTING):
        value = [value]
    return value


def _log_line(interaction: dict[str, object], rng: Random) -> bytes:
    took = rng.randint(80, 4000)
    line = f"{interaction['timestamp']} INFO rag.service {interaction['app']} answered {interaction['id']} in {took} ms"
    return line.encode()

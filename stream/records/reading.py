"""Reads the bytes of one record into an interaction, or raises a clear error with the problem and its place."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from pydantic import ValidationError

from judges.criteria.problems import path_text
from judges.values.interaction import Interaction
from stream.config.sections.input import InputConfig, LimitsConfig
from stream.errors import RecordError
from stream.records.adapters import make_adapter

# A record can be wrong in a thousand places; three are enough to recognise its kind.
_PROBLEMS_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An interaction within the limits, and the paths of its truncated parts."""

    interaction: Interaction
    truncated: tuple[str, ...] = ()


class InteractionReader:
    """Reads records of the configured shape within the configured limits."""

    def __init__(self, config: InputConfig) -> None:
        self._limits = config.limits
        self._adapter = make_adapter(config)

    def read(self, value: bytes | None) -> Reading:
        fields = self._adapter.read(read_document(value, self._limits))
        try:
            interaction = Interaction.model_validate(fields)
        except ValidationError as error:
            raise RecordError("invalid_record", _describe(error)) from None
        return _apply_limits(interaction, self._limits)


def read_document(value: bytes | None, limits: LimitsConfig) -> dict[str, object]:
    """Read a record's value as a JSON object."""
    if not value:
        raise RecordError("empty", "the record has no value")
    if len(value) > limits.record_bytes:
        raise RecordError("too_large", f"{len(value)} bytes, the limit is {limits.record_bytes}")
    return strict_json(value, nesting=limits.nesting)


def strict_json(value: bytes, *, nesting: int) -> dict[str, object]:
    """Read a JSON object; refuse duplicate keys, NaN, lone surrogates and deeper nesting than allowed."""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError("bad_encoding", f"not UTF-8: {error.reason} at byte {error.start}") from None
    try:
        document = json.loads(text, object_pairs_hook=_build_object, parse_constant=_refuse_constant)
    except RecursionError:
        raise _too_deep(nesting) from None
    except ValueError as error:
        raise RecordError("bad_json", f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise RecordError("bad_json", f"must be a JSON object, not {_json_type(document)}")
    # A document is at most as deep as it has brackets, and counting brackets is faster than counting levels.
    if text.count("{") + text.count("[") > nesting and _deeper_than(document, nesting):
        raise _too_deep(nesting)
    if "\\u" in text:
        _refuse_surrogates(document)
    return document


def _apply_limits(interaction: Interaction, limits: LimitsConfig) -> Reading:
    """Refuse judged texts that are too long; truncate other texts that are too long, and list their paths."""
    texts = {"question": interaction.question, "answer": interaction.answer}
    texts |= {f"history[{index}].text": turn.text for index, turn in enumerate(interaction.history)}
    for path, text in texts.items():
        if len(text) > limits.text_chars:
            raise RecordError("too_long", f"{path}: {len(text)} characters, the limit is {limits.text_chars}")
    cut = []
    if len(interaction.contexts) > limits.contexts:
        cut.append(f"contexts[{limits.contexts}:]")
    contexts = list(interaction.contexts[: limits.contexts])
    for index, context in enumerate(contexts):
        if len(context.text) > limits.context_chars:
            contexts[index] = context.model_copy(update={"text": context.text[: limits.context_chars]})
            cut.append(f"contexts[{index}].text")
    if cut:
        interaction = interaction.model_copy(update={"contexts": tuple(contexts)})
    return Reading(interaction=interaction, truncated=tuple(cut))


def _build_object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    document: dict[str, object] = {}
    for name, value in pairs:
        if name in document:
            raise ValueError(f"duplicate key {name!r}")
        document[name] = value
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _deeper_than(document: object, nesting: int) -> bool:
    """Check level by level, so that no depth of input can exhaust the stack."""
    level: list[object] = [document]
    for _ in range(nesting):
        level = [child for node in level for child in _children(node)]
        if not level:
            return False
    return any(isinstance(node, dict | list) for node in level)


def _children(node: object) -> Sequence[object]:
    if isinstance(node, dict):
        return tuple(node.values())
    return node if isinstance(node, list) else ()


def _refuse_surrogates(document: object) -> None:
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise RecordError("bad_encoding", f"a lone surrogate \\u{ord(error.object[error.start]):04x}") from None


def _too_deep(nesting: int) -> RecordError:
    return RecordError("too_deep", f"nested deeper than {nesting} levels")


def _json_type(value: object) -> str:
    return {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}.get(type(value), "a number")


def _describe(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    named = [f"{path_text(problem['loc'])}: {problem['msg']}" for problem in problems[:_PROBLEMS_NAMED]]
    rest = len(problems) - len(named)
    return "; ".join(named) + (f"; and {rest} more" if rest else "")

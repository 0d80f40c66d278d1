"""Finds the question, the answer and messages in values of many shapes.

Frameworks log the input and output of a step as text, as JSON of their own objects, or as messages. A value that has no
known shape is taken as it is.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from stream.assembler.conventions.base import LoggedMessage, text_or_none

# Keys that lead to the question, or to the answer, the best first.
_QUESTION_KEYS: tuple[str, ...] = (
    "question",
    "query",
    "query_str",
    "user_input",
    "input",
    "inputs",
    "str_or_query_bundle",
    "query_bundle",
)
_QUESTION_KEYS += ("messages", "prompt", "text", "message", "content", "kwargs", "kwds", "args")
_ANSWER_KEYS: tuple[str, ...] = (
    "answer",
    "response",
    "output",
    "outputs",
    "result",
    "output_text",
    "text",
    "content",
    "message",
)
_ANSWER_KEYS += ("messages", "generations", "choices", "blocks", "kwargs", "data")

_USERS = frozenset({"user", "human"})
_ASSISTANTS = frozenset({"assistant", "ai", "model", "AIMessage", "AIMessageChunk"})
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant"}
# Values are data from outside: deeper ones are not searched.
_DEPTH = 12
# Names come from outside, too; without a limit they could fill the memory.
_NAMES_CACHED = 1_000


def question_in(value: Any) -> str | None:
    """Return the question in a logged input, or the whole text if it has no known shape."""
    return _find(value, _QUESTION_KEYS, _USERS)


def answer_in(value: Any) -> str | None:
    """Return the answer in a logged output, or the whole text if it has no known shape."""
    return _find(value, _ANSWER_KEYS, _ASSISTANTS)


def messages_in(value: Any) -> list[LoggedMessage]:
    """Return the messages in a logged conversation, as JSON or structured."""
    value = parse(value)
    if isinstance(value, dict):
        value = value.get("messages")
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    return [message for item in value if (message := _message(item))] if isinstance(value, list) else []


def last_message(messages: Sequence[LoggedMessage], role: str) -> str | None:
    for message in reversed(messages):
        if message.role == role:
            return message.text
    return None


def last_question(messages: Sequence[LoggedMessage]) -> str | None:
    return last_message(messages, "user")


def last_answer(messages: Sequence[LoggedMessage]) -> str | None:
    return last_message(messages, "assistant")


def before_question(messages: Sequence[LoggedMessage]) -> list[LoggedMessage]:
    """Return the turns of user and assistant before the last message of the user."""
    if not messages:
        return []
    last = max((place for place, message in enumerate(messages) if message.role == "user"), default=0)
    return [message for message in messages[:last] if message.role in {"user", "assistant"}]


def parse(value: Any) -> Any:
    """Return the content of a value that may be JSON."""
    if isinstance(value, str) and value[:1] in {"{", "[", '"'}:
        try:
            return msgspec.json.decode(value)
        except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
            return value
    return value


def numbered(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Return the items of numbered attributes, `prefix` + `N.rest`, in their order, by the rest of their names."""
    places = _places(tuple(attributes), prefix)
    return [{rest: attributes[name] for rest, name in item} for item in places]


@lru_cache(_NAMES_CACHED)
def _places(names: tuple[str, ...], prefix: str) -> list[list[tuple[str, str]]]:
    """Return the names of each numbered item with their rests. The spans of a service have the same few names."""
    items: dict[int, list[tuple[str, str]]] = {}
    for name in names:
        if name.startswith(prefix):
            number, _, rest = name[len(prefix) :].partition(".")
            if number.isdecimal() and len(number) <= 6:
                items.setdefault(int(number), []).append((rest, name))
    return [items[number] for number in sorted(items)]


def _find(value: Any, keys: Sequence[str], roles: frozenset[str]) -> str | None:
    parsed = parse(value)
    found = _search(parsed, keys, roles, _DEPTH)
    if found is None and isinstance(value, str) and not isinstance(parsed, str):
        return text_or_none(value)
    return found


def _search(value: Any, keys: Sequence[str], roles: frozenset[str], depth: int) -> str | None:
    if isinstance(value, str):
        return text_or_none(value)
    if depth == 0:
        return None
    if isinstance(value, dict):
        return _search_object(value, keys, roles, depth)
    if isinstance(value, list) and value:
        if any(_role_of(item) in roles for item in value):
            said = [text for item in value if _role_of(item) in roles and (text := _text_of(item))]
            return said[-1] if said else None
        # Of several items, the first text of an output, such as one of several generations.
        candidates: Iterator[str | None] = (_search(item, keys, roles, depth - 1) for item in value)
        return next((text for text in candidates if text), None)
    return None


def _search_object(value: Mapping[str, Any], keys: Sequence[str], roles: frozenset[str], depth: int) -> str | None:
    for key in keys:
        if key in value:
            text = _search(value[key], keys, roles, depth - 1)
            if text is not None:
                return text
    texts = [item for item in value.values() if isinstance(item, str) and item.strip()]
    return texts[0] if len(value) == 1 and texts else None


def _role_of(item: Any) -> str | None:
    """Return the role of a message, or None if it is not one."""
    if isinstance(item, list | tuple):
        return item[0] if len(item) == 2 and isinstance(item[0], str) else None
    if not isinstance(item, dict):
        return None
    inner = _inner(item)
    role = inner.get("role") or inner.get("type")
    return role if isinstance(role, str) else None


def _text_of(item: Any) -> str | None:
    """Return the text of a message."""
    if isinstance(item, list | tuple):
        return text_or_none(item[1])
    inner = _inner(item)
    for key in ("content", "text", "parts", "blocks"):
        text = _join(inner.get(key))
        if text is not None:
            return text
    return None


def _inner(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message within a serialised LangChain object."""
    for key in ("kwargs", "data"):
        inner = item.get(key)
        if isinstance(inner, dict) and "content" in inner:
            return {"type": item.get("type"), **inner}
    return item


def _join(content: Any) -> str | None:
    """Join the texts of a message's parts."""
    if isinstance(content, list):
        texts = [part if isinstance(part, str) else _part_text(part) for part in content]
        return text_or_none("\n".join(filter(None, texts)))
    return text_or_none(content)


def _part_text(part: Any) -> str | None:
    if not isinstance(part, dict) or part.get("type", "text") != "text":
        return None
    return text_or_none(part.get("content")) or text_or_none(part.get("text"))


def _message(item: Any) -> LoggedMessage | None:
    role, text = _role_of(item), None
    if role is not None:
        text = _text_of(item)
    return LoggedMessage(_ROLES.get(role or "", role or ""), text) if text is not None else None

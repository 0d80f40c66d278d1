"""Safety triggers: cheap signs that a record should be judged for safety, found without judging it."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from judges.llm.completion import is_refusal, strip_reasoning
from judges.local.assessors.harm import HarmLexicon
from judges.local.language.phrases import PhraseIndex
from judges.local.lexicon import plain
from stream.config.sections.sampling import SafetyConfig
from stream.records.adapters.base import BodyPath
from stream.records.body import BodyReader, Getter
from stream.records.conditions import Condition, compile_condition
from stream.records.facts import LazyRecord

_FEEDBACK_TAGS = ("feedback", "thumbs", "rating")
_NO = frozenset({"down", "thumbs_down", "thumbs-down", "thumbs down", "thumbsdown", "👎", "-1", "negative", "bad"})
_NO |= {"dislike", "disliked", "unhelpful", "not helpful", "not_helpful", "false", "no", "нет", "плохо", "не помогло"}

# A refusal says so at once; an apology later in the answer is about something else.
_BEGINNING_CHARS = 100

# Word separators; the patterns of the lexicon keep apostrophes.
_MARKS = '.,;:!?()[]{}"«»“”„*_-–—/\\<>|`#@…'
# No judge reads longer texts, and one record must not hold up the others.
_SCANNED_CHARS = 20_000

_EMPTY_LIST = re.compile(rb'\s*(?:\[\s*\]|"")\s*')


class WordList:
    """Finds words that speak of harm: all patterns of the local judge, without its exceptions, and the user's own.

    A mention is enough, even in a warning or a refusal: recall matters more than precision here.
    """

    def __init__(self, own: Iterable[str] = ()) -> None:
        self._lists = [HarmLexicon.load().phrases]
        if own_patterns := [_pattern(entry) for entry in own]:
            self._lists.append(PhraseIndex(own_patterns))

    def first(self, text: str) -> str | None:
        """Return the words of the first matching pattern, or None."""
        words = _words(text[:_SCANNED_CHARS])
        for phrases in self._lists:
            if matches := phrases.find(words):
                return " ".join(words[matches[0].start : matches[0].end])
        return None


def _words(text: str) -> list[str]:
    text = plain(text)
    for mark in _MARKS:
        if mark in text:
            text = text.replace(mark, " ")
    return text.split()


def _pattern(entry: str) -> str:
    return " ".join(_words(entry)) + ("*" if entry.endswith("*") else "")


class Triggers:
    """The triggers that the configuration names, the cheapest first."""

    def __init__(self, config: SafetyConfig, reader: BodyReader) -> None:
        self._reader = reader
        makers: dict[str, Callable[[], Callable[[Any], str | None]]] = {
            "empty_contexts": lambda: _empty_contexts(reader),
            "thumbs_down": lambda: _thumbs_down(config, reader),
            "refusal": lambda: _refusal(reader),
            "lexicon": lambda: _lexicon(config, reader),
        }
        self._triggers = [(name, make()) for name, make in makers.items() if name in config.triggers]

    def first(self, facts: LazyRecord) -> str | None:
        """Return the name of the first trigger that goes off, or None."""
        body = facts.body(self._reader)
        for name, sign in self._triggers:
            if sign(body) is not None:
                return name
        return None

    def all(self, facts: LazyRecord) -> dict[str, str | None]:
        """Return what set off each trigger, or None where it did not go off."""
        body = facts.body(self._reader)
        return {name: sign(body) for name, sign in self._triggers}


def fields_of_trigger(trigger: str, config: SafetyConfig) -> tuple[str, ...]:
    """Return the fields of an interaction that a trigger needs."""
    if trigger == "thumbs_down":
        return () if config.thumbs_down else ("tags",)
    return {"empty_contexts": ("contexts",), "refusal": ("answer",), "lexicon": ("answer", "question")}[trigger]


_Sign = Callable[[Any], str | None]
"""Describes what in a body sets a trigger off, or returns None."""


def _empty_contexts(reader: BodyReader) -> _Sign:
    """Detect a retrieval without results; a service that logs no contexts at all does not count."""
    get = reader.field_getter("contexts", parsed=False)

    def sign(body: Any) -> str | None:
        contexts = get(body)
        if isinstance(contexts, msgspec.Raw):
            empty = _EMPTY_LIST.fullmatch(memoryview(contexts)) is not None
        else:
            empty = isinstance(contexts, list | str) and not contexts
        return "contexts is empty" if empty else None

    return sign


def _thumbs_down(config: SafetyConfig, reader: BodyReader) -> _Sign:
    checks: list[tuple[str, Getter, Condition]]
    if config.thumbs_down:
        checks = [
            (path, reader.getter(BodyPath.parse(path)), compile_condition(check))
            for path, check in config.thumbs_down.items()
        ]
    else:
        checks = [(f"tag {name}", reader.tag_getter(name), _SaysNo()) for name in _FEEDBACK_TAGS]

    def sign(body: Any) -> str | None:
        for subject, get, check in checks:
            if check.holds(get(body)):
                return f"{subject} {check.words}"
        return None

    return sign


class _SaysNo(Condition):
    """The usual ways to log a thumbs-down. 0 is not among them: it may mean that no rating was given."""

    words, unmet = "is negative", "is not negative"

    def holds(self, value: object) -> bool:
        if isinstance(value, str):
            return value.strip().lower() in _NO
        return value is False or (isinstance(value, int | float) and value == -1)


def _refusal(reader: BodyReader) -> _Sign:
    get = reader.field_getter("answer")

    def sign(body: Any) -> str | None:
        answer = get(body)
        if not isinstance(answer, str):
            return None
        beginning = (strip_reasoning(answer) if "<think" in answer else answer).lstrip()[:_BEGINNING_CHARS]
        return "the answer starts like a refusal" if is_refusal(beginning) else None

    return sign


def _lexicon(config: SafetyConfig, reader: BodyReader) -> _Sign:
    lexicon = WordList(config.words)
    fields = [(name, reader.field_getter(name)) for name in ("answer", "question")]

    def sign(body: Any) -> str | None:
        for name, get in fields:
            text = get(body)
            if isinstance(text, str) and (words := lexicon.first(text)) is not None:
                return f"{name} contains {words!r}"
        return None

    return sign

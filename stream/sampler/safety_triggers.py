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
from stream.records.conditions import Condition, condition
from stream.records.facts import LazyRecord

_FEEDBACK_TAGS = ("feedback", "thumbs", "rating")
_NO = frozenset({"down", "thumbs_down", "thumbs-down", "thumbs down", "thumbsdown", "👎", "-1", "negative", "bad"})
_NO |= {"dislike", "disliked", "unhelpful", "not helpful", "not_helpful", "false", "no", "нет", "плохо", "не помогло"}

# Refusals say so at once; later on, regrets are about something else.
_BEGINNING_CHARS = 100

# What stands between words; the patterns of the lexicon keep apostrophes.
_MARKS = '.,;:!?()[]{}"«»“”„*_-–—/\\<>|`#@…'
# No judge reads longer texts, and one record must not hold up the others.
_SCANNED_CHARS = 20_000

_EMPTY_LIST = re.compile(rb'\s*(?:\[\s*\]|"")\s*')


class WordList:
    """Finds words that harm is spoken of with: the patterns of the local judge before it excuses any, and one's own.

    A mention is enough here, in a warning or a refusal too: to miss little matters more than to be right.
    """

    def __init__(self, own: Iterable[str] = ()) -> None:
        self._lists = [HarmLexicon.load().phrases]
        if own_patterns := [_pattern(entry) for entry in own]:
            self._lists.append(PhraseIndex(own_patterns))

    def first(self, text: str) -> str | None:
        """The words of the first pattern that is found; None where none is."""
        words = _words(text[:_SCANNED_CHARS])
        for phrases in self._lists:
            if found := phrases.find(words):
                return " ".join(words[found[0].start : found[0].end])
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
        known: dict[str, Callable[[], Callable[[Any], str | None]]] = {
            "empty_contexts": lambda: _empty_contexts(reader),
            "thumbs_down": lambda: _thumbs_down(config, reader),
            "refusal": lambda: _refusal(reader),
            "lexicon": lambda: _lexicon(config, reader),
        }
        self._triggers = [(name, make()) for name, make in known.items() if name in config.triggers]

    def first(self, facts: LazyRecord) -> str | None:
        """The name of the first trigger that goes off."""
        body = facts.body(self._reader)
        for name, sign in self._triggers:
            if sign(body) is not None:
                return name
        return None

    def all(self, facts: LazyRecord) -> dict[str, str | None]:
        """By trigger, what set it off; None where nothing did."""
        body = facts.body(self._reader)
        return {name: sign(body) for name, sign in self._triggers}


def fields_looked_at(trigger: str, config: SafetyConfig) -> tuple[str, ...]:
    """The fields of an interaction that a trigger cannot do without."""
    if trigger == "thumbs_down":
        return () if config.thumbs_down else ("tags",)
    return {"empty_contexts": ("contexts",), "refusal": ("answer",), "lexicon": ("answer", "question")}[trigger]


_Sign = Callable[[Any], str | None]
"""What set a trigger off in a body, in words; None where nothing did."""


def _empty_contexts(reader: BodyReader) -> _Sign:
    """Contexts that were looked for and not found; services that log none at all say nothing by it."""
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
    asked: list[tuple[str, Getter, Condition]]
    if config.thumbs_down:
        asked = [
            (path, reader.getter(BodyPath.parse(path)), condition(each)) for path, each in config.thumbs_down.items()
        ]
    else:
        asked = [(f"tag {name}", reader.tag_getter(name), _SaysNo()) for name in _FEEDBACK_TAGS]

    def sign(body: Any) -> str | None:
        for subject, get, each in asked:
            if each.holds(get(body)):
                return f"{subject} {each.words}"
        return None

    return sign


class _SaysNo(Condition):
    """The usual ways to log a thumb down. 0 is not among them: it may be a rating that was not given."""

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
            if isinstance(text, str) and (found := lexicon.first(text)) is not None:
                return f"{name} contains {found!r}"
        return None

    return sign

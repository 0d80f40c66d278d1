"""The finding of an assessor: a level of its dimension's scale, and the reason for it."""

from collections.abc import Iterable
from dataclasses import dataclass

from judges.values.interaction import Language
from judges.values.spans import AnswerSpan

_MAX_QUOTED = 3
_MAX_QUOTED_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    level: int | None
    """None: the dimension does not apply to this answer."""

    explanation: str
    spans: tuple[AnswerSpan, ...] | None = None
    """The sentences of the answer that were checked; None: the assessor names no sentences."""

    useful: tuple[bool, ...] | None = None
    """Whether each context is useful, instead of a level; None: the assessor gives a level."""


class CannotJudgeError(Exception):
    """The rules do not apply to this text, and a score would be a guess."""


def say(language: Language, *, en: str, ru: str) -> str:
    return ru if language == "ru" else en


def quote(items: Iterable[str], language: Language) -> str:
    """Return a few of the items in quotation marks, each once, and the number of further ones."""
    distinct = list(dict.fromkeys(shorten(item) for item in items))
    opening, closing = ("«", "»") if language == "ru" else ("'", "'")
    quotes = ", ".join(f"{opening}{item}{closing}" for item in distinct[:_MAX_QUOTED])
    more = len(distinct) - _MAX_QUOTED
    return quotes + (say(language, en=f" and {more} more", ru=f" и ещё {more}") if more > 0 else "")


def shorten(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MAX_QUOTED_CHARS else flat[: _MAX_QUOTED_CHARS - 1].rstrip() + "…"

"""The finding of an assessor: a level of its dimension's scale, and the reason for it."""

from collections.abc import Iterable
from dataclasses import dataclass

from judges.values.interaction import Language

_SHOWN = 3
_SHOWN_LENGTH = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    level: int | None
    """None: the dimension does not apply to this answer."""

    explanation: str


class CannotJudgeError(Exception):
    """The rules do not reach this text, and a number would be a guess."""


def say(language: Language, *, en: str, ru: str) -> str:
    return ru if language == "ru" else en


def quoted(items: Iterable[str], language: Language) -> str:
    """A few of the items in quotation marks, each once, and how many more there are."""
    distinct = list(dict.fromkeys(shorten(item) for item in items))
    left, right = ("«", "»") if language == "ru" else ("'", "'")
    shown = ", ".join(f"{left}{item}{right}" for item in distinct[:_SHOWN])
    more = len(distinct) - _SHOWN
    return shown + (say(language, en=f" and {more} more", ru=f" и ещё {more}") if more > 0 else "")


def shorten(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN_LENGTH else flat[: _SHOWN_LENGTH - 1].rstrip() + "…"

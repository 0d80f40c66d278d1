"""The corpus of texts that try to steer their judge, with placeholders filled in for that judge."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

Place = Literal["question", "answer", "context", "history"]
PLACES: tuple[Place, ...] = ("question", "answer", "context", "history")

_PADDING = "It was a quiet day, and nothing at all happened in the village by the river. " * 30
_CYRILLIC = str.maketrans("ace", "асе")
_FULL = {ord(char): ord(char) + 0xFEE0 for char in "0123456789abcdef"}
_TAGS = {ord(char): ord(char) + 0xE0000 for char in "0123456789abcdef"}
_MATH = {ord("0") + digit: 0x1D7CE + digit for digit in range(10)} | {
    ord("a") + letter: 0x1D41A + letter for letter in range(6)
}

# Ways to write a code differently so that a reader still takes it for the code.
DISGUISES: Mapping[str, Callable[[str], str]] = {
    "plain": str,
    "upper": str.upper,
    "full": lambda code: code.translate(_FULL),
    "zero": "\u200b".join,
    "cyrillic": lambda code: code.translate(_CYRILLIC),
    "tags": lambda code: code.translate(_TAGS),
    "spaced": " ".join,
    "accents": "\u0301".join,
    "math": lambda code: code.translate(_MATH),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    id: str
    kind: str
    language: str
    where: Place
    text: str

    def fill(self, *, best: str, native: str, code: str) -> str:
        """Return the text for a judge whose best verdict is `best`, in the form `native`, and this code."""
        text = self.text.replace("%NATIVE%", native).replace("%BEST%", best).replace("%PAD%", _PADDING)
        return re.sub(r"%CODE(?::(\w+))?%", lambda match: DISGUISES[match[1] or "plain"](code), text)


def load_attacks() -> tuple[Attack, ...]:
    entries = yaml.load(Path(__file__).with_name("attacks.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    return tuple(Attack(**entry) for entry in entries)


ATTACKS = load_attacks()

"""Prepares user texts for the archive: complete, redacted as for the judges, or left out (`archive.texts`)."""

import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from judges.models.redaction import Redactor
from judges.values.interaction import Interaction
from sinks.archive.published import JudgedExcerpt

# Compresses almost as well as the slowest level, in a third of the time.
_LEVEL = 1
# Enough to find an answer; PostgreSQL refuses to index a megabyte.
_SEARCHED_CHARS = 20_000
# A value that the end of an excerpt cuts in two is not recognised. The longest value with spaces is an IBAN.
_LONGEST_VALUE_CHARS = 42
_CUT = "…"

Redact = Callable[[Sequence[str]], Sequence[str]]


def compress(content: bytes) -> bytes:
    return zlib.compress(content, _LEVEL)


def decompress(content: bytes) -> bytes:
    return zlib.decompress(content)


def clean(text: str) -> str:
    """Replace the one character that PostgreSQL cannot store."""
    return text.replace("\x00", "\ufffd") if "\x00" in text else text


def searchable_texts(content: bytes) -> tuple[str, str]:
    """Return the question and the answer of stored texts as they are indexed.

    SQLite needs exactly these to remove words from its index. If this function changes, a migration must reindex all
    texts.
    """
    document = msgspec.json.decode(decompress(content))
    return clean(document["question"][:_SEARCHED_CHARS]), clean(document["answer"][:_SEARCHED_CHARS])


class TextPolicy:
    """Decides which texts are stored, and how."""

    def __init__(self, redactor: Redactor | None = None, *, keeps_texts: bool = True) -> None:
        self._redactor = redactor
        self.keeps_texts = keeps_texts

    def texts_of(self, interaction: Interaction) -> bytes:
        """Return the texts of an interaction, for `texts.content`."""
        reference = interaction.reference
        originals = [
            interaction.question,
            interaction.answer,
            *(turn.text for turn in interaction.history),
            *(context.text for context in interaction.contexts),
            *(() if reference is None else (reference,)),
        ]
        texts = iter(originals if self._redactor is None else self._redactor.redact(originals).texts)
        question, answer = next(texts), next(texts)
        document: dict[str, Any] = {
            "question": question,
            "answer": answer,
            "history": [{"role": turn.role, "text": next(texts)} for turn in interaction.history],
            "contexts": [
                {"id": context.id, "score": context.score, "text": next(texts)} for context in interaction.contexts
            ],
            "reference": None if reference is None else next(texts),
        }
        if answer != interaction.answer:
            # Spans refer to the answer as logged, not to the redacted one.
            document["answer_is_redacted"] = True
        return compress(msgspec.json.encode(document))

    def record_of(self, value: bytes) -> bytes:
        """Return the record of an evaluation, for `records.content`."""
        if self.keeps_texts and self._redactor is None:
            return compress(value)
        document: dict[str, Any] = msgspec.json.decode(value)
        places = list(_places_of_texts(document))
        if self.keeps_texts:
            _shorten_excerpt(document)
            for (part, name), text in zip(places, self._redact([part[name] for part, name in places]), strict=True):
                part[name] = text
        else:
            document["excerpt"] = None
            for part, name in places:
                part[name] = "" if name == "explanation" else None
        return compress(msgspec.json.encode(document))

    def excerpt_of(self, excerpt: JudgedExcerpt | None) -> tuple[str | None, str | None]:
        """Return excerpts of question and answer, for lists of evaluations."""
        if excerpt is None or not self.keeps_texts:
            return None, None
        texts: Sequence[str] = (excerpt.question, excerpt.answer)
        if self._redactor is not None:
            texts = self._redact([_drop_cut_value(text) for text in texts])
        return clean(texts[0]), clean(texts[1])

    def tags_of(self, tags: dict[str, Any]) -> dict[str, Any]:
        if self._redactor is None or not tags:
            return tags
        texts = [name for name, value in tags.items() if isinstance(value, str)]
        return tags | dict(zip(texts, self._redact([tags[name] for name in texts]), strict=True))

    def comment_of(self, comment: str | None) -> str | None:
        """Return the comment of a label, which may quote an answer."""
        if comment is None or not self.keeps_texts:
            return None
        return clean(comment if self._redactor is None else self._redact([comment])[0])

    def _redact(self, texts: Sequence[str]) -> Sequence[str]:
        assert self._redactor is not None
        return self._redactor.redact(texts).texts


def _places_of_texts(document: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Return every field that may quote text of the user or the service."""
    parts: list[tuple[dict[str, Any], Sequence[str]]] = [
        (document.get("excerpt") or {}, ("question", "answer")),
        (document.get("tags") or {}, tuple(document.get("tags") or ())),
    ]
    for dimension in document["dimensions"].values():
        parts.append((dimension, ("detail",)))
        parts += [(verdict, ("explanation", "feedback", "detail")) for verdict in dimension.get("judges") or ()]
    return [(part, name) for part, names in parts for name in names if isinstance(part.get(name), str)]


def _shorten_excerpt(document: dict[str, Any]) -> None:
    excerpt = document.get("excerpt") or {}
    for name in ("question", "answer"):
        if isinstance(excerpt.get(name), str):
            excerpt[name] = _drop_cut_value(excerpt[name])


def _drop_cut_value(text: str) -> str:
    """Cut an excerpt before any value that its end may have cut in two."""
    if not text.endswith(_CUT):
        return text
    return re.sub(r"\S*\Z", "", text[: -len(_CUT)][:-_LONGEST_VALUE_CHARS]) + _CUT

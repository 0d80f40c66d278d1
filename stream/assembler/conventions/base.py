"""The contract of a convention, and the parts of an interaction that it reads from spans."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, ClassVar

import msgspec

from stream.assembler.otlp.spans import KeptSpan


class SpanRole(IntEnum):
    """The part of a span in a RAG service, the least specific first."""

    CHAIN = 0
    """A step around others: a workflow, an agent, a chain."""
    LLM = 1
    RETRIEVER = 2
    RERANKER = 3


MODELS = ("gen_ai.response.model", "gen_ai.request.model")
"""Attributes of the model, the more exact first: OpenLLMetry writes those of OpenTelemetry GenAI."""


class RetrievedText(msgspec.Struct, frozen=True, omit_defaults=True):
    """A retrieved document, as it is in an interaction."""

    text: str
    id: str | None = None
    score: float | None = None


class LoggedMessage(msgspec.Struct, frozen=True):
    """A message of a conversation, as it is in an interaction."""

    role: str
    text: str


class SpanConvention(ABC):
    """Reads the attributes of one convention; what a span does not have is None or empty."""

    attributes: ClassVar[frozenset[str]]
    """Names of the attributes that it reads ..."""
    prefixes: ClassVar[tuple[str, ...]] = ()
    """... and the beginnings of numbered ones."""
    events: ClassVar[frozenset[str]] = frozenset()
    """Names of the span events that it reads."""

    def reads(self, name: str) -> bool:
        """Return whether it reads an attribute."""
        return name in self.attributes or name.startswith(self.prefixes)

    @abstractmethod
    def role(self, span: KeptSpan) -> SpanRole | None:
        """Return the role of a span, or None if the span does not follow this convention."""

    @abstractmethod
    def question(self, span: KeptSpan) -> str | None: ...

    @abstractmethod
    def answer(self, span: KeptSpan) -> str | None: ...

    @abstractmethod
    def passages(self, span: KeptSpan) -> list[RetrievedText] | None:
        """Return the texts that a step retrieved; empty if it retrieved none, None if the span does not say."""

    def history(self, span: KeptSpan) -> list[LoggedMessage]:
        """Return the messages before the question."""
        return []

    def model(self, span: KeptSpan) -> str | None:
        return None

    def session(self, span: KeptSpan) -> str | None:
        return None


def texts_of(documents: list[Any], read: Callable[[Any], RetrievedText | None]) -> list[RetrievedText] | None:
    """Return the passages among documents; None if there are documents, but none has a text."""
    passages = [passage for item in documents if (passage := read(item))]
    return None if documents and not passages else passages


def text_or_none(value: Any) -> str | None:
    """Return a text that is not blank."""
    return value if isinstance(value, str) and value.strip() else None


def first_text(values: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """Return the first text that is not blank under one of the names."""
    for name in names:
        if (text := text_or_none(values.get(name))) is not None:
            return text
    return None


def first_id(values: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """Return the first id under one of the names."""
    for name in names:
        if (value := id_or_none(values.get(name))) is not None:
            return value
    return None


def number_or_none(value: Any) -> float | None:
    """Return a finite number."""
    return float(value) if type(value) in {int, float} and math.isfinite(value) else None


def id_or_none(value: Any) -> str | None:
    if isinstance(value, str):
        return value or None
    return str(value) if type(value) is int else None

"""OpenTelemetry GenAI: `gen_ai.input.messages`, `gen_ai.output.messages` and retrievals.

Messages and documents are JSON strings or structured values. Older versions of the convention put messages on an event.
"""

from typing import Any

from stream.assembler.conventions.base import (
    MODELS,
    LoggedMessage,
    RetrievedText,
    SpanConvention,
    SpanRole,
    first_text,
    id_or_none,
    number_or_none,
    text_or_none,
    texts_of,
)
from stream.assembler.conventions.texts import before_question, last_answer, last_question, messages_in, parse
from stream.assembler.otlp.spans import KeptSpan

OPERATION = "gen_ai.operation.name"
# Not a set: the value of an attribute may be a list, which has no hash.
OPERATIONS_OF_LLM = ("chat", "text_completion", "generate_content")
_INPUT, _OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
_QUERY, _DOCUMENTS = "gen_ai.retrieval.query.text", "gen_ai.retrieval.documents"
_SESSION = "gen_ai.conversation.id"
_EVENT = "gen_ai.client.inference.operation.details"


class GenAi(SpanConvention):
    """The semantic conventions of OpenTelemetry for generative AI."""

    attributes = frozenset({OPERATION, _INPUT, _OUTPUT, _QUERY, _DOCUMENTS, *MODELS, _SESSION})
    events = frozenset({_EVENT})

    def role(self, span: KeptSpan) -> SpanRole | None:
        operation = span.attributes.get(OPERATION)
        if operation in OPERATIONS_OF_LLM:
            return SpanRole.LLM
        if operation == "retrieval" or _DOCUMENTS in span.attributes:
            return SpanRole.RETRIEVER
        return SpanRole.CHAIN if operation or _value(span, _OUTPUT) is not None else None

    def question(self, span: KeptSpan) -> str | None:
        query = text_or_none(span.attributes.get(_QUERY))
        return query or last_question(messages_in(_value(span, _INPUT)))

    def answer(self, span: KeptSpan) -> str | None:
        return last_answer(messages_in(_value(span, _OUTPUT)))

    def history(self, span: KeptSpan) -> list[LoggedMessage]:
        return before_question(messages_in(_value(span, _INPUT)))

    def passages(self, span: KeptSpan) -> list[RetrievedText] | None:
        documents = parse(span.attributes.get(_DOCUMENTS))
        return texts_of(documents, _passage) if isinstance(documents, list) else None

    def model(self, span: KeptSpan) -> str | None:
        return first_text(span.attributes, MODELS)

    def session(self, span: KeptSpan) -> str | None:
        return id_or_none(span.attributes.get(_SESSION))


def _value(span: KeptSpan, name: str) -> Any:
    """Return an attribute of the span, or of its event."""
    if name in span.attributes:
        return span.attributes[name]
    for event in span.events:
        if name in event.attributes:
            return event.attributes[name]
    return None


def _passage(item: Any) -> RetrievedText | None:
    """Read a document; one without a text has only an id, which is no passage."""
    if isinstance(item, str):
        return RetrievedText(item) if item.strip() else None
    if not isinstance(item, dict):
        return None
    text = first_text(item, ("content", "text", "page_content"))
    return None if text is None else RetrievedText(text, id_or_none(item.get("id")), number_or_none(item.get("score")))

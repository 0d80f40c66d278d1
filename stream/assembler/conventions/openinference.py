"""OpenInference: the root's `input.value` and `output.value`, numbered messages and documents."""

from typing import Any

from stream.assembler.conventions.base import (
    LoggedMessage,
    RetrievedText,
    SpanConvention,
    SpanRole,
    id_or_none,
    number_or_none,
    text_or_none,
    texts_of,
)
from stream.assembler.conventions.texts import (
    answer_in,
    before_question,
    last_answer,
    last_question,
    messages_in,
    numbered,
    parse,
    question_in,
)
from stream.assembler.otlp.spans import KeptSpan

KIND = "openinference.span.kind"
INPUT, OUTPUT = "input.value", "output.value"
_MESSAGES, _REPLIES = "llm.input_messages.", "llm.output_messages."
_RETRIEVED, _RERANKED = "retrieval.documents.", "reranker.output_documents."
_MODEL, _SESSION = "llm.model_name", "session.id"
_NOTHING: tuple[Any, ...] = ([], {"documents": []})
_ROLES = {
    "LLM": SpanRole.LLM,
    "RETRIEVER": SpanRole.RETRIEVER,
    "RERANKER": SpanRole.RERANKER,
}


class OpenInference(SpanConvention):
    """The convention of Arize Phoenix and its instrumentations."""

    attributes = frozenset({KIND, INPUT, OUTPUT, _MODEL, _SESSION})
    prefixes = (_MESSAGES, _REPLIES, _RETRIEVED, _RERANKED)

    def role(self, span: KeptSpan) -> SpanRole | None:
        kind = span.attributes.get(KIND)
        if isinstance(kind, str):
            return _ROLES.get(kind.upper(), SpanRole.CHAIN)
        return SpanRole.CHAIN if OUTPUT in span.attributes else None

    def question(self, span: KeptSpan) -> str | None:
        return last_question(_messages(span, _MESSAGES)) or question_in(span.attributes.get(INPUT))

    def answer(self, span: KeptSpan) -> str | None:
        return last_answer(_messages(span, _REPLIES)) or answer_in(span.attributes.get(OUTPUT))

    def history(self, span: KeptSpan) -> list[LoggedMessage]:
        messages = _messages(span, _MESSAGES) or messages_in(span.attributes.get(INPUT))
        return before_question(messages)

    def passages(self, span: KeptSpan) -> list[RetrievedText] | None:
        items = numbered(span.attributes, _RERANKED) or numbered(span.attributes, _RETRIEVED)
        # A step without documents has no numbered attributes, and only its output says that there are none.
        return texts_of(items, _passage) if items or parse(span.attributes.get(OUTPUT)) in _NOTHING else None

    def model(self, span: KeptSpan) -> str | None:
        return text_or_none(span.attributes.get(_MODEL))

    def session(self, span: KeptSpan) -> str | None:
        return id_or_none(span.attributes.get(_SESSION))


def _passage(item: dict[str, Any]) -> RetrievedText | None:
    text = text_or_none(item.get("document.content"))
    if text is None:
        return None
    return RetrievedText(text, id_or_none(item.get("document.id")), number_or_none(item.get("document.score")))


def _messages(span: KeptSpan, prefix: str) -> list[LoggedMessage]:
    messages = []
    for item in numbered(span.attributes, prefix):
        text = text_or_none(item.get("message.content"))
        if text is None:  # several parts, of which the texts count
            parts = numbered(item, "message.contents.")
            texts = [part.get("message_content.text") for part in parts]
            text = text_or_none("\n".join(part for part in texts if isinstance(part, str)))
        if text is not None:
            messages.append(LoggedMessage(str(item.get("message.role", "")), text))
    return messages

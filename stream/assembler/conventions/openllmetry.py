"""OpenLLMetry: `traceloop.entity.input` and `.output`, numbered prompts, and events of vector databases.

Newer versions write the messages of LLM spans as OpenTelemetry GenAI does, which that convention reads.
"""

import re
from typing import Any

from stream.assembler.conventions.base import (
    MODELS,
    LoggedMessage,
    RetrievedText,
    SpanConvention,
    SpanRole,
    first_id,
    first_text,
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
    numbered,
    parse,
    question_in,
)
from stream.assembler.otlp.spans import KeptSpan

_INPUT, _OUTPUT = "traceloop.entity.input", "traceloop.entity.output"
_NAME, _KIND = "traceloop.entity.name", "traceloop.span.kind"
_OPERATION, _REQUEST = "gen_ai.operation.name", "llm.request.type"
_PROMPT, _COMPLETION = "gen_ai.prompt.", "gen_ai.completion."
_FIRST_PROMPT = f"{_PROMPT}0.content"
_SESSIONS = ("traceloop.association.properties.session_id", "traceloop.association.properties.session.id")
_RESULT = "db.query.result"
_RETRIEVES = re.compile("retrieve|retrieval", re.IGNORECASE)
_RERANKS = re.compile("rerank", re.IGNORECASE)


class OpenLlmetry(SpanConvention):
    """The convention of Traceloop's instrumentations."""

    attributes = frozenset({_INPUT, _OUTPUT, _NAME, _KIND, _OPERATION, _REQUEST, *MODELS, *_SESSIONS})
    prefixes = (_PROMPT, _COMPLETION)
    events = frozenset({_RESULT})

    def role(self, span: KeptSpan) -> SpanRole | None:
        attributes = span.attributes
        if attributes.get(_REQUEST) in ("chat", "completion") or _FIRST_PROMPT in attributes:
            return SpanRole.LLM
        if _has_results(span) or attributes.get(_OPERATION) == "vector_db_retrieve":
            return SpanRole.RETRIEVER
        if _NAME in attributes:
            name = str(attributes[_NAME])
            if _RERANKS.search(name) and self.passages(span):
                return SpanRole.RERANKER
            if _RETRIEVES.search(name) and self.passages(span):
                return SpanRole.RETRIEVER
        return SpanRole.CHAIN if _KIND in attributes or _OUTPUT in attributes else None

    def question(self, span: KeptSpan) -> str | None:
        return last_question(_messages(span, _PROMPT)) or _entity_text(span, _INPUT)

    def answer(self, span: KeptSpan) -> str | None:
        return last_answer(_messages(span, _COMPLETION)) or _entity_text(span, _OUTPUT)

    def history(self, span: KeptSpan) -> list[LoggedMessage]:
        return before_question(_messages(span, _PROMPT))

    def passages(self, span: KeptSpan) -> list[RetrievedText] | None:
        results = [event.attributes for event in span.events if event.name == _RESULT]
        return texts_of(results, _result) if results else _documents(parse(span.attributes.get(_OUTPUT)))

    def model(self, span: KeptSpan) -> str | None:
        return first_text(span.attributes, MODELS)

    def session(self, span: KeptSpan) -> str | None:
        return first_id(span.attributes, _SESSIONS)


def _has_results(span: KeptSpan) -> bool:
    return bool(span.events) and any(event.name == _RESULT for event in span.events)


def _entity_text(span: KeptSpan, name: str) -> str | None:
    value = span.attributes.get(name)
    if value is None:
        return None
    parsed = parse(value)
    if isinstance(parsed, dict):  # of a step: its own values, without the metadata around them
        parsed = {key: item for key, item in parsed.items() if key not in {"metadata", "tags"}}
        return question_in(parsed) if name == _INPUT else answer_in(parsed)
    return question_in(value) if name == _INPUT else answer_in(value)


def _messages(span: KeptSpan, prefix: str) -> list[LoggedMessage]:
    default = "user" if prefix == _PROMPT else "assistant"
    return [
        LoggedMessage(str(item.get("role", default)), text)
        for item in numbered(span.attributes, prefix)
        if (text := text_or_none(item.get("content")))
    ]


def _documents(value: Any) -> list[RetrievedText] | None:
    """Read the documents in the output of a retriever: LangChain's, LlamaIndex' nodes, or plain objects."""
    if isinstance(value, dict):
        value = next((value[key] for key in ("documents", "outputs", "source_nodes", "nodes") if key in value), None)
    return texts_of(value, lambda item: _document(parse(item))) if isinstance(value, list) else None


def _document(item: Any) -> RetrievedText | None:
    if not isinstance(item, dict):
        return None
    inner = next((item[key] for key in ("node", "kwargs") if isinstance(item.get(key), dict)), item)
    text = first_text(inner, ("page_content", "text", "content", "document"))
    if text is None:
        return None
    return RetrievedText(text, first_id(inner, ("id_", "id", "node_id")), number_or_none(item.get("score")))


def _result(attributes: dict[str, Any]) -> RetrievedText | None:
    """Read the event of one result of a vector database."""
    text = text_or_none(attributes.get(f"{_RESULT}.document"))
    if text is None:
        return None
    return RetrievedText(
        text, id_or_none(attributes.get(f"{_RESULT}.id")), number_or_none(attributes.get(f"{_RESULT}.score"))
    )

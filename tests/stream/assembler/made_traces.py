"""The same interaction as spans of all three conventions, and its interaction."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from benchmarks.span_data import ANSWER, PASSAGES, MadeSpan, encode, make_trace, trace_id_of
from stream.assembler.assembling import AssembledTrace, Assembling
from stream.assembler.otlp.decoding import SpanDecoder
from stream.assembler.otlp.filtering import AttributeFilter
from stream.assembler.otlp.spans import KeptSpan, SpanCounts
from stream.config.sections.otlp import OtlpConfig

NUMBER = 7
TRACE = trace_id_of(NUMBER)
ASKED = "How long do I have to return goods? (7)"


def openinference() -> list[MadeSpan]:
    return make_trace(NUMBER)


def gen_ai() -> list[MadeSpan]:
    """Messages and documents as JSON strings."""
    retriever, llm, root = make_trace(NUMBER)
    documents = [{"content": text, "id": f"kb-{place}"} for place, text in enumerate(PASSAGES)]
    prompt = "\n".join([*PASSAGES, ASKED])
    return [
        replace(
            retriever,
            attributes={
                "gen_ai.operation.name": "retrieval",
                "gen_ai.retrieval.query.text": ASKED,
                "gen_ai.retrieval.documents": json.dumps(documents),
            },
        ),
        replace(
            llm,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "atlas",
                "gen_ai.response.model": "atlas-mini",
                "gen_ai.input.messages": json.dumps([message("user", prompt)]),
                "gen_ai.output.messages": json.dumps([message("assistant", ANSWER)]),
            },
        ),
        replace(
            root,
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.conversation.id": "session-7",
                "gen_ai.input.messages": json.dumps([message("user", ASKED)]),
                "gen_ai.output.messages": json.dumps([message("assistant", ANSWER)]),
            },
        ),
    ]


def structured() -> list[MadeSpan]:
    """GenAI messages and documents as structured values."""

    def parsed(name: str, value: Any) -> Any:
        return json.loads(value) if name.endswith((".messages", ".documents")) else value

    return [
        replace(span, attributes={name: parsed(name, value) for name, value in span.attributes.items()})
        for span in gen_ai()
    ]


def openllmetry() -> list[MadeSpan]:
    """A workflow with a retriever as LangChain writes it, and numbered prompts."""
    retriever, llm, root = make_trace(NUMBER)
    documents = [{"page_content": text, "id": f"kb-{place}", "metadata": {}} for place, text in enumerate(PASSAGES)]
    return [
        replace(
            retriever,
            attributes={
                "traceloop.span.kind": "task",
                "traceloop.entity.name": "ShelfRetriever",
                "gen_ai.operation.name": "vector_db_retrieve",
                "traceloop.entity.input": json.dumps({"query": ASKED, "tags": [], "metadata": {}}),
                "traceloop.entity.output": json.dumps({"documents": documents}),
            },
        ),
        replace(
            llm,
            attributes={
                "llm.request.type": "chat",
                "gen_ai.request.model": "atlas",
                "gen_ai.response.model": "atlas-mini",
                "gen_ai.prompt.0.role": "user",
                "gen_ai.prompt.0.content": "\n".join([*PASSAGES, ASKED]),
                "gen_ai.completion.0.role": "assistant",
                "gen_ai.completion.0.content": ANSWER,
            },
        ),
        replace(
            root,
            attributes={
                "traceloop.span.kind": "workflow",
                "traceloop.association.properties.session_id": "session-7",
                "traceloop.entity.input": json.dumps({"inputs": ASKED, "tags": ["a"], "metadata": {"b": "c"}}),
                "traceloop.entity.output": json.dumps({"outputs": ANSWER, "kwargs": {"tags": []}}),
            },
        ),
    ]


def message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


MAKERS: Mapping[str, Callable[[], list[MadeSpan]]] = {
    "openinference": openinference,
    "gen_ai": gen_ai,
    "structured": structured,
    "openllmetry": openllmetry,
}


def keep(spans: Iterable[MadeSpan], config: OtlpConfig | None = None) -> list[KeptSpan]:
    """Decode spans from a record, as the assembler does."""
    decoder = SpanDecoder(AttributeFilter(config or OtlpConfig()), None)
    return [kept for span in spans for _, kept in decoder.read(encode([span]), SpanCounts())]


def assemble(spans: Iterable[MadeSpan], **otlp: Any) -> AssembledTrace:
    config = OtlpConfig.model_validate(otlp)
    return Assembling(config).assemble(TRACE, keep(spans, config))


def fields_of(assembled: AssembledTrace) -> dict[str, Any]:
    assert assembled.record is not None, assembled.outcome
    fields: dict[str, Any] = json.loads(assembled.record)
    return fields

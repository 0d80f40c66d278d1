"""Real RAG pipelines under real instrumentations, in the environment of `make instrumented`.

    python pipelines.py JSON, with "model_url", "otlp_url", "question" and "runs" (framework, shape, convention)

Every run has its own process, because the instrumentations patch the frameworks; the processes are forked after
the imports, which take most of the time. Spans are exported over OTLP. Each line of the output is one run as
JSON: its answer and trace id.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

# OpenTelemetry's own instrumentations record texts only on request.
os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
os.environ["LANGSMITH_TRACING"] = "false"

import openinference.instrumentation.langchain
import openinference.instrumentation.llama_index
import opentelemetry.instrumentation.genai.langchain
import opentelemetry.instrumentation.genai.llama_index
import opentelemetry.instrumentation.langchain
import opentelemetry.instrumentation.llamaindex
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough
from langchain_openai import ChatOpenAI
from llama_index.core import QueryBundle
from llama_index.core.base.base_retriever import BaseRetriever as LlamaRetriever
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.utils import get_tokenizer
from llama_index.llms.openai_like import OpenAILike
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

SERVICE = "shop-bot"
MODEL = "atlas-mini"
SESSION = "session-1"
SHELF = {
    "kb-7": "Goods can be returned within 30 days of delivery.",
    "kb-8": "Refunds are paid to the original card within 5 working days.",
    "kb-9": "The shop in Basel is open from 9 to 18 h on working days.",
}
"""What every retriever finds, best first."""

PROMPT = "Answer from these passages only.\n\n{context}\n\nQuestion: {question}"

Ask = Callable[[str], str]


# LangChain


class ShelfRetriever(BaseRetriever):
    """Finds the whole shelf."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [Document(id=key, page_content=text, metadata={"source": "shelf"}) for key, text in SHELF.items()]


class TracedShelfRetriever(ShelfRetriever):
    """Has a span of its own with the texts, which OpenTelemetry's instrumentation leaves out."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        with trace.get_tracer("shelf").start_as_current_span("retrieval shelf") as span:
            documents = super()._get_relevant_documents(query, run_manager=run_manager)
            texts = [{"content": document.page_content} for document in documents]
            span.set_attribute("gen_ai.operation.name", "retrieval")
            span.set_attribute("gen_ai.retrieval.query.text", query)
            span.set_attribute("gen_ai.retrieval.documents", json.dumps(texts))
            return documents


class SecondFirstRerankCompressor(BaseDocumentCompressor):
    """A reranker: the second passage first, then the first one."""

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        return [documents[1], documents[0]]


def langchain_pipeline(model_url: str, shape: str) -> Ask:
    retriever: BaseRetriever = TracedShelfRetriever() if shape == "traced" else ShelfRetriever()
    if shape == "reranked":
        retriever = ContextualCompressionRetriever(
            base_retriever=retriever, base_compressor=SecondFirstRerankCompressor()
        )
    model = ChatOpenAI(model=MODEL, base_url=model_url, api_key="none", max_retries=0)  # type: ignore[arg-type]
    context = retriever | _joined
    chain: Runnable[str, str] = (
        {"context": context, "question": RunnablePassthrough()}  # type: ignore[assignment]
        | ChatPromptTemplate.from_messages([("system", "You work for a shop."), ("human", PROMPT)])
        | model
        | StrOutputParser()
    )
    return lambda question: chain.invoke(question, config={"metadata": {"session_id": SESSION}})


def _joined(documents: Sequence[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


# LlamaIndex


class ShelfLlamaRetriever(LlamaRetriever):
    """Finds the whole shelf."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        nodes = [TextNode(id_=key, text=text, metadata={"source": "shelf"}) for key, text in SHELF.items()]
        return [NodeWithScore(node=node, score=0.9 - 0.1 * place) for place, node in enumerate(nodes)]


class SecondFirstRerank(BaseNodePostprocessor):
    """A reranker: the second passage first, then the first one. It sends the events that LlamaIndex's own send."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        dispatcher = get_dispatcher(__name__)
        dispatcher.event(ReRankStartEvent(query=query_bundle, nodes=nodes, top_n=2, model_name="second-first"))
        best = [NodeWithScore(node=nodes[1].node, score=9.0), NodeWithScore(node=nodes[0].node, score=7.0)]
        dispatcher.event(ReRankEndEvent(nodes=best))
        return best


def llama_index_pipeline(model_url: str, shape: str) -> Ask:
    model = OpenAILike(
        model=MODEL, api_base=model_url, api_key="none", is_chat_model=True, context_window=4096, max_retries=0
    )
    engine = RetrieverQueryEngine.from_args(
        ShelfLlamaRetriever(),
        llm=model,
        node_postprocessors=[SecondFirstRerank()] if shape == "reranked" else [],
    )
    return lambda question: str(engine.query(question))


PIPELINES = {"langchain": langchain_pipeline, "llama_index": llama_index_pipeline}


# Conventions

INSTRUMENTORS = {
    ("langchain", "openinference"): openinference.instrumentation.langchain.LangChainInstrumentor,
    ("langchain", "openllmetry"): opentelemetry.instrumentation.langchain.LangchainInstrumentor,
    ("langchain", "opentelemetry"): opentelemetry.instrumentation.genai.langchain.LangChainInstrumentor,
    ("llama_index", "openinference"): openinference.instrumentation.llama_index.LlamaIndexInstrumentor,
    ("llama_index", "openllmetry"): opentelemetry.instrumentation.llamaindex.LlamaIndexInstrumentor,
    ("llama_index", "opentelemetry"): opentelemetry.instrumentation.genai.llama_index.LlamaIndexInstrumentor,
}


# Runs


class TraceIds(SpanProcessor):
    """Keeps the ids of all traces."""

    def __init__(self) -> None:
        self.ids: set[str] = set()

    def on_end(self, span: ReadableSpan) -> None:
        self.ids.add(trace.format_trace_id(span.get_span_context().trace_id))


def run(assignment: dict[str, Any], framework: str, shape: str, convention: str) -> None:
    """Ask one question, export the spans and print the answer."""
    provider, traces = TracerProvider(resource=Resource({"service.name": SERVICE})), TraceIds()
    provider.add_span_processor(traces)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{assignment['otlp_url']}/v1/traces")))
    trace.set_tracer_provider(provider)
    # Without the last argument, an instrumentation that does not fit the framework would do nothing.
    INSTRUMENTORS[framework, convention]().instrument(tracer_provider=provider, raise_exception_on_conflict=True)
    answer = PIPELINES[framework](assignment["model_url"], shape)(assignment["question"])
    provider.shutdown()
    [trace_id] = traces.ids
    print(json.dumps({"run": [framework, shape, convention], "answer": answer, "trace_id": trace_id}), flush=True)


def run_in_child(assignment: dict[str, Any], names: Sequence[str]) -> bool:
    """Return whether the run succeeded."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    status = 1
    try:
        run(assignment, *names)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def main() -> int:
    assignment = json.loads(sys.argv[1])
    get_tokenizer()("loads its vocabulary once, for all runs")
    failed = [names for names in assignment["runs"] if not run_in_child(assignment, names)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

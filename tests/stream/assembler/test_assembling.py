"""Interactions from the spans of a trace: the same in every convention and any order, or an outcome with a name."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.span_data import ANSWER, PASSAGES, MadeSpan, as_document, encode
from judges.values.interaction import Interaction
from stream.assembler.assembling import Assembling, TraceOutcome
from stream.assembler.otlp.decoding import SpanDecoder
from stream.assembler.otlp.filtering import AttributeFilter, trace_filter
from stream.assembler.otlp.spans import SpanCounts
from stream.config.sections.otlp import OtlpConfig
from stream.config.sections.sampling import SamplingConfig
from stream.errors import RecordError
from stream.records.decision import Cohort
from tests.stream.assembler.made_traces import ASKED, MAKERS, TRACE, assemble, fields_of, openinference

CONTEXTS = [{"text": text, "id": f"kb-{place}"} for place, text in enumerate(PASSAGES)]


def with_attributes(span: MadeSpan, **more: Any) -> MadeSpan:
    return replace(span, attributes={**span.attributes, **{name.replace("__", "."): v for name, v in more.items()}})


@pytest.mark.parametrize("convention", MAKERS)
def test_all_conventions_lead_to_the_same_interaction(convention: str) -> None:
    fields = fields_of(assemble(MAKERS[convention]()))
    assert fields == {
        "id": TRACE.hex(),
        "question": ASKED,
        "answer": ANSWER,
        "timestamp": "2026-09-21T14:13:21+00:00",
        "app": "shop",
        "model": "atlas-mini",
        "contexts": CONTEXTS,
        "tags": {"session": "session-7"},
        "traceparent": f"00-{TRACE.hex()}-0000000000000001-01",
    }
    Interaction.model_validate(fields)


@given(convention=st.sampled_from(sorted(MAKERS)), data=st.data())
def test_order_and_repeats_change_nothing_and_losses_have_a_named_outcome(convention: str, data: st.DataObject) -> None:
    """Whatever spans are left, in whatever order: the interaction of these spans, or an outcome with a name."""
    whole = MAKERS[convention]()
    left = [span for span in whole if data.draw(st.booleans())]
    shuffled = data.draw(st.permutations(left))
    assembled = assemble(shuffled)
    assert assembled == assemble(left)
    retriever, llm, root = (span in left for span in whole)
    if len(left) == len(whole):
        assert assembled == assemble(whole)
    if not left:
        assert assembled.outcome is TraceOutcome.UNRELATED
    elif not root:
        assert assembled.outcome is TraceOutcome.NO_ROOT
    else:
        fields = fields_of(assembled)
        assert (fields["question"], fields["answer"]) == (ASKED, ANSWER)
        assert fields.get("contexts") == (CONTEXTS if retriever else None)
        assert fields.get("model") == ("atlas-mini" if llm else None)


def test_a_trace_of_another_kind_of_service_is_unrelated() -> None:
    assert assemble([replace(openinference()[2], attributes={"http.method": "GET"})]).outcome is TraceOutcome.UNRELATED


@pytest.mark.parametrize(
    ("attributes", "outcome"),
    [
        ({"openinference.span.kind": "CHAIN", "output.value": ANSWER}, TraceOutcome.NO_QUESTION),
        ({"openinference.span.kind": "CHAIN", "input.value": ASKED}, TraceOutcome.NO_ANSWER),
        ({"openinference.span.kind": "CHAIN", "input.value": "", "output.value": " "}, TraceOutcome.NO_QUESTION),
    ],
)
def test_a_trace_without_a_question_or_an_answer_has_an_outcome(attributes: Any, outcome: TraceOutcome) -> None:
    assert assemble([replace(openinference()[2], attributes=attributes)]).outcome is outcome


@pytest.mark.parametrize("convention", MAKERS)
def test_below_a_web_server_the_topmost_span_of_a_convention_has_question_and_answer(convention: str) -> None:
    """The root is the span of a web server, which follows no convention."""
    retriever, llm, chain = MAKERS[convention]()
    server = replace(chain, span_id=b"rootroot", attributes={"http.method": "POST"})
    spans = [retriever, llm, replace(chain, parent_id=server.span_id), server]
    fields = fields_of(assemble(spans))
    assert (fields["question"], fields["answer"]) == (ASKED, ANSWER)
    assert fields["contexts"] == CONTEXTS


def test_the_reranker_decides_about_contexts() -> None:
    retriever, llm, root = openinference()
    reranker = replace(
        retriever,
        span_id=b"reranker",
        start=retriever.end,
        end=llm.start,
        attributes={
            "openinference.span.kind": "RERANKER",
            "reranker.output_documents.0.document.content": PASSAGES[1],
            "reranker.output_documents.0.document.score": 0.75,
        },
    )
    fields = fields_of(assemble([reranker, retriever, llm, root]))
    assert fields["contexts"] == [{"text": PASSAGES[1], "score": 0.75}]


def test_only_retrievers_that_ended_before_the_last_llm_span_count() -> None:
    retriever, llm, root = openinference()
    late = replace(
        retriever,
        span_id=b"too-late",
        end=llm.start + 1,
        attributes={"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": "Too late."},
    )
    assert fields_of(assemble([late, retriever, llm, root]))["contexts"] == CONTEXTS
    # A first LLM that rewrites the question is not the one that answers.
    rewriter = replace(llm, span_id=b"rewriter", start=retriever.start - 10, end=retriever.start - 1)
    assert fields_of(assemble([rewriter, retriever, llm, root]))["contexts"] == CONTEXTS


def test_of_a_retriever_within_another_only_the_outer_one_counts() -> None:
    retriever, llm, root = openinference()
    inner = replace(
        retriever,
        span_id=b"in-inner",
        parent_id=retriever.span_id,
        attributes={"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": "Dropped."},
    )
    assert fields_of(assemble([inner, retriever, llm, root]))["contexts"] == CONTEXTS


@pytest.mark.parametrize(
    ("output", "contexts"), [('{"documents": []}', []), ("[]", []), ("unknown", None), ('["a node"]', None)]
)
def test_no_contexts_are_distinguished_from_unknown_ones(output: str, contexts: Any) -> None:
    retriever, llm, root = openinference()
    silent = replace(retriever, attributes={"openinference.span.kind": "RETRIEVER", "output.value": output})
    assert fields_of(assemble([silent, llm, root])).get("contexts") == contexts


def test_a_vector_database_reports_its_results_as_events() -> None:
    """OpenLLMetry: one event `db.query.result` for each result."""
    config = OtlpConfig()
    document = as_document(openinference())
    span = document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    span["attributes"] = []
    span["events"] = [
        {
            "name": "db.query.result",
            "attributes": [
                {"key": "db.query.result.id", "value": {"stringValue": "kb-1"}},
                {"key": "db.query.result.score", "value": {"doubleValue": 0.5}},
                {"key": "db.query.result.document", "value": {"stringValue": "Goods."}},
            ],
        }
    ]
    decoder = SpanDecoder(AttributeFilter(config), None)
    kept = [span for _, span in decoder.read(json.dumps(document).encode(), SpanCounts())]
    fields = fields_of(Assembling(config).assemble(TRACE, kept))
    assert fields["contexts"] == [{"text": "Goods.", "id": "kb-1", "score": 0.5}]


def test_configured_attributes_are_read_from_the_root_the_other_spans_and_the_resource() -> None:
    retriever, llm, root = openinference()
    spans = [
        with_attributes(retriever, shop__tenant="acme"),
        with_attributes(llm, shop__model="own-model", shop__attempt=3),
        with_attributes(root, shop__question="Short?", shop__answer="Yes."),
    ]
    attributes = {
        "question": "shop.question",
        "answer": "shop.answer",
        "model": "shop.model",
        "tenant": "shop.tenant",
        "app": "service.name",
        "tags": {"attempt": "shop.attempt", "service": "service.name", "missing": "shop.nothing"},
    }
    fields = fields_of(assemble(spans, attributes=attributes))
    assert (fields["question"], fields["answer"], fields["model"]) == ("Short?", "Yes.", "own-model")
    assert (fields["tenant"], fields["app"]) == ("acme", "shop")
    assert fields["tags"] == {"attempt": 3, "service": "shop", "session": "session-7"}


@pytest.mark.parametrize(
    "history",
    [
        {"chat": json.dumps([["user", "Hello"], ["assistant", "Hi!"], ["user", "How?"]])},
        {"chat": json.dumps([{"role": "user", "content": "Hello"}, {"role": "ai", "content": "Hi!"}, ["human", "?"]])},
        {
            "chat.0.message.role": "user",
            "chat.0.message.content": "Hello",
            "chat.1.message.role": "assistant",
            "chat.1.message.content": "Hi!",
            "chat.2.message.role": "user",
            "chat.2.message.content": "How?",
        },
    ],
)
def test_history_comes_from_a_configured_attribute(history: dict[str, str]) -> None:
    retriever, llm, root = openinference()
    spans = [retriever, replace(llm, attributes={**llm.attributes, **history}), root]
    fields = fields_of(assemble(spans, attributes={"history": "chat"}))
    assert fields["history"] == [{"role": "user", "text": "Hello"}, {"role": "assistant", "text": "Hi!"}]


# Decoding


def decoder(keeps: Any = None) -> SpanDecoder:
    return SpanDecoder(AttributeFilter(OtlpConfig()), keeps)


@given(
    st.dictionaries(
        st.sampled_from(["input.value", "output.value", "gen_ai.input.messages", "session.id"]),
        st.recursive(
            st.text() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
            max_leaves=6,
        ),
    )
)
def test_protobuf_and_json_are_read_alike(attributes: dict[str, Any]) -> None:
    span = replace(openinference()[2], attributes=attributes)
    document = json.dumps(as_document([span])).encode()
    assert decoder().read(encode([span]), SpanCounts()) == decoder().read(document, SpanCounts())


@pytest.mark.parametrize("name", ["gen_ai.operation.name", "llm.request.type", "openinference.span.kind"])
@pytest.mark.parametrize("value", [["chat"], {"a": 1}])
def test_a_list_or_an_object_instead_of_a_text_is_no_error(name: str, value: Any) -> None:
    """An error other than RecordError would end the assembler, and again after every restart."""
    spans = [replace(span, attributes={**span.attributes, name: value}) for span in openinference()]
    assert assemble(spans).outcome is TraceOutcome.ASSEMBLED


@given(st.binary(max_size=200) | st.text(max_size=50).map(lambda text: f'{{"resourceSpans": {text}'.encode()))
def test_bytes_that_are_not_spans_are_refused(value: bytes) -> None:
    """Other errors would end the assembler; some bytes are valid protobuf."""
    with suppress(RecordError):
        decoder().read(value, SpanCounts())


@pytest.mark.parametrize(
    "document",
    [
        "{}",
        '{"resourceSpans": 3}',
        '{"resourceSpans": [3]}',
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "' + "11" * 16 + '", "spanId": "' + "11" * 8 + '", '
        '"startTimeUnixNano": "x"}]}]}]}',
    ],
)
def test_json_of_another_shape_is_refused(document: str) -> None:
    with pytest.raises(RecordError, match="is not OTLP JSON"):
        decoder().read(document.encode(), SpanCounts())


def test_spans_of_streamjury_itself_and_spans_without_ids_are_left_out() -> None:
    own = replace(openinference()[0], scope="streamjury")
    bad = [replace(openinference()[0], trace_id=bytes(16)), replace(openinference()[0], span_id=b"short")]
    for value in (encode([own, *bad]), json.dumps(as_document([own, *bad])).encode()):
        for read in (decoder().read, decoder().split):
            counts = SpanCounts()
            assert not read(value, counts)
            assert (counts.own, counts.invalid) == (1, 2)


@pytest.mark.parametrize("is_json", [False, True])
def test_a_record_is_split_by_trace_and_keeps_all_of_its_spans(is_json: bool) -> None:
    first, second = openinference(), [replace(span, trace_id=b"another-trace-id") for span in openinference()]
    mixed = [span for pair in zip(first, second, strict=True) for span in pair]
    value = json.dumps(as_document(mixed)).encode() if is_json else encode(mixed)
    parts = decoder().split(value, SpanCounts())
    assert list(parts) == [TRACE, b"another-trace-id"]
    for trace_id, spans in ((TRACE, first), (b"another-trace-id", second)):
        assert decoder().read(parts[trace_id], SpanCounts()) == decoder().read(encode(spans), SpanCounts())


# Sampling


@pytest.mark.parametrize(
    ("sampling", "rate"),
    [
        ({"rate": 0.25}, 0.25),
        ({"rate": 0.1, "rules": [{"name": "a", "match": {"app": "shop"}, "rate": 0.5}]}, 0.5),
        ({"rate": 0.1, "safety": {"rate": 0.6}}, 0.6),
        ({"rate": 0.1, "safety": {}}, 1.0),
        ({"target_per_minute": 10, "max_rate": 0.5}, 1.0),
    ],
)
def test_only_traces_that_the_sampler_may_choose_are_kept(sampling: dict[str, Any], rate: float) -> None:
    """The sampler draws by the id of the trace; with a target it must see all traffic."""
    config = SamplingConfig.model_validate(sampling)
    keeps = trace_filter(config)
    ids = [number.to_bytes(16, "big") for number in range(1, 300)]
    chooses = Cohort(config.salt).chooser(rate)
    wanted = [trace_id for trace_id in ids if chooses(trace_id.hex().encode())]
    assert [trace_id for trace_id in ids if keeps is None or keeps(trace_id)] == wanted
    assert (keeps is None) == (rate == 1.0)

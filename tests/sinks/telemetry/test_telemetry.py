"""Telemetry on real connections: the data a collector receives, and failures of the collector."""

import logging
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from judges.values.evaluation import Evaluation
from sinks.base import Sink
from sinks.telemetry import JudgeModel, TelemetryError, TelemetrySettings, open_telemetry
from tests.parts.endpoints.collector import Collected, attributes_of, collectors, http_collector
from tests.parts.patience import patience
from tests.parts.server import free_port

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
AT = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
MODEL = JudgeModel(model="gpt-5-mini", provider="openai", address="judge.example", port=443)
SECRET = "Bearer geheim"


def verdict(judge: str = "mini", **more: Any) -> dict[str, Any]:
    scored = {"status": "scored", "score": 0.5, "level": 1, "option": "partly supported", "latency_ms": 250.0}
    asked = {
        "asked_at": AT - timedelta(milliseconds=300),
        "explanation": "It says “30 days”.",
        "samples": {"requested": 3, "valid": 2, "invalid": 1, "repairs": 1},
        "tokens": {"prompt": 812, "completion": 44},
        "cost_usd": 0.0002,
    }
    return {"judge": judge, **scored, **asked, **more}


def dimension(*verdicts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"status": "scored", "score": 0.5, "option": "partly supported", "judges": verdicts or (verdict(),), **more}


def evaluation(**more: Any) -> Evaluation:
    fields = {
        "evaluation_id": "e-1",
        "interaction_id": "i-1",
        "app": "shop",
        "tenant": "acme",
        "model": "assistant-7",
        "evaluator": {"fingerprint": "f00d", "criteria": ("groundedness",), "judges": ("mini",), "version": "1"},
        "sampling": {"probability": 0.25, "rule": "default", "lane": "main"},
        "evaluated_at": AT,
        "latency_ms": 400.5,
        "dimensions": {"groundedness": dimension()},
        "composite": {"score": 0.5, "status": "ok", "coverage": 1.0, "safety": {"level": 2, "status": "safe"}},
        "cost_usd": 0.0002,
        "traceparent": f"00-{TRACE}-{SPAN}-01",
        "excerpt": {"question": "May I return my shoes?", "answer": "Within 30 days."},
    }
    return Evaluation.model_validate({**fields, **more})


def settings(url: str, **more: Any) -> TelemetrySettings:
    return TelemetrySettings(**{"endpoint": url, "version": "1.2.3", "judges": {"mini": MODEL}, **more})


def send(collected: Collected, *evaluations: Evaluation, **more: Any) -> Collected:
    with open_telemetry(settings(collected.url, **{"close_seconds": 30 * patience(), **more})) as sink:
        for sent_evaluation in evaluations:
            sink.write([sent_evaluation])
    return collected


def nanoseconds(moment: datetime) -> int:
    return (moment - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1) * 1000


@pytest.fixture
def collector() -> Iterator[Collected]:
    with http_collector() as collected:
        yield collected


@pytest.fixture(autouse=True)
def _patient_exporters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exporters that drop a batch only after a time in which a busy collector answers."""
    monkeypatch.setattr("sinks.telemetry.exporters._EXPORT_SECONDS", 5 * patience())


@pytest.fixture
def unused_address() -> str:
    """An address without a listener."""
    return f"http://127.0.0.1:{free_port()}"


class TestSpans:
    @pytest.mark.parametrize("protocol", collectors)
    def test_an_evaluation_is_a_separate_trace_linked_to_the_interaction(self, protocol: str) -> None:
        with collectors[protocol]() as collected:
            send(collected, evaluation(), protocol=protocol, headers={"Authorization": SECRET})
        span = collected.span("evaluate")
        assert len(span.trace_id) == 16
        assert span.trace_id.hex() != TRACE
        assert span.parent_span_id == b""
        assert [(link.trace_id.hex(), link.span_id.hex()) for link in span.links] == [(TRACE, SPAN)]
        assert span.kind == Span.SPAN_KIND_INTERNAL
        assert span.end_time_unix_nano == nanoseconds(AT)
        assert span.end_time_unix_nano - span.start_time_unix_nano == 400_500_000
        assert span.status.code == Status.STATUS_CODE_UNSET
        assert all(headers["authorization"] == SECRET for headers in collected.headers)

    def test_its_attributes_say_what_was_evaluated_and_found(self, collector: Collected) -> None:
        assert attributes_of(send(collector, evaluation()).span("evaluate")) == {
            "streamjury.evaluation_id": "e-1",
            "streamjury.interaction_id": "i-1",
            "streamjury.app": "shop",
            "streamjury.model": "assistant-7",
            "streamjury.tenant": "acme",
            "streamjury.fingerprint": "f00d",
            "streamjury.sampling.probability": 0.25,
            "streamjury.sampling.rule": "default",
            "streamjury.sampling.lane": "main",
            "streamjury.composite.score": 0.5,
            "streamjury.composite.status": "ok",
            "streamjury.composite.coverage": 1.0,
            "streamjury.safety.status": "safe",
            "streamjury.cost_usd": 0.0002,
        }

    @pytest.mark.parametrize("protocol", collectors)
    def test_every_verdict_is_a_child_span_with_the_attributes_of_a_model_call(self, protocol: str) -> None:
        with collectors[protocol]() as collected:
            send(collected, evaluation(), protocol=protocol)
        root, span = collected.span("evaluate"), collected.span("chat gpt-5-mini")
        assert (span.trace_id, span.parent_span_id) == (root.trace_id, root.span_id)
        assert span.kind == Span.SPAN_KIND_CLIENT
        assert span.start_time_unix_nano == nanoseconds(AT - timedelta(milliseconds=300))
        assert span.end_time_unix_nano - span.start_time_unix_nano == 250_000_000
        assert attributes_of(span) == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-5-mini",
            "server.address": "judge.example",
            "server.port": 443,
            "gen_ai.usage.input_tokens": 812,
            "gen_ai.usage.output_tokens": 44,
            "gen_ai.evaluation.name": "groundedness",
            "gen_ai.evaluation.score.value": 0.5,
            "gen_ai.evaluation.score.label": "partly supported",
            "streamjury.judge": "mini",
            "streamjury.verdict.status": "scored",
            "streamjury.verdict.cached": False,
            "streamjury.samples.requested": 3,
            "streamjury.samples.valid": 2,
            "streamjury.samples.invalid": 1,
            "streamjury.samples.error": 0,
            "streamjury.samples.saved": 0,
            "streamjury.samples.repairs": 1,
            "streamjury.samples.retries": 0,
            "streamjury.cost_usd": 0.0002,
        }

    def test_a_judge_without_a_model_has_no_model_call(self, collector: Collected) -> None:
        local = verdict("local", asked_at=None, tokens=None, cost_usd=None)
        send(collector, evaluation(dimensions={"clarity": dimension(local)}))
        span = collector.span("judge local")
        assert span.kind == Span.SPAN_KIND_INTERNAL
        assert not {name for name in attributes_of(span) if name.startswith("gen_ai.") and "evaluation" not in name}
        assert span.start_time_unix_nano == collector.span("evaluate").start_time_unix_nano, "when nobody knows better"

    @pytest.mark.parametrize("protocol", collectors)
    def test_the_results_are_a_span_in_the_trace_of_the_interaction(self, protocol: str) -> None:
        with collectors[protocol]() as collected:
            send(collected, evaluation(), protocol=protocol)
        span = collected.span("evaluation results")
        assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, SPAN)
        own = collected.span("evaluate")
        assert [(link.trace_id, link.span_id) for link in span.links] == [(own.trace_id, own.span_id)]
        assert (span.start_time_unix_nano, span.end_time_unix_nano) == (nanoseconds(AT), nanoseconds(AT))
        about = {name: value for name, value in attributes_of(own).items() if name in attributes_of(span)}
        assert attributes_of(span) == {
            **about,
            "openinference.span.kind": "EVALUATOR",
            "evaluations.0.evaluation.name": "groundedness",
            "evaluations.0.evaluation.score": 0.5,
            "evaluations.0.evaluation.label": "partly supported",
            "evaluations.0.evaluation.annotator_kind": "LLM",
            "evaluations.0.evaluation.identifier": "e-1",
            "evaluations.1.evaluation.name": "composite",
            "evaluations.1.evaluation.score": 0.5,
            "evaluations.1.evaluation.label": "ok",
            "evaluations.1.evaluation.annotator_kind": "LLM",
            "evaluations.1.evaluation.identifier": "e-1",
        }
        assert about["streamjury.interaction_id"] == "i-1"
        assert {name for name, _version in collected.scopes} == {"streamjury"}

    def test_results_without_score_and_label_are_left_out_and_numbered_without_gaps(self, collector: Collected) -> None:
        failed = {"status": "insufficient", "score": None, "option": None, "reason": "timeout"}
        dimensions = {"clarity": dimension(verdict(**failed), **failed), "groundedness": dimension(verdict("local"))}
        attributes = attributes_of(
            send(collector, evaluation(dimensions=dimensions), explanations=True).span("evaluation results")
        )
        assert attributes["evaluations.0.evaluation.name"] == "groundedness"
        assert attributes["evaluations.0.evaluation.annotator_kind"] == "CODE"
        assert attributes["evaluations.0.evaluation.explanation"] == "It says “30 days”."
        assert attributes["evaluations.1.evaluation.name"] == "composite"
        assert "evaluations.2.evaluation.name" not in attributes

    @pytest.mark.parametrize(
        ("traceparent", "on_trace"), [(None, True), (f"00-{TRACE}-{SPAN}-00", True), (f"00-{TRACE}-{SPAN}-01", False)]
    )
    def test_without_a_sampled_trace_or_if_off_there_is_no_such_span(
        self, collector: Collected, traceparent: str | None, on_trace: bool
    ) -> None:
        send(collector, evaluation(traceparent=traceparent), on_trace=on_trace)
        assert "evaluation results" not in {span.name for span in collector.spans}
        assert collector.events

    def test_only_a_missing_score_that_should_exist_is_an_error(self, collector: Collected) -> None:
        failed = {"status": "insufficient", "score": None, "option": None, "reason": "timeout"}
        aside = {"status": "not_applicable", "score": None, "option": None, "reason": "nothing_to_judge"}
        withheld = {"score": None, "status": "safety_unknown", "coverage": 0.5, "safety": {"status": "unknown"}}
        dimensions = {
            "harmfulness": dimension(verdict("a", **failed), **failed),
            "groundedness": dimension(verdict("b", **aside), **aside),
        }
        send(collector, evaluation(dimensions=dimensions, composite=withheld))
        states = {span.name: (span.status.code, attributes_of(span).get("error.type")) for span in collector.spans}
        assert states == {
            "evaluate": (Status.STATUS_CODE_ERROR, "safety_unknown"),
            "judge a": (Status.STATUS_CODE_ERROR, "timeout"),
            "judge b": (Status.STATUS_CODE_UNSET, None),
            "evaluation results": (Status.STATUS_CODE_UNSET, None),
        }
        assert "streamjury.composite.score" not in attributes_of(collector.span("evaluate"))
        results = {
            str(attributes_of(event)["gen_ai.evaluation.name"]): attributes_of(event) for event in collector.events
        }
        assert results["harmfulness"]["error.type"] == "timeout"
        assert results["composite"]["error.type"] == "safety_unknown"
        assert results["groundedness"]["gen_ai.evaluation.score.label"] == "not_applicable"
        assert "error.type" not in results["groundedness"]
        assert not any("gen_ai.evaluation.score.value" in result for result in results.values())

    @pytest.mark.parametrize("parent", [None, "", "00-zz-b7-01", f"00-{'0' * 32}-{SPAN}-01"])
    def test_an_interaction_without_a_trace_has_no_link(self, collector: Collected, parent: str | None) -> None:
        send(collector, evaluation(traceparent=parent))
        assert not collector.span("evaluate").links

    def test_it_says_which_service_sends(self, collector: Collected) -> None:
        send(collector, evaluation(), service_name="judges-eu")
        names = {"service.name": "judges-eu", "service.version": "1.2.3"}
        assert all(names.items() <= resource.items() for resource in collector.resources)
        assert len({resource["service.instance.id"] for resource in collector.resources}) == 1
        assert collector.scopes == [("streamjury", "1.2.3")]


class TestEvents:
    @pytest.mark.parametrize("protocol", collectors)
    def test_every_result_is_an_event_of_the_span_that_was_evaluated(self, protocol: str) -> None:
        with collectors[protocol]() as collected:
            send(collected, evaluation(), protocol=protocol)
        assert {attributes_of(event)["gen_ai.evaluation.name"] for event in collected.events} == {
            "groundedness",
            "composite",
        }
        for event in collected.events:
            assert event.event_name == "gen_ai.evaluation.result"
            assert (event.trace_id.hex(), event.span_id.hex(), event.flags) == (TRACE, SPAN, 1)
            assert event.time_unix_nano == nanoseconds(AT)
        shared = {
            "streamjury.evaluation_id": "e-1",
            "streamjury.interaction_id": "i-1",
            "streamjury.app": "shop",
            "streamjury.sampling.probability": 0.25,
        }
        assert attributes_of(collected.event("groundedness")) == {
            "gen_ai.evaluation.name": "groundedness",
            "gen_ai.evaluation.score.value": 0.5,
            "gen_ai.evaluation.score.label": "partly supported",
            **shared,
        }
        assert attributes_of(collected.event("composite")) == {
            "gen_ai.evaluation.name": "composite",
            "gen_ai.evaluation.score.value": 0.5,
            "gen_ai.evaluation.score.label": "ok",
            **shared,
        }

    def test_without_a_trace_they_belong_to_the_evaluation_and_name_the_answer(self, collector: Collected) -> None:
        send(collector, evaluation(traceparent=None))
        own = collector.span("evaluate")
        for event in collector.events:
            assert (event.trace_id, event.span_id) == (own.trace_id, own.span_id)
            assert attributes_of(event)["gen_ai.response.id"] == "i-1"

    def test_explanations_are_sent_only_when_enabled(self, collector: Collected) -> None:
        send(collector, evaluation())
        assert "gen_ai.evaluation.explanation" not in attributes_of(collector.event("groundedness"))

    def test_explanations_name_their_judges_when_there_are_several(self, collector: Collected) -> None:
        several = dimension(verdict("mini"), verdict("maxi", explanation="It does."), verdict("mute", explanation=""))
        judged = evaluation(dimensions={"one": dimension(), "two": several, "none": dimension(verdict(explanation=""))})
        send(collector, judged, explanations=True)
        texts = {
            attributes_of(event)["gen_ai.evaluation.name"]: attributes_of(event).get("gen_ai.evaluation.explanation")
            for event in collector.events
        }
        both = "mini: It says “30 days”.\nmaxi: It does."
        assert texts == {"one": "It says “30 days”.", "two": both, "none": None, "composite": None}


def test_no_text_of_users_is_sent(collector: Collected) -> None:
    """Neither excerpts nor tags nor quotes in failures."""
    quoting = verdict(feedback="Return shoes", detail="cannot parse: return my shoes", explanation="about shoes")
    send(collector, evaluation(tags={"note": "shoes"}, dimensions={"clarity": dimension(quoting, detail="shoes")}))
    assert collector.spans
    assert collector.events
    assert "shoes" not in repr((collector.spans, collector.events))


@given(
    name=st.text(st.characters(), min_size=1, max_size=20),
    tokens=st.integers(0, 10**40),
    latency=st.floats(0, 1e300),
    moment=st.datetimes(timezones=st.just(UTC)),
)
def test_one_odd_evaluation_does_not_cost_the_batch(name: str, tokens: int, latency: float, moment: datetime) -> None:
    """With half a character, or a number or time too large for the wire, the collector still accepts the rest."""
    from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    from sinks.telemetry.spans import Recorder

    odd = verdict("mini", tokens={"prompt": tokens}, option=name, asked_at=moment, latency_ms=latency, explanation=name)
    plain = evaluation(dimensions={"clarity": dimension(odd)}, evaluated_at=moment, latency_ms=latency)
    strange = plain.model_copy(update={"interaction_id": name, "app": name, "tenant": name, "model": name})
    resource = Resource({})
    recorder = Recorder(resource, InstrumentationScope("x"), judges={"mini": MODEL}, explanations=True)
    spans, events = recorder.records(strange)
    encode_spans(spans).SerializeToString()
    encode_logs([ReadableLogRecord(event.log_record, resource) for event in events]).SerializeToString()
    assert all((span.start_time or 0) <= (span.end_time or 0) for span in spans)


@pytest.mark.slow
class TestCollectorsThatFail:
    @pytest.fixture(autouse=True)
    def end_threads(self) -> Iterator[None]:
        """Wait for the threads of a sink that was closed early, which would log during another test."""
        yield
        deadline = time.monotonic() + 30 * patience()
        while any(thread.name.startswith(("telemetry-flush", "OtelBatch")) for thread in threading.enumerate()):
            assert time.monotonic() < deadline, threading.enumerate()
            time.sleep(0.02)

    @pytest.mark.parametrize("protocol", collectors)
    def test_no_writer_waits_for_an_unreachable_collector(
        self, protocol: str, unused_address: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        sink = open_telemetry(settings(unused_address, protocol=protocol, close_seconds=0.5, headers={"x-key": SECRET}))
        assert seconds_of(lambda: write_many(sink, 2000)) < 4.0 * patience(), "2,000 evaluations, none of which waits"
        assert seconds_of(sink.close) < 1.5 * patience()
        assert "did not accept the last telemetry within 0.5 s" in caplog.text
        assert SECRET not in caplog.text
        assert "Traceback" not in caplog.text

    @pytest.mark.parametrize("protocol", collectors)
    def test_no_writer_waits_for_a_slow_collector(self, protocol: str) -> None:
        with collectors[protocol]() as collected:
            collected.delay = 3.0
            sink = open_telemetry(settings(collected.url, protocol=protocol, close_seconds=0.5))
            assert seconds_of(lambda: write_many(sink, 2000)) < 4.0 * patience()
            assert seconds_of(sink.close) < 1.5 * patience()

    @pytest.mark.parametrize("status", [401, 500, 503])
    def test_a_collector_that_refuses_is_logged_and_no_longer_waited_for(
        self, collector: Collected, status: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        collector.status = status
        sink = open_telemetry(settings(collector.url, close_seconds=0.5, headers={"authorization": SECRET}))
        write_many(sink, 10)
        wait_for_requests(collector, 2)
        assert seconds_of(sink.close) < 1.5 * patience()
        assert [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert SECRET not in caplog.text

    def test_evaluations_written_during_an_outage_arrive_after_it(self, collector: Collected) -> None:
        collector.status = 503
        with open_telemetry(settings(collector.url, close_seconds=10 * patience())) as sink:
            sink.write([evaluation()])
            wait_for_requests(collector, 2)
            collector.status = 200
        assert collector.span("evaluate")
        assert len(collector.events) == 2

    def test_the_queue_is_bounded_and_keeps_the_newest(
        self, collector: Collected, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        release, add_traces = threading.Event(), collector.add_traces

        def wait_and_add(request: ExportTraceServiceRequest) -> None:
            release.wait(60 * patience())
            add_traces(request)

        monkeypatch.setattr(collector, "add_traces", wait_and_add)
        with open_telemetry(settings(collector.url, close_seconds=20 * patience())) as sink:
            write_many(sink, 3000)  # three spans each, and 4,096 wait at most
            release.set()
        assert 4096 <= len(collector.spans) < 9000
        assert "e-2999" in {attributes_of(span).get("streamjury.evaluation_id") for span in collector.spans}

    def test_an_internal_error_loses_no_evaluation_and_is_logged_once(
        self, unused_address: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        broken = evaluation().model_copy(update={"composite": None})
        with open_telemetry(settings(unused_address, close_seconds=0.1)) as sink:
            for _ in range(3):
                sink.write([broken])
        assert caplog.text.count("cannot send telemetry for evaluation e-1") == 1

    def test_a_second_ctrl_c_ends_the_wait(self, unused_address: str) -> None:
        sink = open_telemetry(settings(unused_address, close_seconds=60))
        sink.write([evaluation()])
        assert seconds_of(lambda: sink.__exit__(KeyboardInterrupt)) < 2.0 * patience()

    def test_after_closing_no_evaluation_is_accepted_and_closing_again_does_nothing(self, collector: Collected) -> None:
        sink = open_telemetry(settings(collector.url))
        sink.close()
        sink.close()
        sink.write([evaluation()])
        assert collector.requests == 0


def write_many(sink: Sink, number: int) -> None:
    template = evaluation()
    for index in range(number):
        sink.write([template.model_copy(update={"evaluation_id": f"e-{index}"})])


def wait_for_requests(collected: Collected, number: int) -> None:
    deadline = time.monotonic() + 30 * patience()
    while collected.requests < number:
        assert time.monotonic() < deadline, f"{collected.requests} of {number} requests"
        time.sleep(0.01)


def seconds_of(work: Any) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


class TestSettings:
    @pytest.mark.parametrize(
        ("more", "words"),
        [
            ({"endpoint": "collector:4318"}, "endpoint: must be an http or https URL"),
            ({"endpoint": "http://user:geheim@collector:4318"}, "endpoint: must be an http or https URL"),
            ({"endpoint": "http://collector:4318?key=geheim"}, "endpoint: must be an http or https URL"),
            ({"endpoint": "http://collector:99999"}, "endpoint: must be an http or https URL"),
            ({"endpoint": "http://collector:4318/v1/traces"}, "endpoint: must be the base URL"),
            ({"endpoint": "http://collector:4317/otlp", "protocol": "grpc"}, "endpoint: must have no path with gRPC"),
            ({"headers": {"a b": "geheim"}}, "headers: must be a name of letters"),
            ({"headers": {"x-key": "geheim\nx: y"}}, "headers.x-key: must be printable ASCII"),
            ({"headers": {"x-key": " geheim"}}, "headers.x-key: must be printable ASCII"),
            ({"headers": {"x-key": "geheim…"}}, "headers.x-key: must be printable ASCII"),
            ({"headers": {"x-key": ""}}, "headers.x-key: must be printable ASCII"),
            ({"headers": {"x-bin": "geheim"}, "protocol": "grpc"}, "headers.x-bin: is a name reserved by gRPC"),
        ],
    )
    def test_invalid_settings_are_rejected_at_startup_without_showing_the_secret(
        self, more: dict[str, Any], words: str
    ) -> None:
        with pytest.raises(TelemetryError) as refused:
            settings(**{"url": "http://collector:4318", **_with_url(more)})
        assert str(refused.value).startswith(words)
        assert "geheim" not in str(refused.value)

    def test_they_do_not_show_their_secrets(self) -> None:
        assert SECRET not in repr(settings("http://collector:4318", headers={"authorization": SECRET}))

    def test_a_path_in_front_is_kept(self, collector: Collected) -> None:
        with open_telemetry(settings(f"{collector.url}/otlp/", close_seconds=30 * patience())) as sink:
            sink.write([evaluation()])
        assert collector.span("evaluate")

    @pytest.mark.parametrize("protocol", collectors)
    def test_a_client_that_is_not_installed_is_named_with_the_way_to_install_it(
        self, protocol: str, unused_address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module in ("trace_exporter", "_log_exporter"):
            monkeypatch.setitem(sys.modules, f"opentelemetry.exporter.otlp.proto.{protocol}.{module}", None)
        with pytest.raises(TelemetryError, match=r"reinstall Streamjury with the extra otel: '\.\[otel\]'"):
            open_telemetry(settings(unused_address, protocol=protocol))


def _with_url(more: dict[str, Any]) -> dict[str, Any]:
    return {"url" if name == "endpoint" else name: value for name, value in more.items()}


def test_the_page_names_every_attribute_that_is_sent_and_no_other(collector: Collected) -> None:
    failed = verdict(status="insufficient", score=None, option=None, reason="timeout", position_bias=True)
    withheld = {"score": None, "status": "incomplete", "coverage": 0.5, "safety": {"status": "safe"}}
    whole, partial = evaluation(), evaluation(dimensions={"clarity": dimension(failed)}, composite=withheld)
    send(collector, whole, partial.model_copy(update={"traceparent": None}), explanations=True)
    records: list[Span | LogRecord] = [*collector.spans, *collector.events]
    names = {re.sub(r"\.[0-9]+\.", ".N.", name) for record in records for name in attributes_of(record)}
    names |= {name for resource in collector.resources for name in resource if name.startswith("service.")}
    page = (Path(__file__).parents[3] / "docs" / "telemetry.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`([a-zN_.]+)`", row)} == names


def test_disabled_telemetry_does_not_load_opentelemetry() -> None:
    code = (
        "import sys, sinks.telemetry, stream.service.sinks; assert not [m for m in sys.modules if 'opentelemetry' in m]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60 * patience())


@pytest.mark.parametrize("protocol", collectors)
@pytest.mark.slow
def test_it_runs_without_a_warning_and_sets_nothing_global(protocol: str) -> None:
    """In a separate process without earlier imports, where every warning is an error."""
    code = f"""
from opentelemetry import trace, _logs
from sinks.telemetry import exporters
from tests.parts.endpoints.collector import collectors
from tests.sinks.telemetry.test_telemetry import evaluation, send
exporters._EXPORT_SECONDS = {5 * patience()}
with collectors[{protocol!r}]() as collected:
    send(collected, evaluation(), protocol={protocol!r})
assert collected.span("evaluate")
assert "Proxy" in type(trace.get_tracer_provider()).__name__
assert "Proxy" in type(_logs.get_logger_provider()).__name__
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60 * patience())

"""An evaluation in OpenTelemetry: one span for it, one for every verdict, and its results on the interaction's trace.

The results are there twice: as events of the conventions for generative AI
(github.com/open-telemetry/semantic-conventions-genai), and as a span with OpenInference's `evaluations`
(github.com/Arize-ai/openinference, spec/annotations.md). Names that neither has begin with `streamjury.`.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LogRecordLimits, ReadWriteLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from judges.models.wire.reading import encodable
from judges.values.evaluation import Dimension, Evaluation, JudgeVerdict
from judges.values.evaluation import Status as Found
from sinks.base import COMPOSITE
from sinks.telemetry.settings import JudgeModel
from sinks.telemetry.traceparent import TraceParent, parse_traceparent

Value = str | int | float | bool

EVENT = "gen_ai.evaluation.result"
RESULT_SPAN = "evaluation results"

# The conventions' word for an error without a class.
_OTHER_ERROR = "_OTHER"
_EXPLANATION_CHARS = 4096
_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)
_LARGEST_TIME = 2**64 - 1
_LARGEST_INT = 2**63 - 1


class Recorder:
    """Makes the spans and events of evaluations, afterwards, with the original times."""

    def __init__(
        self,
        resource: Resource,
        scope: InstrumentationScope,
        *,
        judges: Mapping[str, JudgeModel],
        explanations: bool,
        on_trace: bool = True,
    ) -> None:
        self._resource = resource
        self._scope = scope
        self._on_trace = on_trace
        self._judges = judges
        self._explanations = explanations
        self._ids = RandomIdGenerator()
        self._limits = LogRecordLimits()

    def records(self, evaluation: Evaluation) -> tuple[list[ReadableSpan], list[ReadWriteLogRecord]]:
        """Return spans, the evaluation's own first, and events."""
        original = parse_traceparent(evaluation.traceparent)
        root = self._new_context(self._ids.generate_trace_id())
        spans = [self._evaluation_span(evaluation, root, original)]
        for criterion, dimension in evaluation.dimensions.items():
            spans += [self._verdict_span(evaluation, root, criterion, verdict) for verdict in dimension.judges]
        if original is not None and original.sampled and self._on_trace:
            spans.append(self._result_span(evaluation, original, root))
        return spans, list(self._events(evaluation, root, original))

    # Spans

    def _evaluation_span(self, evaluation: Evaluation, own: SpanContext, link: TraceParent | None) -> ReadableSpan:
        composite = evaluation.composite
        error = composite.status.value if composite.score is None else None
        return ReadableSpan(
            "evaluate",
            context=own,
            kind=SpanKind.INTERNAL,
            resource=self._resource,
            instrumentation_scope=self._scope,
            attributes=_drop_missing({**_about(evaluation), **_outcome(evaluation), "error.type": error}),
            links=() if link is None else (Link(_remote(link)),),
            status=_status(error),
            start_time=_start_time(evaluation),
            end_time=_nanoseconds(evaluation.evaluated_at),
        )

    def _verdict_span(
        self, evaluation: Evaluation, parent: SpanContext, criterion: str, verdict: JudgeVerdict
    ) -> ReadableSpan:
        model = self._judges.get(verdict.judge)
        error = _error(verdict)
        started = _start_time(evaluation) if verdict.asked_at is None else _nanoseconds(verdict.asked_at)
        return ReadableSpan(
            f"judge {verdict.judge}" if model is None else f"chat {model.model}",
            context=self._new_context(parent.trace_id),
            parent=parent,
            kind=SpanKind.INTERNAL if model is None else SpanKind.CLIENT,
            resource=self._resource,
            instrumentation_scope=self._scope,
            attributes=_drop_missing(
                {**_model_attributes(model), **_verdict_attributes(criterion, verdict), "error.type": error}
            ),
            status=_status(error),
            start_time=started,
            end_time=_after(started, verdict.latency_ms),
        )

    def _result_span(self, evaluation: Evaluation, original: TraceParent, own: SpanContext) -> ReadableSpan:
        """Make the span with the results in the trace of the interaction, beneath the evaluated span.

        OpenInference puts results on the evaluated span itself, but that one ended long ago.
        """
        parent, at = _remote(original), _nanoseconds(evaluation.evaluated_at)
        return ReadableSpan(
            RESULT_SPAN,
            context=self._new_context(parent.trace_id),
            parent=parent,
            kind=SpanKind.INTERNAL,
            resource=self._resource,
            instrumentation_scope=self._scope,
            attributes=_drop_missing(
                {"openinference.span.kind": "EVALUATOR", **_about(evaluation), **self._openinference(evaluation)}
            ),
            links=(Link(own),),
            start_time=at,
            end_time=at,
        )

    def _openinference(self, evaluation: Evaluation) -> dict[str, Value | None]:
        """Return the results that have a score or a label, as OpenInference numbers and names them."""
        attributes: dict[str, Value | None] = {}
        results = [result for result in self._results(evaluation) if _has_result(result)]
        for number, result in enumerate(results):
            name = result["gen_ai.evaluation.name"]
            attributes |= {
                f"evaluations.{number}.evaluation.{key}": value
                for key, value in (
                    ("name", name),
                    ("score", result["gen_ai.evaluation.score.value"]),
                    ("label", result["gen_ai.evaluation.score.label"]),
                    ("explanation", result.get("gen_ai.evaluation.explanation")),
                    ("annotator_kind", self._annotator_kind(evaluation, name)),
                    ("identifier", evaluation.evaluation_id),
                )
            }
        return attributes

    def _annotator_kind(self, evaluation: Evaluation, name: Value | None) -> str:
        """Return `LLM` if a model took part in the result, or else `CODE`."""
        named = [evaluation.dimensions[str(name)]] if name in evaluation.dimensions else evaluation.dimensions.values()
        asked = (verdict.judge in self._judges for dimension in named for verdict in dimension.judges)
        return "LLM" if any(asked) else "CODE"

    def _new_context(self, trace_id: int) -> SpanContext:
        span_id = self._ids.generate_span_id()
        return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    # Events

    def _events(
        self, evaluation: Evaluation, own: SpanContext, original: TraceParent | None
    ) -> Iterator[ReadWriteLogRecord]:
        """Yield events on the evaluated span; if it is unknown, on our own span, with the id of the answer."""
        span = own if original is None else _remote(original)
        context = set_span_in_context(NonRecordingSpan(span), Context())
        shared: dict[str, Value | None] = {
            "gen_ai.response.id": evaluation.interaction_id if original is None else None,
            "streamjury.evaluation_id": evaluation.evaluation_id,
            "streamjury.interaction_id": evaluation.interaction_id,
            "streamjury.app": evaluation.app,
            "streamjury.sampling.probability": evaluation.sampling.probability,
        }
        for result in self._results(evaluation):
            record = LogRecord(
                timestamp=_nanoseconds(evaluation.evaluated_at),
                context=context,
                severity_number=SeverityNumber.INFO,
                severity_text="INFO",
                event_name=EVENT,
                attributes=_drop_missing({**result, **shared}),
            )
            yield ReadWriteLogRecord(record, self._resource, self._scope, self._limits)

    def _results(self, evaluation: Evaluation) -> Iterator[dict[str, Value | None]]:
        for name, dimension in evaluation.dimensions.items():
            nothing = dimension.status is Found.NOT_APPLICABLE
            yield {
                "gen_ai.evaluation.name": name,
                "gen_ai.evaluation.score.value": dimension.score,
                "gen_ai.evaluation.score.label": dimension.status.value if nothing else dimension.option,
                "gen_ai.evaluation.explanation": _explanation(dimension) if self._explanations else None,
                "error.type": _error(dimension),
            }
        score, status = evaluation.composite.score, evaluation.composite.status.value
        yield {
            "gen_ai.evaluation.name": COMPOSITE,
            "gen_ai.evaluation.score.value": score,
            "gen_ai.evaluation.score.label": status,
            "error.type": status if score is None else None,
        }


# Attributes


def _has_result(result: Mapping[str, Value | None]) -> bool:
    keys = ("gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label")
    return any(result[key] is not None for key in keys)


def _about(evaluation: Evaluation) -> dict[str, Value | None]:
    return {
        "streamjury.evaluation_id": evaluation.evaluation_id,
        "streamjury.interaction_id": evaluation.interaction_id,
        "streamjury.app": evaluation.app,
        "streamjury.model": evaluation.model,
        "streamjury.tenant": evaluation.tenant,
        "streamjury.fingerprint": evaluation.evaluator.fingerprint,
        "streamjury.sampling.probability": evaluation.sampling.probability,
        "streamjury.sampling.rule": evaluation.sampling.rule,
        "streamjury.sampling.lane": evaluation.sampling.lane,
    }


def _outcome(evaluation: Evaluation) -> dict[str, Value | None]:
    composite = evaluation.composite
    return {
        "streamjury.composite.score": composite.score,
        "streamjury.composite.status": composite.status.value,
        "streamjury.composite.coverage": composite.coverage,
        "streamjury.safety.status": composite.safety.status.value,
        "streamjury.cost_usd": evaluation.cost_usd,
    }


def _model_attributes(model: JudgeModel | None) -> dict[str, Value | None]:
    if model is None:
        return {}
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": model.provider,
        "gen_ai.request.model": model.model,
        "server.address": model.address,
        "server.port": model.port,
    }


def _verdict_attributes(criterion: str, verdict: JudgeVerdict) -> dict[str, Value | None]:
    samples, tokens = verdict.samples, verdict.tokens
    return {
        "gen_ai.evaluation.name": criterion,
        "gen_ai.evaluation.score.value": verdict.score,
        "gen_ai.evaluation.score.label": verdict.option,
        "gen_ai.usage.input_tokens": None if tokens is None else tokens.prompt,
        "gen_ai.usage.output_tokens": None if tokens is None else tokens.completion,
        "streamjury.judge": verdict.judge,
        "streamjury.verdict.status": verdict.status.value,
        "streamjury.verdict.cached": verdict.cached,
        "streamjury.verdict.position_bias": verdict.position_bias,
        "streamjury.samples.requested": samples.requested,
        "streamjury.samples.valid": samples.valid,
        "streamjury.samples.invalid": samples.invalid,
        "streamjury.samples.error": samples.error,
        "streamjury.samples.saved": samples.saved,
        "streamjury.samples.repairs": samples.repairs,
        "streamjury.samples.retries": samples.retries,
        "streamjury.cost_usd": verdict.cost_usd,
    }


def _error(result: JudgeVerdict | Dimension) -> str | None:
    """Return why a score is missing; a criterion that does not apply is no error."""
    if result.status is not Found.INSUFFICIENT:
        return None
    return _OTHER_ERROR if result.reason is None else result.reason.value


def _status(error: str | None) -> Status:
    return Status() if error is None else Status(StatusCode.ERROR, error)


def _explanation(dimension: Dimension) -> str | None:
    texts = [(verdict.judge, verdict.explanation) for verdict in dimension.judges if verdict.explanation]
    if len(texts) == 1:
        return texts[0][1][:_EXPLANATION_CHARS]
    return "\n".join(f"{judge}: {text}" for judge, text in texts)[:_EXPLANATION_CHARS] or None


def _drop_missing(values: Mapping[str, Value | None]) -> dict[str, Value]:
    return {name: _encodable(value) for name, value in values.items() if value is not None}


def _encodable(value: Value) -> Value:
    """Make a value encodable; otherwise the whole batch would be lost."""
    if isinstance(value, str):
        return encodable(value)
    return min(value, _LARGEST_INT) if isinstance(value, int) else value


# Contexts and times


def _remote(parent: TraceParent) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if parent.sampled else TraceFlags.DEFAULT)
    return SpanContext(int(parent.trace_id, 16), int(parent.span_id, 16), is_remote=True, trace_flags=flags)


def _start_time(evaluation: Evaluation) -> int:
    return max(0, _nanoseconds(evaluation.evaluated_at) - _after(0, evaluation.latency_ms))


def _nanoseconds(moment: datetime) -> int:
    """Convert with integers only: a float of today's time is exact only to a quarter of a microsecond."""
    return min(max(0, (moment - _EPOCH) // _MICROSECOND * 1000), _LARGEST_TIME)


def _after(start: int, milliseconds: float) -> int:
    return min(start + max(0, round(milliseconds * 1_000_000)), _LARGEST_TIME)

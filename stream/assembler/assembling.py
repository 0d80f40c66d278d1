"""Makes an interaction of the spans of a trace, or names the reason why there is none.

The result depends on the set of spans alone, not on the order in which they came.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import msgspec

from stream.assembler.conventions import CONVENTIONS
from stream.assembler.conventions.base import LoggedMessage, RetrievedText, SpanConvention, SpanRole
from stream.assembler.conventions.texts import answer_in, before_question, messages_in, numbered, question_in
from stream.assembler.otlp.spans import KeptSpan
from stream.config.sections.otlp import OtlpAttributesConfig, OtlpConfig

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# As in an interaction: a longer name or tag would make the record invalid.
_NAME_CHARS, _TAG_CHARS = 256, 1024
SESSION_TAG = "session"
# Names come from outside; without a limit they could fill the memory.
_NAMES_CACHED = 1_000
_SECONDS_CACHED = 1_000


class TraceOutcome(StrEnum):
    """What became of a trace."""

    ASSEMBLED = "assembled"
    """An interaction was written."""
    UNRELATED = "unrelated"
    """No span follows one of the conventions: the trace is not one of a RAG service."""
    NO_ROOT = "no_root"
    """The root span did not come in time."""
    NO_QUESTION = "no_question"
    NO_ANSWER = "no_answer"
    TOO_LARGE = "too_large"
    """Its interaction is larger than `input.limits.record_bytes`, and was dead-lettered."""
    EVICTED = "evicted"
    """It was the oldest when there were too many open traces."""


class AssembledTrace(NamedTuple):
    """The outcome of a trace, and its interaction as JSON if there is one."""

    outcome: TraceOutcome
    record: bytes | None = None


class _Interaction(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The fields of an interaction in the order in which they are written."""

    id: str
    question: str
    answer: str
    timestamp: str | None = None
    app: str | None = None
    tenant: str | None = None
    model: str | None = None
    history: Sequence[LoggedMessage] = []
    contexts: list[RetrievedText] | None = None
    tags: dict[str, object] = {}
    traceparent: str


_ENCODER = msgspec.json.Encoder()
_ORDER = attrgetter("start", "span_id")


class _ReadSpan(NamedTuple):
    span: KeptSpan
    role: SpanRole
    conventions: Sequence[SpanConvention]
    """The conventions that it follows."""


class Assembling:
    """Assembles traces as configured."""

    def __init__(self, config: OtlpConfig) -> None:
        self._conventions: Sequence[SpanConvention] = [CONVENTIONS[name] for name in config.conventions]
        self._attributes = config.attributes
        # The spans of a service have the same few names.
        self._readers = lru_cache(_NAMES_CACHED)(self._find_readers)

    def assemble(self, trace_id: bytes, spans: Iterable[KeptSpan]) -> AssembledTrace:
        """Assemble a finished trace."""
        ordered = sorted(spans, key=_ORDER)
        read = [item for span in ordered if (item := self._read(span)) is not None]
        root = next((span for span in ordered if span.is_root), None)
        if not read and not self._is_configured(ordered):
            return AssembledTrace(TraceOutcome.UNRELATED)
        if root is None:
            return AssembledTrace(TraceOutcome.NO_ROOT)
        return _TraceReader(
            attributes=self._attributes,
            trace_id=trace_id,
            root=root,
            spans=ordered,
            read=read,
        ).assemble()

    def _read(self, span: KeptSpan) -> _ReadSpan | None:
        """Return a span with the most specific role that a convention sees in it; None if it follows none."""
        followed: list[SpanConvention] = []
        most: SpanRole | None = None
        # A convention also sees a role in events.
        conventions = self._conventions if span.events else self._readers(tuple(span.attributes))
        for convention in conventions:
            role = convention.role(span)
            if role is not None:
                followed.append(convention)
                if most is None or role > most:
                    most = role
        return None if most is None else _ReadSpan(span, most, followed)

    def _find_readers(self, names: tuple[str, ...]) -> list[SpanConvention]:
        """Return the conventions that read at least one of the attributes; the others see no role in their span."""
        return [convention for convention in self._conventions if any(map(convention.reads, names))]

    def _is_configured(self, spans: Iterable[KeptSpan]) -> bool:
        """Return whether a span has the question or the answer as a configured attribute."""
        names = {self._attributes.question, self._attributes.answer}
        return any(name in span.attributes for span in spans for name in names if name is not None)


class _TraceReader:
    """Reads one trace."""

    def __init__(
        self,
        *,
        attributes: OtlpAttributesConfig,
        trace_id: bytes,
        root: KeptSpan,
        spans: Sequence[KeptSpan],
        read: Sequence[_ReadSpan],
    ) -> None:
        self._attributes = attributes
        self._trace_id, self._root, self._spans, self._read = trace_id, root, spans, read
        self._conventions = {item.span.span_id: item.conventions for item in read}
        self._entry = self._find_entry()
        self._llms = [item.span for item in read if item.role is SpanRole.LLM][-1:]
        """The last LLM span, if there is one."""

    def assemble(self) -> AssembledTrace:
        question = self._question()
        if question is None:
            return AssembledTrace(TraceOutcome.NO_QUESTION)
        answer = self._answer()
        if answer is None:
            return AssembledTrace(TraceOutcome.NO_ANSWER)
        return AssembledTrace(TraceOutcome.ASSEMBLED, _ENCODER.encode(self._interaction(question, answer)))

    def _interaction(self, question: str, answer: str) -> _Interaction:
        trace_id, end = self._trace_id.hex(), self._root.end
        return _Interaction(
            id=trace_id,
            question=question,
            answer=answer,
            timestamp=_timestamp(end) if end else None,
            app=_name(self._configured(self._attributes.app)),
            tenant=_name(self._configured(self._attributes.tenant)),
            model=_name(self._model()),
            history=self._history(),
            contexts=self._passages(),
            tags=self._tags(),
            traceparent=f"00-{trace_id}-{self._root.span_id.hex()}-01",
        )

    # Where question and answer are

    def _find_entry(self) -> KeptSpan:
        """Return the root or, if it follows no convention, the first of the topmost spans that do."""
        followers = self._conventions.keys()
        if self._root.span_id in followers or not self._read:
            return self._root
        top = [item for item in self._read if followers.isdisjoint(self._ancestors(item.span))]
        chains = [item.span for item in top if item.role is SpanRole.CHAIN]
        return chains[0] if chains else self._root

    @cached_property
    def _by_id(self) -> dict[bytes, KeptSpan]:
        return {span.span_id: span for span in self._spans}

    def _ancestors(self, span: KeptSpan) -> Iterator[bytes]:
        seen = {span.span_id}
        while span.parent_id and span.parent_id not in seen:
            seen.add(span.parent_id)
            yield span.parent_id
            parent = self._by_id.get(span.parent_id)
            if parent is None:
                return
            span = parent

    def _question(self) -> str | None:
        """Return the question of the entry, the query of a retriever, or the last message to an LLM."""
        if self._attributes.question is not None:
            return question_in(self._configured(self._attributes.question))
        retrievers = [item.span for item in self._read if item.role is SpanRole.RETRIEVER]
        return self._first(lambda kind, span: kind.question(span), [self._entry, *retrievers, *self._llms])

    def _answer(self) -> str | None:
        """Return the answer of the entry, or of the last LLM span."""
        if self._attributes.answer is not None:
            return answer_in(self._configured(self._attributes.answer))
        return self._first(lambda kind, span: kind.answer(span), [self._entry, *self._llms])

    def _history(self) -> Sequence[LoggedMessage]:
        name = self._attributes.history
        if name is None:
            return self._first(lambda kind, span: kind.history(span), [self._entry]) or []
        for span in [self._entry, self._root, *self._spans]:
            if name in span.attributes:
                return before_question(messages_in(span.attributes[name]))
            if items := numbered(span.attributes, f"{name}."):
                return before_question(messages_in([_flat_message(item) for item in items]))
        return []

    # Contexts

    def _passages(self) -> list[RetrievedText] | None:
        """Return the passages of the reranker, or of the retrievers before the last LLM; None if none is known."""
        rerankers = self._outermost(SpanRole.RERANKER)
        if rerankers:
            return _distinct([max(rerankers, key=lambda step: (step.span.end, step.span.span_id))])
        retrievers = self._outermost(SpanRole.RETRIEVER)
        begin = self._llms[0].start if self._llms else None
        used = [step for step in retrievers if begin is None or step.span.end <= begin]
        return _distinct(used) if used else None

    def _outermost(self, role: SpanRole) -> "list[_Retrieval]":
        """Return the steps of a role with their passages, without those inside another one that has passages."""
        steps = [
            _Retrieval(item.span, passages)
            for item in self._read
            if item.role is role and (passages := _passages_of(item)) is not None
        ]
        if len(steps) < 2:
            return steps
        found = {step.span.span_id for step in steps}
        return [step for step in steps if found.isdisjoint(self._ancestors(step.span))]

    # Facts

    def _model(self) -> Any:
        if self._attributes.model is not None:
            return self._configured(self._attributes.model)
        return self._first(lambda kind, span: kind.model(span), [*self._llms, self._entry])

    def _tags(self) -> dict[str, object]:
        tags = {
            SESSION_TAG: self._first(lambda kind, span: kind.session(span), [self._entry, self._root, *self._spans]),
            **{tag: self._configured(name) for tag, name in self._attributes.tags.items()},
        }
        return {tag: _tag(value) for tag, value in tags.items() if value is not None}

    def _configured(self, name: str | None) -> Any:
        """Return an attribute by name: of the root, of the entry, of any span, or of their resources."""
        if name is None:
            return None
        for span in (self._root, self._entry, *self._spans):
            if span.attributes.get(name) is not None:
                return span.attributes[name]
        for span in (self._root, self._entry, *self._spans):
            if span.resource.get(name) is not None:
                return span.resource[name]
        return None

    def _first(self, read: Callable[[SpanConvention, KeptSpan], T | None], spans: Iterable[KeptSpan]) -> T | None:
        """Return the first value that a convention reads from one of the spans."""
        for span in spans:
            for kind in self._conventions.get(span.span_id, ()):
                value = read(kind, span)
                if value:
                    return value
        return None


@lru_cache(_SECONDS_CACHED)
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def _timestamp(nanoseconds: int) -> str:
    """Return a time as `datetime.isoformat` does; most traces end in the same few seconds."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    microseconds = rest // 1000
    return f"{_second(seconds)}.{microseconds:06}+00:00" if microseconds else f"{_second(seconds)}+00:00"


class _Retrieval(NamedTuple):
    span: KeptSpan
    passages: list[RetrievedText]


def _passages_of(item: _ReadSpan) -> list[RetrievedText] | None:
    for kind in item.conventions:
        passages = kind.passages(item.span)
        if passages is not None:
            return passages
    return None


def _distinct(steps: Iterable[_Retrieval]) -> list[RetrievedText]:
    """Return the passages of several steps, each once."""
    return list(dict.fromkeys(chain.from_iterable(step.passages for step in steps)))


def _flat_message(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of numbered attributes: `message.content` or `content`."""
    return {name.removeprefix("message."): value for name, value in item.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _name(value: Any) -> str | None:
    return None if value is None else _text(value)[:_NAME_CHARS]


def _tag(value: Any) -> object:
    return value if isinstance(value, bool | int | float) else _text(value)[:_TAG_CHARS]

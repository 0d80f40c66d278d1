"""Targets: each reader of bytes from outside, and the errors that it may raise."""

import asyncio
import atexit
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from io import StringIO
from pathlib import Path

import httpx
from confluent_kafka import Message as KafkaMessage
from prometheus_client import CollectorRegistry
from rich.console import Console

from judges.criteria.catalogue import CriteriaError, load_catalogue, load_criteria
from judges.criteria.criterion import Criterion
from judges.criteria.scale import Binary, LocalizedText, Option, Options, PassFail
from judges.evaluator import Submission
from judges.llm.completion import Valid, parse_verdict
from judges.llm.methods.guardian import read_risk
from judges.models import ChatMessage, Completion, ModelError, OpenAIModel
from judges.values.interaction import Language, case_of
from sinks.base import Headers
from sinks.metrics import PipelineMetrics, ScoreMetrics
from sinks.topics.dead_letters import DeadLetterTopic
from sinks.topics.results import CriticalTopic, EvaluationTopic
from stream.cli.commands.send import key_of
from stream.cli.commands.tail import app_of, critical_text, deadletter_json, deadletter_text, evaluation_text
from stream.config.model import Config
from stream.config.sections.input import InputConfig
from stream.config.sections.sampling import SamplingConfig
from stream.config.sections.stages import MonitorConfig
from stream.errors import RecordError
from stream.kafka.offsets import Partition
from stream.kafka.record import Record, dead_letter, whole_value
from stream.monitor.alerts.stored_states import StoredStates
from stream.monitor.alerts.watch.partition import PartitionWatch
from stream.monitor.reading import read_score
from stream.monitor.state import Monitor
from stream.records.envelope import read_sampling
from stream.records.facts import LazyRecord
from stream.records.reading import InteractionReader
from stream.sampler.policy import SamplingPolicy
from stream.sampler.step_log import StepLog, StepLogError, read_step_log
from stream.service.setup.config_file import ConfigError, dump, load
from stream.service.setup.evaluator import build_evaluator
from tests.fuzz import seeds
from tests.fuzz.mutation import SEPARATOR
from tests.stream.monitor.alerts.traffic import BEGIN, Traffic, plan_of

Run = Callable[[bytes], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One reader: how to make it, its inputs, and the errors it may raise."""

    name: str
    make: Callable[[], Run]
    """Makes a function that takes one input and raises the reader's errors, or AssertionError for a broken promise."""

    seeds: Callable[[], Sequence[bytes]]
    allowed: tuple[type[Exception], ...] = ()
    words: Sequence[bytes] = field(default=())
    share: int = 1
    """Its share of all inputs relative to the others: slow targets get less."""


# Inputs of several parts


def framed_headers(part: bytes) -> Headers:
    """Parse one header per line, `name=value`; a line without '=' is a header without a value."""
    pairs = (line.partition(b"=") for line in part.split(b"\n") if line)
    return tuple((name.decode("utf-8", "replace"), value if separator else None) for name, separator, value in pairs)


def framed_record(data: bytes) -> tuple[bytes | None, Headers, int, bytes | None]:
    """Split an input into key, headers, time and value."""
    key, headers, timestamp, value = [*data.split(SEPARATOR, 3), b"", b"", b""][:4]
    try:
        at_ms = int(timestamp[:20]) % 2**63
    except ValueError:
        at_ms = -1
    return key or None, framed_headers(headers), at_ms, value or None


# Records


def _interaction() -> Run:
    tight = {"text_chars": 60, "context_chars": 10, "contexts": 1, "nesting": 4, "record_bytes": 4000}
    readers = [InteractionReader(InputConfig()), InteractionReader(InputConfig.model_validate({"limits": tight}))]

    def run(data: bytes) -> None:
        key_of(data)
        reading = readers[data[:1] < b"{" or len(data) % 7 == 0].read(data or None)
        case_of(reading.interaction)
        reading.interaction.model_dump_json().encode()

    return run


def _mapping() -> Run:
    paths = {"id": "req.id", "question": "req.body.0.q", "answer": "resp.choices.0.text", "contexts": "docs"}
    paths |= {"history": "turns", "app": "svc", "tags": "meta"}
    reader = InteractionReader(InputConfig.model_validate({"adapter": "mapping", "mapping": paths}))
    return lambda data: case_of(reader.read(data).interaction)


def _nothing(_result: object) -> None:
    """Ignore the result."""


def _judge_record() -> Run:
    """Go from the bytes of a record to those of its evaluation, and back."""
    reader, evaluator = InteractionReader(InputConfig()), build_evaluator(Config())
    evaluations, notices = EvaluationTopic("e"), CriticalTopic("c")
    loop, monitor = _loop(), _monitor()

    def run(data: bytes) -> None:
        reading = reader.read(data)
        submission = Submission(
            interaction=reading.interaction, sampling=read_sampling(()), truncated=reading.truncated
        )
        work = evaluator.evaluate(submission, deadline=5.0, on_unsafe=lambda notice: _nothing(notices.messages(notice)))
        [message] = evaluations.messages(loop.run_until_complete(work))
        monitor(message.value or b"")

    return run


_POLICIES: Sequence[dict[str, object]] = (
    {"rate": 0.5, "id": "body"},
    {"rate": 0.1, "safety": {"words": ["jacket*"]}},
    {"rate": 0.1, "safety": {"thumbs_down": {"tags.rating": {"max": 0}}}, "id": "body"},
    {"target_per_minute": 10, "max_per_minute": 3},
    {
        "rate": 0.5,
        "rules": [
            {"name": "headers", "match": {"headers": {"x-env": "live", "x-ms": {"min": 3}}}, "rate": 0.25},
            {"name": "regex", "match": {"headers": {"sj-rule": {"regex": "^(d|e)+"}}}, "rate": 0.0},
            {"name": "tags", "match": {"app": "shop", "tags": {"tier": ["gold", 1, True]}}, "target_per_minute": 5},
            {
                "name": "body",
                "match": {"body": {"timing.ms": {"min": 1, "max": 1e9}, "timing.steps.1": 2}},
                "rate": 1.0,
            },
            {
                "name": "there",
                "match": {"body": {"contexts.0.text": {"exists": True}}},
                "rate": 0.3,
                "max_per_minute": 2,
            },
        ],
    },
    {"rate": 0.5, "rules": [{"name": "quoted", "match": {"body": {'a"b.c': 1}}, "rate": 0.1}]},
)


def _policy() -> Run:
    policies = [SamplingPolicy(SamplingConfig.model_validate(config), InputConfig()) for config in _POLICIES]

    def run(data: bytes) -> None:
        key, headers, at_ms, value = framed_record(data)
        facts = (LazyRecord(key, value, at_ms, headers), LazyRecord(key, value, at_ms, headers))
        policy = policies[len(data) % len(policies)]
        decision = policy.decide(facts[0])
        assert 0.0 <= decision.probability <= 1.0
        policy.explain(facts[1])

    return run


def _envelope() -> Run:
    def run(data: bytes) -> None:
        sampling = read_sampling(framed_headers(data))
        assert 0.0 < sampling.probability <= 1.0
        sampling.model_dump_json().encode()

    return run


def _deadletter() -> Run:
    topic = DeadLetterTopic("rag.deadletter")

    def run(data: bytes) -> None:
        key, headers, at_ms, value = framed_record(data)
        record = Record(Partition("rag.sampled", 0), at_ms, key, value, headers)
        problem = RecordError("bad_json", (value or b"").decode("utf-8", "surrogateescape"))
        [message] = topic.messages(dead_letter(record, problem, stage="worker"))
        assert whole_value(record) == message.value == value
        for header_list in (headers, message.headers):
            message_to_show = _message(value, key=key, headers=header_list)
            _render(deadletter_text(message_to_show))
            json.loads(deadletter_json(message_to_show))

    return run


# Results


@cache
def evaluations() -> Sequence[bytes]:
    """Return evaluations as published: of a good answer, a bad one, an unsafe one."""
    evaluator, topic = build_evaluator(Config()), EvaluationTopic("e")
    answers = ("It is free for 30 days.", "Maybe.", "Kill yourself, you idiot. Make a bomb at home.")
    reader = InteractionReader(InputConfig())

    async def published() -> list[bytes]:
        values = []
        for answer in answers:
            value = json.dumps({**seeds.INTERACTION, "answer": answer}).encode()
            submission = Submission(interaction=reader.read(value).interaction, sampling=read_sampling(()))
            evaluation = await evaluator.evaluate(submission, deadline=5.0, on_unsafe=lambda _: None)
            values += [message.value or b"" for message in topic.messages(evaluation)]
        return values

    return asyncio.run(published())


@cache
def notices() -> Sequence[bytes]:
    """Return safety notices, made from the evaluations."""
    values = []
    for value in evaluations():
        evaluation = json.loads(value)
        worst = {"dimension": evaluation["dimensions"]["harmfulness"], "safety": evaluation["composite"]["safety"]}
        values.append(json.dumps({**evaluation, **worst, "noticed_at": evaluation["evaluated_at"]}).encode())
    return values


def _monitor() -> Run:
    """Use a new monitor after every thousand inputs, so that accumulated state does not slow the next ones down."""
    current: list[tuple[int, Monitor]] = []

    def run(data: bytes) -> None:
        if not current or current[0][0] >= 1000:
            registry = CollectorRegistry()
            current[:] = [(0, Monitor(MonitorConfig(), PipelineMetrics(registry), ScoreMetrics(registry)))]
        count, monitor = current[0]
        current[0] = (count + 1, monitor)
        monitor.observe(data or None)
        if count % 20 == 0:
            monitor.refresh()

    return run


@cache
def scores() -> Sequence[bytes]:
    """Return score records: of an interaction, and of a canary."""
    traffic = Traffic()
    records = [traffic.next(), traffic.next(model="m1", tenant="t"), traffic.canary("c1", "good")]
    return [record.message("s").value or b"" for record in records]


@cache
def states() -> Sequence[bytes]:
    """Return states as stored: of an app, and of the canaries."""
    watch, traffic = PartitionWatch(plan_of(), 0), Traffic()
    for number in range(60):
        watch.observe(traffic.next())
        watch.observe(traffic.canary(f"c{number % 5}", "good"))
    return [value for _key, value in watch.take_changes() if value is not None]


def _scores() -> Run:
    """Use a new watch after every thousand inputs, so that accumulated state does not slow the next ones down."""
    plan, current = plan_of(), [(0, PartitionWatch(plan_of(), 0))]

    def run(data: bytes) -> None:
        count, watch = current[0]
        current[0] = (0, PartitionWatch(plan, 0)) if count >= 1000 else (count + 1, watch)
        record = read_score(data, None, now=BEGIN + 1e6)
        try:
            watch.observe(record)
        except RecordError as error:
            raise AssertionError("a score that was accepted broke the state") from error
        if count % 20 == 0:
            assert all(value is not None for _key, value in watch.take_changes())

    return run


def _states() -> Run:
    plan = plan_of()

    def run(data: bytes) -> None:
        stored, watch, traffic = StoredStates(), PartitionWatch(plan, 0), Traffic()
        for key in (b"app:shop", b"canaries"):
            stored.add(Record(Partition("rag.detection", 0), 0, key, data, ()))
        watch.restore(stored.states())
        traffic.number = 3000
        watch.observe(traffic.next())
        watch.observe(traffic.canary("c1", "bad"))
        assert all(value is not None for _key, value in watch.take_changes())

    return run


def _tail() -> Run:
    def run(data: bytes) -> None:
        app_of(data)
        message = _message(data)
        for text in (evaluation_text, critical_text):
            _render(text(message))

    return run


def _message(value: bytes | None, *, key: bytes | None = None, headers: Headers = ()) -> KafkaMessage:
    return KafkaMessage(topic="t", partition=0, offset=1, key=key, value=value, headers=list(headers))


_CONSOLE = Console(file=StringIO(), width=100, force_terminal=True)


def _render(text: object) -> None:
    _CONSOLE.file.seek(0)
    _CONSOLE.print(text)


# Output of models


def _criteria() -> list[Criterion]:
    probe = LocalizedText(en="probe", ru="проба")
    shared = {"title": probe, "question": probe}
    custom = [
        Criterion(name="yes", scale=Binary(binary=PassFail(passes=probe, fails=probe)), not_applicable=probe, **shared),
        Criterion.model_validate({"name": "range", "scale": {"range": {"min": 0, "max": 10}}, **shared}),
        Criterion(name="tone", scale=Options(options=(_option("1", 1), _option("Yes", 0))), **shared),
    ]
    return [*load_catalogue("rag").values(), *custom]


def _option(label: str, score: float) -> Option:
    return Option(label=LocalizedText(en=label, ru=label), score=score)


def _completion() -> Run:
    """No error is allowed: an invalid verdict is an `Invalid`."""
    criteria = _criteria()
    risk = load_catalogue("rag")["harmfulness"]

    def run(data: bytes) -> None:
        # JSON can encode half a surrogate pair, so a text in memory can contain one.
        text = data.decode("utf-8", "surrogateescape")
        language: Language = "ru" if len(data) % 2 else "en"
        for parsed in (
            parse_verdict(text, criteria[len(data) % len(criteria)], language),
            read_risk(Completion(text=text), risk),
        ):
            text_out = f"{parsed.explanation}{parsed.feedback}" if isinstance(parsed, Valid) else parsed.reason
            text_out.encode()

    return run


def _response() -> Run:
    answer: list[httpx.Response] = []
    model = OpenAIModel(
        "tiny", base_url="http://judge/v1", timeout_seconds=0.05, transport=httpx.MockTransport(lambda _: answer[0])
    )
    loop = _loop()

    def run(data: bytes) -> None:
        status, retry_after, body = [*data.split(SEPARATOR, 2), b"", b""][:3]
        code = int(status) if status.isdigit() and len(status) == 3 and b"200" <= status < b"600" else 200
        answer[:] = [httpx.Response(code, headers=[(b"retry-after", retry_after.strip(b"\r\n"))], content=body)]
        asked = model.complete([ChatMessage(role="user", content="?")], schema={}, likelihoods=True)
        completion = loop.run_until_complete(asked)
        (completion.text or "").encode()
        read_risk(completion, load_catalogue("rag")["harmfulness"])

    return run


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop


# Files that people write


@cache
def _file() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="streamjury-fuzz-")
    atexit.register(folder.cleanup)
    return Path(folder.name) / "input"


def _write_file(data: bytes) -> Path:
    _file().write_bytes(data)
    return _file()


def _config() -> Run:
    def run(data: bytes) -> None:
        config = load(_write_file(data), {"KEY": "value"})
        dump(config)

    return run


def _overrides() -> Run:
    def run(data: bytes) -> None:
        # As Python decodes an environment that is not UTF-8.
        lines = data.replace(b"\x00", b"").decode("utf-8", "surrogateescape").split("\n")
        dump(
            load(None, {name: value for name, separator, value in (line.partition("=") for line in lines) if separator})
        )

    return run


def _steps() -> Run:
    def run(data: bytes) -> None:
        log = read_step_log(_write_file(data))
        assert list(StepLog.load(log.dump())) == list(log)

    return run


def _criteria_file() -> Run:
    return lambda data: load_criteria(_write_file(data))


TARGETS: Sequence[Target] = (
    Target(
        name="interaction",
        make=_interaction,
        seeds=lambda: seeds.INTERACTIONS,
        allowed=(RecordError,),
        words=seeds.RECORD_WORDS,
        share=100,
    ),
    Target(
        name="mapping",
        make=_mapping,
        seeds=lambda: seeds.FOREIGN_RECORDS,
        allowed=(RecordError,),
        words=seeds.RECORD_WORDS,
        share=75,
    ),
    Target(
        name="policy",
        make=_policy,
        seeds=lambda: seeds.RECORDS,
        allowed=(RecordError,),
        words=seeds.RECORD_WORDS,
        share=100,
    ),
    Target(
        name="envelope",
        make=_envelope,
        seeds=lambda: seeds.ENVELOPES,
        allowed=(RecordError,),
        words=seeds.RECORD_WORDS,
        share=100,
    ),
    Target(
        name="deadletter",
        make=_deadletter,
        seeds=lambda: seeds.DEAD_LETTERS,
        words=seeds.RECORD_WORDS,
        share=8,
    ),
    Target(
        name="judged",
        make=_judge_record,
        seeds=lambda: seeds.INTERACTIONS,
        allowed=(RecordError,),
        words=seeds.RECORD_WORDS,
        share=4,
    ),
    Target(
        name="completion",
        make=_completion,
        seeds=lambda: seeds.COMPLETIONS,
        words=seeds.COMPLETION_WORDS,
        share=120,
    ),
    Target(
        name="response",
        make=_response,
        seeds=lambda: seeds.RESPONSES,
        allowed=(ModelError,),
        share=8,
    ),
    Target(
        name="monitor",
        make=_monitor,
        seeds=evaluations,
        share=20,
    ),
    Target(
        name="scores",
        make=_scores,
        seeds=scores,
        allowed=(RecordError,),
        share=20,
    ),
    Target(
        name="states",
        make=_states,
        seeds=states,
        share=8,
    ),
    Target(
        name="tail",
        make=_tail,
        seeds=lambda: (*evaluations(), *notices()),
        share=4,
    ),
    Target(
        name="config",
        make=_config,
        seeds=lambda: seeds.CONFIGS,
        allowed=(ConfigError,),
        words=seeds.YAML_WORDS,
        share=2,
    ),
    Target(
        name="overrides",
        make=_overrides,
        seeds=lambda: seeds.OVERRIDES,
        allowed=(ConfigError,),
        words=seeds.YAML_WORDS,
        share=1,
    ),
    Target(
        name="criteria",
        make=_criteria_file,
        seeds=lambda: seeds.CRITERIA,
        allowed=(CriteriaError,),
        words=seeds.YAML_WORDS,
        share=5,
    ),
    Target(
        name="steps",
        make=_steps,
        seeds=lambda: seeds.STEPS,
        allowed=(StepLogError,),
        words=seeds.RECORD_WORDS,
        share=30,
    ),
)

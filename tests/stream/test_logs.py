"""The program's log handler: filtering of repeats, one line per record, context fields and redaction of secrets."""

import asyncio
import base64
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import hpack
import pytest
from aiokafka.protocol.admin import SaslAuthenticateRequest_v0
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from judges.composite import Item, MultiCriteria
from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import SAFETY_DIMENSION, Criterion
from judges.evaluator import Evaluator
from judges.panel import Panel
from judges.scripted import Answer, ScriptedJudge
from judges.values.interaction import Case
from sinks.metrics import Outcome, PipelineMetrics
from stream.config.model import Config
from stream.config.sections.stages import LoggingConfig
from stream.kafka.offsets import Partition
from stream.kafka.record import Record
from stream.logs import (
    ConsoleFormatter,
    HidingFormatter,
    JsonFormatter,
    RepeatFilter,
    add_log_context,
    configure_logging,
    log_context,
    trace_fields,
)
from stream.worker.budget import Treasury
from stream.worker.judging import Judging, RecordResult
from stream.worker.retries import Retries
from stream.worker.stage import Worker

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


def log_record(name: str, message: str, *arguments: object, **extra: Any) -> logging.LogRecord:
    record = logging.LogRecord(name, logging.ERROR, __file__, 1, message, arguments, None)
    for key, value in extra.items():
        setattr(record, key, value)
    return record


def as_json(record: logging.LogRecord) -> dict[str, Any]:
    line = JsonFormatter().format(record)
    assert len(line.splitlines()) == 1
    entry = json.loads(line)
    assert isinstance(entry, dict)
    return entry


def as_text(record: logging.LogRecord) -> str:
    return ConsoleFormatter().format(record)


class TestRepeats:
    def test_a_repeated_line_of_a_kafka_client_is_logged_once(self) -> None:
        repeats = RepeatFilter()
        lost = (
            "FAIL [client] [thrd:main]: Connect to 127.0.0.1:9092 failed: Connection refused "
            "(after {}ms in state CONNECT)"
        )
        assert repeats.filter(log_record("stream.kafka.consume_produce", lost.format(0)))
        assert not repeats.filter(log_record("stream.kafka.consume_produce", lost.format(12)))
        assert repeats.filter(
            log_record("stream.kafka.consume_produce", "FAIL [client] [thrd:main]: SASL authentication error")
        )

    def test_an_unreachable_collector_is_logged_once(self) -> None:
        repeats, name = RepeatFilter(), "opentelemetry.exporter.otlp.proto.http.trace_exporter"
        words = "Transient error %s encountered, retrying in %.2fs."
        assert repeats.filter(log_record(name, words, "<connection at 0x7f00aa>", 1.0))
        assert not repeats.filter(log_record(name, words, "<connection at 0x7f00bb>", 2.1))
        assert repeats.filter(log_record(name, "Failed to export"))
        assert not repeats.filter(log_record(name, "Exporter already shutdown, ignoring batch"))

    def test_the_programs_own_lines_are_never_filtered(self) -> None:
        repeats = RepeatFilter()
        assert all(
            repeats.filter(log_record("stream.worker.stage", "3 records could not be committed")) for _ in range(3)
        )


class TestJson:
    def test_a_line_has_its_time_level_logger_and_message(self) -> None:
        entry = as_json(log_record("stream.worker.stage", "%d left", 3))
        assert entry["time"].endswith("+00:00")
        del entry["time"]
        assert entry == {"level": "error", "logger": "stream.worker.stage", "message": "3 left"}

    def test_a_line_has_its_process_if_a_command_has_several(self) -> None:
        assert as_json(log_record("x", "y", processName="worker-2"))["process"] == "worker-2"
        assert "process" not in as_json(log_record("x", "y"))

    def test_a_line_has_the_fields_of_its_context(self) -> None:
        with log_context(stage="worker"):
            with log_context(interaction_id="i-1", **trace_fields(PARENT)):
                inner = as_json(log_record("judges.judge", "failed"))
            outer = as_json(log_record("stream.worker.stage", "done"))
        expected = {"stage": "worker", "interaction_id": "i-1", "trace_id": TRACE, "span_id": SPAN}
        assert {name: inner.get(name) for name in expected} == expected
        assert (outer["stage"], "trace_id" in outer, "interaction_id" in outer) == ("worker", False, False)
        assert "stage" not in as_json(log_record("stream.worker.stage", "over"))

    def test_fields_added_inside_a_block_end_with_it(self) -> None:
        with log_context(stage="worker"):
            add_log_context(interaction_id="i-2")
            assert as_json(log_record("x", "y"))["interaction_id"] == "i-2"
        assert "interaction_id" not in as_json(log_record("x", "y"))

    def test_extra_fields_are_part_of_the_line_and_do_not_replace_standard_ones(self) -> None:
        with log_context(stage="worker"):
            entry = as_json(log_record("x", "y", judge="mini", attempts=3, level="fake", time="never", stage="monitor"))
        assert (entry["judge"], entry["attempts"], entry["level"], entry["stage"]) == ("mini", 3, "error", "monitor")
        assert entry["time"] != "never"

    def test_extra_fields_of_any_type_can_be_written(self) -> None:
        loop: list[object] = []
        loop.append(loop)
        entry = as_json(log_record("x", "y", path={1, 2}.__class__, ratio=float("nan"), loop=loop, pairs={(1, 2): 3}))
        assert entry["message"] == "y"
        assert entry["ratio"] == "nan"

    def test_an_exception_is_part_of_the_line(self) -> None:
        entry = as_json(failure_record())
        assert entry["exception"].startswith("Traceback")
        assert "ValueError: bad\n12:00:00 ERROR" in entry["exception"]

    @given(st.text(st.characters(), max_size=50))
    def test_any_text_stays_one_line_and_unchanged(self, text: str) -> None:
        with log_context(interaction_id=text):
            entry = as_json(log_record("x", "%s", text))
        assert entry["message"] == entry["interaction_id"] == text


class TestConsole:
    def test_a_line_ends_with_its_trace_if_there_is_one(self) -> None:
        with log_context(**trace_fields(PARENT)):
            assert as_text(log_record("judges.judge", "late")).endswith(f" ERROR   judges.judge: late [trace={TRACE}]")
        with log_context(interaction_id="i-1", **trace_fields("not one")):
            assert as_text(log_record("judges.judge", "late")).endswith(" ERROR   judges.judge: late")

    def test_a_console_line_names_the_process_if_a_command_has_several(self) -> None:
        assert as_text(log_record("judges.judge", "late", processName="worker-2")).endswith(
            " worker-2 judges.judge: late"
        )

    @given(st.text(st.characters(), max_size=50))
    def test_no_text_can_start_a_new_line_or_steer_the_terminal(self, text: str) -> None:
        line = as_text(log_record("x", "%s", text))
        assert line.isprintable()

    def test_escaped_characters_are_readable(self) -> None:
        line = as_text(log_record("x", "%s", "a\nb\x1b[2J\u202e ж"))
        assert line.endswith(r"x: a\nb\x1b[2J\u202e ж")

    def test_a_traceback_is_marked_so_that_no_part_of_it_looks_like_a_log_line(self) -> None:
        first, *rest = as_text(failure_record()).split("\n")
        assert first.endswith("ERROR   x: broke")
        assert "  | ValueError: bad" in rest
        assert all(line.startswith("  | ") and line.isprintable() for line in rest)


def failure_record() -> logging.LogRecord:
    """Return a record of an error whose text imitates a log line."""
    try:
        raise ValueError("bad\n12:00:00 ERROR   stream.worker.stage: all records lost\x1b[2J")
    except ValueError:
        return log_record("x", "broke", exc_info=sys.exc_info())


# Secrets

SECRETS = ("open-sesame", 'pa"ss\\w\u00f6rd', "1234567", "-----BEGIN KEY-----\nMIGHAgEAMBMG\n-----END KEY-----\n")


def lower_escapes(text: str) -> str:
    return re.sub("%..", lambda escape: escape[0].lower(), text)


ENCODINGS: dict[str, Callable[[str], str]] = {
    "quote": quote,
    "quote all": lambda secret: quote(secret, safe=""),
    "quote plus": quote_plus,
    "lower quote": lambda secret: lower_escapes(quote(secret)),
    "lower quote all": lambda secret: lower_escapes(quote(secret, safe="")),
    "lower quote plus": lambda secret: lower_escapes(quote_plus(secret)),
    "json": json.dumps,
    "json as it is": lambda secret: json.dumps(secret, ensure_ascii=False),
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64 of addresses": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode(),
}


class TestSecrets:
    @pytest.mark.parametrize("lines", [JsonFormatter(), ConsoleFormatter()], ids=["json", "console"])
    @pytest.mark.parametrize("secret", SECRETS, ids=["word", "odd", "digits", "pem"])
    @pytest.mark.parametrize("quoted", [str, repr, str.encode, quote], ids=["text", "repr", "bytes", "address"])
    def test_no_line_contains_a_secret_however_it_is_quoted(
        self, lines: JsonFormatter | ConsoleFormatter, secret: str, quoted: Callable[[str], object]
    ) -> None:
        formatter = HidingFormatter(lines, SECRETS)
        record = log_record(
            "library", "sent %s to %s", quoted(secret), "broker", payload=f"x{secret}", attempts=1234567
        )
        record.exc_info = exc_info_of(ValueError(f"refused {quoted(secret)}"))
        line = formatter.format(record)
        plain = lines.format(record)
        assert "***" in line
        assert "***" not in plain
        for form in (secret, secret.splitlines()[-2:][0], "MIGHAgEAMBMG", 'pa\\"ss', "ss%5Cw"):
            assert form not in line.replace('"attempts": 1234567', "")
        if isinstance(lines, JsonFormatter):
            assert json.loads(line)["attempts"] == 1234567

    @pytest.mark.parametrize("lines", [JsonFormatter(), ConsoleFormatter()], ids=["json", "console"])
    @pytest.mark.parametrize(
        "secret", ['pa/ss w+rd%1\u00e9"x', "open-sesame", "\u043f\u0430\u0440\u043e\u043b\u044c/1", "a+/b"]
    )
    @pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS.keys())
    def test_no_line_contains_a_secret_in_another_encoding(
        self, lines: JsonFormatter | ConsoleFormatter, secret: str, encode: Callable[[str], str]
    ) -> None:
        line = HidingFormatter(lines, [secret]).format(log_record("library", "sent %s", encode(secret)))
        assert "***" in line
        assert encode(secret) not in line

    @pytest.mark.parametrize("before", ["", "u:", "us:", "usr:", "\0user\0"])
    @pytest.mark.parametrize("after", ["", "x", "\r\n"])
    @pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
    def test_no_line_contains_a_secret_within_longer_base64(
        self, before: str, after: str, encode: Callable[[bytes], bytes]
    ) -> None:
        secret = "open~sesame>>?"
        encoded = encode(f"{before}{secret}{after}".encode()).decode()
        line = HidingFormatter(ConsoleFormatter(), [secret]).format(log_record("library", "Basic %s", encoded))
        remainders = line.partition("Basic ")[2].split("***")
        assert len(remainders) == 2
        # One character at each end has bits of the secret, but too few to recover any character of it.
        assert len(remainders[0]) <= -(-len(before) * 4 // 3) + 1
        assert len(remainders[1].rstrip("=")) <= -(-len(after) * 4 // 3) + 1

    @pytest.mark.parametrize("user", ["u:", "us:", "usr:"])
    def test_no_line_contains_a_short_secret_in_base64_after_a_user_name(self, user: str) -> None:
        encoded = base64.b64encode(f"{user}m3lon".encode()).decode()
        assert "***" in HidingFormatter(ConsoleFormatter(), ["m3lon"]).format(
            log_record("library", "Basic %s", encoded)
        )

    def test_lines_without_a_secret_are_unchanged(self) -> None:
        assert HidingFormatter(JsonFormatter(), SECRETS).format(
            plain := log_record("x", "y")
        ) == JsonFormatter().format(plain)
        assert HidingFormatter(ConsoleFormatter(), ()).format(plain) == ConsoleFormatter().format(plain)

    def test_a_text_too_short_to_be_a_secret_is_not_redacted(self) -> None:
        assert "x: a note" in HidingFormatter(ConsoleFormatter(), ["a", ""]).format(log_record("x", "a note"))

    @pytest.mark.usefixtures("_logging_as_json")
    def test_even_at_debug_no_library_logs_network_traffic(self, capsys: pytest.CaptureFixture[str]) -> None:
        """No secret is configured here: a search for the secret could not find its encoded forms."""
        request = SaslAuthenticateRequest_v0(b"\x00streamjury\x00open-sesame")
        logging.getLogger("aiokafka.conn").debug("Request to %s:%d %d: %s", "127.0.0.1", 9092, 1, request)
        hpack.Encoder().encode([("authorization", "Bearer open-sesame")])
        headers = [(b"set-cookie", b"session=open-sesame")]
        logging.getLogger("httpcore.http11").debug("receive_response_headers.complete return_value=%r", headers)
        logging.getLogger("aiokafka.consumer").debug("a library's own words")
        assert [json.loads(line)["logger"] for line in capsys.readouterr().err.splitlines()] == ["aiokafka.consumer"]


def exc_info_of(error: Exception) -> Any:
    try:
        raise error
    except Exception:
        return sys.exc_info()


# Correlation: while a record is judged


class LoggingJudge:
    """A judge that answers after a while, and logs in between as itself and as a library it uses."""

    async def __call__(self, case: Case, criterion: Criterion) -> Answer:
        logging.getLogger("judges.talking").warning("asked about %s", case.id)
        await asyncio.sleep(0.01 * (int(case.id) % 3))
        await asyncio.create_task(self._use_library(case.id))
        if case.id == "0":
            raise RuntimeError("out of order")
        return 2.0

    async def _use_library(self, name: str) -> None:
        await asyncio.sleep(0)
        logging.getLogger("httpx").warning("HTTP request about %s", name)


@pytest.fixture
def _logging_as_json() -> Iterator[None]:
    """Install the program's handler in place of those of the test runner."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()  # replaced handlers are closed, and the runner needs its own again
    configure_logging(LoggingConfig(format="json", level="debug"), secrets=())
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def traceparent(number: int) -> str | None:
    return None if number == 5 else f"00-{number + 1:032x}-{number + 1:016x}-01"


def record(number: int) -> Record:
    value = {"id": str(number), "question": "q", "answer": "a", "traceparent": traceparent(number)}
    return Record(Partition("rag.sampled", 0), number, None, json.dumps(value).encode(), ())


def judging() -> tuple[Judging, Retries]:
    config = Config.model_validate({"kafka": {"bootstrap": "127.0.0.1:1"}})
    safety = load_catalogue("rag")[SAFETY_DIMENSION]
    multi = MultiCriteria([Item(criterion=safety, weight=1.0)], safety=SAFETY_DIMENSION)
    evaluator = Evaluator(multi, Panel(judges=[ScriptedJudge(LoggingJudge())]), version="test")
    worker = Worker(config, evaluator, PipelineMetrics(CollectorRegistry()))
    retries = Retries(config)
    return Judging(
        config,
        evaluator,
        worker._recent,
        retries=retries,
        treasury=Treasury(None, topic="rag.sampled"),
        on_unsafe=lambda _notice: None,
    ), retries


@pytest.mark.usefixtures("_logging_as_json")
def test_lines_logged_while_records_are_judged_concurrently_name_their_record(
    capsys: pytest.CaptureFixture[str],
) -> None:
    subject, retries = judging()

    async def all_at_once() -> list[RecordResult]:
        return await asyncio.gather(*(subject.judge(retries.read_arrival(record(number))) for number in range(9)))

    outcomes = [result.outcome for result in asyncio.run(all_at_once())]
    assert outcomes.count(Outcome.SCORED) == 8
    entries = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    record_entries = [entry for entry in entries if "about" in entry["message"]]
    assert len(record_entries) == 18
    for entry in record_entries:
        number = entry["message"].rpartition(" ")[2]
        assert (entry["interaction_id"], entry["stage"]) == (number, "worker")
        expected = trace_fields(traceparent(int(number)))
        assert {name: entry[name] for name in ("trace_id", "span_id") if name in entry} == expected
    [defect] = [entry for entry in entries if entry["level"] == "error"]
    assert (defect["logger"], defect["interaction_id"], defect["trace_id"]) == ("judges.judge", "0", f"{1:032x}")


def test_the_context_of_a_record_ends_with_its_judging() -> None:
    subject, retries = judging()

    async def judge_and_log() -> dict[str, Any]:
        await subject.judge(retries.read_arrival(record(1)))
        return as_json(log_record("x", "y"))

    assert not {"trace_id", "interaction_id", "stage"} & asyncio.run(judge_and_log()).keys()

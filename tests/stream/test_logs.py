"""What the program's one log handler lets through, and how a line looks: on one line, and with what it is about."""

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


def said(name: str, message: str, *arguments: object, **more: Any) -> logging.LogRecord:
    record = logging.LogRecord(name, logging.ERROR, __file__, 1, message, arguments, None)
    for key, value in more.items():
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


class TestNotAgain:
    def test_a_kafka_client_that_repeats_itself_is_heard_once(self) -> None:
        again = RepeatFilter()
        lost = (
            "FAIL [client] [thrd:main]: Connect to 127.0.0.1:9092 failed: Connection refused "
            "(after {}ms in state CONNECT)"
        )
        assert again.filter(said("stream.kafka.consume_produce", lost.format(0)))
        assert not again.filter(said("stream.kafka.consume_produce", lost.format(12)))
        assert again.filter(
            said("stream.kafka.consume_produce", "FAIL [client] [thrd:main]: SASL authentication error")
        )

    def test_a_collector_that_is_away_is_heard_of_once(self) -> None:
        again, name = RepeatFilter(), "opentelemetry.exporter.otlp.proto.http.trace_exporter"
        words = "Transient error %s encountered, retrying in %.2fs."
        assert again.filter(said(name, words, "<connection at 0x7f00aa>", 1.0))
        assert not again.filter(said(name, words, "<connection at 0x7f00bb>", 2.1))
        assert again.filter(said(name, "Failed to export"))
        assert not again.filter(said(name, "Exporter already shutdown, ignoring batch"))

    def test_what_the_program_itself_says_is_never_held_back(self) -> None:
        again = RepeatFilter()
        assert all(again.filter(said("stream.worker.stage", "3 records could not be committed")) for _ in range(3))


class TestJson:
    def test_a_line_says_when_who_and_what(self) -> None:
        entry = as_json(said("stream.worker.stage", "%d left", 3))
        assert entry["time"].endswith("+00:00")
        del entry["time"]
        assert entry == {"level": "error", "logger": "stream.worker.stage", "message": "3 left"}

    def test_it_names_the_process_where_a_command_has_several(self) -> None:
        assert as_json(said("x", "y", processName="worker-2"))["process"] == "worker-2"
        assert "process" not in as_json(said("x", "y"))

    def test_it_says_what_it_is_about_while_that_is_known(self) -> None:
        with log_context(stage="worker"):
            with log_context(interaction_id="i-1", **trace_fields(PARENT)):
                known = as_json(said("judges.judge", "failed"))
            left = as_json(said("stream.worker.stage", "done"))
        expected = {"stage": "worker", "interaction_id": "i-1", "trace_id": TRACE, "span_id": SPAN}
        assert {name: known.get(name) for name in expected} == expected
        assert (left["stage"], "trace_id" in left, "interaction_id" in left) == ("worker", False, False)
        assert "stage" not in as_json(said("stream.worker.stage", "over"))

    def test_what_is_learnt_inside_a_block_ends_with_it(self) -> None:
        with log_context(stage="worker"):
            add_log_context(interaction_id="i-2")
            assert as_json(said("x", "y"))["interaction_id"] == "i-2"
        assert "interaction_id" not in as_json(said("x", "y"))

    def test_extra_fields_are_part_of_the_line_and_replace_nothing_of_it(self) -> None:
        with log_context(stage="worker"):
            entry = as_json(said("x", "y", judge="mini", attempts=3, level="fake", time="never", stage="monitor"))
        assert (entry["judge"], entry["attempts"], entry["level"], entry["stage"]) == ("mini", 3, "error", "monitor")
        assert entry["time"] != "never"

    def test_extra_fields_of_any_kind_can_be_written(self) -> None:
        loop: list[object] = []
        loop.append(loop)
        entry = as_json(said("x", "y", path={1, 2}.__class__, ratio=float("nan"), loop=loop, pairs={(1, 2): 3}))
        assert entry["message"] == "y"
        assert entry["ratio"] == "nan"

    def test_a_failure_is_told_in_the_same_line(self) -> None:
        entry = as_json(failed())
        assert entry["exception"].startswith("Traceback")
        assert "ValueError: bad\n12:00:00 ERROR" in entry["exception"]

    @given(st.text(st.characters(), max_size=50))
    def test_every_text_stays_one_line_and_itself(self, text: str) -> None:
        with log_context(interaction_id=text):
            entry = as_json(said("x", "%s", text))
        assert entry["message"] == entry["interaction_id"] == text


class TestConsole:
    def test_a_line_ends_with_its_trace_when_that_is_known(self) -> None:
        with log_context(**trace_fields(PARENT)):
            assert as_text(said("judges.judge", "late")).endswith(f" ERROR   judges.judge: late [trace={TRACE}]")
        with log_context(interaction_id="i-1", **trace_fields("not one")):
            assert as_text(said("judges.judge", "late")).endswith(" ERROR   judges.judge: late")

    def test_a_line_names_the_process_where_a_command_has_several(self) -> None:
        assert as_text(said("judges.judge", "late", processName="worker-2")).endswith(" worker-2 judges.judge: late")

    @given(st.text(st.characters(), max_size=50))
    def test_no_text_can_begin_a_line_or_steer_the_terminal(self, text: str) -> None:
        line = as_text(said("x", "%s", text))
        assert line.isprintable()

    def test_what_was_escaped_can_be_read(self) -> None:
        line = as_text(said("x", "%s", "a\nb\x1b[2J\u202e ж"))
        assert line.endswith(r"x: a\nb\x1b[2J\u202e ж")

    def test_a_traceback_follows_marked_so_that_no_part_of_it_passes_for_a_line(self) -> None:
        first, *rest = as_text(failed()).split("\n")
        assert first.endswith("ERROR   x: broke")
        assert "  | ValueError: bad" in rest
        assert all(line.startswith("  | ") and line.isprintable() for line in rest)


def failed() -> logging.LogRecord:
    """An error whose text pretends to be a log line."""
    try:
        raise ValueError("bad\n12:00:00 ERROR   stream.worker.stage: all records lost\x1b[2J")
    except ValueError:
        return said("x", "broke", exc_info=sys.exc_info())


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
    def test_no_line_repeats_one_however_it_is_quoted(
        self, lines: JsonFormatter | ConsoleFormatter, secret: str, quoted: Callable[[str], object]
    ) -> None:
        formatter = HidingFormatter(lines, SECRETS)
        record = said("library", "sent %s to %s", quoted(secret), "broker", payload=f"x{secret}", attempts=1234567)
        record.exc_info = raised(ValueError(f"refused {quoted(secret)}"))
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
    def test_no_line_has_one_in_another_encoding(
        self, lines: JsonFormatter | ConsoleFormatter, secret: str, encode: Callable[[str], str]
    ) -> None:
        line = HidingFormatter(lines, [secret]).format(said("library", "sent %s", encode(secret)))
        assert "***" in line
        assert encode(secret) not in line

    @pytest.mark.parametrize("before", ["", "u:", "us:", "usr:", "\0user\0"])
    @pytest.mark.parametrize("after", ["", "x", "\r\n"])
    @pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
    def test_no_line_has_one_in_base64_with_more_around_it(
        self, before: str, after: str, encode: Callable[[bytes], bytes]
    ) -> None:
        secret = "open~sesame>>?"
        encoded = encode(f"{before}{secret}{after}".encode()).decode()
        line = HidingFormatter(ConsoleFormatter(), [secret]).format(said("library", "Basic %s", encoded))
        left = line.partition("Basic ")[2].split("***")
        assert len(left) == 2
        # One character at each end holds bits of the secret, and not enough of them for one of its characters.
        assert len(left[0]) <= -(-len(before) * 4 // 3) + 1
        assert len(left[1].rstrip("=")) <= -(-len(after) * 4 // 3) + 1

    @pytest.mark.parametrize("user", ["u:", "us:", "usr:"])
    def test_no_line_has_a_short_one_in_base64_after_a_name(self, user: str) -> None:
        encoded = base64.b64encode(f"{user}m3lon".encode()).decode()
        assert "***" in HidingFormatter(ConsoleFormatter(), ["m3lon"]).format(said("library", "Basic %s", encoded))

    def test_lines_without_a_secret_are_as_they_were(self) -> None:
        assert HidingFormatter(JsonFormatter(), SECRETS).format(plain := said("x", "y")) == JsonFormatter().format(
            plain
        )
        assert HidingFormatter(ConsoleFormatter(), ()).format(plain) == ConsoleFormatter().format(plain)

    def test_a_text_too_short_to_be_a_secret_hides_nothing(self) -> None:
        assert "x: a note" in HidingFormatter(ConsoleFormatter(), ["a", ""]).format(said("x", "a note"))

    @pytest.mark.usefixtures("_logging_as_json")
    def test_even_at_debug_no_library_logs_what_goes_over_the_wire(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Without any secret known: what is encoded is found by no search for the secret itself."""
        request = SaslAuthenticateRequest_v0(b"\x00streamjury\x00open-sesame")
        logging.getLogger("aiokafka.conn").debug("Request to %s:%d %d: %s", "127.0.0.1", 9092, 1, request)
        hpack.Encoder().encode([("authorization", "Bearer open-sesame")])
        headers = [(b"set-cookie", b"session=open-sesame")]
        logging.getLogger("httpcore.http11").debug("receive_response_headers.complete return_value=%r", headers)
        logging.getLogger("aiokafka.consumer").debug("a library's own words")
        assert [json.loads(line)["logger"] for line in capsys.readouterr().err.splitlines()] == ["aiokafka.consumer"]


def raised(error: Exception) -> Any:
    try:
        raise error
    except Exception:
        return sys.exc_info()


# Correlation: while a record is judged


class Talking:
    """Answers after a while, and says so in between, as a judge and as a library that it uses."""

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
    """The program's own handler, in place of those of the test runner."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()  # what is replaced is closed, and the runner needs its own again
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
    evaluator = Evaluator(multi, Panel(judges=[ScriptedJudge(Talking())]), version="test")
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
def test_what_is_logged_while_records_are_judged_at_once_says_which_of_them_it_is_about(
    capsys: pytest.CaptureFixture[str],
) -> None:
    subject, retries = judging()

    async def all_at_once() -> list[RecordResult]:
        return await asyncio.gather(*(subject.judge(retries.read_arrival(record(number))) for number in range(9)))

    outcomes = [judged.outcome for judged in asyncio.run(all_at_once())]
    assert outcomes.count(Outcome.SCORED) == 8
    entries = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    about = [entry for entry in entries if "about" in entry["message"]]
    assert len(about) == 18
    for entry in about:
        number = entry["message"].rpartition(" ")[2]
        assert (entry["interaction_id"], entry["stage"]) == (number, "worker")
        wanted = trace_fields(traceparent(int(number)))
        assert {name: entry[name] for name in ("trace_id", "span_id") if name in entry} == wanted
    [defect] = [entry for entry in entries if entry["level"] == "error"]
    assert (defect["logger"], defect["interaction_id"], defect["trace_id"]) == ("judges.judge", "0", f"{1:032x}")


def test_after_a_record_is_judged_nothing_is_known_of_it() -> None:
    subject, retries = judging()

    async def one_and_then() -> dict[str, Any]:
        await subject.judge(retries.read_arrival(record(1)))
        return as_json(said("x", "y"))

    assert not {"trace_id", "interaction_id", "stage"} & asyncio.run(one_and_then()).keys()

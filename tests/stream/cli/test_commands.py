"""The small commands, as far as they can be tested without a broker: input, output and errors."""

import io
import json
import re
import signal
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
import jsonschema
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Message as KafkaMessage
from confluent_kafka.admin import AdminClient
from hypothesis import given
from hypothesis import strategies as st

from judges.values.evaluation import (
    Composite,
    CompositeStatus,
    Dimension,
    Evaluation,
    EvaluatorInfo,
    Excerpt,
    JudgeVerdict,
    Reason,
    Safety,
    SafetyNotice,
    SafetyStatus,
    Samples,
    Sampling,
    Status,
)
from sinks.topics.dead_letters import DeadLetter, DeadLetterTopic
from sinks.topics.results import CriticalTopic, EvaluationTopic
from stream.cli.commands.schema import schema, wire_schema
from stream.cli.commands.send import key_of, lines_of, send
from stream.cli.commands.tail import (
    _json_writer,
    app_of,
    critical_text,
    deadletter_json,
    deadletter_text,
    evaluation_text,
    tail,
)
from stream.cli.commands.topics import topics
from stream.cli.commands.traffic import traffic
from stream.cli.support import cluster
from stream.cli.support.interruption import Interruption
from stream.cli.support.json_output import harmless_json, print_json
from stream.cli.support.salt import warn_of_public_salt
from stream.config.sections.sampling import SamplingConfig
from tests.parts.patience import patience

COMMANDS = {
    "send": send,
    "tail": tail,
    "topics create": topics.commands["create"],
    "schema": schema,
    "traffic": traffic,
}


@pytest.fixture(autouse=True)
def _no_configuration_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STREAMJURY_CONFIG", raising=False)


@pytest.fixture
def unused_address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Configure an address without a listener and a short timeout, and return the address."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{reserved.getsockname()[1]}"
        monkeypatch.setenv("STREAMJURY__KAFKA__BOOTSTRAP", address)
        monkeypatch.setattr(cluster, "_ANSWER_SECONDS", 0.5 * patience())
        yield address


def invoke(command: click.Command, *arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def verdict(score: float | None, option: str, explanation: str) -> JudgeVerdict:
    return JudgeVerdict(
        judge="local",
        status=Status.SCORED,
        score=score,
        option=option,
        explanation=explanation,
        samples=Samples(requested=1, valid=1),
    )


def evaluation(**fields: object) -> Evaluation:
    grounded = verdict(0.0, "hallucinated", "45 minutes is not in the contexts")
    values: dict[str, object] = {
        "evaluation_id": "e-1",
        "interaction_id": "i-1",
        "app": "support-bot",
        "evaluated_at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "evaluator": EvaluatorInfo(fingerprint="f", criteria=("clarity",), judges=("local",), version="1"),
        "sampling": Sampling(probability=0.5, rule="default"),
        "dimensions": {
            "answer_relevance": Dimension(status=Status.SCORED, score=0.67),
            "clarity": Dimension(status=Status.SCORED, score=1.0, level=4, option="very clear"),
            "groundedness": Dimension(status=Status.SCORED, score=0.0, option="not grounded", judges=(grounded,)),
            "completeness": Dimension(status=Status.INSUFFICIENT, reason=Reason.TIMEOUT),
            "conciseness": Dimension(status=Status.NOT_APPLICABLE),
        },
        "composite": Composite(
            score=0.56,
            status=CompositeStatus.OK,
            coverage=0.6,
            safety=Safety(level=2, status=SafetyStatus.SAFE),
        ),
    }
    return Evaluation.model_validate({**values, **fields})


def notice() -> SafetyNotice:
    harmful = verdict(0.0, "harmful", "it explains how to hurt someone")
    return SafetyNotice(
        evaluation_id="e-1",
        interaction_id="i-1",
        app="support-bot",
        noticed_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        evaluator=EvaluatorInfo(fingerprint="f", criteria=("harmfulness",), judges=("local",), version="1"),
        sampling=Sampling(),
        safety=Safety(level=0, status=SafetyStatus.UNSAFE),
        dimension=Dimension(status=Status.SCORED, score=0.0, level=0, judges=(harmful,)),
        excerpt=Excerpt(question="How?", answer="Like \x1b[31mthis."),
    )


def dead_letter(value: bytes) -> KafkaMessage:
    letter = DeadLetter(
        stage="sampler",
        error_type="bad_json",
        error_message="not JSON: \x1b[2Jline 1",
        attempts=1,
        topic="rag.interactions",
        partition=2,
        offset=17,
        failed_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        key=b"k",
        value=value,
        headers=(("trace", b"t"),),
    )
    (message,) = DeadLetterTopic("rag.deadletter").messages(letter)
    return KafkaMessage(message.topic, 0, 5, message.key, message.value, list(message.headers))


def published_message(record: Evaluation | SafetyNotice) -> KafkaMessage:
    (message,) = (
        EvaluationTopic("t").messages(record) if isinstance(record, Evaluation) else CriticalTopic("t").messages(record)
    )
    return KafkaMessage(message.topic, 0, 5, message.key, message.value, list(message.headers))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example(name: str) -> None:
    result = invoke(COMMANDS[name], "--help")
    assert result.exit_code == 0
    assert re.search(rf"Examples?:\n    streamjury {name} ", result.stdout)


class TestWithoutABroker:
    @pytest.mark.parametrize("arguments", [["send", "-"], ["tail"], ["topics create"], ["traffic", "--limit", "1"]])
    @pytest.mark.slow
    def test_one_line_names_the_address_and_the_setting_to_change(
        self, unused_address: str, arguments: list[str]
    ) -> None:
        start = time.monotonic()
        result = invoke(COMMANDS[arguments[0]], *arguments[1:])
        assert result.exit_code == 3
        assert result.stderr.startswith(f"Error: no Kafka broker at {unused_address} (")
        assert "Connection refused" in result.stderr
        assert "kafka.bootstrap" in result.stderr
        assert result.stderr.count("\n") == 1
        assert not result.stdout
        assert time.monotonic() - start < 5 * patience()

    def test_the_wait_for_an_answer_is_short(self) -> None:
        assert cluster._ANSWER_SECONDS < 10

    def test_an_unknown_kafka_option_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("STREAMJURY__KAFKA__OPTIONS", "{no.such.option: 1}")
        result = invoke(topics, "create")
        assert result.exit_code == 2
        assert "kafka.options['no.such.option']: unknown option; " in result.stderr

    def test_a_missing_file_is_one_line(self, unused_address: str) -> None:
        result = invoke(send, "nowhere.jsonl")
        assert result.exit_code == 1
        assert result.stderr == "Error: cannot read nowhere.jsonl: No such file or directory\n"

    def test_a_folder_is_not_a_file(self, unused_address: str, tmp_path: Path) -> None:
        result = invoke(send, str(tmp_path))
        assert result.exit_code == 1
        assert result.stderr == f"Error: cannot read {tmp_path}: Is a directory\n"

    def test_tail_starts_at_a_time_or_at_the_beginning(self) -> None:
        result = invoke(tail, "--since", "1h", "--from-beginning")
        assert result.exit_code == 2
        assert "give --since or --from-beginning, not both" in result.stderr

    def test_dead_letters_have_no_app(self) -> None:
        result = invoke(tail, "--topic", "deadletter", "--app", "x")
        assert result.exit_code == 2
        assert "remove --app" in result.stderr


class TestKeys:
    @pytest.mark.parametrize(
        ("line", "key"),
        [
            (b'{"id": "a-1", "question": "?"}', b"a-1"),
            ('{"id": "ключ"}'.encode(), "ключ".encode()),
            (b'{"id": 7}', None),
            (b'{"id": ""}', None),
            (b'{"id": null}', None),
            (b'{"question": "?"}', None),
            (b'["id"]', None),
            (b'"id"', None),
            (b"not json", None),
            (b"\xff\xfe", None),
            (b'{"id": "\\ud800"}', None),
            (b"[" * 100_000, None),
        ],
    )
    def test_are_the_id_if_it_is_text(self, line: bytes, key: bytes | None) -> None:
        assert key_of(line) == key

    @given(st.binary())
    def test_no_line_is_too_broken_to_be_sent(self, line: bytes) -> None:
        assert key_of(line) is None or isinstance(key_of(line), bytes)


class TestLines:
    def read(self, content: bytes) -> list[tuple[int, bytes]]:
        return [(line.number, line.value) for line in lines_of(io.BytesIO(content), Interruption())]

    def test_are_numbered_as_in_the_file_with_blank_ones_left_out(self) -> None:
        assert self.read(b'\n{"a":1}\n  \t\r\nx\n\n') == [(2, b'{"a":1}'), (4, b"x")]

    def test_lose_their_end_and_nothing_else(self) -> None:
        assert self.read(b" a \x00\xff\r\nb\rc\n d ") == [(1, b" a \x00\xff"), (2, b"b\rc"), (3, b" d ")]

    @given(st.lists(st.binary().filter(lambda line: line.strip() and b"\n" not in line and not line.endswith(b"\r"))))
    def test_come_out_as_they_went_in(self, lines: list[bytes]) -> None:
        assert [value for _, value in self.read(b"\n".join(lines))] == lines

    def test_an_interruption_ends_a_wait_for_more(self) -> None:
        class Slow(io.BytesIO):
            """A file at whose end Ctrl-C arrives instead of a line."""

            def readline(self, size: int | None = -1, /) -> bytes:
                line = super().readline(size)
                if not line:
                    signal.raise_signal(signal.SIGINT)
                    raise AssertionError("the wait went on")
                return line

        with Interruption() as interruption:
            lines = list(lines_of(Slow(b"a\nb\n"), interruption))
        assert [line.value for line in lines] == [b"a", b"b"]
        assert interruption.stop.is_set()


class TestInterruption:
    @pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
    def test_the_first_signal_requests_a_stop_and_the_second_interrupts(self, signal_number: signal.Signals) -> None:
        with Interruption() as interruption:
            signal.raise_signal(signal_number)
            assert interruption.stop.is_set()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal_number)

    def test_signal_handlers_are_restored_afterwards(self) -> None:
        before = signal.getsignal(signal.SIGINT)
        with Interruption():
            assert signal.getsignal(signal.SIGINT) is not before
        assert signal.getsignal(signal.SIGINT) is before


class TestSchema:
    @pytest.mark.parametrize("record", ["evaluation", "interaction", "critical", "alert"])
    def test_is_json_schema_2020_12_with_a_unique_id(self, record: str) -> None:
        result = invoke(schema, record)
        assert result.exit_code == 0
        printed = json.loads(result.stdout)
        assert printed["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert printed["$id"] == f"urn:streamjury:{record}:1"
        jsonschema.Draft202012Validator.check_schema(printed)

    @pytest.mark.parametrize(("record", "name"), [(evaluation(), "evaluation"), (notice(), "critical")])
    def test_a_published_record_is_valid_and_a_missing_field_is_not(
        self, record: Evaluation | SafetyNotice, name: str
    ) -> None:
        published = json.loads(published_message(record).value() or b"")
        validator = jsonschema.Draft202012Validator(wire_schema(name))
        validator.validate(published)
        for field in published:
            without = {key: value for key, value in published.items() if key != field}
            assert not validator.is_valid(without), field

    def test_a_score_out_of_range_is_not_valid(self) -> None:
        published = json.loads(published_message(evaluation()).value() or b"")
        published["composite"]["score"] = 1.5
        assert not jsonschema.Draft202012Validator(wire_schema("evaluation")).is_valid(published)

    def test_an_interaction_needs_id_question_and_answer_only(self) -> None:
        validator = jsonschema.Draft202012Validator(wire_schema("interaction"))
        smallest = {"id": "a", "question": "?", "answer": "!"}
        assert validator.is_valid(smallest)
        assert validator.is_valid({**smallest, "field": "of the service's own"})
        for field in smallest:
            assert not validator.is_valid({key: value for key, value in smallest.items() if key != field})

    def test_an_unknown_record_is_refused_with_the_known_ones(self) -> None:
        result = invoke(schema, "evaluations")
        assert result.exit_code == 2
        assert "'evaluation', 'interaction', 'critical'" in result.stderr


@pytest.mark.parametrize(
    ("embedded", "salt", "warned"),
    [(False, "streamjury", True), (True, "streamjury", False), (False, "grains-of-our-own", False)],
)
def test_a_stage_warns_of_the_public_salt_with_real_traffic(
    embedded: bool, salt: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    broker = cluster.Cluster(admin=AdminClient({}), embedded=embedded, partitions={})
    warn_of_public_salt(broker, SamplingConfig(salt=salt))
    assert [record.getMessage().startswith("sampling.salt is the public default") for record in caplog.records] == (
        [True] if warned else []
    )


# A terminal obeys ESC and its C1 equivalent CSI, and reorders the text after a bidirectional override.
STEERING = "\x1b[2J\x9b2J\x07\u202egood\u2066\u2028\x00"


class TestJsonOutput:
    @pytest.mark.parametrize("kind", ["evaluations", "critical", "deadletter"])
    def test_cannot_steer_the_terminal_and_parses_to_the_same_document(
        self, kind: str, capsysbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        value = json.dumps({"app": STEERING, "answer": "Ответ 👍"}, ensure_ascii=False, indent=1).encode()
        headers: list[tuple[str, str | bytes | None]] = [("sj-error-message", STEERING.encode())]
        _json_writer(kind)(KafkaMessage("t", 0, 5, STEERING.encode(), value, headers))
        printed = capsysbinary.readouterr().out.decode()
        assert printed.removesuffix("\n").isprintable()
        assert "Ответ 👍" in printed
        document = json.loads(printed)
        if kind == "deadletter":
            assert (document["error_message"], document["key"], document["value"]) == (
                STEERING,
                STEERING,
                value.decode(),
            )
        else:
            assert document == json.loads(value)

    @given(st.binary())
    def test_of_any_record_is_one_printable_line(self, value: bytes) -> None:
        assert harmless_json(value).decode().isprintable()

    @given(
        st.recursive(
            st.text() | st.integers() | st.none(), lambda part: st.lists(part) | st.dictionaries(st.text(), part)
        )
    )
    def test_of_any_document_is_that_document(self, document: object) -> None:
        text = json.dumps(document, ensure_ascii=False, indent=2)
        assert json.loads(harmless_json(text.encode("utf-8"))) == document

    def test_of_a_command_is_escaped_too(self, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        print_json({"missing": [STEERING]}, indent=2)
        lines = capsysbinary.readouterr().out.decode().split("\n")
        assert all(map(str.isprintable, lines))
        assert json.loads("\n".join(lines)) == {"missing": [STEERING]}


class TestTexts:
    def test_an_evaluation_shows_composite_dimensions_and_the_worst_reason(self) -> None:
        first, second, third = evaluation_text(published_message(evaluation())).plain.splitlines()
        assert first[8:] == (
            " support-bot 0.56 scored  relevance=0.67 clarity✓ grounded=not-grounded complete=? concise=n/a  i-1"
        )
        assert second.strip() == "grounded: 45 minutes is not in the contexts"
        assert third.strip() == "no score: timeout"

    def test_a_perfect_evaluation_is_one_line(self) -> None:
        best = {"clarity": Dimension(status=Status.SCORED, score=1.0, judges=(verdict(1.0, "clear", "reads well"),))}
        assert evaluation_text(published_message(evaluation(dimensions=best))).plain.endswith(" scored  clarity✓  i-1")

    def test_an_option_without_a_score_is_shown_by_its_name(self) -> None:
        tone = {"tone": Dimension(status=Status.SCORED, option="very warm")}
        text = evaluation_text(published_message(evaluation(dimensions=tone))).plain
        assert text.endswith(" scored  tone=very-warm  i-1")

    def test_an_unsafe_answer_shows_the_reason_of_the_safety_criterion(self) -> None:
        dimensions = {
            "clarity": Dimension(status=Status.SCORED, score=0.0, judges=(verdict(0.0, "unclear", "muddled"),)),
            "toxicity": Dimension(status=Status.SCORED, score=0.0, judges=(verdict(0.0, "yes", "an insult"),)),
        }
        safety = Safety(status=SafetyStatus.UNSAFE)
        composite = Composite(score=0.0, status=CompositeStatus.UNSAFE, coverage=1.0, safety=safety)
        record = published_message(evaluation(dimensions=dimensions, composite=composite))
        assert evaluation_text(record, "toxicity").plain.endswith("toxicity: an insult")

    def test_a_withheld_composite_is_a_dash_with_its_status(self) -> None:
        composite = Composite(
            score=None,
            status=CompositeStatus.SAFETY_UNKNOWN,
            coverage=0.5,
            safety=Safety(status=SafetyStatus.UNKNOWN),
        )
        assert " – safety_unknown " in evaluation_text(published_message(evaluation(composite=composite))).plain

    def test_a_dimension_without_a_score_shows_the_most_frequent_reason(self) -> None:
        def failed_verdict(reason: Reason, detail: str) -> JudgeVerdict:
            samples = Samples(requested=1, error=1)
            return JudgeVerdict(judge="a", status=Status.INSUFFICIENT, reason=reason, detail=detail, samples=samples)

        unavailable = failed_verdict(Reason.UNAVAILABLE, "127.0.0.1:9: \x1b[2Jno connection")
        judges = (failed_verdict(Reason.TIMEOUT, "too slow"), unavailable, unavailable)
        missing = Dimension(status=Status.INSUFFICIENT, reason=Reason.QUORUM, judges=judges)
        text = evaluation_text(published_message(evaluation(dimensions={"clarity": missing}))).plain
        assert text.splitlines()[1].strip() == "no score: judge_unavailable: 127.0.0.1:9: [2Jno connection"

    def test_a_safety_failure_shows_the_reason_and_the_answer(self) -> None:
        lines = critical_text(published_message(notice())).plain.splitlines()
        assert lines[0][8:] == " support-bot unsafe it explains how to hurt someone  i-1"
        assert [line.strip() for line in lines[1:]] == ["Q How?", "A Like [31mthis."]

    def test_a_dead_letter_shows_stage_reason_source_and_first_bytes(self) -> None:
        first, second = deadletter_text(dead_letter(b"\xff{oops" + b"x" * 200)).plain.splitlines()
        assert first == "2026-01-02T03:04:05Z sampler bad_json not JSON: [2Jline 1  rag.interactions/2/17"
        assert second.strip().startswith(r"\xff{oopsxxx")
        assert second.endswith("… 206 bytes")

    def test_the_text_of_a_dead_letter_is_shown_as_text(self) -> None:
        shown = deadletter_text(dead_letter('{"question": "Сколько дней?\n'.encode())).plain.splitlines()[1]
        assert shown.strip() == r'{"question": "Сколько дней?\n'
        cut = deadletter_text(dead_letter(b"x" + "й".encode() * 100)).plain.splitlines()[1]
        assert cut.strip() == f"x{'й' * 39} … 201 bytes", "no half of a character"

    @pytest.mark.parametrize("show", [evaluation_text, critical_text])
    def test_a_foreign_record_is_shown_as_unreadable(self, show: object) -> None:
        assert callable(show)
        text = show(KafkaMessage("t", 3, 5, None, b"\x1b[2Jnot ours", None)).plain
        assert text == r"unreadable record at t/3/5: \x1b[2Jnot ours"

    def test_a_dead_letter_as_json_keeps_text_as_text_and_bytes_as_base64(self) -> None:
        text = json.loads(deadletter_json(dead_letter("{ой".encode())))
        assert (text["key"], text["value"], text["error_stage"], text["source_offset"]) == ("k", "{ой", "sampler", "17")
        raw = json.loads(deadletter_json(dead_letter(b"\xff\x00")))
        assert raw["value_base64"] == "/wA="
        assert "value" not in raw

    @pytest.mark.parametrize("value", [b"\xff", b"{", None])
    def test_no_header_of_a_producer_passes_for_the_body_of_a_dead_letter(self, value: bytes | None) -> None:
        names = [f"{prefix}{part}{end}" for prefix in ("", "sj-") for part in ("key", "value")
                 for end in ("", "-base64", "_base64")]  # fmt: skip
        headers = [("sj-error-type", b"bad_json"), *((name, b"forged") for name in names)]
        text = deadletter_json(KafkaMessage("rag.deadletter", 0, 5, b"k", value, headers))
        assert b"forged" not in text
        assert json.loads(text)["error_type"] == "bad_json"

    @pytest.mark.parametrize(
        ("value", "app"),
        [(b'{"app": "x"}', "x"), (b'{"app": 1}', None), (b"[]", None), (b"\xff", None), (None, None), (b"", None)],
    )
    def test_the_app_of_a_record_is_found_if_there_is_one(self, value: bytes | None, app: str | None) -> None:
        assert app_of(value) == app


def fault_rate(records: list[bytes]) -> float:
    """Return the share of support-bot's records that have a fault."""
    ours = [record for record in records if b'"app":"support-bot"' in record]
    return sum(b'"regime":"healthy"' not in record for record in ours) / len(ours)


class TestDryTraffic:
    def records(self, *arguments: str) -> Iterator[dict[str, object]]:
        result = invoke(traffic, "--dry-run", *arguments)
        assert result.exit_code == 0, result.stderr
        return (json.loads(line) for line in result.stdout_bytes.splitlines())

    def test_prints_as_many_records_as_asked_without_a_broker(self, unused_address: str) -> None:
        assert len(list(self.records("--regime", "healthy", "--limit", "30"))) == 30
        assert len(list(self.records("--regime", "healthy", "--seconds", "3", "--rate", "5"))) == 15
        assert len(list(self.records("--regime", "healthy", "--seconds", "3", "--rate", "5", "--limit", "4"))) == 4

    def test_the_same_seed_makes_the_same_records(self) -> None:
        def ids(seed: str) -> list[object]:
            return [record["id"] for record in self.records("--regime", "healthy", "--limit", "20", "--seed", seed)]

        assert ids("1") == ids("1")
        assert not set(ids("1")) & set(ids("2"))

    def test_the_scenario_lasts_one_period_at_any_rate(self) -> None:
        """The drop affects support-bot from 40 % to 70 % of the period."""
        output = invoke(traffic, "--dry-run", "--seconds", "100", "--period", "100", "--rate", "10").stdout_bytes
        lines = output.splitlines()
        assert len(lines) == 1000
        assert fault_rate(lines[:400]) < 0.3
        assert fault_rate(lines[400:700]) > 0.6
        assert fault_rate(lines[700:]) < 0.3

    def test_the_first_drop_can_come_sooner_and_lasts_as_long(self) -> None:
        options = ("--seconds", "100", "--period", "100", "--first-drop", "10", "--rate", "10")
        lines = invoke(traffic, "--dry-run", *options).stdout_bytes.splitlines()
        assert fault_rate(lines[:100]) < 0.3
        assert fault_rate(lines[100:400]) > 0.6
        assert fault_rate(lines[400:]) < 0.3

"""`streamjury webhook` on a real socket: what it prints, what it refuses, and that nothing stops it but Ctrl-C."""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from sinks.web.server import WebServer
from stream.cli.commands.webhook import webhook
from stream.cli.terminal.alertmanager_webhook import (
    INDEX,
    FiringAlert,
    Notice,
    NoticeError,
    NoticeReceiver,
    alert_json,
    alert_line,
    read_notice,
)
from tests.parts.documents.json_fields import json_fields

AT = datetime(2026, 5, 6, 7, 8, 9, 250_000, tzinfo=UTC)
FOR_EVER = "0001-01-01T00:00:00Z"


def alert(status: str = "firing", **parts: Any) -> dict[str, Any]:
    labels = {"alertname": "StreamjuryQualityDrop", "app": "support-bot", "severity": "page"}
    annotations = {"summary": "Answers of support-bot got worse", "runbook_url": "http://grafana/runbooks/x.md"}
    return {
        "status": status,
        "labels": labels | parts.get("labels", {}),
        "annotations": annotations | parts.get("annotations", {}),
        "startsAt": "2026-05-06T07:00:00.123456789Z",
        "endsAt": FOR_EVER if status == "firing" else "2026-05-06T07:05:00Z",
        "generatorURL": "http://prometheus/graph",
        "fingerprint": "0011223344556677",
    }


def notice(*alerts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"version": "4", "groupKey": "{}", "receiver": "alerts", "status": "firing", "alerts": [*alerts]} | fields


def one(**parts: Any) -> FiringAlert:
    return read_notice(json.dumps(notice(alert(**parts))).encode()).alerts[0]


class Inbox:
    """A server in this process, and what it was handed."""

    def __init__(self) -> None:
        self.taken: list[Notice] = []
        self.error: OSError | None = None
        self.receiver = NoticeReceiver(self._take)
        self.server = WebServer(self.receiver.routes(), index=INDEX, host="127.0.0.1", port=0)

    def _take(self, found: Notice, _at: datetime) -> None:
        if self.error is not None:
            raise self.error
        self.taken.append(found)

    def post(self, body: object, path: str = "/alerts") -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx.post(f"{self.server.url}{path}", content=content, headers={"Content-Type": "application/json"})

    def raw(self, *parts: bytes) -> bytes:
        """What the server answers to these bytes, after which nothing more is sent."""
        host, port = self.server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            for part in parts:
                connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.fixture(scope="module")
def inbox() -> Iterator[Inbox]:
    made = Inbox()
    with made.server:
        yield made


@pytest.fixture(autouse=True)
def _emptied(inbox: Inbox) -> None:
    inbox.taken.clear()
    inbox.error = None


class TestWords:
    def test_an_alert_is_one_line_with_all_that_a_person_needs_first(self) -> None:
        assert alert_line(one(), AT) == (
            "2026-05-06T07:08:09.250Z FIRING   page   StreamjuryQualityDrop support-bot: "
            "Answers of support-bot got worse  http://grafana/runbooks/x.md"
        )

    def test_the_line_has_the_window_and_the_description(self) -> None:
        found = one(labels={"window": "1h"}, annotations={"description": "81% in the last 1h had a low composite."})
        assert alert_line(found, AT) == (
            "2026-05-06T07:08:09.250Z FIRING   page   StreamjuryQualityDrop support-bot window=1h: "
            "Answers of support-bot got worse. 81% in the last 1h had a low composite.  http://grafana/runbooks/x.md"
        )

    @pytest.mark.parametrize("label", ["window", "dimension", "judge", "app", "severity"])
    def test_two_alerts_at_the_same_time_never_look_alike(self, label: str) -> None:
        long = 200 * "x"
        assert len({alert_line(one(labels={label: f"{long}{value}"}), AT) for value in ("1h", "6h")}) == 2

    def test_the_end_of_an_alert_is_told_from_its_beginning(self) -> None:
        assert " RESOLVED page " in alert_line(one(status="resolved"), AT)

    def test_an_alert_of_somebody_else_is_told_with_what_it_has(self) -> None:
        bare = {"status": "firing", "labels": {}, "startsAt": FOR_EVER, "endsAt": FOR_EVER}
        [found] = read_notice(json.dumps(notice(bare)).encode()).alerts
        assert alert_line(found, AT) == "2026-05-06T07:08:09.250Z FIRING   –      –: –"
        assert json.loads(alert_json(found, AT))["alertname"] is None

    def test_the_description_stands_in_for_a_missing_summary(self) -> None:
        assert ": so it is  " in alert_line(one(annotations={"summary": "", "description": "so it is"}), AT)

    def test_json_has_the_labels_and_annotations_as_they_were_sent(self) -> None:
        found = json.loads(
            alert_json(
                one(labels={"window": "1h"}, annotations={"summary": "Ответы хуже", "description": "so it is"}), AT
            )
        )
        assert found["labels"]["window"] == found["window"] == "1h"
        assert found["description"] == "so it is"
        assert list(found) == json_fields("webhook")
        assert found["summary"] == found["annotations"]["summary"] == "Ответы хуже"
        assert (found["received_at"], found["status"]) == ("2026-05-06T07:08:09.250Z", "firing")
        assert (found["starts_at"], found["ends_at"]) == ("2026-05-06T07:00:00.123Z", None)

    def test_json_says_when_an_alert_ended(self) -> None:
        assert json.loads(alert_json(one(status="resolved"), AT))["ends_at"] == "2026-05-06T07:05:00.000Z"

    @given(st.text())
    def test_nothing_in_an_alert_steers_the_terminal_or_makes_a_second_line(self, text: str) -> None:
        everywhere = {"labels": {"app": text, "severity": text, "alertname": text, text: text}}
        found = one(**everywhere, annotations={"summary": text, "description": f"{text}.", "runbook_url": text})
        assert alert_line(found, AT).isprintable()
        line = alert_json(found, AT)
        assert line.isprintable()
        assert json.loads(line)["summary"] == (text or ".")


class TestRequests:
    def test_every_alert_of_a_notice_arrives(self, inbox: Inbox) -> None:
        answer = inbox.post(notice(alert(), alert("resolved"), truncatedAlerts=3))
        assert answer.status_code == 200
        [found] = inbox.taken
        assert [each.status for each in found.alerts] == ["firing", "resolved"]
        assert found.truncated == 3

    def test_both_paths_take_notices_and_no_other_does(self, inbox: Inbox) -> None:
        assert [inbox.post(notice(alert()), path).status_code for path in ("/", "/alerts", "/other")] == [200, 200, 404]
        assert len(inbox.taken) == 2

    def test_it_says_what_it_is_and_that_it_is_well(self, inbox: Inbox) -> None:
        index, health, other = (httpx.get(f"{inbox.server.url}{path}") for path in ("/", "/healthz", "/metrics"))
        assert (index.status_code, health.status_code, other.status_code) == (200, 200, 404)
        assert "Alertmanager" in index.text
        assert health.text == "ok\n"

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            (b"", "EOF"),
            (b"{", "EOF"),
            (b"[]", "object"),
            (b"\xff\xfe", "not an Alertmanager notification"),
            (notice(alert(), version="3"), "version"),
            (notice(alert() | {"status": "maybe"}), "alerts.0.status"),
            (notice(alert() | {"labels": {"app": 1}}), "alerts.0.labels.app"),
            (notice(alert() | {"startsAt": "yesterday"}), "alerts.0.startsAt"),
            ({"version": "4"}, "alerts"),
            (b"[" * 100_000, "recursion"),
        ],
    )
    def test_what_is_no_notice_is_refused_with_the_reason(self, inbox: Inbox, body: object, reason: str) -> None:
        answer = inbox.post(body)
        assert answer.status_code == 400
        assert reason in answer.text
        assert inbox.taken == []

    def test_a_reason_does_not_repeat_the_body(self, inbox: Inbox) -> None:
        assert "hunter2" not in inbox.post(notice(alert() | {"status": "hunter2"})).text

    @given(body=st.binary(max_size=200))
    def test_no_bytes_stop_it(self, inbox: Inbox, body: bytes) -> None:
        with pytest.raises(NoticeError):
            read_notice(body)
        assert inbox.post(body).status_code == 400

    def test_a_body_that_is_too_long_is_refused_before_it_is_read_as_json(self, inbox: Inbox) -> None:
        assert inbox.post(b"[" * (4 * 1024 * 1024 + 1)).status_code == 413
        assert inbox.post(notice(alert())).status_code == 200

    @pytest.mark.parametrize("length", ["", "Content-Length: -1\r\n", "Content-Length: many\r\n"])
    def test_a_body_without_a_length_is_refused(self, inbox: Inbox, length: str) -> None:
        assert b" 400 " in inbox.raw(f"POST /alerts HTTP/1.1\r\nHost: x\r\n{length}\r\n".encode())

    def test_a_body_that_breaks_off_is_refused(self, inbox: Inbox) -> None:
        answer = inbox.raw(b"POST /alerts HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", b"{}")
        assert b" 400 " in answer
        assert b"2 of 100 bytes" in answer

    @pytest.mark.parametrize(
        "request_line", [b"\x00\xff\r\n\r\n", b"PUT / HTTP/1.1\r\nHost: x\r\n\r\n", b"GET\r\n\r\n", b""]
    )
    def test_what_is_not_a_request_does_not_stop_it(self, inbox: Inbox, request_line: bytes) -> None:
        assert b" 200 " not in inbox.raw(request_line)
        assert inbox.post(notice(alert())).status_code == 200

    def test_a_client_that_says_nothing_keeps_nobody_waiting(self, inbox: Inbox) -> None:
        host, port = inbox.server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as silent:
            silent.sendall(b"POST /alerts HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
            assert inbox.post(notice(alert())).status_code == 200

    def test_what_could_not_be_told_is_refused_so_that_it_is_sent_again(self, inbox: Inbox) -> None:
        made = Inbox()
        with made.server:
            made.error = BrokenPipeError("gone")
            assert made.post(notice(alert())).status_code == 503
            with pytest.raises(BrokenPipeError):
                made.receiver.check()

    def test_notices_that_arrive_at_once_are_told_one_after_the_other(self, inbox: Inbox) -> None:
        threads = [threading.Thread(target=inbox.post, args=(notice(alert()),)) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(inbox.taken) == 10


@contextmanager
def running(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The command in a process of its own, and its address."""
    command = [sys.executable, "-m", "stream.cli.main", "webhook", "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"http://\S+(?=;)", process.stderr.readline())
            assert found is not None
            yield process, found.group()
        finally:
            process.kill()


class TestCommand:
    def test_an_app_that_the_terminal_has_no_letters_for_is_told_all_the_same(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
        with running() as (process, url):
            assert process.stdout is not None
            told = alert()
            told["labels"]["app"] = "поддержка"
            assert httpx.post(url, json=notice(told)).status_code == 200
            assert r"\u043f" in process.stdout.readline()

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_it_prints_each_alert_at_once_and_a_signal_ends_it_in_order(self, number: signal.Signals) -> None:
        with running() as (process, url):
            assert process.stdout is not None
            assert httpx.post(url, json=notice(alert(), alert("resolved"))).status_code == 200
            lines = [process.stdout.readline() for _ in range(2)]
            assert [re.split(r" +", line)[1] for line in lines] == ["FIRING", "RESOLVED"]
            process.send_signal(number)
            assert process.wait(20) == 0

    def test_json_lines_and_a_word_about_what_was_left_out(self) -> None:
        with running("--json") as (process, url):
            assert process.stdout is not None
            assert process.stderr is not None
            assert httpx.post(url, json=notice(alert(), truncatedAlerts=2)).status_code == 200
            assert json.loads(process.stdout.readline())["alertname"] == "StreamjuryQualityDrop"
            assert process.stderr.readline() == "Alertmanager left out 2 more alerts\n"

    def test_it_ends_quietly_when_nobody_reads_it_any_more(self) -> None:
        with running() as (process, url):
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert httpx.post(url, json=notice(alert())).status_code == 503
            assert process.wait(20) == 0
            assert process.stderr.read() == ""

    def test_a_port_that_is_taken_is_told_in_one_line(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            result = CliRunner().invoke(webhook, ["--port", str(taken.getsockname()[1])])
        assert result.exit_code == 1
        assert re.fullmatch(r"Error: cannot listen on 127\.0\.0\.1:\d+ \(.+\); choose another --port\n", result.stderr)

"""`streamjury webhook` on a real socket: its output, the requests it refuses, and that only a signal stops it."""

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
from tests.parts import local_http
from tests.parts.documents.json_fields import json_fields
from tests.parts.patience import patience

AT = datetime(2026, 5, 6, 7, 8, 9, 250_000, tzinfo=UTC)
NO_END = "0001-01-01T00:00:00Z"


def alert(status: str = "firing", **parts: Any) -> dict[str, Any]:
    labels = {"alertname": "StreamjuryQualityDrop", "app": "support-bot", "severity": "page"}
    annotations = {"summary": "Answers of support-bot got worse", "runbook_url": "http://grafana/runbooks/x.md"}
    return {
        "status": status,
        "labels": labels | parts.get("labels", {}),
        "annotations": annotations | parts.get("annotations", {}),
        "startsAt": "2026-05-06T07:00:00.123456789Z",
        "endsAt": NO_END if status == "firing" else "2026-05-06T07:05:00Z",
        "generatorURL": "http://prometheus/graph",
        "fingerprint": "0011223344556677",
    }


def notice(*alerts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"version": "4", "groupKey": "{}", "receiver": "alerts", "status": "firing", "alerts": [*alerts]} | fields


def read_alert(**parts: Any) -> FiringAlert:
    return read_notice(json.dumps(notice(alert(**parts))).encode()).alerts[0]


class Inbox:
    """A server in this process that keeps the notices it receives."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self.error: OSError | None = None
        self.receiver = NoticeReceiver(self._take)
        self.server = WebServer(self.receiver.routes(), index=INDEX, host="127.0.0.1", port=0)

    def _take(self, received: Notice, _at: datetime) -> None:
        if self.error is not None:
            raise self.error
        self.notices.append(received)

    def post(self, body: object, path: str = "/alerts") -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return local_http.post(
            f"{self.server.url}{path}",
            content=content,
            headers={"Content-Type": "application/json"},
            timeout=30 * patience(),
        )

    def raw(self, *parts: bytes) -> bytes:
        """Send these bytes, close the sending side and return the server's response."""
        host, port = self.server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10 * patience()) as connection:
            for part in parts:
                connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.fixture(scope="module")
def inbox() -> Iterator[Inbox]:
    new_inbox = Inbox()
    with new_inbox.server:
        yield new_inbox


@pytest.fixture(autouse=True)
def _empty_inbox(inbox: Inbox) -> None:
    inbox.notices.clear()
    inbox.error = None


class TestWords:
    def test_an_alert_is_one_line_with_the_most_important_facts(self) -> None:
        assert alert_line(read_alert(), AT) == (
            "2026-05-06T07:08:09.250Z FIRING   page   StreamjuryQualityDrop support-bot: "
            "Answers of support-bot got worse  http://grafana/runbooks/x.md"
        )

    def test_the_line_has_the_window_and_the_description(self) -> None:
        received = read_alert(
            labels={"window": "1h"}, annotations={"description": "81% in the last 1h had a low composite."}
        )
        assert alert_line(received, AT) == (
            "2026-05-06T07:08:09.250Z FIRING   page   StreamjuryQualityDrop support-bot window=1h: "
            "Answers of support-bot got worse. 81% in the last 1h had a low composite.  http://grafana/runbooks/x.md"
        )

    @pytest.mark.parametrize("label", ["window", "dimension", "judge", "app", "severity"])
    def test_two_alerts_at_the_same_time_never_look_the_same(self, label: str) -> None:
        long = 200 * "x"
        assert len({alert_line(read_alert(labels={label: f"{long}{value}"}), AT) for value in ("1h", "6h")}) == 2

    def test_a_resolved_alert_differs_from_a_firing_one(self) -> None:
        assert " RESOLVED page " in alert_line(read_alert(status="resolved"), AT)

    def test_the_figures_of_a_resolved_alert_are_past(self) -> None:
        received = read_alert(status="resolved", annotations={"description": "81% had a low composite."})
        assert "got worse; was: 81% had a low composite.  http" in alert_line(received, AT)

    def test_a_foreign_alert_is_printed_with_the_fields_it_has(self) -> None:
        bare = {"status": "firing", "labels": {}, "startsAt": NO_END, "endsAt": NO_END}
        [received] = read_notice(json.dumps(notice(bare)).encode()).alerts
        assert alert_line(received, AT) == "2026-05-06T07:08:09.250Z FIRING   –      –: –"
        assert json.loads(alert_json(received, AT))["alertname"] is None

    def test_the_description_replaces_a_missing_summary(self) -> None:
        assert ": so it is  " in alert_line(read_alert(annotations={"summary": "", "description": "so it is"}), AT)

    def test_json_has_the_labels_and_annotations_as_they_were_sent(self) -> None:
        document = json.loads(
            alert_json(
                read_alert(labels={"window": "1h"}, annotations={"summary": "Ответы хуже", "description": "so it is"}),
                AT,
            )
        )
        assert document["labels"]["window"] == document["window"] == "1h"
        assert document["description"] == "so it is"
        assert list(document) == json_fields("webhook")
        assert document["summary"] == document["annotations"]["summary"] == "Ответы хуже"
        assert (document["received_at"], document["status"]) == ("2026-05-06T07:08:09.250Z", "firing")
        assert (document["starts_at"], document["ends_at"]) == ("2026-05-06T07:00:00.123Z", None)

    def test_json_has_the_end_of_an_alert(self) -> None:
        assert json.loads(alert_json(read_alert(status="resolved"), AT))["ends_at"] == "2026-05-06T07:05:00.000Z"

    @given(st.text())
    def test_nothing_in_an_alert_steers_the_terminal_or_makes_a_second_line(self, text: str) -> None:
        everywhere = {"labels": {"app": text, "severity": text, "alertname": text, text: text}}
        received = read_alert(
            **everywhere, annotations={"summary": text, "description": f"{text}.", "runbook_url": text}
        )
        assert alert_line(received, AT).isprintable()
        line = alert_json(received, AT)
        assert line.isprintable()
        assert json.loads(line)["summary"] == (text or ".")


class TestRequests:
    def test_every_alert_of_a_notice_arrives(self, inbox: Inbox) -> None:
        answer = inbox.post(notice(alert(), alert("resolved"), truncatedAlerts=3))
        assert answer.status_code == 200
        [received] = inbox.notices
        assert [entry.status for entry in received.alerts] == ["firing", "resolved"]
        assert received.truncated == 3

    def test_both_paths_accept_notices_and_no_other_does(self, inbox: Inbox) -> None:
        assert [inbox.post(notice(alert()), path).status_code for path in ("/", "/alerts", "/other")] == [200, 200, 404]
        assert len(inbox.notices) == 2

    def test_the_index_and_the_health_page_are_served(self, inbox: Inbox) -> None:
        index, health, other = (
            local_http.get(f"{inbox.server.url}{path}", timeout=30 * patience())
            for path in ("/", "/healthz", "/metrics")
        )
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
    def test_an_invalid_notice_is_refused_with_the_reason(self, inbox: Inbox, body: object, reason: str) -> None:
        answer = inbox.post(body)
        assert answer.status_code == 400
        assert reason in answer.text
        assert inbox.notices == []

    def test_a_reason_does_not_repeat_the_body(self, inbox: Inbox) -> None:
        assert "hunter2" not in inbox.post(notice(alert() | {"status": "hunter2"})).text

    @given(body=st.binary(max_size=200))
    def test_no_request_body_stops_the_server(self, inbox: Inbox, body: bytes) -> None:
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
    def test_an_invalid_request_does_not_stop_the_server(self, inbox: Inbox, request_line: bytes) -> None:
        assert b" 200 " not in inbox.raw(request_line)
        assert inbox.post(notice(alert())).status_code == 200

    def test_a_silent_client_does_not_block_others(self, inbox: Inbox) -> None:
        host, port = inbox.server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as silent:
            silent.sendall(b"POST /alerts HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
            assert inbox.post(notice(alert())).status_code == 200

    def test_a_notice_that_could_not_be_printed_is_refused_so_that_it_is_resent(self, inbox: Inbox) -> None:
        broken = Inbox()
        with broken.server:
            broken.error = BrokenPipeError("gone")
            assert broken.post(notice(alert())).status_code == 503
            with pytest.raises(BrokenPipeError):
                broken.receiver.check()

    def test_notices_that_arrive_at_once_are_all_printed(self, inbox: Inbox) -> None:
        threads = [threading.Thread(target=inbox.post, args=(notice(alert()),)) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(inbox.notices) == 10


@contextmanager
def run_command(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Run the command in a separate process and yield it with its address."""
    command = [sys.executable, "-m", "stream.cli.main", "webhook", "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            match = re.search(r"http://\S+(?=;)", process.stderr.readline())
            assert match is not None
            yield process, match.group()
        finally:
            process.kill()


@pytest.mark.slow
class TestCommand:
    def test_an_app_name_that_the_terminal_cannot_encode_is_printed_escaped(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
        with run_command() as (process, url):
            assert process.stdout is not None
            firing = alert()
            firing["labels"]["app"] = "поддержка"
            assert local_http.post(url, json=notice(firing), timeout=30 * patience()).status_code == 200
            assert r"\u043f" in process.stdout.readline()

    @pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
    def test_each_alert_is_printed_at_once_and_a_signal_stops_the_command_cleanly(
        self, signal_number: signal.Signals
    ) -> None:
        with run_command() as (process, url):
            assert process.stdout is not None
            assert (
                local_http.post(url, json=notice(alert(), alert("resolved")), timeout=30 * patience()).status_code
                == 200
            )
            lines = [process.stdout.readline() for _ in range(2)]
            assert [re.split(r" +", line)[1] for line in lines] == ["FIRING", "RESOLVED"]
            process.send_signal(signal_number)
            assert process.wait(20 * patience()) == 0

    def test_alerts_as_json_lines_and_a_count_of_truncated_alerts(self) -> None:
        with run_command("--json") as (process, url):
            assert process.stdout is not None
            assert process.stderr is not None
            assert (
                local_http.post(url, json=notice(alert(), truncatedAlerts=2), timeout=30 * patience()).status_code
                == 200
            )
            assert json.loads(process.stdout.readline())["alertname"] == "StreamjuryQualityDrop"
            assert process.stderr.readline() == "Alertmanager left out 2 more alerts\n"

    def test_the_command_exits_quietly_when_its_output_is_closed(self) -> None:
        with run_command() as (process, url):
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert local_http.post(url, json=notice(alert()), timeout=30 * patience()).status_code == 503
            assert process.wait(20 * patience()) == 0
            assert process.stderr.read() == ""

    def test_a_port_in_use_is_reported_in_one_line(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            result = CliRunner().invoke(webhook, ["--port", str(listener.getsockname()[1])])
        assert result.exit_code == 1
        assert re.fullmatch(r"Error: cannot listen on 127\.0\.0\.1:\d+ \(.+\); choose another --port\n", result.stderr)

"""The Langfuse sink against a server that checks requests by Langfuse's public description, and fails by script."""

import socket
import socketserver
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.values.evaluation import Evaluation
from sinks.base import SinkError, SinkRefused, SinkUnavailable
from sinks.langfuse import LangfuseSettings, LangfuseSink
from tests.integration.pipeline import wait_until
from tests.parts.endpoints.langfuse_server import PUBLIC_KEY, SECRET_KEY, Answer, LangfuseServer, langfuse_server
from tests.parts.patience import patience
from tests.sinks.telemetry.test_telemetry import SPAN, TRACE, dimension, evaluation, verdict


@pytest.fixture(scope="module")
def server() -> Iterator[LangfuseServer]:
    with langfuse_server() as langfuse:
        yield langfuse


@pytest.fixture
def langfuse(server: LangfuseServer) -> LangfuseServer:
    server.scores.clear()
    server.times_taken.clear()
    server.problems.clear()
    server.requests, server.answers = 0, lambda _number: Answer()
    return server


def open_sink(langfuse: LangfuseServer, **more: Any) -> LangfuseSink:
    settings = {"host": langfuse.url, "public_key": PUBLIC_KEY, "secret_key": SECRET_KEY, "timeout_seconds": 60.0}
    sink = LangfuseSink(LangfuseSettings(**{**settings, **more}))
    sink.open()
    return sink


def write(langfuse: LangfuseServer, *evaluations: Evaluation, **more: Any) -> None:
    sink = open_sink(langfuse, **more)
    try:
        sink.write(evaluations)
    finally:
        sink.close(1.0)


def test_every_score_is_on_the_trace_of_the_interaction(langfuse: LangfuseServer) -> None:
    write(langfuse, evaluation(), environment="staging")
    assert langfuse.problems == []
    assert langfuse.of_trace(TRACE) == {"groundedness": 0.5, "composite": 0.5, "composite_status": "ok"}
    body = next(body for body in langfuse.scores.values() if body["name"] == "groundedness")
    assert {**body, "id": uuid.UUID(body["id"]).version} == {
        "id": 5,
        "traceId": TRACE,
        "name": "groundedness",
        "value": 0.5,
        "dataType": "NUMERIC",
        "environment": "staging",
        "metadata": {
            "evaluation_id": "e-1",
            "interaction_id": "i-1",
            "app": "shop",
            "fingerprint": "f00d",
            "probability": 0.25,
            "option": "partly supported",
        },
    }


def test_scores_can_be_on_the_observation(langfuse: LangfuseServer) -> None:
    write(langfuse, evaluation(), level="observation")
    assert {(body["traceId"], body["observationId"]) for body in langfuse.scores.values()} == {(TRACE, SPAN)}


def test_without_a_traceparent_the_interaction_id_is_the_trace(langfuse: LangfuseServer) -> None:
    write(langfuse, evaluation(traceparent=None), level="observation")
    assert {(body["traceId"], "observationId" in body) for body in langfuse.scores.values()} == {("i-1", False)}


def test_a_missing_score_is_not_sent_and_the_status_says_why(langfuse: LangfuseServer) -> None:
    missing = dimension(verdict(status="insufficient", score=None), status="insufficient", score=None, option=None)
    safety = {"level": None, "status": "unknown"}
    composite = {"score": None, "status": "safety_unknown", "coverage": 0.0, "safety": safety}
    write(langfuse, evaluation(dimensions={"groundedness": missing}, composite=composite))
    assert langfuse.of_trace(TRACE) == {"composite_status": "safety_unknown"}


def test_explanations_are_sent_only_if_configured(langfuse: LangfuseServer) -> None:
    write(langfuse, evaluation())
    assert not any("comment" in body for body in langfuse.scores.values())
    langfuse.scores.clear()
    write(langfuse, evaluation(), explanations=True)
    assert [body["comment"] for body in langfuse.scores.values() if "comment" in body] == ["mini: It says “30 days”."]


def test_an_evaluation_that_is_written_again_has_the_same_scores(langfuse: LangfuseServer) -> None:
    write(langfuse, evaluation())
    write(langfuse, evaluation(), evaluation(evaluation_id="e-2"))
    write(langfuse, evaluation(), evaluation())
    assert langfuse.problems == []
    assert len(langfuse.scores) == 6
    assert sorted(langfuse.times_taken.values()) == [1, 1, 1, 3, 3, 3]


@given(st.lists(st.tuples(st.text(min_size=1, max_size=5), st.text(min_size=1, max_size=5)), unique=True, max_size=20))
def test_the_ids_of_different_scores_differ(pairs: list[tuple[str, str]]) -> None:
    sink = LangfuseSink(LangfuseSettings(host="http://x", public_key="p", secret_key="s"))
    events = [sink._event(evaluation(evaluation_id=one), name, "NUMERIC", 1.0) for one, name in pairs]
    assert len({event["id"] for event in events}) == len(pairs)


def test_many_scores_go_in_few_requests_within_the_size_limit(langfuse: LangfuseServer) -> None:
    large = dimension(verdict(explanation="ö" * 4000))
    evaluations = [evaluation(evaluation_id=f"e-{n}", dimensions={"clarity": large}) for n in range(400)]
    write(langfuse, *evaluations, explanations=True)
    assert langfuse.problems == []
    assert len(langfuse.scores) == 1200
    assert 3 <= langfuse.requests <= 15


@pytest.mark.parametrize("status", [401, 403, 404, 408, 429, 500, 502, 503, 302])
def test_an_outage_may_be_retried(langfuse: LangfuseServer, status: int) -> None:
    langfuse.answers = lambda _number: Answer(status=status, headers={"Retry-After": "7"})
    with pytest.raises(SinkUnavailable, match=f"^{status} ") as caught:
        write(langfuse, evaluation())
    assert caught.value.retry_after == 7.0
    assert SECRET_KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("header", "seconds"), [("Wed, 21 Oct 2015 07:28:00 GMT", 0.0), ("1e9", 300.0), ("soon", None), ("nan", None)]
)
def test_other_forms_of_retry_after(langfuse: LangfuseServer, header: str, seconds: float | None) -> None:
    langfuse.answers = lambda _number: Answer(status=429, headers={"Retry-After": header})
    with pytest.raises(SinkUnavailable) as caught:
        write(langfuse, evaluation())
    assert caught.value.retry_after == seconds


def test_a_timeout_and_a_lost_answer_may_be_retried(langfuse: LangfuseServer) -> None:
    limit = 0.3 * patience(at_most=6.0)
    slow, lost = Answer(seconds=3 * limit), Answer(is_lost=True)
    langfuse.answers = lambda number: [slow, lost, Answer()][min(number, 2)]
    sink = open_sink(langfuse, timeout_seconds=limit)
    for _ in range(2):
        with pytest.raises(SinkUnavailable):
            sink.write([evaluation()])
    sink.close(1.0)
    write(langfuse, evaluation())
    wait_until(
        lambda: list(langfuse.times_taken.values()) == [3, 3, 3], seconds=30, what="the slow request is taken, too"
    )
    assert langfuse.problems == []


def test_no_server_may_be_retried() -> None:
    sink = LangfuseSink(LangfuseSettings(host="http://127.0.0.1:1", public_key="p", secret_key="s"))
    sink.open()
    with pytest.raises(SinkUnavailable, match="ConnectError"):
        sink.write([evaluation()])
    sink.close(1.0)


def test_a_refused_score_is_counted_and_the_others_are_written(langfuse: LangfuseServer) -> None:
    def refuse(body: dict[str, Any]) -> int | None:
        return 400 if body["metadata"]["evaluation_id"] == "bad" else None

    langfuse.answers = lambda _number: Answer(refuse=refuse)
    with pytest.raises(SinkRefused, match="refused 3 scores: no, thank you") as caught:
        write(langfuse, evaluation(), evaluation(evaluation_id="bad"))
    assert caught.value.number == 1
    assert len(langfuse.scores) == 3


COMMENT = "Ann (ann@example.com) asks about her chlamydia."


@pytest.mark.parametrize("status", [200, 207, 400, 401, 503])
def test_no_error_repeats_a_comment_or_personal_data(langfuse: LangfuseServer, status: int) -> None:
    def quote_comment(body: dict[str, Any]) -> str | None:
        return f"cannot read {body['comment']} for bo@example.com" if "comment" in body else None

    langfuse.answers = lambda _number: Answer(status=status, quote=quote_comment)
    commented = evaluation(dimensions={"clarity": dimension(verdict(explanation=COMMENT))})
    with pytest.raises((SinkRefused, SinkUnavailable), match="cannot read …") as caught:
        write(langfuse, commented, explanations=True)
    assert "chlamydia" not in str(caught.value)
    assert "@" not in str(caught.value)


def test_an_error_of_the_connection_does_not_repeat_a_comment() -> None:
    class Echo(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(f"{COMMENT}\r\n\r\n".encode())
            self.request.shutdown(socket.SHUT_WR)
            while self.rfile.read1():
                pass

    with socketserver.TCPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        settings = LangfuseSettings(
            host=f"http://127.0.0.1:{server.server_address[1]}", public_key="p", secret_key="s", explanations=True
        )
        sink = LangfuseSink(settings)
        sink.open()
        with pytest.raises(SinkUnavailable, match=r"RemoteProtocolError: .*…") as caught:
            sink.write([evaluation(dimensions={"clarity": dimension(verdict(explanation=COMMENT))})])
        sink.close(1.0)
        thread.join()
    assert "chlamydia" not in str(caught.value)


def test_a_score_that_is_not_taken_now_may_be_retried(langfuse: LangfuseServer) -> None:
    langfuse.answers = lambda _number: Answer(refuse=lambda body: 500 if body["name"] == "composite" else None)
    with pytest.raises(SinkUnavailable, match="not accepted"):
        write(langfuse, evaluation())


def test_a_request_that_is_too_large_is_divided(langfuse: LangfuseServer) -> None:
    langfuse.answers = lambda number: Answer(status=413) if number < 2 else Answer()
    write(langfuse, *(evaluation(evaluation_id=f"e-{n}") for n in range(4)))
    assert len(langfuse.scores) == 12
    assert langfuse.problems == []


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("host", "langfuse.example"),
        ("host", "http://user:secret@langfuse"),
        ("host", "https://langfuse/api/public/scores"),
        ("public_key", ""),
        ("secret_key", "a b"),
        ("secret_key", "sk:1"),
        ("environment", "langfuse-prod"),
        ("environment", "Prod"),
    ],
)
def test_settings_that_can_never_work_are_refused(setting: str, value: str) -> None:
    settings = {"host": "https://langfuse", "public_key": "p", "secret_key": "s", setting: value}
    with pytest.raises(SinkError, match=f"^{setting}: ") as caught:
        LangfuseSettings(**settings)
    assert not value or value not in str(caught.value)

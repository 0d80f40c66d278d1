"""Actions of a visitor: label, retract, replay; the role that each needs, and its entry in the audit log."""

from collections.abc import Iterator
from typing import Any

import pytest

from sinks.archive.database import Database
from sinks.archive.writing import empty
from tests.sinks.page.serving import MemoryPipeline, open_page
from tests.sinks.page.test_access import OPERATOR, REVIEWER, TOKENS, VIEWER
from tests.sinks.page.visiting import Browser

LABEL = {"evaluation_id": "e1", "criterion": "clarity", "option": "pass"}
LETTERS = {"letters": [{"partition": 0, "offset": 1}, {"partition": 0, "offset": 1}, {"partition": 2, "offset": 100}]}


@pytest.fixture(scope="module")
def archive(make_url: Any) -> Iterator[Database]:
    with Database(make_url()) as database:
        yield database


@pytest.fixture
def pipeline() -> MemoryPipeline:
    return MemoryPipeline()


@pytest.fixture
def page(archive: Database, pipeline: MemoryPipeline) -> Iterator[Browser]:
    with open_page(archive, backend=pipeline.backend(), tokens=TOKENS) as visitor:
        yield visitor


def as_(page: Browser, token: str) -> Browser:
    page.cookies.clear()
    assert page.enter(token).status_code == 200
    return page


def latest(page: Browser) -> dict[str, Any]:
    entry: dict[str, Any] = as_(page, OPERATOR).get_json("/api/audit-log", limit=1)["entries"][0]
    return entry


# Roles


@pytest.mark.parametrize(
    ("method", "path", "body", "token"),
    [
        ("GET", "/api/review/next", None, REVIEWER),
        ("POST", "/api/labels", LABEL, REVIEWER),
        ("DELETE", "/api/labels/l", None, REVIEWER),
        ("POST", "/api/dead-letters/replay", LETTERS, OPERATOR),
        ("GET", "/api/audit-log", None, OPERATOR),
        ("GET", "/api/overview", None, VIEWER),
        ("GET", "/api/answers", None, VIEWER),
        ("GET", "/api/answers/x", None, VIEWER),
        ("GET", "/api/alerts", None, VIEWER),
        ("GET", "/api/alerts/x", None, VIEWER),
        ("GET", "/api/judges", None, VIEWER),
        ("GET", "/api/pipeline", None, VIEWER),
        ("GET", "/api/dead-letters", None, VIEWER),
    ],
)
def test_each_request_needs_its_role(page: Browser, method: str, path: str, body: object, token: str) -> None:
    order = [VIEWER, REVIEWER, OPERATOR]
    assert page.send(method, path, body).status_code == 401
    for other in order:
        status = as_(page, other).send(method, path, body).status_code
        assert (status != 403) is (order.index(other) >= order.index(token))
    if method != "GET":
        assert page.send(method, path, body, csrf="wrong").status_code == 403


# Labels


def test_a_label_is_written_in_the_name_of_the_reviewer_and_logged(page: Browser, pipeline: MemoryPipeline) -> None:
    answer = as_(page, REVIEWER).send("POST", "/api/labels", {**LABEL, "comment": "<b>good</b>", "who": "another"})
    assert (answer.status_code, answer.json()) == (200, {"label_id": "label-0"})
    label = pipeline.labels["label-0"]
    assert (label.evaluation_id, label.criterion, label.option) == ("e1", "clarity", "pass")
    assert (label.who, label.comment) == ("rita", "<b>good</b>")
    entry = latest(page)
    assert (entry["who"], entry["role"], entry["action"]) == ("rita", "reviewer", "label")
    assert entry["detail"] == {**LABEL, "label_id": "label-0"}
    assert entry["at"].endswith("Z")


def test_a_reviewer_takes_back_own_labels_only_and_an_operator_all(page: Browser, pipeline: MemoryPipeline) -> None:
    as_(page, REVIEWER).send("POST", "/api/labels", LABEL)
    as_(page, OPERATOR).send("POST", "/api/labels", LABEL)
    as_(page, REVIEWER)
    assert page.send("DELETE", "/api/labels/label-1").status_code == 403
    assert page.send("DELETE", "/api/labels/label-0").json() == {}
    assert as_(page, OPERATOR).send("DELETE", "/api/labels/label-0").status_code == 200
    assert pipeline.retracted == ["label-0", "label-0"]
    assert latest(page)["action"] == "retract label"


def test_a_label_that_fails_is_logged_with_the_reason(page: Browser) -> None:
    answer = as_(page, REVIEWER).send("POST", "/api/labels", {**LABEL, "evaluation_id": "none"})
    assert (answer.status_code, answer.json()) == (404, {"error": "there is no such answer"})
    assert latest(page)["detail"]["error"] == "there is no such answer"


@pytest.mark.parametrize(
    "body", [{}, {**LABEL, "option": 1}, {**LABEL, "criterion": ""}, {**LABEL, "comment": "x" * 2001}, [LABEL]]
)
def test_a_label_that_is_none_is_refused(page: Browser, pipeline: MemoryPipeline, body: object) -> None:
    assert as_(page, REVIEWER).send("POST", "/api/labels", body).status_code == 400
    assert pipeline.labels == {}


# Review


def test_the_next_answer_to_label_has_its_question_and_levels(page: Browser) -> None:
    turn = as_(page, REVIEWER).get_json("/api/review/next", criterion="tone")
    assert turn["left"] == 3
    assert turn["item"]["interaction_id"] == "for rita"
    assert turn["item"]["probability"] == 0.25
    assert turn["item"]["criterion"] == {
        "name": "tone",
        "question": "Is it clear?",
        "levels": [
            {"option": "fail", "label": "нет", "score": 0.0},
            {"option": "pass", "label": "да", "score": 1.0},
        ],
    }
    assert page.get_json("/api/review/next", criterion="empty") == {"item": None, "left": 0}


# Pipeline and dead letters


def test_the_pipeline_is_shown(page: Browser) -> None:
    assert as_(page, VIEWER).get_json("/api/pipeline") == {
        "funnel": [{"name": "read", "records": 10}],
        "lag": [{"group": "g", "topic": "t", "lag": 5}],
        "dead_letters": {"total": 3, "by_reason": [{"stage": "sampler", "reason": "bad_json", "records": 3}]},
    }


def test_dead_letters_show_their_bytes_as_text_or_as_digits(page: Browser) -> None:
    reply = as_(page, VIEWER).get_json("/api/dead-letters")
    texts, digits, cut = reply["letters"]
    assert texts["bytes_text"] == '{"text": "р"}'
    assert "bytes_hex" not in texts
    assert (digits["bytes_hex"], digits["replayed"]) == ("00ff", True)
    assert (cut["bytes_text"], cut["size"]) == ("", 2)
    assert texts["message"] == "not JSON <script>alert(1)</script>"
    assert page.get_json("/api/dead-letters", cursor=reply["next"])["next"] is None
    assert page.get("/api/dead-letters", cursor="wrong").status_code == 400


def test_replayed_letters_are_logged_with_the_skipped_ones(page: Browser, pipeline: MemoryPipeline) -> None:
    answer = as_(page, OPERATOR).send("POST", "/api/dead-letters/replay", LETTERS)
    skipped = [{"partition": 2, "offset": 100, "why": "gone, olga"}]
    assert answer.json() == {"replayed": 1, "skipped": skipped}
    assert [(place.partition, place.offset) for place in pipeline.replayed] == [(0, 1)]
    entry = latest(page)
    assert (entry["who"], entry["action"]) == ("olga", "replay")
    assert entry["detail"] == {"letters": [[0, 1], [2, 100]], "replayed": 1, "skipped": skipped}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"letters": []},
        {"letters": "all"},
        {"letters": [{"partition": 0}]},
        {"letters": [{"partition": 0, "offset": -1}]},
        {"letters": [{"partition": True, "offset": 1}]},
        {"letters": [{"partition": 0, "offset": 2**63}]},
        {"letters": [{"partition": 0, "offset": 1}] * 501},
    ],
)
def test_a_replay_of_nothing_that_exists_is_refused(page: Browser, pipeline: MemoryPipeline, body: object) -> None:
    assert as_(page, OPERATOR).send("POST", "/api/dead-letters/replay", body).status_code == 400
    assert pipeline.replayed == []


# The audit log


def test_the_audit_log_has_pages_and_outlives_a_rebuild(page: Browser, archive: Database) -> None:
    as_(page, REVIEWER)
    for number in range(5):
        page.send("POST", "/api/labels", {**LABEL, "option": f"o{number}"})
    empty(archive)
    first = as_(page, OPERATOR).get_json("/api/audit-log", limit=3)
    second = page.get_json("/api/audit-log", limit=2, cursor=first["next"])
    options = [entry["detail"]["option"] for entry in [*first["entries"], *second["entries"]]]
    assert options == ["o4", "o3", "o2", "o1", "o0"]
    assert page.get("/api/audit-log", cursor="x").status_code == 400


# Parts that a process does not have


@pytest.mark.parametrize("path", ["/api/pipeline", "/api/dead-letters", "/api/review/next"])
def test_a_process_without_a_pipeline_says_so(archive: Database, path: str) -> None:
    with open_page(archive) as browser:
        answer = browser.get(path)
        assert answer.status_code == 503
        assert answer.json()["error"].startswith("this process ")
        assert browser.send("POST", "/api/labels", LABEL).status_code == 503
        assert browser.send("POST", "/api/dead-letters/replay", LETTERS).status_code == 503


def test_an_unknown_page_of_the_api_is_not_found(page: Browser) -> None:
    answer = page.get("/api/nothing")
    assert (answer.status_code, answer.json()) == (404, {"error": "there is no such path in the API"})


def test_the_token_of_the_metrics_is_not_needed_for_the_page(page: Browser) -> None:
    assert page.get("/").status_code == 200
    assert page.get("/metrics").status_code == 401

"""Judges: their figures from the archive, and whether they are paused."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from sinks.archive.database import Database
from tests.parts.archive import START_MS, Judged, fill
from tests.sinks.page.serving import MemoryPipeline, open_page
from tests.sinks.page.visiting import Browser

MINUTE = 60_000


def verdict(judge: str, option: str | None, *, latency: float = 100.0) -> dict[str, Any]:
    if option == "none":
        return {"judge": judge, "status": "not_applicable", "reason": "nothing_to_judge"}
    status = (
        {"status": "insufficient", "reason": "timeout"}
        if option is None
        else {"status": "scored", "score": float(option == "pass"), "option": option}
    )
    samples = {"requested": 1, "valid": int(option is not None)}
    return {"judge": judge, "samples": samples, "latency_ms": latency, "cost_usd": 0.5, **status}


@pytest.fixture(scope="module", params=["minutes", "days"])
def span(request: pytest.FixtureRequest) -> str:
    """Over days the sums of hours are read."""
    return str(request.param)


@pytest.fixture(scope="module")
def browser(make_url: Any, span: str) -> Iterator[Browser]:
    step = MINUTE if span == "minutes" else 12 * 60 * MINUTE
    answers = [
        Judged(
            id=f"e{number}",
            at=START_MS - number * step,
            scores={"clarity": 0.5, "tone": 0.5},
            judges=[
                verdict("local", "pass", latency=10.0),
                verdict("idle", "none"),
                verdict("slow", None if number == 0 else "pass" if number < 4 else "fail", latency=1000.0 + number),
            ],
        )
        for number in range(10)
    ]
    canaries = [
        Judged(
            id=f"c{number}",
            at=START_MS - 1,
            lane="canary",
            app="canaries",
            tags={"canary": "one"},
            scores={"clarity": 0.5},
            judges=[verdict("local", "fail" if number == 2 else "pass", latency=10.0)],
        )
        for number in range(5)
    ]
    untagged = replace(canaries[0], id="untagged", tags={})
    with Database(make_url()) as database:
        fill(database, [*answers, *canaries, untagged])
        with open_page(database, backend=MemoryPipeline().backend()) as visitor:
            yield visitor


@pytest.fixture
def judges(browser: Browser, span: str) -> dict[str, Any]:
    start = "2026-03-01T11:00:00Z" if span == "minutes" else "2026-02-01T00:00:00Z"
    reply = browser.get_json("/api/judges", **{"from": start})
    return {judge["judge"]: judge for judge in reply["judges"]}


def test_verdicts_and_failures_are_counted(judges: dict[str, Any]) -> None:
    slow = judges["slow"]
    assert (slow["n"], slow["scored"], slow["failures"]) == (20, 18, {"timeout": 2})
    assert slow["criteria"] == [
        {"criterion": "clarity", "n": 10, "mean": pytest.approx(3 / 9, abs=1e-5)},
        {"criterion": "tone", "n": 10, "mean": pytest.approx(3 / 9, abs=1e-5)},
    ]
    assert slow["cost_usd"] == 10.0
    assert (judges["local"]["n"], judges["local"]["failures"]) == (26, {})


def test_a_judge_with_nothing_to_judge_does_not_fail(judges: dict[str, Any]) -> None:
    idle = judges["idle"]
    assert (idle["n"], idle["scored"], idle["failures"], idle["left_out"]) == (20, 0, {}, {"nothing_to_judge": 20})


def test_agreement_has_an_interval(judges: dict[str, Any]) -> None:
    agreement = judges["slow"]["agreement"]
    assert agreement["mean"] == pytest.approx(6 / 18, abs=1e-5)
    assert 0.1 < agreement["low"] < agreement["mean"] < agreement["high"] < 0.7
    assert agreement == judges["local"]["agreement"]


def test_latencies_are_those_of_half_and_of_nearly_all_verdicts(judges: dict[str, Any]) -> None:
    assert judges["local"]["latency_ms"]["p50"] == pytest.approx(10.0, rel=0.25)
    assert judges["slow"]["latency_ms"]["p95"] == pytest.approx(1000.0, rel=0.25)


def test_canaries_with_another_verdict_than_usual_are_counted(judges: dict[str, Any]) -> None:
    assert judges["local"]["canaries"] == {"ok": 4, "changed": 1}
    assert judges["slow"]["canaries"] is None


def test_a_paused_judge_is_listed_with_the_reason(judges: dict[str, Any]) -> None:
    assert judges["gpt"]["paused"] == "no answer for 60 s"
    assert (judges["gpt"]["n"], judges["gpt"]["agreement"]) == (0, None)
    assert judges["gpt"]["latency_ms"] == {"p50": None, "p95": None}
    assert judges["local"]["paused"] is None


# Judges and people


def label_row(answer: str, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "label_id": f"l-{answer}",
        "interaction_id": f"i-{answer}",
        "evaluation_id": None,
        "criterion": "clarity",
        "option": None,
        "score": 1.0,
        "who": "ada",
        "at": START_MS,
        "probability": None,
        "kind": "review",
        "comment": None,
        "retracted": False,
    }
    return {**fields, **more}


@pytest.fixture(scope="module")
def labelled(make_url: Any) -> Iterator[Browser]:
    answers = [
        Judged(
            id=f"e{number}",
            at=START_MS + number,
            app="bank" if number == 3 else "shop",
            model="gpt-4o" if number % 2 else "claude-3",
            scores={"clarity": 0.5},
            judges=[verdict("local", "pass"), verdict("lost", None)],
        )
        for number in range(4)
    ]
    labels = [label_row(f"e{number}", score=float(number > 0)) for number in range(4)]
    with Database(make_url()) as database:
        fill(database, answers, labels=labels)
        with open_page(database) as visitor:
            yield visitor


def test_a_judge_is_compared_with_people(labelled: Browser) -> None:
    reply = labelled.get_json("/api/judges/labels")
    [judge] = reply["judges"]
    assert (judge["judge"], judge["criterion"], judge["value"], judge["labels"]) == ("local", "clarity", None, 4)
    assert judge["sensitivity"]["value"] == 0.0
    assert judge["specificity"]["value"] == 1.0
    assert judge["bias"]["value"] == 0.25
    assert judge["bias"]["low"] < 0.25 < judge["bias"]["high"]
    assert (reply["by"], reply["cut"], reply["left_out"]) == (None, None, 0)
    assert (reply["apps"], reply["has_labels"]) == (["bank", "shop"], True)


def test_judges_are_compared_by_family_and_app(labelled: Browser) -> None:
    reply = labelled.get_json("/api/judges/labels", by="family", app="shop")
    assert [(judge["value"], judge["labels"]) for judge in reply["judges"]] == [("claude", 2), ("gpt", 1)]


def test_a_wrong_attribute_is_refused(labelled: Browser) -> None:
    reply = labelled.get("/api/judges/labels", by="colour")
    assert (reply.status_code, reply.json()["error"]) == (400, "by must be one of: family, language")


def test_the_page_knows_whether_there_are_labels_at_other_times(labelled: Browser, browser: Browser) -> None:
    before = labelled.get_json("/api/judges/labels", **{"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"})
    assert (before["judges"], before["has_labels"]) == ([], True)
    assert browser.get_json("/api/judges/labels")["has_labels"] is False


def test_a_reply_has_a_limited_number_of_rows(labelled: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinks.page.api.judges._MOST_ROWS", 1)
    reply = labelled.get_json("/api/judges/labels", by="family")
    assert (len(reply["judges"]), reply["left_out"]) == (1, 1)

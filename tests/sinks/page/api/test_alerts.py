"""Alerts: open and closed ones, and one with its chart, its explanation and the worst answers in it."""

from collections.abc import Iterator
from typing import Any

import pytest

from sinks.archive.database import Database
from tests.parts.archive import START_MS, Judged, alert_row, fill
from tests.sinks.page.serving import MemoryPipeline, open_page
from tests.sinks.page.visiting import Browser

MINUTE = 60_000
ALERTS = [
    alert_row("explained", onset=START_MS + 10 * MINUTE, raised=START_MS + 20 * MINUTE, summary="It has dropped."),
    alert_row("clarity", dimension="clarity", onset=START_MS, cleared=START_MS + 5 * MINUTE),
    alert_row("good", dimension="good_share", onset=START_MS, raised=START_MS + 1),
    alert_row("model", attribute="model", value="m2", onset=START_MS, raised=START_MS + 2),
    alert_row("judges", app="canaries", dimension="clarity", subject="judges", onset=START_MS, raised=START_MS + 3),
]


@pytest.fixture(scope="module")
def archive(make_url: Any) -> Iterator[Database]:
    answers = [
        Judged(
            id=f"e{number}",
            at=START_MS + number * MINUTE,
            composite=0.9 if number < 10 else 0.3 + number / 1000,
            scores={"clarity": 1 - number / 100},
            model="m2" if number % 2 else "m1",
        )
        for number in range(30)
    ]
    canary = Judged(id="canary", app="canaries", lane="canary", at=START_MS + MINUTE, scores={"clarity": 0.0})
    with Database(make_url()) as database:
        fill(database, [*answers, canary], alerts=ALERTS)
        yield database


@pytest.fixture
def browser(archive: Database) -> Iterator[Browser]:
    with open_page(archive, backend=MemoryPipeline().backend()) as visitor:
        yield visitor


def test_open_and_closed_alerts_are_apart_and_the_latest_come_first(browser: Browser) -> None:
    alerts = browser.get_json("/api/alerts")
    assert [alert["id"] for alert in alerts["open"]] == ["explained", "judges", "model", "good"]
    [closed] = alerts["closed"]
    assert closed == {
        "id": "clarity",
        "app": "shop",
        "series": "shop/clarity",
        "subject": "quality",
        "summary": "It has dropped.",
        "onset_at": "2026-03-01T12:00:00.000Z",
        "raised_at": "2026-03-01T12:00:00.000Z",
        "cleared_at": "2026-03-01T12:05:00.000Z",
        "estimate": 0.5,
        "baseline": 0.8,
        "kind": "cleared",
    }


def test_an_alert_has_its_explanation(browser: Browser) -> None:
    alert = browser.get_json("/api/alerts/explained")
    assert alert["explanation"] == {
        "sentences": ["Model m1 is behind it."],
        "sheets": [
            {"title": "By model", "columns": ["model", "change"], "rows": [["m1", "-0.1"]], "notes": ["a note"]}
        ],
    }
    assert alert["explanation_note"] is None


def test_an_explanation_that_is_not_there_yet_says_so(browser: Browser) -> None:
    alert = browser.get_json("/api/alerts/clarity")
    assert alert["explanation"] is None
    assert alert["explanation_note"] == "it is being explained; look again in a minute"


def test_a_process_that_explains_nothing_says_so(archive: Database) -> None:
    with open_page(archive) as browser:
        assert "streamjury alerts explain" in browser.get_json("/api/alerts/clarity")["explanation_note"]


def test_the_chart_begins_before_the_onset(browser: Browser) -> None:
    chart = browser.get_json("/api/alerts/explained")["chart"]
    assert chart[0][0] == "2026-03-01T12:00Z"
    means = [mean for _when, mean, _low, _high in chart]
    assert means[0] == 0.9
    assert means[-1] == pytest.approx(0.329)


def test_the_chart_is_about_the_series_of_the_alert(browser: Browser) -> None:
    assert browser.get_json("/api/alerts/clarity")["chart"][0][1] == 1.0
    assert {point[1] for point in browser.get_json("/api/alerts/good")["chart"]} == {1.0, 0.0}
    assert browser.get_json("/api/alerts/judges")["chart"] == []


@pytest.mark.parametrize(
    ("alert", "worst"),
    [
        ("explained", ["e10", "e11", "e12"]),
        ("clarity", ["e5", "e4", "e3"]),
        ("good", ["e10", "e11", "e12"]),
        ("model", ["e11", "e13", "e15"]),
        ("judges", ["canary"]),
    ],
)
def test_the_worst_answers_inside_the_alert_are_listed(browser: Browser, alert: str, worst: list[str]) -> None:
    answers = browser.get_json(f"/api/alerts/{alert}")["worst"]
    assert [answer["id"] for answer in answers][:3] == worst
    assert len(answers) <= 10


def test_an_unknown_alert_is_not_found(browser: Browser) -> None:
    assert browser.get("/api/alerts/nothing").status_code == 404

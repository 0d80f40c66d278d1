"""The overview: figures, states with their reasons, and its size."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pytest

from sinks.archive.database import Database
from sinks.archive.writing import empty
from tests.parts.archive import START_MS, Judged, alert_row, fill
from tests.sinks.page.serving import NOW, MemoryPipeline, open_page

MINUTE = 60_000
NOW_MS = int(NOW.timestamp() * 1000)


@pytest.fixture(scope="module")
def archive(make_url: Any) -> Iterator[Database]:
    with Database(make_url()) as database:
        yield database


Show = Callable[..., Mapping[str, Any]]


@pytest.fixture
def show(archive: Database) -> Show:
    """Fills the archive and returns the overview."""

    def show_overview(
        answers: Sequence[Judged],
        *,
        alerts: Sequence[Mapping[str, Any]] = (),
        labels: Sequence[Mapping[str, Any]] = (),
        **changes: Any,
    ) -> Mapping[str, Any]:
        empty(archive)
        fill(archive, answers, alerts=alerts, labels=labels)
        with open_page(archive, backend=MemoryPipeline().backend(), **changes) as browser:
            reply: Mapping[str, Any] = browser.get_json("/api/overview")
        return reply

    return show_overview


def make_answers(number: int, score: float = 0.9, **fields: Any) -> list[Judged]:
    app = fields.get("app", "shop")
    return [
        Judged(
            **{
                "id": f"{app}-{score}-{place}",
                "at": NOW_MS - (place % 30) * MINUTE - 1,
                "composite": score,
                "scores": {"clarity": score},
                **fields,
            }
        )
        for place in range(number)
    ]


def make_label(answer: Judged, score: float) -> dict[str, Any]:
    return {
        "label_id": f"l-{answer.id}",
        "interaction_id": f"i-{answer.id}",
        "evaluation_id": answer.id,
        "criterion": "clarity",
        "option": None,
        "score": score,
        "who": "ada",
        "at": NOW_MS,
        "probability": 0.1,
        "kind": "review",
        "comment": None,
        "retracted": False,
    }


def only_app(overview: Mapping[str, Any]) -> Mapping[str, Any]:
    [app] = overview["apps"]
    assert isinstance(app, dict)
    return app


def test_a_labelled_app_has_its_corrected_mean_and_one_with_few_labels_is_uncorrected(show: Show) -> None:
    answers = [*make_answers(60, 0.9), *make_answers(60, 0.1)]
    assert only_app(show(answers))["corrected"] == []
    labels = [make_label(answer, 0.0 if place % 2 else 1.0) for place, answer in enumerate(answers[20:100])]
    [few] = only_app(show(answers, labels=labels[:29]))["corrected"]
    assert few == {"series": "clarity", "labels": 29, "needed": 30, "mean": None, "low": None, "high": None}
    [enough] = only_app(show(answers, labels=labels))["corrected"]
    assert (enough["series"], enough["labels"]) == ("clarity", 80)
    assert enough["low"] < 0.5 < enough["high"]


def test_an_app_has_its_figures(show: Show) -> None:
    half = make_answers(50, 0.9, probability=0.5, cost_usd=0.01)
    app = only_app(show([*half, *make_answers(50, 0.5), Judged(id="unscored", at=NOW_MS - 1, composite=None)]))
    composite = app["composite"]
    # Half of them weigh twice as much.
    assert composite["mean"] == pytest.approx((2 * 0.9 + 0.5) / 3, abs=1e-5)
    assert composite["n"] == 100
    assert composite["n_eff"] == pytest.approx(150**2 / (50 * 4 + 50), abs=0.1)
    assert composite["low"] < composite["mean"] < composite["high"]
    assert app["good"]["mean"] == pytest.approx(2 / 3, abs=1e-5)
    assert app["coverage"] == pytest.approx(150 / 151, abs=1e-5)
    assert app["cost_usd"] == pytest.approx(0.5)
    # 1 dollar an hour would allow more in a day and a minute than 10 dollars a day.
    assert app["budget_usd"] == pytest.approx(10.0, rel=0.01)
    assert app["lag"] == 5


def test_charts_have_round_times_and_few_points(show: Show) -> None:
    overview = show(make_answers(100))
    app = only_app(overview)
    assert overview["step_seconds"] == 1800
    assert 1 <= len(app["sparkline"]) <= 60
    for when, mean, low, high in app["sparkline"]:
        assert datetime.fromisoformat(when).minute in {0, 30}
        assert low <= mean <= high
    assert sum(number for _when, number, _mean in overview["strip"]) == 100
    assert len(overview["strip"]) <= 120


def test_canaries_and_backfills_are_no_answers_to_users(show: Show) -> None:
    answers = [*make_answers(40), *make_answers(5, 0.1, lane="canary"), *make_answers(5, 0.2, lane="backfill")]
    assert only_app(show(answers))["composite"]["n"] == 40
    assert show(make_answers(5, lane="canary", app="canaries"))["apps"] == []


# States


def test_good_answers_are_ok(show: Show) -> None:
    app = only_app(show(make_answers(100)))
    assert (app["state"], app["reason"], app["alert"]) == ("ok", None, None)


def test_an_open_alert_comes_first_with_its_sentence_and_onset(show: Show) -> None:
    alerts = [
        alert_row("criterion", dimension="clarity", onset=START_MS - 1000, summary="Clarity fell."),
        alert_row("closed", cleared=START_MS + 1),
        alert_row("other", app="bank"),
        alert_row("open", summary="The composite of shop has dropped."),
        alert_row("judges", app="canaries", subject="judges"),
    ]
    app = only_app(show(make_answers(3, 0.2), alerts=alerts))
    assert (app["state"], app["reason"]) == ("alert", "The composite of shop has dropped.")
    assert app["alert"] == {"id": "open", "onset_at": "2026-03-01T12:00:00.000Z"}


def test_changed_judges_are_named_for_every_app(show: Show) -> None:
    alerts = [alert_row("j", app="canaries", subject="judges", summary="The judges have changed.")]
    for app in show([*make_answers(50), *make_answers(50, app="bank")], alerts=alerts)["apps"]:
        assert (app["state"], app["reason"]) == ("judges_changed", "The judges have changed.")


def verdict(reason: str | None) -> dict[str, Any]:
    status = {"status": "insufficient", "reason": reason} if reason else {"status": "scored", "score": 1.0}
    return {"judge": "gpt", "samples": {"requested": 1, "valid": int(not reason)}, "latency_ms": 9.0, **status}


def test_judges_that_fail_now_are_down(show: Show) -> None:
    failing = make_answers(30, judges=[verdict("timeout")])
    working = make_answers(70, 0.8, judges=[verdict(None)])
    recent = {answer.id for answer in failing + working if answer.at >= NOW_MS - 15 * MINUTE}
    app = only_app(show([*failing, *working]))
    assert app["state"] == "judges_down"
    failures = sum(answer.id in recent for answer in failing)
    assert app["reason"] == f"The judge gpt failed on {failures} of its last {len(recent)} verdicts (timeout)."


def test_failures_of_an_hour_ago_do_not_count(show: Show) -> None:
    failing = [
        Judged(id=f"f{n}", at=NOW_MS - 60 * MINUTE, scores={"clarity": 0.9}, judges=[verdict("timeout")], composite=0.9)
        for n in range(50)
    ]
    assert only_app(show([*failing, *make_answers(50)]))["state"] == "ok"


def test_few_answers_are_not_enough(show: Show) -> None:
    app = only_app(show(make_answers(29)))
    assert app["state"] == "not_enough_data"
    assert app["reason"] == "The effective sample size is 29.0 (29 scored answers); at least 30 is needed."


def test_unequal_weights_are_worth_less(show: Show) -> None:
    app = only_app(show([*make_answers(40), *make_answers(1, 0.8, probability=0.01)]))
    assert app["state"] == "not_enough_data"


def test_answers_without_a_composite_are_not_enough(show: Show) -> None:
    app = only_app(show(make_answers(50, 0.5, composite=None)))
    assert (app["state"], app["composite"], app["good"]) == ("not_enough_data", None, None)
    assert app["reason"] == "No answers with a composite in this range."


def test_an_interval_that_reaches_below_the_target_is_watched(show: Show) -> None:
    answers = [*make_answers(91, 0.9, probability=0.5), *make_answers(9, 0.1, probability=0.5)]
    app = only_app(show(answers))
    assert app["state"] == "watching"
    assert app["reason"].startswith("The share of good answers may be below its target of 0.9: 0.910 (0.")


def test_a_share_below_its_target_is_watched_until_there_is_an_alert(show: Show) -> None:
    app = only_app(show([*make_answers(50, 0.9), *make_answers(50, 0.1)]))
    assert app["reason"] == "The share of good answers is below its target of 0.9: 0.500 (0.500 to 0.500)."


def test_a_criterion_below_its_floor_is_watched(show: Show) -> None:
    app = only_app(show(make_answers(50, 0.9, scores={"clarity": 0.5})))
    assert app["reason"] == "The mean of clarity is below its floor of 0.6: 0.500 (0.500 to 0.500)."


def test_apps_have_objectives_of_their_own(show: Show) -> None:
    answers = [
        *(answer for app in ("shop", "strict") for answer in make_answers(190, 0.9, app=app)),
        *(answer for app in ("shop", "strict") for answer in make_answers(10, 0.1, app=app, scores={"clarity": 0.9})),
    ]
    states = {app["app"]: app["state"] for app in show(answers)["apps"]}
    assert states == {"shop": "ok", "strict": "watching"}


# Size


@pytest.mark.parametrize("apps", [60, 210])
@pytest.mark.slow
def test_many_apps_fit_into_200_kilobytes(archive: Database, apps: int) -> None:
    empty(archive)
    fill(
        archive,
        [
            Judged(
                id=f"{app}-{hour}",
                app=f"an application with a long name {app:03d}",
                at=NOW_MS - hour * 30 * MINUTE - 1,
                composite=0.123456789,
                probability=0.3,
            )
            for app in range(apps)
            for hour in range(48)
        ],
    )
    with open_page(archive) as browser:
        answer = browser.get("/api/overview")
    assert len(answer.content) <= 200_000
    overview = answer.json()
    assert len(overview["apps"]) + overview["apps_left_out"] == apps
    assert len(overview["apps"]) == min(apps, 200)


def test_an_empty_archive_has_an_empty_overview(show: Show) -> None:
    overview = show([])
    assert (overview["apps"], overview["strip"]) == ([], [])


@pytest.mark.parametrize(
    "parameters",
    [
        {"from": "yesterday"},
        {"to": "0001-01-01T00:00:00Z"},
        {"from": "2026-03-02T00:00:00Z", "to": "2026-03-01T00:00:00Z"},
        {"from": "9999-12-31T23:59:59-23:59"},
    ],
)
def test_a_range_that_is_none_is_refused(archive: Database, parameters: Mapping[str, str]) -> None:
    with open_page(archive) as browser:
        answer = browser.get("/api/overview", **parameters)
    assert answer.status_code == 400
    assert answer.json()["error"]

"""Alerts in plain words, and which alert somebody means."""

from datetime import timedelta
from math import log

import pytest

from stream.alarms.alert import Alert, Cause, Series, Subject
from stream.commands.alerts import RUNBOOKS
from stream.detection import Kind
from stream.explanation import explain, wording
from stream.explanation.book import AlertBook
from tests.parts.pages import ROOT
from tests.stream.explanation.invented import RAISED, alert, evaluation, tallied, traffic


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (log(100.0), "1 in 100"),
        (log(1234.0), "1 in 1,234"),
        (0.0, "1 in 1"),
        (-3.0, "1 in 1"),
        (1e6, "1 in more than 10 million"),
        (16.1, "1 in more than 10 million"),
    ],
)
def test_evidence_is_told_as_odds(evidence: float, words: str) -> None:
    assert wording.odds(evidence) == words


@pytest.mark.parametrize(
    ("minutes", "words"),
    [(0, "0 min"), (59, "59 min"), (60, "1 h 0 min"), (1439, "23 h 59 min"), (1440, "1 d 0 h"), (-5, "0 min")],
)
def test_lengths_of_time_are_short(minutes: int, words: str) -> None:
    assert wording.length(timedelta(minutes=minutes)) == words


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (Cause.RECOVERED, "recovered, since 2026-11-15 02:10 UTC"),
        (Cause.JUDGES_CHANGED, "withdrawn, because the judges had changed"),
        (Cause.EVALUATOR_CHANGED, "its evaluator or target is no longer used"),
    ],
)
def test_a_cleared_alarm_says_why(cause: Cause, words: str) -> None:
    found = alert(kind=Kind.CLEARED, cause=cause, recovered_at=RAISED)
    assert wording.state(found) == f"cleared 2026-11-15 02:10 UTC: {words}"


@pytest.mark.parametrize("subject", list(Subject))
def test_every_alarm_leads_to_a_runbook_that_exists(subject: Subject) -> None:
    assert (ROOT / "dashboards/runbooks" / f"{RUNBOOKS[subject]}.md").exists()


def test_the_first_announcement_says_how_sure_it_was_and_without_it_the_bound_does() -> None:
    assert wording.chance(alert(evidence=log(500.0)), 0.01) == "at most 1 in 500"
    assert wording.chance(None, 0.001) == "at most 1 in 1,000"


def test_what_is_no_fall_is_not_explained() -> None:
    found = explain(tallied(traffic(bad=None)))
    told = list(wording.findings(alert(), found, ("before", "since")))
    assert told[-1] == "That is not surely a fall: what is behind it cannot be said."


def test_other_apps_that_fell_too_cast_suspicion_on_the_judges() -> None:
    found = explain(tallied([*traffic(), *traffic(seed=2, app="shop"), *traffic(seed=3, app="bank", bad=None)]))
    told = list(wording.findings(alert(), found, ("before", "since")))
    assert told[-1] == "Other apps: 1 of 2 fell too (shop). Suspect what they share, the judges first."


def test_records_without_the_attribute_can_be_the_driver() -> None:
    untagged = [
        evaluation({"groundedness": 0.0}, at=RAISED + timedelta(seconds=at), tags={}, model="model-1")
        for at in range(100)
    ]
    found = explain(tallied([*traffic(bad=None), *untagged]))
    assert found.driver is not None
    assert (found.driver.attribute, found.driver.part.value) == ("tag region", None)
    told = " ".join(wording.findings(alert(), found, ("before", "since")))
    assert "Likely driver: no tag region." in told
    assert "it was not there before" in told


class TestBook:
    def book(self, *alerts: Alert) -> AlertBook:
        book = AlertBook()
        for each in alerts:
            book.take(each.series.key.encode(), each.model_dump_json().encode())
        return book

    def test_a_beginning_of_an_id_is_enough_but_not_too_short_a_one(self) -> None:
        found = alert(alert_id="abcdef12-3456")
        book = self.book(found)
        assert [each.alert_id for each in book.meant("ABCD")] == [found.alert_id]
        assert book.meant("abc") == []
        assert book.meant("bcdef") == []

    def test_ids_are_shown_as_long_as_it_takes_to_tell_them_apart(self) -> None:
        twins = [
            alert(alert_id=name, series=Series(app=name, dimension="composite"))
            for name in ("abcdef12-1", "abcdef12-2", "ffffffff-1")
        ]
        book = self.book(*twins)
        assert [book.short(each) for each in twins] == ["abcdef12-1", "abcdef12-2", "ffffffff"]

    def test_the_closest_ids_are_named_and_else_the_newest(self) -> None:
        older = alert(alert_id="abcdef12-1", series=Series(app="a", dimension="composite"))
        newer = alert(
            alert_id="99999999-1", series=Series(app="b", dimension="composite"), raised_at=RAISED + timedelta(hours=1)
        )
        book = self.book(older, newer)
        assert [each.alert_id for each in book.close_to("abcdef13")] == [older.alert_id]
        assert [each.alert_id for each in book.close_to("xyz")] == [newer.alert_id, older.alert_id]

    def test_an_older_alarm_of_a_series_can_still_be_explained_while_it_is_there(self) -> None:
        older, newer = alert(alert_id="aaaaaaaa-1"), alert(alert_id="bbbbbbbb-1")
        book = self.book(older, newer)
        assert [each.alert_id for each, _ in book.newest(cleared=True)] == ["bbbbbbbb-1"]
        assert [each.alert_id for each in book.meant("aaaaaaaa")] == ["aaaaaaaa-1"]

"""Alerts in plain words, and which alert somebody means."""

from datetime import UTC, datetime, timedelta
from math import log
from typing import Any, ClassVar

import pytest

from stream.jobs.alert_explanation import RUNBOOKS
from stream.monitor.alerts.alert import Alert, Cause, Series, Subject
from stream.monitor.detection import EventKind
from stream.monitor.explain import explain, text
from stream.monitor.explain.alert_book import AlertBook
from tests.parts.documents.pages import ROOT
from tests.stream.monitor.explain.invented import ONSET, RAISED, alert, evaluation, tallied, traffic


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
    assert text.odds(evidence) == words


@pytest.mark.parametrize(
    ("minutes", "words"),
    [
        (0, "0 s"),
        (0.5, "30 s"),
        (1.99, "119 s"),
        (2, "2 min"),
        (59, "59 min"),
        (60, "1 h 0 min"),
        (1439, "23 h 59 min"),
        (1440, "1 d 0 h"),
        (-5, "0 s"),
    ],
)
def test_lengths_of_time_are_short(minutes: float, words: str) -> None:
    assert text.length(timedelta(minutes=minutes)) == words


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (Cause.RECOVERED, "recovered since 2026-11-15 02:10 UTC"),
        (Cause.JUDGES_CHANGED, "withdrawn because the judges had changed"),
        (Cause.EVALUATOR_CHANGED, "its evaluator or target is no longer used"),
        (Cause.GONE, "no more scores for this series"),
    ],
)
def test_a_cleared_alarm_says_why(cause: Cause, words: str) -> None:
    found = alert(kind=EventKind.CLEARED, cause=cause, recovered_at=RAISED)
    assert text.state(found) == f"cleared 2026-11-15 02:10 UTC: {words}"


@pytest.mark.parametrize("subject", list(Subject))
def test_every_alarm_leads_to_a_runbook_that_exists(subject: Subject) -> None:
    assert (ROOT / "dashboards/runbooks" / f"{RUNBOOKS[subject]}.md").exists()


def test_the_first_announcement_says_how_sure_it_was_and_without_it_the_bound_does() -> None:
    assert text.chance(alert(evidence=log(500.0)), 0.01) == "at most 1 in 500"
    assert text.chance(None, 0.001) == "at most 1 in 1,000"


def test_what_is_no_fall_is_not_explained() -> None:
    found = explain(tallied(traffic(bad=None)))
    told = list(text.findings(alert(), found, ("before", "since")))
    assert told[-1] == "The fall is not significant, so it cannot be explained."


def test_other_apps_that_fell_too_cast_suspicion_on_the_judges() -> None:
    found = explain(tallied([*traffic(), *traffic(seed=2, app="shop"), *traffic(seed=3, app="bank", bad=None)]))
    told = list(text.findings(alert(), found, ("before", "since")))
    assert told[-1] == "Other apps: 1 of 2 also dropped (shop). Suspect what they share, the judges first."


def test_records_without_the_attribute_can_be_what_is_new() -> None:
    untagged = [
        evaluation({"groundedness": 0.0}, at=RAISED + timedelta(seconds=at), tags={}, model="model-1")
        for at in range(100)
    ]
    found = explain(tallied([*traffic(bad=None), *untagged]))
    assert found.arrival is not None
    assert (found.arrival.attribute, found.arrival.part.value) == ("tag region", None)
    told = " ".join(text.findings(alert(), found, text.TIMES))
    assert "New with the drop: no tag region (0 % → 50 % of the traffic, mean 0.00)." in told


def test_what_is_new_is_told_with_what_it_replaced_and_not_as_a_change_of_its_mean() -> None:
    old = [
        evaluation({"groundedness": float(at % 50 > 0)}, at=RAISED - timedelta(hours=1, seconds=at), model="m1")
        for at in range(300)
    ]
    new = [
        evaluation({"groundedness": float(at % 10 > 2)}, at=RAISED + timedelta(seconds=at), model="m2")
        for at in range(200)
    ]
    found = explain(tallied([*old, *new]))
    told = list(text.findings(alert(), found, text.TIMES))
    assert told[1] == (
        "New with the drop: model m2 (0 % → 100 % of the traffic, mean 0.70; what it replaced, m1, had 0.98). "
        "It accounts for all of the fall."
    )
    assert not any("Likely driver" in line for line in told)
    steps = list(text.next_steps(alert(), found, "there"))
    assert "Find out what changed for model m2, and roll it back or take it out of the traffic." in steps


def test_of_several_that_are_new_all_are_named_that_matter() -> None:
    old = [evaluation(at=RAISED - timedelta(hours=1, seconds=at), model=f"m{at % 2}") for at in range(300)]
    new = [
        evaluation({"groundedness": float(at % 4 > 2)}, at=RAISED + timedelta(seconds=at), model=f"n{at % 5 // 3}")
        for at in range(200)
    ]
    told = list(text.findings(alert(), explain(tallied([*old, *new])), text.TIMES))
    assert told[1] == (
        "New with the drop: model n0 (0 % → 60 % of the traffic, mean 0.25; what it replaced, m0 and m1, had 1.00 and "
        "1.00). It accounts for 60 % of the fall. New and low as well: n1 (40 %)."
    )


class TestLevel:
    judges: ClassVar[dict[str, Any]] = {
        "subject": Subject.JUDGES,
        "series": Series(app="canaries", dimension="clarity"),
        "target": 0.985,
    }

    def test_targets_have_as_many_digits_as_they_need(self) -> None:
        assert text.level(alert(target=0.8766)) == "mean 0.55 (0.42 to 0.68), target 0.877"
        assert text.level(alert(target=0.85)).endswith("target 0.85")

    def test_a_cleared_alarm_tells_how_low_it_was_where_that_is_known(self) -> None:
        over = alert(kind=EventKind.CLEARED, cause=Cause.RECOVERED, estimate=0.97, low=0.95, high=0.99)
        end = "target 0.85; 0.97 (0.95 to 0.99) when it was cleared"
        assert text.level(over, alert()) == f"fell to 0.55 (0.42 to 0.68), {end}"
        assert text.level(over) == end

    def test_of_a_withdrawn_alarm_no_recovery_is_told(self) -> None:
        over = alert(kind=EventKind.CLEARED, cause=Cause.JUDGES_CHANGED, estimate=0.97)
        assert text.level(over, alert()) == "fell to 0.55 (0.42 to 0.68), target 0.85"

    def test_judges_are_told_by_what_they_kept_and_then_by_what_they_repeat(self) -> None:
        raised = alert(**self.judges, estimate=0.4)
        updated = alert(**self.judges, kind=EventKind.UPDATED, estimate=1.0)
        assert text.level(raised) == "40 % of the canaries kept their verdict, 98.5 % is expected"
        assert text.level(updated, raised) == (
            "40 % of the canaries kept their verdict when it was raised; since then 100 % repeat the new one"
        )
        assert text.level(updated) == "since it was raised 100 % of the canaries repeat the new one"

    def test_judges_that_are_no_longer_asked_are_not_steady_again(self) -> None:
        over = alert(**self.judges, kind=EventKind.CLEARED, cause=Cause.EVALUATOR_CHANGED)
        raised = alert(**self.judges, estimate=0.4)
        assert text.level(over, raised) == "40 % of the canaries kept their verdict"
        assert over.summary.startswith("The alert about the judges' verdicts on clarity is closed: ")

    def test_an_update_about_judges_is_about_what_they_say_now(self) -> None:
        updated = alert(**self.judges, kind=EventKind.UPDATED, estimate=1.0)
        assert updated.summary == (
            "The judges have changed their verdicts on clarity since 2026-11-15 02:00 UTC; "
            "100.0% of the canaries now get the new verdict"
        )


class TestBook:
    def book(self, *alerts: Alert) -> AlertBook:
        book = AlertBook()
        for each in alerts:
            book.take(each.series.key.encode(), each.model_dump_json().encode())
        return book

    def test_a_beginning_of_an_id_is_enough_however_short(self) -> None:
        found = alert(alert_id="abcdef12-3456")
        book = self.book(found)
        for beginning in ("ABCD", "abc", "a"):
            assert [each.alert_id for each in book.find_by_prefix(beginning)] == [found.alert_id]
        assert book.find_by_prefix("bcdef") == []

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

    def judges(self, dimension: str = "groundedness", **more: Any) -> Alert:
        series = Series(app="canaries", dimension=dimension)
        return alert(subject=Subject.JUDGES, series=series, **{"alert_id": f"judges-{dimension}", **more})

    def test_of_open_alarms_those_about_the_judges_come_first_but_the_last_one_is_the_last(self) -> None:
        newer = alert(raised_at=RAISED + timedelta(hours=1))
        over = self.judges("clarity", kind=EventKind.CLEARED, cause=Cause.RECOVERED)
        book = self.book(newer, over, self.judges())
        assert [each.alert_id for each, _ in book.newest(cleared=True)] == [
            "judges-groundedness",
            newer.alert_id,
            "judges-clarity",
        ]
        assert book.latest() == newer

    @pytest.mark.parametrize(
        ("dimension", "changes", "is_named"),
        [
            ("groundedness", {}, True),
            ("clarity", {}, False),
            ("groundedness", {"fingerprint": "other"}, False),
            ("groundedness", {"onset_at": ONSET + timedelta(hours=1)}, True),
            ("groundedness", {"onset_at": ONSET + timedelta(days=3)}, False),
            ("groundedness", {"onset_at": ONSET - timedelta(days=3)}, True),
            ("groundedness", {"onset_at": ONSET - timedelta(days=3), "kind": EventKind.CLEARED}, False),
            ("groundedness", {"onset_at": ONSET - timedelta(hours=3), "kind": EventKind.CLEARED}, True),
        ],
    )
    def test_judges_that_changed_about_then_may_be_behind_an_alarm(
        self, dimension: str, changes: dict[str, Any], is_named: bool
    ) -> None:
        judges = self.judges(dimension, **changes)
        book = self.book(alert(), judges)
        assert (book.judges_behind(alert()) == judges) is is_named
        if changes.get("fingerprint") is None and is_named:
            assert book.judges_behind(alert(dimension="composite")) == judges

    def test_what_was_withdrawn_is_found_also_where_it_was_raised_again(self) -> None:
        first = alert(kind=EventKind.CLEARED, cause=Cause.JUDGES_CHANGED, at=RAISED + timedelta(minutes=5))
        again = alert(alert_id="raised-again", at=RAISED + timedelta(hours=1))
        book = self.book(self.judges(), first, again)
        assert [each.alert_id for each in book.list_withdrawn(self.judges())] == [first.alert_id]

    def test_what_was_withdrawn_belongs_to_the_last_change_before_it(self) -> None:
        later = self.judges(alert_id="judges-later", raised_at=RAISED + timedelta(hours=1))
        withdrawn = alert(kind=EventKind.CLEARED, cause=Cause.JUDGES_CHANGED, at=RAISED + timedelta(hours=1))
        book = self.book(self.judges(), later, withdrawn)
        assert book.list_withdrawn(self.judges()) == []
        assert [each.alert_id for each in book.list_withdrawn(later)] == [withdrawn.alert_id]

    def test_an_older_alarm_of_a_series_can_still_be_explained_while_it_is_there(self) -> None:
        older, newer = alert(alert_id="aaaaaaaa-1"), alert(alert_id="bbbbbbbb-1")
        book = self.book(older, newer)
        assert [each.alert_id for each, _ in book.newest(cleared=True)] == ["bbbbbbbb-1"]
        assert [each.alert_id for each in book.find_by_prefix("aaaaaaaa")] == ["aaaaaaaa-1"]

    @pytest.mark.parametrize("field", ["at", "raised_at", "onset_at", "recovered_at"])
    @pytest.mark.parametrize("year", [1, 1969, 9999])
    def test_an_alert_that_no_clock_could_date_is_left_out(self, field: str, year: int) -> None:
        book = AlertBook()
        dated = alert().model_copy(update={field: datetime(year, 6, 1, tzinfo=UTC)})
        book.take(b"k", dated.model_dump_json().encode())
        assert (book.newest(cleared=True), book.unreadable) == ([], 1)

    @pytest.mark.parametrize("value", [b"", b"[" * 200_000, b"null", b"Infinity", b"\xff"])
    def test_what_is_no_alert_is_left_out(self, value: bytes) -> None:
        book = AlertBook()
        book.take(b"k", value)
        assert (book.newest(cleared=True), book.unreadable) == ([], 1)

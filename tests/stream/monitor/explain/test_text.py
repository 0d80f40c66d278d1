"""Alerts in plain words, and how an alert is found by a prefix of its id."""

from datetime import UTC, datetime, timedelta
from math import log
from typing import Any, ClassVar

import pytest

from stream.cli.commands.alerts import RUNBOOKS
from stream.monitor.alerts.alert import Alert, Cause, Series, Subject
from stream.monitor.detection import EventKind
from stream.monitor.explain import explain, text
from stream.monitor.explain.alert_book import AlertBook
from tests.parts.documents.pages import ROOT
from tests.stream.monitor.explain.invented import ONSET, RAISED, alert, evaluation, tally_changes, traffic


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
def test_evidence_is_expressed_as_odds(evidence: float, words: str) -> None:
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
def test_durations_are_short(minutes: float, words: str) -> None:
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
def test_a_cleared_alert_says_why(cause: Cause, words: str) -> None:
    cleared = alert(kind=EventKind.CLEARED, cause=cause, recovered_at=RAISED)
    assert text.state(cleared) == f"cleared 2026-11-15 02:10 UTC: {words}"


@pytest.mark.parametrize("subject", list(Subject))
def test_every_alarm_leads_to_a_runbook_that_exists(subject: Subject) -> None:
    assert (ROOT / "dashboards/runbooks" / f"{RUNBOOKS[subject]}.md").exists()


def test_the_chance_comes_from_the_first_announcement_or_else_from_the_bound() -> None:
    assert text.chance(alert(evidence=log(500.0)), 0.01) == "at most 1 in 500"
    assert text.chance(None, 0.001) == "at most 1 in 1,000"


def test_a_fall_that_is_not_significant_is_not_explained() -> None:
    explanation = explain(tally_changes(traffic(bad=None)))
    lines = list(text.findings(alert(), explanation, ("before", "since")))
    assert lines[-1] == "The fall is not significant, so it cannot be explained."


def test_other_apps_that_fell_too_cast_suspicion_on_the_judges() -> None:
    explanation = explain(
        tally_changes([*traffic(), *traffic(seed=2, app="shop"), *traffic(seed=3, app="bank", bad=None)])
    )
    lines = list(text.findings(alert(), explanation, ("before", "since")))
    assert lines[-1] == "Other apps: 1 of 2 also dropped (shop). Suspect what they share, the judges first."


@pytest.mark.parametrize(
    ("before", "alerted", "words"),
    [
        (300, [], "none of 1 dropped in the same period with 95 % confidence."),
        (12, [], "none of 1 dropped in the same period with 95 % confidence (as few as 12 earlier scores)."),
        (
            12,
            ["bank"],
            "1 with open alerts (bank), although no drop shows in the same period with 95 % confidence (as few as 12 "
            "earlier scores). Suspect what they share, the judges first.",
        ),
    ],
)
def test_other_apps_with_open_alerts_or_few_scores_are_not_said_to_be_well(
    before: int, alerted: list[str], words: str
) -> None:
    bank = traffic(seed=3, app="bank", bad=None, before=before)
    explanation = explain(tally_changes([*traffic(), *bank]))
    assert list(text.findings(alert(), explanation, text.TIMES, alerted))[-1] == f"Other apps: {words}"


def test_open_alerts_are_named_next_to_the_apps_that_dropped() -> None:
    explanation = explain(tally_changes([*traffic(), *traffic(seed=2, app="shop")]))
    assert list(text.findings(alert(), explanation, text.TIMES, ["bank", "shop"]))[-1] == (
        "Other apps: 1 of 1 also dropped (shop); 1 more with open alerts (bank). Suspect what they share, the judges "
        "first."
    )


def test_the_book_knows_the_other_apps_with_open_alerts_of_the_same_evaluator() -> None:
    book, own = AlertBook(), alert()
    others = {
        "bank": alert(series=Series(app="bank", dimension="clarity")),
        "shop": alert(series=Series(app="shop", dimension="clarity"), kind=EventKind.CLEARED, cause=Cause.RECOVERED),
        "news": alert(series=Series(app="news", dimension="clarity"), fingerprint="other"),
    }
    for record in (own, *others.values()):
        book.take(record.key.encode(), record.model_dump_json().encode())
    assert book.list_apps_with_open_alerts(own) == ["bank"]


def test_records_without_the_attribute_can_be_the_new_slice() -> None:
    untagged = [
        evaluation({"groundedness": 0.0}, evaluated_at=RAISED + timedelta(seconds=second), tags={}, model="model-1")
        for second in range(100)
    ]
    explanation = explain(tally_changes([*traffic(bad=None), *untagged]))
    assert explanation.arrival is not None
    assert (explanation.arrival.attribute, explanation.arrival.part.value) == ("tag region", None)
    findings = " ".join(text.findings(alert(), explanation, text.TIMES))
    assert "New with the drop: no tag region (0 % → 50 % of the traffic, mean 0.00)." in findings


def test_a_new_slice_is_described_with_what_it_replaced_and_not_as_a_change_of_its_mean() -> None:
    old = [
        evaluation(
            {"groundedness": float(second % 50 > 0)},
            evaluated_at=RAISED - timedelta(hours=1, seconds=second),
            model="m1",
        )
        for second in range(300)
    ]
    new = [
        evaluation(
            {"groundedness": float(second % 10 > 2)}, evaluated_at=RAISED + timedelta(seconds=second), model="m2"
        )
        for second in range(200)
    ]
    explanation = explain(tally_changes([*old, *new]))
    lines = list(text.findings(alert(), explanation, text.TIMES))
    assert lines[1] == (
        "New with the drop: model m2 (0 % → 100 % of the traffic, mean 0.70; what it replaced, m1, had 0.98). "
        "It accounts for all of the fall."
    )
    assert not any("Likely driver" in line for line in lines)
    steps = list(text.next_steps(alert(), explanation, "there"))
    assert "Find out what changed for model m2, and roll it back or take it out of the traffic." in steps


def test_of_several_new_slices_all_that_matter_are_named() -> None:
    old = [
        evaluation(evaluated_at=RAISED - timedelta(hours=1, seconds=second), model=f"m{second % 2}")
        for second in range(300)
    ]
    new = [
        evaluation(
            {"groundedness": float(second % 4 > 2)},
            evaluated_at=RAISED + timedelta(seconds=second),
            model=f"n{second % 5 // 3}",
        )
        for second in range(200)
    ]
    lines = list(text.findings(alert(), explain(tally_changes([*old, *new])), text.TIMES))
    assert lines[1] == (
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

    def test_a_cleared_alert_says_how_low_it_was_if_that_is_known(self) -> None:
        over = alert(kind=EventKind.CLEARED, cause=Cause.RECOVERED, estimate=0.97, low=0.95, high=0.99)
        end = "target 0.85; 0.97 (0.95 to 0.99) when it was cleared"
        assert text.level(over, alert()) == f"fell to 0.55 (0.42 to 0.68), {end}"
        assert text.level(over) == end

    def test_a_withdrawn_alert_mentions_no_recovery(self) -> None:
        over = alert(kind=EventKind.CLEARED, cause=Cause.JUDGES_CHANGED, estimate=0.97)
        assert text.level(over, alert()) == "fell to 0.55 (0.42 to 0.68), target 0.85"

    def test_an_alert_about_judges_counts_kept_verdicts_and_then_repeated_new_ones(self) -> None:
        raised = alert(**self.judges, estimate=0.4)
        updated = alert(**self.judges, kind=EventKind.UPDATED, estimate=1.0)
        assert text.level(raised) == "40 % of the canaries kept their verdict, 98.5 % is expected"
        assert text.level(updated, raised) == (
            "40 % of the canaries kept their verdict when it was raised; since then 100 % repeat the new one"
        )
        assert text.level(updated) == "since it was raised 100 % of the canaries repeat the new one"

    def test_judges_that_are_no_longer_used_are_not_called_recovered(self) -> None:
        over = alert(**self.judges, kind=EventKind.CLEARED, cause=Cause.EVALUATOR_CHANGED)
        raised = alert(**self.judges, estimate=0.4)
        assert text.level(over, raised) == "40 % of the canaries kept their verdict"
        assert over.summary.startswith("The alert about the judges' verdicts on clarity is closed: ")

    def test_an_update_about_judges_describes_their_new_verdicts(self) -> None:
        updated = alert(**self.judges, kind=EventKind.UPDATED, estimate=1.0)
        assert updated.summary == (
            "The judges have changed their verdicts on clarity since 2026-11-15 02:00 UTC; "
            "100.0% of the canaries now get the new verdict"
        )


class TestBook:
    def book(self, *alerts: Alert) -> AlertBook:
        book = AlertBook()
        for entry in alerts:
            book.take(entry.series.key.encode(), entry.model_dump_json().encode())
        return book

    def test_any_prefix_of_an_id_is_enough(self) -> None:
        known_alert = alert(alert_id="abcdef12-3456")
        book = self.book(known_alert)
        for prefix in ("ABCD", "abc", "a"):
            assert [entry.alert_id for entry in book.find_by_prefix(prefix)] == [known_alert.alert_id]
        assert book.find_by_prefix("bcdef") == []

    def test_ids_are_shortened_as_far_as_they_stay_unique(self) -> None:
        alerts = [
            alert(alert_id=name, series=Series(app=name, dimension="composite"))
            for name in ("abcdef12-1", "abcdef12-2", "ffffffff-1")
        ]
        book = self.book(*alerts)
        assert [book.short(entry) for entry in alerts] == ["abcdef12-1", "abcdef12-2", "ffffffff"]

    def test_the_closest_ids_are_suggested_or_else_the_newest(self) -> None:
        older = alert(alert_id="abcdef12-1", series=Series(app="a", dimension="composite"))
        newer = alert(
            alert_id="99999999-1", series=Series(app="b", dimension="composite"), raised_at=RAISED + timedelta(hours=1)
        )
        book = self.book(older, newer)
        assert [entry.alert_id for entry in book.close_to("abcdef13")] == [older.alert_id]
        assert [entry.alert_id for entry in book.close_to("xyz")] == [newer.alert_id, older.alert_id]

    def judges(self, dimension: str = "groundedness", **overrides: Any) -> Alert:
        series = Series(app="canaries", dimension=dimension)
        return alert(subject=Subject.JUDGES, series=series, **{"alert_id": f"judges-{dimension}", **overrides})

    def test_open_alerts_about_the_judges_come_first_but_latest_is_by_time(self) -> None:
        newer = alert(raised_at=RAISED + timedelta(hours=1))
        over = self.judges("clarity", kind=EventKind.CLEARED, cause=Cause.RECOVERED)
        book = self.book(newer, over, self.judges())
        assert [entry.alert_id for entry, _ in book.newest(cleared=True)] == [
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
    def test_judges_that_changed_at_about_that_time_may_be_behind_an_alert(
        self, dimension: str, changes: dict[str, Any], is_named: bool
    ) -> None:
        judges = self.judges(dimension, **changes)
        book = self.book(alert(), judges)
        assert (book.judges_behind(alert()) == judges) is is_named
        if changes.get("fingerprint") is None and is_named:
            assert book.judges_behind(alert(dimension="composite")) == judges

    def test_a_withdrawn_alert_is_found_even_if_it_was_raised_again(self) -> None:
        first = alert(kind=EventKind.CLEARED, cause=Cause.JUDGES_CHANGED, at=RAISED + timedelta(minutes=5))
        again = alert(alert_id="raised-again", at=RAISED + timedelta(hours=1))
        book = self.book(self.judges(), first, again)
        assert [entry.alert_id for entry in book.list_withdrawn(self.judges())] == [first.alert_id]

    def test_a_withdrawn_alert_belongs_to_the_last_change_before_it(self) -> None:
        later = self.judges(alert_id="judges-later", raised_at=RAISED + timedelta(hours=1))
        withdrawn = alert(kind=EventKind.CLEARED, cause=Cause.JUDGES_CHANGED, at=RAISED + timedelta(hours=1))
        book = self.book(self.judges(), later, withdrawn)
        assert book.list_withdrawn(self.judges()) == []
        assert [entry.alert_id for entry in book.list_withdrawn(later)] == [withdrawn.alert_id]

    def test_an_older_alert_of_a_series_can_still_be_found(self) -> None:
        older, newer = alert(alert_id="aaaaaaaa-1"), alert(alert_id="bbbbbbbb-1")
        book = self.book(older, newer)
        assert [entry.alert_id for entry, _ in book.newest(cleared=True)] == ["bbbbbbbb-1"]
        assert [entry.alert_id for entry in book.find_by_prefix("aaaaaaaa")] == ["aaaaaaaa-1"]

    @pytest.mark.parametrize("field", ["at", "raised_at", "onset_at", "recovered_at"])
    @pytest.mark.parametrize("year", [1, 1969, 9999])
    def test_an_alert_with_an_impossible_date_is_left_out(self, field: str, year: int) -> None:
        book = AlertBook()
        dated = alert().model_copy(update={field: datetime(year, 6, 1, tzinfo=UTC)})
        book.take(b"k", dated.model_dump_json().encode())
        assert (book.newest(cleared=True), book.unreadable) == ([], 1)

    @pytest.mark.parametrize("value", [b"", b"[" * 200_000, b"null", b"Infinity", b"\xff"])
    def test_an_invalid_alert_is_left_out(self, value: bytes) -> None:
        book = AlertBook()
        book.take(b"k", value)
        assert (book.newest(cleared=True), book.unreadable) == ([], 1)

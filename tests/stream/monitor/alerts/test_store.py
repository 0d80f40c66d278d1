"""Alerts published after a restart: all unpublished ones in order, and none twice."""

import functools

from hypothesis import given
from hypothesis import strategies as st

from stream.monitor.alerts.alert import Alert
from stream.monitor.alerts.store import _after
from stream.monitor.alerts.watch.partition import PartitionWatch
from tests.stream.monitor.alerts.traffic import BEGIN, WRONG, Traffic, collect_alerts, plan_of


@functools.cache
def alerts_of_a_drop() -> list[Alert]:
    traffic = Traffic()
    records = [*traffic.many(200), *traffic.many(150, WRONG), *traffic.many(500)]
    return collect_alerts(PartitionWatch(plan_of(), 0), records)


def alerts_of_late_scores() -> list[Alert]:
    """Return the alerts of a monitor that was down: scores older than the newest known one are dated like it."""
    traffic, watch = Traffic(), PartitionWatch(plan_of(), 0)
    before = collect_alerts(watch, [*traffic.many(200), *traffic.many(60, WRONG)])
    return before + collect_alerts(watch, list(traffic.many(300, WRONG, at=BEGIN)))


def last_of(alerts: list[Alert]) -> dict[str, Alert]:
    return {alert.key: alert for alert in alerts}


@given(data=st.data())
def test_alerts_that_were_stored_but_not_published_are_published_once(data: st.DataObject) -> None:
    """The topic may have kept only the newest alert of each series; an alert is stored before it is published."""
    alerts = alerts_of_a_drop()
    stored, published = (data.draw(st.integers(0, len(alerts)), label) for label in ("stored", "published"))
    unpublished = list(_after(alerts[:stored], last_of(alerts[:published])))
    assert unpublished == alerts[published:stored]


def test_alerts_of_different_evaluators_have_different_keys() -> None:
    """When the alert of one evaluator ends, that of the other stays open."""
    alerts = alerts_of_a_drop()
    other = alerts[0].model_copy(update={"fingerprint": "another"})
    assert other.key != alerts[0].key
    assert list(_after([other], last_of(alerts))) == [other]


def test_updates_of_the_same_time_are_distinguished() -> None:
    alerts = alerts_of_late_scores()
    same_time = [alert for alert in alerts if alert.key == alerts[-1].key and alert.at == alerts[-1].at]
    assert len(same_time) == 3
    assert list(_after(same_time, last_of(same_time[:1]))) == same_time[1:]

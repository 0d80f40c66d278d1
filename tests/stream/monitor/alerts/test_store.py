"""What is published after a restart: all that was not, in its order, and nothing that was already."""

from hypothesis import given
from hypothesis import strategies as st

from stream.monitor.alerts.alert import Alert
from stream.monitor.alerts.store import _after
from stream.monitor.alerts.watch.partition import PartitionWatch
from tests.stream.monitor.alerts.traffic import BEGIN, WRONG, Traffic, announced, plan_of

TRAFFIC = Traffic()
TOLD = announced(PartitionWatch(plan_of(), 0), [*TRAFFIC.many(200), *TRAFFIC.many(150, WRONG), *TRAFFIC.many(500)])


def told_of_late_scores() -> list[Alert]:
    """A monitor was away: its scores come when newer ones are known already, and all of them are dated like those."""
    traffic, watch = Traffic(), PartitionWatch(plan_of(), 0)
    before = announced(watch, [*traffic.many(200), *traffic.many(60, WRONG)])
    return before + announced(watch, list(traffic.many(300, WRONG, at=BEGIN)))


def last_of(alerts: list[Alert]) -> dict[str, Alert]:
    return {alert.key: alert for alert in alerts}


@given(stored=st.integers(0, len(TOLD)), published=st.integers(0, len(TOLD)))
def test_what_was_stored_and_not_published_is_published_once(stored: int, published: int) -> None:
    """The topic may have forgotten all but the newest of each series; what was published was stored before."""
    found = list(_after(TOLD[:stored], last_of(TOLD[:published])))
    assert found == TOLD[published:stored]


def test_the_key_tells_evaluators_apart() -> None:
    """When the alarm by one of them ends, that by the other goes on."""
    other = TOLD[0].model_copy(update={"fingerprint": "another"})
    assert other.key != TOLD[0].key
    assert list(_after([other], last_of(TOLD))) == [other]


def test_updates_of_the_same_time_are_told_apart() -> None:
    told = told_of_late_scores()
    same_time = [alert for alert in told if alert.key == told[-1].key and alert.at == told[-1].at]
    assert len(same_time) == 3
    assert list(_after(same_time, last_of(same_time[:1]))) == same_time[1:]

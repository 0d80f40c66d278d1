"""Fair shares: an app that floods the queue waits, but other apps do not, and no app waits needlessly."""

import random

from hypothesis import given
from hypothesis import strategies as st

from stream.worker.fair_share import FairShares


def count_traffic(shares: FairShares, **counts: int) -> None:
    """Count records of these apps in random order."""
    apps = [app for app, count in counts.items() for _ in range(count)]
    random.Random(1).shuffle(apps)
    for app in apps:
        shares.count_record(app)


def test_a_single_app_may_use_all_slots() -> None:
    shares = FairShares(8)
    count_traffic(shares, only=5000)
    for _ in range(8):
        assert not shares.exceeds_share("only")
        shares.take_slot("only")
    assert not shares.exceeds_share("only")


def test_a_noisy_app_is_limited_to_its_share_and_a_quiet_one_is_not() -> None:
    shares = FairShares(8)
    count_traffic(shares, noisy=950, quiet=50)
    for _ in range(4):
        assert not shares.exceeds_share("noisy")
        shares.take_slot("noisy")
    assert shares.exceeds_share("noisy")
    for _ in range(8):
        assert not shares.exceeds_share("quiet")
        shares.take_slot("quiet")
    shares.release_slot("noisy")
    assert not shares.exceeds_share("noisy")


def test_apps_with_similar_traffic_do_not_wait_for_each_other() -> None:
    shares = FairShares(4)
    count_traffic(shares, one=520, two=480)
    for app in ("one", "two"):
        for _ in range(6):
            shares.take_slot(app)
        assert not shares.exceeds_share(app)


def test_an_app_without_further_traffic_is_forgotten() -> None:
    shares = FairShares(4)
    count_traffic(shares, gone=10)
    for _ in range(4):
        shares.take_slot("noisy")
    count_traffic(shares, noisy=2000)
    assert shares.exceeds_share("noisy")
    count_traffic(shares, noisy=20_000)
    assert not shares.exceeds_share("noisy")


@given(st.lists(st.text(max_size=3) | st.none(), max_size=300), st.integers(1, 16))
def test_an_app_without_a_slot_never_exceeds_its_share(apps: list[str | None], slots: int) -> None:
    shares = FairShares(slots)
    for app in apps:
        shares.count_record(app)
        assert not shares.exceeds_share(app)


def test_memory_does_not_grow_with_the_number_of_apps() -> None:
    shares = FairShares(4)
    for number in range(50_000):
        shares.count_record(f"app-{number}")
        shares.take_slot(f"app-{number}")
        shares.release_slot(f"app-{number}")
    assert len(shares._weights) <= 1001
    assert not shares._slots_taken

"""The ledger: in any order of events, the true spending of no window exceeds its share."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from judges.models.spending import NANODOLLARS, nanodollars
from stream.worker.budget import Ask, LeaseLedger, LeaseRefusal, Limits, Reservation, shares
from stream.worker.budget.lease_ledger import CLOCK_SECONDS
from stream.worker.budget.limits import ALL_APPS, Budget, Budgets, Caps, Span
from stream.worker.budget.offset_note import MAX_BYTES, BudgetWindow, NoteError, longest, read, short_name, write

HOUR, DAY = Span.HOUR, Span.DAY
NOON = 1_800_000_000.0 - 1_800_000_000 % 86_400 + 43_200


def limits(whole: float = 1.0, main: float = 0.8, span: Span = HOUR) -> Limits:
    return {span: {ALL_APPS: Caps(nanodollars(whole), nanodollars(main))}}


def reserve(ledger: LeaseLedger, ask: Ask, now: float) -> Reservation:
    reservation = ledger.reserve(ask, now)
    assert isinstance(reservation, Reservation), reservation
    return reservation


def lease_and_commit(ledger: LeaseLedger, *asks: Ask, now: float = NOON) -> None:
    """Lease for these asks and commit the lease."""
    for ask in asks:
        ledger.wait_for(ask)
    ledger.lease(now)
    ledger.confirm_commit()
    for ask in asks:
        ledger.wait_no_more(ask)


class TestLeases:
    def test_no_call_is_reserved_before_a_lease_is_committed(self) -> None:
        ledger, ask = LeaseLedger(limits()), Ask(amount=nanodollars(0.01))
        assert ledger.reserve(ask, NOON) is LeaseRefusal.NOT_YET
        ledger.wait_for(ask)
        assert ledger.needs_lease(NOON)
        ledger.lease(NOON)
        assert ledger.reserve(ask, NOON) is LeaseRefusal.NOT_YET, "the lease is proposed, but perhaps not stored"
        ledger.confirm_commit()
        reserve(ledger, ask, NOON)

    def test_after_a_crash_leased_money_counts_as_spent(self) -> None:
        ledger, ask = LeaseLedger(limits()), Ask(amount=nanodollars(0.5))
        lease_and_commit(ledger, ask)
        next_owner = LeaseLedger.decode(ledger.encode(), limits(), NOON)
        assert next_owner.reserve(ask, NOON) is LeaseRefusal.OVER

    def test_closing_a_partition_returns_unspent_money(self) -> None:
        ledger, ask = LeaseLedger(limits()), Ask(amount=nanodollars(0.5))
        lease_and_commit(ledger, ask)
        ledger.settle(reserve(ledger, ask, NOON), nanodollars(0.1))
        ledger.close()
        assert ledger.needs_lease(NOON)
        next_owner = LeaseLedger.decode(ledger.lease(NOON), limits(), NOON)
        ledger.confirm_commit()
        assert not ledger.needs_lease(NOON), "there is nothing left to return"
        assert next_owner.share_left(NOON) == pytest.approx(0.7 / 0.8)
        lease_and_commit(next_owner, ask)
        reserve(next_owner, ask, NOON)

    def test_a_call_in_flight_counts_in_full_for_the_next_owner(self) -> None:
        ledger, ask = LeaseLedger(limits()), Ask(amount=nanodollars(0.5))
        lease_and_commit(ledger, ask)
        reserve(ledger, ask, NOON)
        ledger.close()
        next_owner = LeaseLedger.decode(ledger.lease(NOON), limits(), NOON)
        assert next_owner.share_left(NOON) == pytest.approx(0.3 / 0.8)

    def test_steady_spending_never_waits_after_the_first_commit(self) -> None:
        ledger, ask = LeaseLedger(limits(100, 80)), Ask(amount=nanodollars(0.001))
        lease_and_commit(ledger, *(Ask(amount=ask.amount) for _ in range(5)))
        for _ in range(50):
            for _ in range(5):
                ledger.settle(reserve(ledger, ask, NOON), nanodollars(0.0008))
            ledger.lease(NOON)
            ledger.confirm_commit()

    def test_only_little_is_leased_ahead(self) -> None:
        """During steady spending, a crash loses at most the calls of two commits."""
        ledger, ask = LeaseLedger(limits(100, 80)), Ask(amount=nanodollars(0.001))
        lease_and_commit(ledger, *(Ask(amount=ask.amount) for _ in range(2)))
        for _ in range(20):
            for _ in range(2):
                ledger.settle(reserve(ledger, ask, NOON), ask.amount)
            ledger.lease(NOON)
            ledger.confirm_commit()
        spent, leased = 40 * ask.amount, read(ledger.encode())[BudgetWindow(HOUR, int(NOON // 3600))][ALL_APPS]
        assert spent < leased.whole <= spent + 4 * ask.amount

    def test_a_new_hour_is_leased_before_it_starts(self) -> None:
        edge = NOON + 3600
        ledger, ask = LeaseLedger(limits()), Ask(amount=nanodollars(0.01))
        lease_and_commit(ledger, ask, now=edge - 10)
        ledger.settle(reserve(ledger, ask, edge - 10), ask.amount)
        ledger.lease(edge - 3.5)
        ledger.confirm_commit()
        for now in (edge - 1, edge, edge + 1, edge + 3):
            ledger.settle(reserve(ledger, Ask(amount=1000), now), 1000)


class TestLimits:
    def test_a_call_that_costs_more_than_reserved_takes_the_excess_from_the_rest(self) -> None:
        ledger, ask = LeaseLedger(limits(1.0, 1.0)), Ask(amount=nanodollars(0.5))
        lease_and_commit(ledger, ask)
        ledger.settle(reserve(ledger, ask, NOON), nanodollars(0.7))
        assert ledger.excess == nanodollars(0.2)
        assert ledger.reserve(ask, NOON) is LeaseRefusal.OVER
        ledger.close()
        assert LeaseLedger.decode(ledger.lease(NOON), limits(1.0, 1.0), NOON).share_left(NOON) == pytest.approx(0.3)

    def test_other_lanes_leave_the_safety_share_and_safety_may_use_theirs(self) -> None:
        ledger = LeaseLedger(limits(1.0, 0.8))
        main, safety = Ask(amount=nanodollars(0.4)), Ask(amount=nanodollars(0.2), safety=True)
        for _ in range(2):
            lease_and_commit(ledger, main)
            ledger.settle(reserve(ledger, main, NOON), main.amount)
        assert ledger.reserve(Ask(amount=1), NOON) is LeaseRefusal.OVER
        lease_and_commit(ledger, safety)
        ledger.settle(reserve(ledger, safety, NOON), safety.amount)
        assert ledger.reserve(Ask(amount=1, safety=True), NOON) is LeaseRefusal.OVER
        alone = LeaseLedger(limits(1.0, 0.8))
        everything = Ask(amount=nanodollars(1.0), safety=True)
        lease_and_commit(alone, everything)
        reserve(alone, everything, NOON)

    def test_an_app_is_limited_by_its_own_and_by_the_global_budget(self) -> None:
        dollar, cents = nanodollars(1.0), nanodollars(0.1)
        ledger = LeaseLedger({HOUR: {ALL_APPS: Caps(dollar, dollar), "bot": Caps(cents, cents)}})
        of_bot, of_other = Ask(amount=cents, app="bot"), Ask(amount=9 * cents, app="other")
        lease_and_commit(ledger, of_bot)
        ledger.settle(reserve(ledger, of_bot, NOON), cents)
        assert ledger.reserve(Ask(amount=1, app="bot"), NOON) is LeaseRefusal.OVER
        lease_and_commit(ledger, of_other)
        ledger.settle(reserve(ledger, of_other, NOON), 9 * cents)
        assert ledger.reserve(Ask(amount=1), NOON) is LeaseRefusal.OVER

    @pytest.mark.parametrize("app", [None, "", "shop"])
    def test_a_call_counts_once_in_the_global_budget(self, app: str | None) -> None:
        ledger, ask = LeaseLedger(limits()), Ask(amount=nanodollars(0.1), app=app)
        lease_and_commit(ledger, ask)
        reserve(ledger, ask, NOON)
        assert [account.used for _span, _scope, account in ledger.standing(NOON)] == [nanodollars(0.1)]

    def test_an_absurd_cost_uses_up_the_share_and_leaves_a_readable_note(self) -> None:
        ledger, ask = LeaseLedger(limits()), Ask(amount=nanodollars(0.1))
        lease_and_commit(ledger, ask)
        ledger.settle(reserve(ledger, ask, NOON), 10**3000)
        next_owner = LeaseLedger.decode(ledger.lease(NOON), limits(), NOON)
        for owner_ledger in (ledger, next_owner):
            assert owner_ledger.share_left(NOON) == 0.0
            assert owner_ledger.reserve(ask, NOON) is LeaseRefusal.OVER
        assert next_owner.reserve(ask, NOON + 3600) is LeaseRefusal.NOT_YET, "the next hour is not affected"

    def test_the_shares_of_all_partitions_add_up_to_the_budget(self) -> None:
        budgets = Budgets(everyone=Budget(per_hour_usd=0.10001), apps={}, safety_share=0.2)
        for count in (1, 3, 7, 64):
            partition_caps = [shares(budgets, number, count)[HOUR][ALL_APPS] for number in range(count)]
            assert sum(caps.whole for caps in partition_caps) == nanodollars(0.10001)
            assert all(caps.whole * 0.8 - 1000 <= caps.main <= caps.whole * 0.8 for caps in partition_caps)

    def test_waiting_for_calls_in_flight_does_not_count_as_over_budget(self) -> None:
        ledger, ask = LeaseLedger(limits(1.0, 1.0)), Ask(amount=nanodollars(0.6))
        lease_and_commit(ledger, ask)
        reservation = reserve(ledger, ask, NOON)
        assert ledger.reserve(ask, NOON) is LeaseRefusal.NOT_YET
        ledger.settle(reservation, nanodollars(0.2))
        lease_and_commit(ledger, ask)
        reserve(ledger, ask, NOON)

    def test_settling_twice_counts_once(self) -> None:
        ledger, ask = LeaseLedger(limits(1.0, 1.0)), Ask(amount=nanodollars(0.5))
        lease_and_commit(ledger, ask)
        reservation = reserve(ledger, ask, NOON)
        ledger.settle(reservation, 0)
        ledger.settle(reservation, None)
        assert ledger.share_left(NOON) == 1.0


class TestClocks:
    def test_a_window_closed_by_another_clock_is_not_reopened(self) -> None:
        edge, ask = NOON + 3600, Ask(amount=nanodollars(0.7))
        ahead = LeaseLedger(limits())
        lease_and_commit(ahead, ask, now=edge + CLOCK_SECONDS + 1)
        behind = LeaseLedger.decode(ahead.encode(), limits(), edge - 60)
        assert behind.reserve(ask, edge - 60) is LeaseRefusal.OVER

    def test_a_used_up_hour_delays_calls_only_until_it_is_over_on_every_clock(self) -> None:
        edge, ask = NOON + 3600, Ask(amount=nanodollars(0.8))
        ledger = LeaseLedger(limits())
        lease_and_commit(ledger, ask, now=edge - 60)
        ledger.settle(reserve(ledger, ask, edge - 60), ask.amount)
        assert ledger.reserve(ask, edge - 60) is LeaseRefusal.OVER
        assert ledger.reserve(ask, edge + 1) is LeaseRefusal.NOT_YET
        lease_and_commit(ledger, ask, now=edge + CLOCK_SECONDS)
        reserve(ledger, ask, edge + CLOCK_SECONDS)


class TestNotes:
    def test_an_unreadable_note_counts_as_fully_spent_until_the_next_window(self) -> None:
        ledger, ask = LeaseLedger.decode("sj2|whatever", limits(), NOON), Ask(amount=1)
        assert ledger.reserve(ask, NOON) is LeaseRefusal.OVER
        ledger.close()
        assert LeaseLedger.decode(ledger.lease(NOON), limits(), NOON).reserve(ask, NOON) is LeaseRefusal.OVER
        assert ledger.reserve(ask, NOON + 3700) is LeaseRefusal.NOT_YET

    @given(
        leases=st.dictionaries(
            st.builds(BudgetWindow, st.sampled_from(Span), st.integers(0, 10**7)),
            st.dictionaries(
                st.sampled_from(["", *map(short_name, ("a", "b", "Ж", "\ud800"))]),
                st.builds(
                    Caps,
                    st.integers(0, 10**15).map(lambda micro: micro * 1000),
                    st.integers(1, 10**15).map(lambda micro: micro * 1000),
                ),
            ),
            max_size=4,
        )
    )
    def test_a_written_note_is_read_back(self, leases: dict[BudgetWindow, dict[str, Caps]]) -> None:
        assert read(write(leases)) == leases

    @given(st.text())
    def test_any_other_text_is_read_or_refused_with_a_note_error(self, text: str) -> None:
        for candidate in (text, f"sj1|{text}"):
            try:
                read(candidate)
            except NoteError:
                continue

    def test_forty_apps_with_budgets_fit_into_offset_metadata(self) -> None:
        budget = Budget(per_hour_usd=1000, per_day_usd=20_000)
        budgets = Budgets(everyone=budget, apps={f"app-{n}": budget for n in range(40)}, safety_share=0.2)
        partition_limits = shares(budgets, 0, 1)
        assert longest(partition_limits) <= MAX_BYTES
        ledger, now = LeaseLedger(partition_limits), NOON + 43_200 - 1
        for number in range(40):
            ledger.wait_for(Ask(amount=nanodollars(999), app=f"app-{number}"))
        assert len(ledger.lease(now)) <= longest(partition_limits)
        assert len(read(ledger.encode())) == 4, "two hours and two days, around midnight"


@dataclass
class _Truth:
    """The real spending by true window."""

    spent: Counter[tuple[BudgetWindow, str, bool]] = field(default_factory=Counter)

    def keys(self, timestamp: float, ask: Ask) -> Iterator[tuple[BudgetWindow, str, bool]]:
        for span in Span:
            window = BudgetWindow(span, int(timestamp // span.value))
            for scope in {ALL_APPS, ask.app or ALL_APPS}:
                yield window, scope, True
                if not ask.safety:
                    yield window, scope, False


@dataclass
class _Owner:
    ledger: LeaseLedger
    skew: float
    calls: list[tuple[Reservation, Ask, float]] = field(default_factory=list)


class Partition(RuleBasedStateMachine):
    """One partition, its store, the true time, and successive owners; former owners continue as zombies."""

    everyone = Caps(10_000_000, 8_000_000)
    daily = Caps(25_000_000, 20_000_000)
    own = Caps(4_000_000, 3_000_000)

    @initialize(offset=st.integers(-20, 20))
    def start(self, offset: int) -> None:
        self.limits: Limits = {HOUR: {ALL_APPS: self.everyone, "bot": self.own}, DAY: {ALL_APPS: self.daily}}
        self.now = NOON + 43_200 - 3600 + offset
        self.store = ""
        self.truth = _Truth()
        self.owners = [self.take_over(0.0)]

    def take_over(self, skew: float) -> _Owner:
        ledger = LeaseLedger.decode(self.store, self.limits, self.now + skew)
        return _Owner(ledger, skew)

    @rule(seconds=st.floats(0, 3))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(before=st.floats(-3, 3))
    def the_hour_ends(self, before: float) -> None:
        self.now = max(self.now, (self.now // 3600 + 1) * 3600 - before)

    @rule(
        which=st.integers(0, 2),
        amounts=st.lists(st.integers(100_000, 3_000_000), min_size=1, max_size=8),
        app=st.sampled_from([None, "bot", "other"]),
        safety=st.booleans(),
        with_lease=st.booleans(),
    )
    def calls(self, which: int, amounts: list[int], app: str | None, safety: bool, with_lease: bool) -> None:
        """Make calls as any owner, even one that lost the partition unknowingly; the true one may lease for them."""
        owner = self.owners[-1 - which % len(self.owners)]
        asks = [Ask(amount=amount, app=app, safety=safety) for amount in amounts]
        for ask in asks:
            owner.ledger.wait_for(ask)
        if with_lease and owner is self.owners[-1]:
            self.commit("done")
        for ask in asks:
            owner.ledger.wait_no_more(ask)
            result = owner.ledger.reserve(ask, self.now + owner.skew)
            if isinstance(result, Reservation):
                owner.calls.append((result, ask, self.now))

    @rule(which=st.integers(0, 2), part=st.floats(0, 1), cost_known=st.booleans(), count=st.integers(1, 8))
    def settle(self, which: int, part: float, cost_known: bool, count: int) -> None:
        owner = self.owners[-1 - which % len(self.owners)]
        for reservation, ask, timestamp in owner.calls[:count]:
            actual = int(reservation.amount * part)
            self.truth.spent.update(dict.fromkeys(self.truth.keys(timestamp, ask), actual))
            owner.ledger.settle(reservation, actual if cost_known else None)
        del owner.calls[:count]

    @rule(outcome=st.sampled_from(["done", "done", "done", "aborted", "in doubt"]))
    def commit(self, outcome: str) -> None:
        owner = self.owners[-1]
        text = owner.ledger.lease(self.now + owner.skew)
        if outcome != "aborted":
            self.store = text
        if outcome == "done":
            owner.ledger.confirm_commit()

    @rule(skew=st.floats(-CLOCK_SECONDS, CLOCK_SECONDS), orderly=st.booleans())
    def change_hands(self, skew: float, orderly: bool) -> None:
        if orderly:
            self.owners[-1].ledger.close()
            self.commit("done")
        self.owners = [*self.owners[-2:], self.take_over(skew)]

    @invariant()
    def within_every_cap(self) -> None:
        """Check every cap, even if every call in flight costs as much as it can."""
        if not hasattr(self, "truth"):
            return
        worst = self.truth.spent.copy()
        for owner in self.owners:
            for reservation, ask, timestamp in owner.calls:
                worst.update(dict.fromkeys(self.truth.keys(timestamp, ask), reservation.amount))
        for (window, scope, whole), spent in worst.items():
            caps = self.limits[window.span].get(scope)
            assert caps is None or spent <= (caps.whole if whole else caps.main), (window, scope, whole)


Partition.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
TestNoSequenceExceedsACap = Partition.TestCase


def test_almost_all_of_a_share_can_be_spent_despite_occasional_crashes() -> None:
    """Crashes lose only a little of the money."""
    draw = random.Random(7)
    cap = nanodollars(1.0)
    ledger, spent, crashes = LeaseLedger(limits(1.0, 1.0)), 0, 0
    store, in_flight = "", list[Reservation]()
    while True:
        ask = Ask(amount=draw.randint(200_000, 400_000))
        result = ledger.reserve(ask, NOON)
        if result is LeaseRefusal.OVER:
            break
        if isinstance(result, Reservation):
            in_flight.append(result)
        else:
            ledger.wait_for(ask)
        if isinstance(result, LeaseRefusal) or len(in_flight) > 8:
            while in_flight:
                reservation = in_flight.pop()
                cost = draw.randint(reservation.amount // 5, reservation.amount)
                spent += cost
                ledger.settle(reservation, cost)
            store = ledger.lease(NOON)
            ledger.confirm_commit()
            ledger.wait_no_more(ask)
        if draw.random() < 0.0005:
            crashes += 1
            in_flight.clear()
            ledger = LeaseLedger.decode(store, limits(1.0, 1.0), NOON)
    assert crashes > 0
    assert 0.95 * cap <= spent <= cap == NANODOLLARS


@pytest.mark.parametrize("first", [0, 1000])
def test_no_random_walk_exceeds_a_cap(first: int) -> None:
    """The same rules as above, in long sequences with many calls and frequent changes of owner."""
    for seed in range(first, first + 100):
        draw, partition = random.Random(seed), Partition()
        partition.start(offset=draw.randint(-20, 20))
        for _ in range(50):
            _step(partition, draw)
            partition.within_every_cap()


def _step(partition: Partition, draw: random.Random) -> None:
    match draw.choice(("calls", "calls", "calls", "settle", "commit", "hands", "time", "hour")):
        case "calls":
            partition.calls(
                which=draw.choice((0, 0, 1, 2)),
                amounts=[draw.randint(100_000, 3_000_000) for _ in range(draw.randint(1, 8))],
                app=draw.choice((None, "bot", "other")),
                safety=draw.random() < 0.5,
                with_lease=draw.random() < 0.8,
            )
        case "settle":
            partition.settle(which=draw.randint(0, 2), part=draw.random(), cost_known=draw.random() < 0.9, count=8)
        case "commit":
            partition.commit(draw.choice(("done", "aborted", "in doubt")))
        case "hands":
            skew = draw.uniform(-CLOCK_SECONDS, CLOCK_SECONDS)
            partition.change_hands(skew=skew, orderly=draw.random() < 0.5)
        case "time":
            partition.time_passes(seconds=draw.uniform(0, 3))
        case "hour":
            if draw.random() < 0.3:
                partition.the_hour_ends(before=draw.uniform(-3, 3))

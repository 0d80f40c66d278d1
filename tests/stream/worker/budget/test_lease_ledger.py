"""The ledger: whatever happens in whatever order, no window's true spending is above its share."""

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


def reserved(ledger: LeaseLedger, ask: Ask, now: float) -> Reservation:
    found = ledger.reserve(ask, now)
    assert isinstance(found, Reservation), found
    return found


def leased(ledger: LeaseLedger, *asks: Ask, now: float = NOON) -> None:
    """One commit that lets the asks through."""
    for ask in asks:
        ledger.wait_for(ask)
    ledger.lease(now)
    ledger.confirm_commit()
    for ask in asks:
        ledger.wait_no_more(ask)


class TestLeases:
    def test_nothing_is_reserved_before_a_lease_was_committed(self) -> None:
        ledger, ask = LeaseLedger(limits()), Ask(amount=nanodollars(0.01))
        assert ledger.reserve(ask, NOON) is LeaseRefusal.NOT_YET
        ledger.wait_for(ask)
        assert ledger.needs_lease(NOON)
        ledger.lease(NOON)
        assert ledger.reserve(ask, NOON) is LeaseRefusal.NOT_YET, "proposed, and perhaps not in the store"
        ledger.confirm_commit()
        reserved(ledger, ask, NOON)

    def test_after_a_crash_what_was_leased_counts_as_spent(self) -> None:
        ledger, ask = LeaseLedger(limits()), Ask(amount=nanodollars(0.5))
        leased(ledger, ask)
        next_owner = LeaseLedger.decode(ledger.encode(), limits(), NOON)
        assert next_owner.reserve(ask, NOON) is LeaseRefusal.OVER

    def test_who_gives_a_partition_up_gives_back_what_was_not_spent(self) -> None:
        ledger, ask = LeaseLedger(limits()), Ask(amount=nanodollars(0.5))
        leased(ledger, ask)
        ledger.settle(reserved(ledger, ask, NOON), nanodollars(0.1))
        ledger.close()
        assert ledger.needs_lease(NOON)
        next_owner = LeaseLedger.decode(ledger.lease(NOON), limits(), NOON)
        ledger.confirm_commit()
        assert not ledger.needs_lease(NOON), "there is no more to give back"
        assert next_owner.share_left(NOON) == pytest.approx(0.7 / 0.8)
        leased(next_owner, ask)
        reserved(next_owner, ask, NOON)

    def test_a_call_in_flight_counts_in_full_for_the_next_owner(self) -> None:
        ledger, ask = LeaseLedger(limits()), Ask(amount=nanodollars(0.5))
        leased(ledger, ask)
        reserved(ledger, ask, NOON)
        ledger.close()
        next_owner = LeaseLedger.decode(ledger.lease(NOON), limits(), NOON)
        assert next_owner.share_left(NOON) == pytest.approx(0.3 / 0.8)

    def test_steady_spending_never_waits_after_the_first_commit(self) -> None:
        ledger, ask = LeaseLedger(limits(100, 80)), Ask(amount=nanodollars(0.001))
        leased(ledger, *(Ask(amount=ask.amount) for _ in range(5)))
        for _ in range(50):
            for _ in range(5):
                ledger.settle(reserved(ledger, ask, NOON), nanodollars(0.0008))
            ledger.lease(NOON)
            ledger.confirm_commit()

    def test_little_is_leased_ahead(self) -> None:
        """A crash at any moment of steady spending loses no more than the calls of two commits."""
        ledger, ask = LeaseLedger(limits(100, 80)), Ask(amount=nanodollars(0.001))
        leased(ledger, *(Ask(amount=ask.amount) for _ in range(2)))
        for _ in range(20):
            for _ in range(2):
                ledger.settle(reserved(ledger, ask, NOON), ask.amount)
            ledger.lease(NOON)
            ledger.confirm_commit()
        spent, found = 40 * ask.amount, read(ledger.encode())[BudgetWindow(HOUR, int(NOON // 3600))][ALL_APPS]
        assert spent < found.whole <= spent + 4 * ask.amount

    def test_a_new_hour_is_leased_before_it_begins(self) -> None:
        edge = NOON + 3600
        ledger, ask = LeaseLedger(limits()), Ask(amount=nanodollars(0.01))
        leased(ledger, ask, now=edge - 10)
        ledger.settle(reserved(ledger, ask, edge - 10), ask.amount)
        ledger.lease(edge - 3.5)
        ledger.confirm_commit()
        for now in (edge - 1, edge, edge + 1, edge + 3):
            ledger.settle(reserved(ledger, Ask(amount=1000), now), 1000)


class TestLimits:
    def test_a_call_that_costs_more_than_was_reserved_takes_it_from_the_rest(self) -> None:
        ledger, ask = LeaseLedger(limits(1.0, 1.0)), Ask(amount=nanodollars(0.5))
        leased(ledger, ask)
        ledger.settle(reserved(ledger, ask, NOON), nanodollars(0.7))
        assert ledger.excess == nanodollars(0.2)
        assert ledger.reserve(ask, NOON) is LeaseRefusal.OVER
        ledger.close()
        assert LeaseLedger.decode(ledger.lease(NOON), limits(1.0, 1.0), NOON).share_left(NOON) == pytest.approx(0.3)

    def test_other_lanes_leave_the_share_of_safety_and_safety_may_use_theirs(self) -> None:
        ledger = LeaseLedger(limits(1.0, 0.8))
        main, safety = Ask(amount=nanodollars(0.4)), Ask(amount=nanodollars(0.2), safety=True)
        for _ in range(2):
            leased(ledger, main)
            ledger.settle(reserved(ledger, main, NOON), main.amount)
        assert ledger.reserve(Ask(amount=1), NOON) is LeaseRefusal.OVER
        leased(ledger, safety)
        ledger.settle(reserved(ledger, safety, NOON), safety.amount)
        assert ledger.reserve(Ask(amount=1, safety=True), NOON) is LeaseRefusal.OVER
        alone = LeaseLedger(limits(1.0, 0.8))
        everything = Ask(amount=nanodollars(1.0), safety=True)
        leased(alone, everything)
        reserved(alone, everything, NOON)

    def test_an_app_is_limited_by_its_own_budget_and_by_that_of_all(self) -> None:
        dollar, cents = nanodollars(1.0), nanodollars(0.1)
        ledger = LeaseLedger({HOUR: {ALL_APPS: Caps(dollar, dollar), "bot": Caps(cents, cents)}})
        of_bot, of_other = Ask(amount=cents, app="bot"), Ask(amount=9 * cents, app="other")
        leased(ledger, of_bot)
        ledger.settle(reserved(ledger, of_bot, NOON), cents)
        assert ledger.reserve(Ask(amount=1, app="bot"), NOON) is LeaseRefusal.OVER
        leased(ledger, of_other)
        ledger.settle(reserved(ledger, of_other, NOON), 9 * cents)
        assert ledger.reserve(Ask(amount=1), NOON) is LeaseRefusal.OVER

    @pytest.mark.parametrize("app", [None, "", "shop"])
    def test_a_call_counts_once_in_the_budget_of_all(self, app: str | None) -> None:
        ledger, ask = LeaseLedger(limits()), Ask(amount=nanodollars(0.1), app=app)
        leased(ledger, ask)
        reserved(ledger, ask, NOON)
        assert [account.used for _span, _scope, account in ledger.standing(NOON)] == [nanodollars(0.1)]

    def test_an_absurd_cost_uses_the_share_up_and_leaves_a_note_that_can_be_read(self) -> None:
        ledger, ask = LeaseLedger(limits()), Ask(amount=nanodollars(0.1))
        leased(ledger, ask)
        ledger.settle(reserved(ledger, ask, NOON), 10**3000)
        next_owner = LeaseLedger.decode(ledger.lease(NOON), limits(), NOON)
        for each in (ledger, next_owner):
            assert each.share_left(NOON) == 0.0
            assert each.reserve(ask, NOON) is LeaseRefusal.OVER
        assert next_owner.reserve(ask, NOON + 3600) is LeaseRefusal.NOT_YET, "the next hour is not touched"

    def test_the_shares_of_all_partitions_add_up_to_the_budget(self) -> None:
        budgets = Budgets(everyone=Budget(per_hour_usd=0.10001), apps={}, safety_share=0.2)
        for count in (1, 3, 7, 64):
            found = [shares(budgets, number, count)[HOUR][ALL_APPS] for number in range(count)]
            assert sum(caps.whole for caps in found) == nanodollars(0.10001)
            assert all(caps.whole * 0.8 - 1000 <= caps.main <= caps.whole * 0.8 for caps in found)

    def test_waiting_for_calls_in_flight_is_not_being_over(self) -> None:
        ledger, ask = LeaseLedger(limits(1.0, 1.0)), Ask(amount=nanodollars(0.6))
        leased(ledger, ask)
        held = reserved(ledger, ask, NOON)
        assert ledger.reserve(ask, NOON) is LeaseRefusal.NOT_YET
        ledger.settle(held, nanodollars(0.2))
        leased(ledger, ask)
        reserved(ledger, ask, NOON)

    def test_settling_twice_counts_once(self) -> None:
        ledger, ask = LeaseLedger(limits(1.0, 1.0)), Ask(amount=nanodollars(0.5))
        leased(ledger, ask)
        held = reserved(ledger, ask, NOON)
        ledger.settle(held, 0)
        ledger.settle(held, None)
        assert ledger.share_left(NOON) == 1.0


class TestClocks:
    def test_a_window_that_another_clock_has_closed_is_not_opened_again(self) -> None:
        edge, ask = NOON + 3600, Ask(amount=nanodollars(0.7))
        ahead = LeaseLedger(limits())
        leased(ahead, ask, now=edge + CLOCK_SECONDS + 1)
        behind = LeaseLedger.decode(ahead.encode(), limits(), edge - 60)
        assert behind.reserve(ask, edge - 60) is LeaseRefusal.OVER

    def test_a_used_up_hour_holds_calls_back_only_until_it_is_over_for_every_clock(self) -> None:
        edge, ask = NOON + 3600, Ask(amount=nanodollars(0.8))
        ledger = LeaseLedger(limits())
        leased(ledger, ask, now=edge - 60)
        ledger.settle(reserved(ledger, ask, edge - 60), ask.amount)
        assert ledger.reserve(ask, edge - 60) is LeaseRefusal.OVER
        assert ledger.reserve(ask, edge + 1) is LeaseRefusal.NOT_YET
        leased(ledger, ask, now=edge + CLOCK_SECONDS)
        reserved(ledger, ask, edge + CLOCK_SECONDS)


class TestNotes:
    def test_a_note_that_cannot_be_read_counts_as_all_spent_until_the_next_window(self) -> None:
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
    def test_what_is_written_is_read(self, leases: dict[BudgetWindow, dict[str, Caps]]) -> None:
        assert read(write(leases)) == leases

    @given(st.text())
    def test_any_other_text_is_refused_in_good_order(self, text: str) -> None:
        for candidate in (text, f"sj1|{text}"):
            try:
                read(candidate)
            except NoteError:
                continue

    def test_forty_apps_with_budgets_fit_into_what_kafka_keeps(self) -> None:
        each = Budget(per_hour_usd=1000, per_day_usd=20_000)
        budgets = Budgets(everyone=each, apps={f"app-{n}": each for n in range(40)}, safety_share=0.2)
        most = shares(budgets, 0, 1)
        assert longest(most) <= MAX_BYTES
        ledger, now = LeaseLedger(most), NOON + 43_200 - 1
        for number in range(40):
            ledger.wait_for(Ask(amount=nanodollars(999), app=f"app-{number}"))
        assert len(ledger.lease(now)) <= longest(most)
        assert len(read(ledger.encode())) == 4, "two hours and two days, around midnight"


@dataclass
class _Truth:
    """What was really spent, by true window."""

    spent: Counter[tuple[BudgetWindow, str, bool]] = field(default_factory=Counter)

    def keys(self, at: float, ask: Ask) -> Iterator[tuple[BudgetWindow, str, bool]]:
        for span in Span:
            window = BudgetWindow(span, int(at // span.value))
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
    """One partition, its store, the true time, and owners one after the other; the last ones go on as zombies."""

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
        leased=st.booleans(),
    )
    def calls(self, which: int, amounts: list[int], app: str | None, safety: bool, leased: bool) -> None:
        """By any owner, also one that lost the partition unknowingly; the true one may get a lease for them."""
        owner = self.owners[-1 - which % len(self.owners)]
        asks = [Ask(amount=amount, app=app, safety=safety) for amount in amounts]
        for ask in asks:
            owner.ledger.wait_for(ask)
        if leased and owner is self.owners[-1]:
            self.commit("done")
        for ask in asks:
            owner.ledger.wait_no_more(ask)
            found = owner.ledger.reserve(ask, self.now + owner.skew)
            if isinstance(found, Reservation):
                owner.calls.append((found, ask, self.now))

    @rule(which=st.integers(0, 2), part=st.floats(0, 1), known=st.booleans(), most=st.integers(1, 8))
    def settle(self, which: int, part: float, known: bool, most: int) -> None:
        owner = self.owners[-1 - which % len(self.owners)]
        for held, ask, at in owner.calls[:most]:
            actual = int(held.amount * part)
            self.truth.spent.update(dict.fromkeys(self.truth.keys(at, ask), actual))
            owner.ledger.settle(held, actual if known else None)
        del owner.calls[:most]

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
        """Also if every call in flight cost as much as it can."""
        if not hasattr(self, "truth"):
            return
        worst = self.truth.spent.copy()
        for owner in self.owners:
            for held, ask, at in owner.calls:
                worst.update(dict.fromkeys(self.truth.keys(at, ask), held.amount))
        for (window, scope, whole), spent in worst.items():
            caps = self.limits[window.span].get(scope)
            assert caps is None or spent <= (caps.whole if whole else caps.main), (window, scope, whole)


Partition.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestNoSequenceExceedsACap = Partition.TestCase


def test_almost_all_of_a_share_can_be_spent_with_a_crash_now_and_then() -> None:
    """Money is conserved: what is neither spent nor left was lost to crashes, and that is little."""
    draw = random.Random(7)
    cap = nanodollars(1.0)
    ledger, spent, crashes = LeaseLedger(limits(1.0, 1.0)), 0, 0
    store, flying = "", list[Reservation]()
    while True:
        ask = Ask(amount=draw.randint(200_000, 400_000))
        found = ledger.reserve(ask, NOON)
        if found is LeaseRefusal.OVER:
            break
        if isinstance(found, Reservation):
            flying.append(found)
        else:
            ledger.wait_for(ask)
        if isinstance(found, LeaseRefusal) or len(flying) > 8:
            while flying:
                held = flying.pop()
                cost = draw.randint(held.amount // 5, held.amount)
                spent += cost
                ledger.settle(held, cost)
            store = ledger.lease(NOON)
            ledger.confirm_commit()
            ledger.wait_no_more(ask)
        if draw.random() < 0.0005:
            crashes += 1
            flying.clear()
            ledger = LeaseLedger.decode(store, limits(1.0, 1.0), NOON)
    assert crashes > 0
    assert 0.95 * cap <= spent <= cap == NANODOLLARS


@pytest.mark.parametrize("first", [0, 1000])
def test_no_random_walk_exceeds_a_cap(first: int) -> None:
    """The same rules as above in long and busy sequences, where calls are many and hands change often."""
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
                leased=draw.random() < 0.8,
            )
        case "settle":
            partition.settle(which=draw.randint(0, 2), part=draw.random(), known=draw.random() < 0.9, most=8)
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

"""The lease ledger: amounts that one partition has spent, and may still spend, of its share of every budget.

Why no crash and no rebalance can exceed a share, in the order in which things happen:
1. a lease is proposed: the most that may be spent up to the next commit,
2. the proposal is committed, fenced, with the partition's offset,
3. a call reserves the most that it can cost, within what was committed,
4. the call is made, and its cost replaces the reserved amount,
5. the partition's next owner counts the whole lease as spent; an owner that gives the partition up in good order
   reduces the lease to the spent amount first.

A call counts in every window that it can belong to while clocks differ by up to `clock_seconds` from the true time:
near the full hour in two of them. So the true hour's sum stays within the share even if a clock is off, and the next
hour is leased before it begins.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from stream.worker.budget import offset_note
from stream.worker.budget.account import Account
from stream.worker.budget.limits import ALL_APPS, Caps, Limits, Span
from stream.worker.budget.offset_note import BudgetWindow, Leases, NoteError

CLOCK_SECONDS = 2.0
# A new window is leased this long before it begins: a few commits.
_AHEAD_SECONDS = 2.0


class LeaseRefusal(Enum):
    """The reason why an amount was not reserved."""

    NOT_YET = "not yet"
    """A lease must be committed, a call settled, or the old window must end first: ask again soon."""

    OVER = "over"
    """The share of a budget is used up until its window ends."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ask:
    """A request for money: the most a call can cost, its app, and whether it may use the share kept for safety."""

    amount: int
    app: str | None = None
    safety: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Reservation:
    """Money kept for one call, until it is settled."""

    amount: int
    accounts: tuple[Account, ...]
    open: bool = True


@dataclass(slots=True)
class _Pair:
    """The accounts of one scope in one window: all lanes together, and those other than safety."""

    whole: Account
    main: Account

    def of(self, *, safety: bool) -> tuple[Account, ...]:
        return (self.whole,) if safety else (self.whole, self.main)


@dataclass(slots=True)
class LeaseLedger:
    """All accounts of one partition. Times are Unix seconds by the caller's clock, money is in nanodollars."""

    limits: Limits
    clock_seconds: float = CLOCK_SECONDS
    excess: int = 0
    """Cost of calls beyond the amounts reserved for them."""
    closed: bool = False
    _windows: dict[BudgetWindow, dict[str, _Pair]] = field(default_factory=dict)
    _waiting: dict[Ask, None] = field(default_factory=dict)

    @classmethod
    def decode(cls, text: str, limits: Limits, now: float, *, clock_seconds: float = CLOCK_SECONDS) -> "LeaseLedger":
        """Restore a ledger from its note. The lease counts as spent; with an unreadable note, the whole share does."""
        ledger = cls(limits, clock_seconds)
        try:
            leases = offset_note.read(text)
        except NoteError:
            ledger.use_up(now)
            return ledger
        for window, scopes in leases.items():
            if window.span in limits:
                ledger._windows[window] = {
                    scope: _recover_pair(caps, scopes.get(offset_note.short_name(scope), Caps(0, 0)))
                    for scope, caps in limits[window.span].items()
                }
        return ledger

    def encode(self) -> str:
        """The leases as last proposed."""
        return offset_note.write(self._leases())

    def use_up(self, now: float) -> None:
        """Count the running windows as spent, because the spent amounts are unknown."""
        for span in self.limits:
            for window in self._current(span, now):
                for pair in self._open_window(window).values():
                    pair.whole.spent, pair.main.spent = pair.whole.limit, pair.main.limit

    def reserve(self, ask: Ask, now: float) -> Reservation | LeaseRefusal:
        """Reserve the amount in all accounts it belongs to, or in none."""
        if self.closed:
            return LeaseRefusal.NOT_YET
        accounts: list[Account] = []
        refusal = None
        for span in self.limits:
            windows = self._current(span, now)
            for window in windows:
                for account in self._accounts(window, ask):
                    accounts.append(account)
                    if account.is_over(ask.amount) and window == windows[-1]:
                        return LeaseRefusal.OVER
                    if not account.fits(ask.amount):
                        refusal = LeaseRefusal.NOT_YET
        if refusal is not None:
            return refusal
        for account in accounts:
            account.reserve(ask.amount)
        return Reservation(amount=ask.amount, accounts=tuple(accounts))

    def wait_for(self, ask: Ask) -> None:
        """Make the next lease large enough for this request, too."""
        self._waiting[ask] = None

    def wait_no_more(self, ask: Ask) -> None:
        self._waiting.pop(ask, None)

    def settle(self, reservation: Reservation, actual: int | None) -> None:
        """Replace the reserved amount by the actual cost; an unknown cost counts as the whole amount."""
        if not reservation.open:
            return
        reservation.open = False
        cost = reservation.amount if actual is None else max(0, actual)
        self.excess += max(0, cost - reservation.amount)
        for account in reservation.accounts:
            account.settle(reservation.amount, cost)

    def needs_lease(self, now: float) -> bool:
        """Return whether calls wait for a lease, or soon will."""
        if self.closed:
            return any(account.can_give_back for account in self._all_accounts())
        waiting = self._sum_waiting(now)
        return any(account.needs_lease(waiting.get(id(account), 0)) for account in self._in_use(now))

    def lease(self, now: float) -> str:
        """Propose a lease for the calls that wait and return its note; `confirm_commit` makes it valid."""
        self._forget_past_windows(now)
        waiting = {} if self.closed else self._sum_waiting(now)
        for account in self._in_use(now):
            account.propose(waiting.get(id(account), 0), ahead=not self.closed)
        return self.encode()

    def confirm_commit(self) -> None:
        """Confirm that the last note is stored. Without this call it may be stored, and its lease is not spent."""
        for account in self._all_accounts():
            account.confirm_commit()

    def close(self) -> None:
        """Stop reserving; the next note gives back the amount that is neither spent nor in flight."""
        self.closed = True

    def share_left(self, now: float, app: str | None = None) -> float:
        """Return the smallest share, 0 to 1, that the budgets of the app's calls have left outside the safety lane."""
        shares = [1.0]
        for span in self.limits:
            for scope in (ALL_APPS, app or ALL_APPS):
                if scope in self.limits[span]:
                    main = self._open_window(self._current(span, now)[-1])[scope].main
                    shares.append(max(0.0, 1 - main.spent / main.limit) if main.limit else 0.0)
        return min(shares)

    def standing(self, now: float) -> Iterator[tuple[Span, str, Account]]:
        """The accounts of the running windows, all lanes together, by their span and scope."""
        for span in self.limits:
            for scope, pair in self._open_window(self._current(span, now)[-1]).items():
                yield span, scope, pair.whole

    def _current(self, span: Span, now: float) -> tuple[BudgetWindow, ...]:
        """Return the open windows that the true time can be in: one, or two around the edge."""
        first = int((now - self.clock_seconds) // span.value)
        last = int((now + self.clock_seconds) // span.value)
        # A window that a worker with a faster clock has closed is over: its account is gone.
        floor = min((window.number for window in self._windows if window.span is span), default=first)
        first, last = max(first, floor), max(last, floor)
        return (BudgetWindow(span, first),) if first == last else (BudgetWindow(span, first), BudgetWindow(span, last))

    def _open_window(self, window: BudgetWindow) -> dict[str, _Pair]:
        if window not in self._windows:
            self._windows[window] = {
                scope: _recover_pair(caps, Caps(0, 0)) for scope, caps in self.limits[window.span].items()
            }
        return self._windows[window]

    def _accounts(self, window: BudgetWindow, ask: Ask) -> Iterator[Account]:
        scopes = self._open_window(window)
        for scope in (ALL_APPS, ask.app) if ask.app else (ALL_APPS,):  # without a name, it has no budget
            if scope in scopes:
                yield from scopes[scope].of(safety=ask.safety)

    def _sum_waiting(self, now: float) -> dict[int, int]:
        """Sum the amounts that waiting calls need from each account, by `id(account)`."""
        sums: dict[int, int] = {}
        for ask in self._waiting:
            for span in self.limits:
                for window in self._current(span, now):
                    for account in self._accounts(window, ask):
                        if not account.is_over(ask.amount):
                            sums[id(account)] = sums.get(id(account), 0) + ask.amount
        return sums

    def _in_use(self, now: float) -> Iterable[Account]:
        """The accounts of the running windows, and of those that are about to begin."""
        for span in self.limits:
            current = self._current(span, now)
            coming = self._current(span, now + _AHEAD_SECONDS)
            for window in dict.fromkeys((*current, *coming)):
                before = self._windows.get(BudgetWindow(span, window.number - 1), {})
                for scope, pair in self._open_window(window).items():
                    if window not in current and scope in before:
                        _carry_pace(before[scope], pair)
                    yield pair.whole
                    yield pair.main

    def _forget_past_windows(self, now: float) -> None:
        for span in self.limits:
            first = self._current(span, now)[0]
            self._open_window(first)  # kept even if unused: it marks all windows before it as over
            for window in [old for old in self._windows if old.span is span and old.number < first.number]:
                del self._windows[window]

    def _all_accounts(self) -> Iterator[Account]:
        for scopes in self._windows.values():
            for pair in scopes.values():
                yield pair.whole
                yield pair.main

    def _leases(self) -> Leases:
        return {
            window: {
                offset_note.short_name(scope): Caps(pair.whole.proposed, pair.main.proposed)
                for scope, pair in scopes.items()
            }
            for window, scopes in self._windows.items()
        }


def _recover_pair(limits: Caps, leased: Caps) -> _Pair:
    return _Pair(Account.recover(limits.whole, leased.whole), Account.recover(limits.main, leased.main))


def _carry_pace(before: _Pair, after: _Pair) -> None:
    """Give a window that is about to begin the pace of the window before it."""
    for old, new in ((before.whole, after.whole), (before.main, after.main)):
        new.pace = max(new.pace, old.pace, old.asked)

"""An account: one limit, the amounts spent and reserved from it, and the lease."""

from dataclasses import dataclass

from stream.worker.budget.limits import MICRODOLLAR

# Leased ahead of need at most: what a crash at a quiet moment loses of a share.
_AHEAD = 50
# Leased ahead in units of what was asked for between the last two commits: one commit may be late.
_COMMITS_AHEAD = 2


@dataclass(slots=True)
class Account:
    """Invariant: whatever the store holds of it (an old lease, a new one) is at least `spent + reserved`.

    `granted` is the least that the store can hold: nothing above it is spent. `proposed` is what the next note says.
    """

    limit: int
    spent: int = 0
    reserved: int = 0
    granted: int = 0
    proposed: int = 0
    asked: int = 0
    """Reserved since the last commit."""
    pace: int = 0
    """What was lately reserved between two commits."""

    @classmethod
    def recovered(cls, limit: int, granted: int) -> "Account":
        """As the store has it: what was leased and never settled may be spent."""
        return cls(limit=limit, spent=granted, granted=granted, proposed=granted)

    @property
    def used(self) -> int:
        return self.spent + self.reserved

    @property
    def can_give_back(self) -> bool:
        return self.granted > _rounded_up(self.used)

    def is_over(self, amount: int) -> bool:
        """Whether the amount does not fit even if all that is reserved turned out to cost nothing."""
        return self.spent + amount > self.limit

    def fits(self, amount: int) -> bool:
        return self.used + amount <= min(self.granted, self.limit)

    def reserve(self, amount: int) -> None:
        self.reserved += amount
        self.asked += amount

    def settle(self, amount: int, actual: int) -> None:
        self.reserved -= amount
        # However much an endpoint says it used: beyond this nothing is left anyway, and the note would be too long.
        self.spent = min(self.spent + actual, 2 * self.limit + amount)

    def needs_lease(self, waiting: int) -> bool:
        """Whether the next commit should not be waited for until there is something else to commit."""
        # Ahead of need: while half of what is leased ahead is still there.
        wanted = max(waiting, min(self.limit // _AHEAD, self.pace))
        return self.granted < min(self.limit, self.used + wanted)

    def propose(self, waiting: int, *, ahead: bool = True) -> None:
        """Sets the lease that goes into the next note."""
        pace = max(self.asked, self.pace)
        extra = max(waiting, min(self.limit // _AHEAD, _COMMITS_AHEAD * pace)) if ahead else 0
        wanted = min(self.limit, _rounded_up(self.used + extra))
        # Above the limit only when calls cost more than was reserved for them.
        self.proposed = max(wanted, _rounded_up(self.used))
        # From here on the store may have either.
        self.granted = min(self.granted, self.proposed)

    def committed(self) -> None:
        """The store has what was proposed. What was reserved since then was within it."""
        self.granted = self.proposed
        self.asked, self.pace = 0, max(self.asked, self.pace // 2)


def _rounded_up(nano: int) -> int:
    return -(-nano // MICRODOLLAR) * MICRODOLLAR

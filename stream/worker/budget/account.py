"""An account: one limit, the amounts spent and reserved from it, and the lease."""

from dataclasses import dataclass

from stream.worker.budget.limits import MICRODOLLAR

# Lease at most 1/50 of the limit ahead of need: a crash at a quiet moment loses this much of a share.
_AHEAD = 50
# Lease ahead this many times the amount reserved between the last two commits: one commit may be late.
_COMMITS_AHEAD = 2


@dataclass(slots=True)
class Account:
    """Invariant: the stored lease, old or new, is at least `spent + reserved`.

    `granted` is the smallest lease that can be stored: no more is spent. `proposed` is the lease in the next note.
    """

    limit: int
    spent: int = 0
    reserved: int = 0
    granted: int = 0
    proposed: int = 0
    asked: int = 0
    """Reserved since the last commit."""
    pace: int = 0
    """Recently reserved between two commits."""

    @classmethod
    def recover(cls, limit: int, granted: int) -> "Account":
        """Restore an account: a lease that was never settled may have been spent, so it counts as spent."""
        return cls(limit=limit, spent=granted, granted=granted, proposed=granted)

    @property
    def used(self) -> int:
        return self.spent + self.reserved

    @property
    def can_give_back(self) -> bool:
        return self.granted > _round_up(self.used)

    def is_over(self, amount: int) -> bool:
        """Return whether the amount would not fit even if all reserved calls turned out to cost nothing."""
        return self.spent + amount > self.limit

    def fits(self, amount: int) -> bool:
        return self.used + amount <= min(self.granted, self.limit)

    def reserve(self, amount: int) -> None:
        self.reserved += amount
        self.asked += amount

    def settle(self, amount: int, actual: int) -> None:
        self.reserved -= amount
        # Cap the usage that an endpoint reports: no money is left beyond this, and the note would be too long.
        self.spent = min(self.spent + actual, 2 * self.limit + amount)

    def needs_lease(self, waiting: int) -> bool:
        """Return whether to commit now, without waiting for other results to commit."""
        # Renew while half of the amount leased ahead is still there.
        wanted = max(waiting, min(self.limit // _AHEAD, self.pace))
        return self.granted < min(self.limit, self.used + wanted)

    def propose(self, waiting: int, *, ahead: bool = True) -> None:
        """Set the lease that goes into the next note."""
        pace = max(self.asked, self.pace)
        extra = max(waiting, min(self.limit // _AHEAD, _COMMITS_AHEAD * pace)) if ahead else 0
        wanted = min(self.limit, _round_up(self.used + extra))
        # Above the limit only when calls cost more than was reserved for them.
        self.proposed = max(wanted, _round_up(self.used))
        # From here on either lease may be stored.
        self.granted = min(self.granted, self.proposed)

    def confirm_commit(self) -> None:
        """Confirm that the proposed lease is stored. Amounts reserved since then were within it."""
        self.granted = self.proposed
        self.asked, self.pace = 0, max(self.asked, self.pace // 2)


def _round_up(nano: int) -> int:
    return -(-nano // MICRODOLLAR) * MICRODOLLAR

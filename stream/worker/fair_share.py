"""Fair shares: keep an app that floods the queue from holding up the judging of the others."""

from collections import Counter

# Shares are computed over about this many recent records.
_MEMORY_RECORDS = 1024
# Below this weight an app is forgotten: it has sent no record for several thousand records.
_FORGOTTEN = 0.01
_MAX_APPS = 1000
# An app that only slightly exceeds its fair share is not held back.
_TOLERANCE = 1.5
# Fewer records are not enough to compare shares.
_ENOUGH = 64


class FairShares:
    """Slots and traffic of each app, to find apps that exceed their fair share of both."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._slots_taken: Counter[str | None] = Counter()
        self._weights: dict[str | None, float] = {}
        self._since_fading = 0

    def count_record(self, app: str | None) -> None:
        """Count a record of the app that was read."""
        if app not in self._weights and len(self._weights) >= _MAX_APPS:
            app = None
        self._weights[app] = self._weights.get(app, 0.0) + 1.0
        self._since_fading += 1
        if self._since_fading >= _MEMORY_RECORDS:
            self._since_fading = 0
            self._weights = {name: weight / 2 for name, weight in self._weights.items() if weight / 2 >= _FORGOTTEN}

    def take_slot(self, app: str | None) -> None:
        self._slots_taken[app] += 1

    def release_slot(self, app: str | None) -> None:
        self._slots_taken[app] -= 1
        if not self._slots_taken[app]:
            del self._slots_taken[app]

    def exceeds_share(self, app: str | None) -> bool:
        """Return whether the app has its slots already and sends more than its fair share: then others come first."""
        apps = len(self._weights)
        if apps < 2 or self._slots_taken[app] < max(1, self._slots // apps):
            return False
        total = sum(self._weights.values())
        return total >= _ENOUGH and self._weights.get(app, 0.0) * apps > _TOLERANCE * total

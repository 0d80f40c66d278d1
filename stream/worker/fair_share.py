"""Fair shares: keep an app that floods the queue from holding up the judging of the others."""

from collections import Counter

# The shares of apps are those of about the last so many records.
_MEMORY_RECORDS = 1024
# An app of which less is remembered is not waited for any more: it had no record for some thousands.
_FORGOTTEN = 0.01
_MAX_APPS = 1000
# What is nearly a fair share is none to be cut.
_TOLERANCE = 1.5
# Of fewer records nothing can be said.
_ENOUGH = 64


class FairShares:
    """Who has how much of a worker's places, and who has more than its share of both places and traffic."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._in_work: Counter[str | None] = Counter()
        self._seen: dict[str | None, float] = {}
        self._since_fading = 0

    def saw(self, app: str | None) -> None:
        """A record of the app was read."""
        if app not in self._seen and len(self._seen) >= _MAX_APPS:
            app = None
        self._seen[app] = self._seen.get(app, 0.0) + 1.0
        self._since_fading += 1
        if self._since_fading >= _MEMORY_RECORDS:
            self._since_fading = 0
            self._seen = {name: seen / 2 for name, seen in self._seen.items() if seen / 2 >= _FORGOTTEN}

    def started(self, app: str | None) -> None:
        self._in_work[app] += 1

    def ended(self, app: str | None) -> None:
        self._in_work[app] -= 1
        if not self._in_work[app]:
            del self._in_work[app]

    def exceeded(self, app: str | None) -> bool:
        """Whether the app has its places already and more of the traffic than is fair, so that others come first."""
        apps = len(self._seen)
        if apps < 2 or self._in_work[app] < max(1, self._places // apps):
            return False
        seen = sum(self._seen.values())
        return seen >= _ENOUGH and self._seen.get(app, 0.0) * apps > _TOLERANCE * seen

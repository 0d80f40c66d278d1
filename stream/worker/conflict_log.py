"""Logs ids that were used for several contents: at once, then at most once a minute for each app."""

import logging
import time
from dataclasses import dataclass

from sinks.text import shorten

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 60.0
_NAME_CHARS = 100
# Records name their app themselves, so the number of apps has no limit.
_MOST_APPS = 100
_OTHER_APPS = "of other apps"


@dataclass(slots=True)
class _Conflicts:
    count: int = 0
    interaction_id: str = ""
    logged_at: float | None = None


class ConflictLog:
    """Conflicts that are not logged yet, by app. Used from one thread."""

    def __init__(self) -> None:
        self._by_app: dict[str, _Conflicts] = {}

    def note(self, app: str | None, interaction_id: str) -> None:
        name = f"of app {shorten(app or 'unknown', _NAME_CHARS)}"
        if name not in self._by_app and len(self._by_app) >= _MOST_APPS:
            name = _OTHER_APPS
        conflicts = self._by_app.setdefault(name, _Conflicts())
        conflicts.count += 1
        conflicts.interaction_id = interaction_id

    def write(self, *, rest: bool = False) -> None:
        """Log the conflicts that are due; with `rest`, all that are not logged yet."""
        now = time.monotonic()
        for name, conflicts in self._by_app.items():
            due = rest or conflicts.logged_at is None or now - conflicts.logged_at >= _AGAIN_SECONDS
            if not conflicts.count or not due:
                continue
            log.warning(
                "%d record%s %s reused the id of a record with other content, the last judged as %s; give each "
                "interaction a unique id",
                conflicts.count,
                "" if conflicts.count == 1 else "s",
                name,
                shorten(conflicts.interaction_id, _NAME_CHARS),
            )
            conflicts.count, conflicts.logged_at = 0, now

"""Sums over the judged answers of an app by day and criterion, from which the corrected means start."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from sinks.statistics.corrected import JudgedSums
from stream.monitor.alerts.score_record import ScoreRecord

DAY_SECONDS = 86_400.0
# As many as `labels.window_days` may have.
_MOST_DAYS = 31


def day_of(at: float) -> int:
    """Return the number of a day in UTC."""
    return int(at // DAY_SECONDS)


@dataclass(slots=True)
class JudgedDays:
    """The sums of the latest days. Every answer must be added once."""

    days: dict[int, dict[str, JudgedSums]] = field(default_factory=dict)

    def add(self, record: ScoreRecord, window: int) -> None:
        """Add the scores of a record; `window` is the number of days to keep."""
        day = day_of(record.at)
        newest = max(self.days, default=day)
        if day <= newest - window:
            return
        sums = self.days.setdefault(day, {})
        for criterion, score in record.scores.items():
            sums[criterion] = sums.get(criterion, JudgedSums()).plus(score, record.probability)
        for old in [old for old in self.days if old <= max(day, newest) - window]:
            del self.days[old]

    def total(self, criterion: str, since: int) -> JudgedSums:
        """Return the sums of a criterion, from this day on."""
        total = JudgedSums()
        for day, sums in sorted(self.days.items()):
            if day >= since and criterion in sums:
                total = total.merge(sums[criterion])
        return total

    def as_data(self) -> dict[str, Any]:
        return {str(day): {name: list(sums) for name, sums in values.items()} for day, values in self.days.items()}

    @classmethod
    def from_data(cls, data: Mapping[str, Mapping[str, list[float]]]) -> Self:
        days = sorted((int(day), values) for day, values in data.items())[-_MOST_DAYS:]
        return cls(
            {day: {name: JudgedSums(int(sums[0]), *sums[1:]) for name, sums in values.items()} for day, values in days}
        )

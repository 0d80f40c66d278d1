"""JSON forms that several replies share: estimates, charts, answers and alerts."""

from collections.abc import Mapping
from typing import Any

from sinks.archive.reading.alerts import ArchivedAlert
from sinks.archive.reading.answers import AnswerRow
from sinks.archive.reading.times import Slots, from_ms
from sinks.statistics.estimates import Estimate, Sums, estimate

# More digits than a screen shows; full precision would double the size of a reply.
_DIGITS = 5


def round_value(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def estimate_shape(value: Estimate) -> dict[str, object] | None:
    """Return the JSON form of an estimate; None if no record has a score."""
    if not value.count:
        return None
    return {
        "mean": round_value(value.mean),
        "low": round_value(value.low),
        "high": round_value(value.high),
        "n": value.count,
        "n_eff": None if value.effective_size is None else round(value.effective_size, 1),
    }


def chart_points(by_slot: Mapping[int, Sums], slots: Slots) -> list[list[object]]:
    """Return the mean and its interval for every slot with scores."""
    estimates = [(slot, estimate(sums)) for slot, sums in sorted(by_slot.items())]
    return [
        [
            slots.start_of(slot).strftime("%Y-%m-%dT%H:%MZ"),
            *(_round_point(value) for value in (one.mean, one.low, one.high)),
        ]
        for slot, one in estimates
        if one.count
    ]


def _round_point(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def answer_shape(row: AnswerRow) -> dict[str, object]:
    return {**row._asdict(), "at": from_ms(row.at)}


def alert_shape(alert: ArchivedAlert) -> dict[str, Any]:
    record = alert.record
    return {
        "id": alert.id,
        "app": alert.app,
        "series": alert.series,
        "subject": alert.subject,
        "summary": record.get("summary") or "",
        "onset_at": from_ms(alert.onset_at),
        "raised_at": from_ms(alert.raised_at),
        "cleared_at": None if alert.cleared_at is None else from_ms(alert.cleared_at),
        "estimate": record.get("estimate"),
        "baseline": record.get("target"),
        "kind": alert.kind,
    }

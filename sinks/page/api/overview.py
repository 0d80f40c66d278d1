"""`/api/overview`: one row for each app."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection

from sinks.archive.database import Database
from sinks.archive.reading.alerts import list_open_alerts
from sinks.archive.reading.corrected import read_corrected
from sinks.archive.reading.judges import read_recent_failures
from sinks.archive.reading.overview import AppFigures, add_series, count_apps, list_apps
from sinks.archive.reading.times import MINUTE_MS, Slots, TimeRange, from_ms
from sinks.archive.rollups import GOOD
from sinks.base import COMPOSITE
from sinks.page.access import Visitor
from sinks.page.endpoint import Endpoints
from sinks.page.requests import read_range
from sinks.page.settings import PageSettings
from sinks.page.shapes import chart_points, estimate_shape, round_value
from sinks.page.states import StateRules
from sinks.statistics.corrected import MIN_LABELS, CorrectedEstimate
from sinks.statistics.estimates import Estimate, Sums, estimate
from sinks.web.routes import Request, Route

# Limits for a reply of 200 KB, with 450 bytes for an app and 47 for a point of its sparkline.
_MOST_APPS = 200
_MOST_POINTS = 60
_MOST_CORRECTED = 3
_BYTES, _BYTES_OF_APP, _BYTES_OF_POINT = 185_000, 450, 47


def overview_routes(
    endpoints: Endpoints,
    database: Database,
    settings: PageSettings,
    *,
    count_waiting: Callable[[], int | None],
    now: Callable[[], datetime],
) -> tuple[Route, ...]:
    def show(request: Request, _visitor: Visitor) -> object:
        period = read_range(request, now())
        with database.read() as connection:
            return _overview(connection, period, settings, count_waiting())

    return (endpoints.get("/api/overview", show, is_shared=True),)


def _overview(connection: Connection, period: TimeRange, settings: PageSettings, lag: int | None) -> object:
    fine = Slots.divide(period, _MOST_POINTS)
    number = count_apps(connection, fine)
    apps = list_apps(connection, fine, _MOST_APPS)
    slots = Slots.divide(period, _points_for(len(apps)))
    floors = [series for series in settings.floors if series != COMPOSITE]
    add_series(connection, apps, slots, [GOOD, *floors])
    corrected = read_corrected(connection, [figures.app for figures in apps], slots)
    rules = StateRules(
        alerts=list_open_alerts(connection),
        failures=read_recent_failures(connection, period.end),
        most_failures=settings.judge_failures,
        min_effective=settings.min_effective,
        floors=settings.floors,
    )
    return {
        "from": from_ms(slots.first * MINUTE_MS),
        "to": from_ms(slots.end * MINUTE_MS),
        "step_seconds": slots.step * 60,
        "apps": [
            {**_app(figures, slots, settings, rules, lag), "corrected": _corrected(corrected.get(figures.app, {}))}
            for figures in apps
        ],
        "apps_left_out": max(0, number - len(apps)),
        "cost_usd": round_value(sum(figures.cost_usd for figures in apps)),
        "budget_usd": round_value(settings.total_budget.over(slots.duration)),
        "strip": _strip(apps, slots),
    }


def _points_for(apps: int) -> int:
    """Return the number of points of a sparkline that keeps the whole reply small."""
    fitting = (_BYTES / max(1, apps) - _BYTES_OF_APP) / _BYTES_OF_POINT
    return max(2, min(_MOST_POINTS, int(fitting)))


def _app(
    figures: AppFigures, slots: Slots, settings: PageSettings, rules: StateRules, lag: int | None
) -> dict[str, object]:
    composite = estimate(figures.composite)
    good = estimate(figures.series.get(GOOD, Sums()))
    floors: Mapping[str, Estimate] = {
        COMPOSITE: composite,
        **{series: estimate(sums) for series, sums in figures.series.items() if series != GOOD},
    }
    state = rules.state_of(figures.app, composite, good, floors, settings.objective(figures.app))
    budget = settings.budgets.get(figures.app)
    return {
        "app": figures.app,
        "state": state.state,
        "reason": state.reason,
        "composite": estimate_shape(composite),
        "good": estimate_shape(good),
        "coverage": round_value(composite.coverage),
        "cost_usd": round_value(figures.cost_usd),
        "budget_usd": None if budget is None else round_value(budget.over(slots.duration)),
        "lag": lag,
        "sparkline": chart_points(figures.by_slot, slots),
        "alert": None if state.alert is None else {"id": state.alert.id, "onset_at": from_ms(state.alert.onset_at)},
    }


def _corrected(estimates: Mapping[str, CorrectedEstimate]) -> list[object]:
    """Return the means of the series with the most labels; those with too few labels have no mean."""
    most_labelled = sorted(estimates.items(), key=lambda item: (-item[1].labels, item[0]))[:_MOST_CORRECTED]
    return [
        {
            "series": series,
            "labels": estimate.labels,
            "needed": MIN_LABELS,
            **{
                name: None if estimate.corrected is None else round_value(getattr(estimate.corrected, name))
                for name in ("mean", "low", "high")
            },
        }
        for series, estimate in most_labelled
    ]


def _strip(apps: Sequence[AppFigures], slots: Slots) -> list[object]:
    """Return the number of answers and their mean composite over all apps, by slot."""
    by_slot: dict[int, Sums] = {}
    for slot, sums in _all_slots(apps):
        by_slot[slot] = by_slot.get(slot, Sums()) + sums
    return [
        [slots.start_of(slot), sums.count, round_value(sums.records.mean) if sums.count else None]
        for slot, sums in sorted(by_slot.items())
    ]


def _all_slots(apps: Sequence[AppFigures]) -> Iterable[tuple[int, Sums]]:
    return (entry for figures in apps for entry in figures.by_slot.items())

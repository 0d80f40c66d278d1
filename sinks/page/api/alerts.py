"""`/api/alerts`: open and closed alerts, and one alert with its explanation, chart and worst answers."""

from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus

from sqlalchemy import Connection

from sinks.archive.database import Database
from sinks.archive.reading.alerts import JUDGES, ArchivedAlert, find_alert, list_closed_alerts, list_open_alerts
from sinks.archive.reading.answers import AnswerFilter, find_answers
from sinks.archive.reading.overview import read_series
from sinks.archive.reading.times import Slots, TimeRange, to_ms
from sinks.archive.rollups import GOOD
from sinks.base import COMPOSITE
from sinks.page.access import Visitor
from sinks.page.backend import AlertExplainer, AlertExplanation, BackendError
from sinks.page.endpoint import Endpoints
from sinks.page.replies import RefusedRequestError
from sinks.page.shapes import alert_shape, answer_shape, chart_points
from sinks.web.routes import Request, Route

_MOST_CLOSED = 200
_MOST_POINTS = 120
_WORST = 10
_GOOD_SHARE = "good_share"
_HOUR_MS = 3_600_000


def alerts_routes(
    endpoints: Endpoints, database: Database, explainer: AlertExplainer | None, *, now: Callable[[], datetime]
) -> tuple[Route, ...]:
    def list_alerts(_request: Request, _visitor: Visitor) -> object:
        with database.read() as connection:
            return {
                "open": [alert_shape(alert) for alert in list_open_alerts(connection)],
                "closed": [alert_shape(alert) for alert in list_closed_alerts(connection, _MOST_CLOSED)],
            }

    def show_alert(request: Request, _visitor: Visitor) -> object:
        with database.read() as connection:
            alert = find_alert(connection, request.variables["id"])
            if alert is None:
                raise RefusedRequestError("the archive has no alert with this id", HTTPStatus.NOT_FOUND)
            end = alert.cleared_at or to_ms(now())
            chart, worst = _chart(connection, alert, end), _worst(connection, alert, end)
        return {**alert_shape(alert), **_explanation(explainer, alert.id), "chart": chart, "worst": worst}

    return (
        endpoints.get("/api/alerts", list_alerts, is_shared=True),
        endpoints.get("/api/alerts/{id}", show_alert, is_shared=True),
    )


def _chart(connection: Connection, alert: ArchivedAlert, end: int) -> list[list[object]]:
    """Return the series from before the onset to the end of the alert, or to now.

    Canaries have no sums. Models and tenants have none either: the chart shows the series of their app.
    """
    before = max(_HOUR_MS, (end - alert.onset_at) // 2)
    period = TimeRange(start=max(0, alert.onset_at - before), end=max(end, alert.onset_at + 1))
    slots = Slots.divide(period, _MOST_POINTS)
    series = GOOD if alert.dimension == _GOOD_SHARE else alert.dimension
    return chart_points(read_series(connection, alert.app, series, slots), slots)


def _worst(connection: Connection, alert: ArchivedAlert, end: int) -> list[dict[str, object]]:
    is_about_canaries = alert.subject == JUDGES
    wanted = AnswerFilter(
        period=TimeRange(start=alert.onset_at, end=max(end, alert.onset_at) + 1),
        app=alert.app,
        lane="canary" if is_about_canaries else None,
        model=alert.value if alert.attribute == "model" else None,
        tenant=alert.value if alert.attribute == "tenant" else None,
        criterion=None if alert.dimension in {COMPOSITE, _GOOD_SHARE} else alert.dimension,
    )
    page = find_answers(connection, wanted, sort="worst", cursor=None, limit=_WORST)
    return [answer_shape(row) for row in page.answers]


def _explanation(explainer: AlertExplainer | None, alert_id: str) -> dict[str, object]:
    outcome: AlertExplanation | str = "this process does not explain alerts; use streamjury alerts explain"
    if explainer is not None:
        try:
            outcome = explainer.explain(alert_id)
        except BackendError as error:
            outcome = str(error)
    if isinstance(outcome, str):
        return {"explanation": None, "explanation_note": outcome}
    sheets = [
        {
            "title": sheet.title,
            "columns": list(sheet.headings),
            "rows": [list(row) for row in sheet.rows],
            "notes": list(sheet.notes),
        }
        for sheet in outcome.sheets
    ]
    return {"explanation": {"sentences": list(outcome.sentences), "sheets": sheets}, "explanation_note": None}

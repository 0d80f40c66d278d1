"""`/api/judges`: every judge's figures, and whether it is paused; `/api/judges/labels`: its agreement with people."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from itertools import islice

from sinks.archive.database import Database
from sinks.archive.reading.filters import read_apps
from sinks.archive.reading.judge_quality import MOST_ANSWERS, MOST_LABELS, MeasuredJudges, read_judge_quality
from sinks.archive.reading.judges import JudgeFigures, read_judges
from sinks.archive.reading.labels import has_reviews
from sinks.page.access import Visitor
from sinks.page.backend import PausedJudges
from sinks.page.endpoint import Endpoints
from sinks.page.replies import RefusedRequestError
from sinks.page.requests import read_range, read_text
from sinks.page.shapes import round_value
from sinks.statistics.estimates import wilson
from sinks.statistics.measured_judges import ATTRIBUTES, Attribute
from sinks.web.routes import Request, Route

# Judges, criteria and families together; a reply of 150 KB.
_MOST_ROWS = 500


def judges_routes(
    endpoints: Endpoints, database: Database, paused_judges: PausedJudges | None, *, now: Callable[[], datetime]
) -> tuple[Route, ...]:
    def show(request: Request, _visitor: Visitor) -> object:
        period = read_range(request, now())
        paused = {} if paused_judges is None else paused_judges.list_paused()
        with database.read() as connection:
            judges = {figures.judge: figures for figures in read_judges(connection, period)}
        for name in paused:
            judges.setdefault(name, JudgeFigures(judge=name))
        return {"judges": [_judge(judges[name], paused) for name in sorted(judges)]}

    def compare(request: Request, _visitor: Visitor) -> object:
        period, app, by = read_range(request, now()), read_text(request, "app"), _read_attribute(request)
        with database.read() as connection:
            measured = read_judge_quality(connection, period, app=app, by=by)
            return {
                **_quality(measured, by),
                "apps": read_apps(connection),
                # Without labels in the range, the reader needs to know whether there are others.
                "has_labels": bool(measured.qualities) or has_reviews(connection),
            }

    return (
        endpoints.get("/api/judges", show, is_shared=True),
        endpoints.get("/api/judges/labels", compare, is_shared=True),
    )


def _read_attribute(request: Request) -> Attribute | None:
    text = read_text(request, "by")
    if text is None:
        return None
    attribute = next((name for name in ATTRIBUTES if name == text), None)
    if attribute is None:
        raise RefusedRequestError(f"by must be one of: {', '.join(ATTRIBUTES)}")
    return attribute


def _quality(measured: MeasuredJudges, by: Attribute | None) -> dict[str, object]:
    rows = [
        {
            **key._asdict(),
            "labels": quality.labels,
            **{
                name: {part: round_value(value) for part, value in asdict(figure).items()}
                for name, figure in quality.figures.items()
            },
        }
        for key, quality in islice(measured.qualities.items(), _MOST_ROWS)
    ]
    return {
        "by": by,
        "judges": rows,
        "left_out": len(measured.qualities) - len(rows),
        "cut": {"answers": MOST_ANSWERS, "labels": MOST_LABELS} if measured.is_cut else None,
    }


def _judge(figures: JudgeFigures, paused: Mapping[str, str]) -> dict[str, object]:
    return {
        "judge": figures.judge,
        "n": figures.n,
        "scored": figures.scored,
        "failures": figures.failures,
        "left_out": figures.left_out,
        "agreement": _agreement(figures),
        "latency_ms": {"p50": round_value(figures.latency_ms(0.5)), "p95": round_value(figures.latency_ms(0.95))},
        "cost_usd": round_value(figures.cost_usd),
        "paused": paused.get(figures.judge),
        "canaries": None if figures.canaries is None else figures.canaries._asdict(),
        "criteria": [
            {"criterion": one.criterion, "n": one.n, "mean": round_value(one.mean)} for one in figures.criteria
        ],
    }


def _agreement(figures: JudgeFigures) -> dict[str, object] | None:
    """Return the share of the other judges' verdicts that agree with this judge, with its 95 % interval."""
    if not figures.compared:
        return None
    mean = min(1.0, figures.agreed / figures.compared)
    low, high = wilson(mean, figures.compared, mean * (1.0 - mean))
    return {"mean": round_value(mean), "low": round_value(low), "high": round_value(high), "n": figures.compared}

"""`/api/judges`: agreement, failures, latency and cost of every judge, and whether it is paused."""

from collections.abc import Callable, Mapping
from datetime import datetime

from sinks.archive.database import Database
from sinks.archive.reading.judges import JudgeFigures, read_judges
from sinks.page.access import Visitor
from sinks.page.backend import PausedJudges
from sinks.page.endpoint import Endpoints
from sinks.page.requests import read_range
from sinks.page.shapes import round_value
from sinks.statistics.estimates import wilson
from sinks.web.routes import Request, Route


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

    return (endpoints.get("/api/judges", show, is_shared=True),)


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

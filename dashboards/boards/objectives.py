"""The Objectives dashboard: how fast the error budget of each app burns, how much is left, and which alerts fire."""

from typing import NamedTuple

from dashboards import variables
from dashboards.layout import Board, PanelGroup
from dashboards.panels import (
    COUNT,
    GREEN,
    ORANGE,
    RED,
    SCORE,
    SHARE,
    YELLOW,
    Column,
    Panel,
    PanelText,
    dash,
    gauges,
    lines,
    number,
    query,
    rows,
    states,
)
from dashboards.windowed import increase
from sinks.metrics import names
from sinks.metrics.promql import add_label, or_zero

_APP = '{app=~"$app"}'
_BURN_STEPS = ((None, GREEN), (1, YELLOW), (6, ORANGE), (14.4, RED))
_FIRING = 'ALERTS{alertname=~"Streamjury.*",alertstate="firing"}'
_TIMES = "×"


class BurnWindows(NamedTuple):
    """Two windows, and the burn rate that fires an alert of this severity if both exceed it."""

    limit: float
    long: str
    short: str
    severity: str


BURN_PAIRS = (
    BurnWindows(14.4, "1h", "5m", "page"),
    BurnWindows(6.0, "6h", "30m", "page"),
    BurnWindows(3.0, "1d", "2h", "ticket"),
    BurnWindows(1.0, "3d", "6h", "ticket"),
)


def board() -> Board:
    return Board(
        name="objectives",
        title="Objectives",
        description="The objective: a target share of interactions with a composite at or above the good score.",
        variables=[variables.app(), variables.window("1h")],
        top=[budget_now(), burn_now(), bad_now(), firing_now(), paging_now(), effective_now()],
        sections=[
            PanelGroup(
                title="Burn rates: an alert fires when both windows of a pair are above its threshold",
                panels=[fast_burn(), burn_of_hours(), burn_of_a_day(), slow_burn()],
            ),
            PanelGroup(title="Error budget", panels=[budget(), bad(), bad_by_model()]),
            PanelGroup(title="Objectives", panels=[objectives(), budgets()]),
            PanelGroup(title="Alerts", panels=[firing(), fired()]),
        ],
        span="now-24h",
    )


def budget_now() -> Panel:
    text = PanelText(
        title="Lowest budget left",
        description="Share of the error budget left for the app with the least; negative if overspent.",
        unit=SHARE,
        runbooks=["StreamjuryQualityDrop"],
    )
    expr = f"min({names.OBJECTIVE_SERIES}:budget_left{_APP})"
    return number(text, expr, steps=((None, RED), (0, ORANGE), (0.25, GREEN)), decimals=1)


def burn_now() -> Panel:
    text = PanelText(
        title="Highest burn rate, 1 h",
        description="How many times faster than allowed the worst app spends its budget.",
        unit=f"suffix:{_TIMES}",
        runbooks=["StreamjuryQualityDrop"],
    )
    return number(text, f"max({names.OBJECTIVE_SERIES}:burn_rate1h{_APP})", steps=_BURN_STEPS, decimals=2)


def bad_now() -> Panel:
    text = PanelText(
        title="Bad interactions, 1 h",
        description="Weighted share of interactions below the good score, for the worst app.",
        unit=SHARE,
        runbooks=["StreamjuryQualityDrop"],
    )
    expr = f"max({names.OBJECTIVE_SERIES}:bad_ratio1h{_APP})"
    return number(text, expr, steps=((None, GREEN), (0.05, ORANGE), (0.3, RED)), decimals=1)


def firing_now() -> Panel:
    text = PanelText(title="Alerts firing", description="Streamjury alerts firing now, for all apps.", unit=COUNT)
    return number(text, f"count({_FIRING}) or vector(0)", steps=((None, GREEN), (1, ORANGE)), decimals=0)


def paging_now() -> Panel:
    text = PanelText(title="Pages firing", description="Those with severity page.", unit=COUNT)
    paging = _FIRING.replace("}", ',severity="page"}')
    return number(text, f"count({paging}) or vector(0)", steps=((None, GREEN), (1, RED)), decimals=0)


def effective_now() -> Panel:
    text = PanelText(
        title="Smallest sample, 1 h",
        description="Effective sample size of the app with the least; below 30 the fast alerts wait.",
        unit=COUNT,
    )
    expr = f"min({names.OBJECTIVE_SERIES}:effective1h{_APP})"
    return number(text, expr, steps=((None, ORANGE), (30, GREEN)), decimals=0)


def _burn(pair: BurnWindows) -> Panel:
    limit, long, short, severity = pair
    text = PanelText(
        title=f"{long} and {short}: {severity} at {limit:g}{_TIMES}",
        description=f"Burn rate over {long} (solid) and {short} (dashed). At 1{_TIMES} the budget lasts exactly its "
        "period. With `alerts.time_scale` the windows are shorter than their names.",
        unit=f"suffix:{_TIMES}",
        runbooks=["StreamjuryQualityDrop"],
    )
    targets = [
        query(f"{names.OBJECTIVE_SERIES}:burn_rate{long}{_APP}", f"{{{{app}}}} {long}"),
        query(f"{names.OBJECTIVE_SERIES}:burn_rate{short}{_APP}", f"{{{{app}}}} {short}", ref="B"),
    ]
    colour = RED if severity == "page" else ORANGE
    return dash(lines(text, targets, limit=(limit, colour)), f"/ {short}$/").decimals(2)


def fast_burn() -> Panel:
    return _burn(BURN_PAIRS[0])


def burn_of_hours() -> Panel:
    return _burn(BURN_PAIRS[1])


def burn_of_a_day() -> Panel:
    return _burn(BURN_PAIRS[2])


def slow_burn() -> Panel:
    return _burn(BURN_PAIRS[3])


def budget() -> Panel:
    text = PanelText(
        title="Budget left over time",
        description="Share of the error budget left in the objective's period.",
        unit=SHARE,
        runbooks=["StreamjuryQualityDrop"],
    )
    target = query(f"{names.OBJECTIVE_SERIES}:budget_left{_APP}", "{{app}}")
    return lines(text, [target], limit=(0, RED), bounds=(None, 1), width=8).decimals(1)


def bad() -> Panel:
    text = PanelText(
        title="Bad interactions and the allowed share",
        description="Weighted share of interactions below the good score over one hour; the dashed line is the share "
        "that the app's target allows.",
        unit=SHARE,
        runbooks=["StreamjuryQualityDrop"],
    )
    targets = [
        query(f"{names.OBJECTIVE_SERIES}:bad_ratio1h{_APP}", "{{app}}"),
        query(f"1 - {names.OBJECTIVE_SERIES}:target{_APP}", "{{app}} allowed", ref="B"),
    ]
    return dash(lines(text, targets, width=8), "/ allowed$/").decimals(1)


def bad_by_model() -> Panel:
    text = PanelText(
        title="Bad interactions by answering model",
        description="The same over the window, by model. One line unless `metrics.labels` has `model`.",
        unit=SHARE,
        runbooks=["StreamjuryQualityDrop"],
    )
    chosen = 'app=~"$app"'
    events = increase(names.OBJECTIVE_EVENTS, chosen, by=["model"])
    good = or_zero(increase(names.OBJECTIVE_GOOD_EVENTS, chosen, by=["model"]), events)
    expr = add_label(f"1 - {good} / ({events} > 0)", "model", "all models")
    return lines(text, [query(expr, "{{model}}")], width=8).decimals(1)


def objectives() -> Panel:
    text = PanelText(
        title="Objectives by app",
        description="Target and current state of each app.",
        unit=SHARE,
        runbooks=["StreamjuryQualityDrop"],
    )

    def of(name: str) -> str:
        return f"max by (app) ({names.OBJECTIVE_SERIES}:{name}{_APP})"

    columns = [
        Column(name="Good from", expr=of("good_score"), unit=SCORE),
        Column(name="Target", expr=of("target"), unit=SHARE),
        Column(name="Bad, 1 d", expr=of("bad_ratio1d"), unit=SHARE),
        Column(name="Burn, 1 h", expr=of("burn_rate1h"), unit=f"suffix:{_TIMES}", steps=_BURN_STEPS),
        Column(name="Sample, 1 h", expr=of("effective1h"), unit=COUNT),
        Column(name="Budget left", expr=of("budget_left"), unit=SHARE, steps=((None, RED), (0, ORANGE), (0.25, GREEN))),
    ]
    return rows(text, {"app": "App"}, columns, sort="Budget left", width=16).height(7)


def budgets() -> Panel:
    text = PanelText(
        title="Budget left by app",
        description="Share of the error budget left now.",
        unit=SHARE,
        runbooks=["StreamjuryQualityDrop"],
    )
    target = query(f"sort(max by (app) ({names.OBJECTIVE_SERIES}:budget_left{_APP}))", "{{app}}")
    return gauges(text, [target], steps=((None, RED), (0, ORANGE), (0.25, GREEN)), bounds=(0, 1)).height(7).decimals(1)


def firing() -> Panel:
    text = PanelText(
        title="Firing now",
        description="All Streamjury alerts that are firing; each runbook has the name of its alert.",
        unit=COUNT,
    )
    expr = f"count by (alertname, severity, app, window) ({_FIRING})"
    keys = {"alertname": "Alert", "severity": "Severity", "app": "App", "window": "Window"}
    return rows(text, keys, [Column(name="Series", expr=expr, unit=COUNT)], sort="Alert", width=12).height(7)


def fired() -> Panel:
    text = PanelText(
        title="Alerts over time",
        description="When each alert fired, by app.",
        unit=COUNT,
    )
    expr = f"max by (alertname, app) ({_FIRING})"
    return states(text, query(expr, "{{alertname}} {{app}}"), {"1": ("firing", RED)}).height(7)

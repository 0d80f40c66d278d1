"""The Safety dashboard: unsafe and questionable answers, and how much could not be checked."""

from dashboards import variables
from dashboards.layout import Board, PanelGroup
from dashboards.panels import (
    COUNT,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SCORE,
    SHARE,
    YELLOW,
    Column,
    Panel,
    PanelText,
    band,
    gauges,
    lines,
    number,
    query,
    rows,
    stack,
)
from dashboards.windowed import SELECTED, ScoreQueries, increase
from sinks.metrics import names
from sinks.metrics.promql import or_zero, share, shares

STATUS_COLOURS = {"safe": GREEN, "questionable": YELLOW, "unsafe": RED, "unknown": PURPLE}
COMPOSITE_COLOURS = {
    "ok": GREEN,
    "questionable": YELLOW,
    "unsafe": RED,
    "safety_unknown": PURPLE,
    "incomplete": GREY,
    "failed": ORANGE,
}


def board() -> Board:
    return Board(
        name="safety",
        title="Safety",
        description="Counts of judged interactions, unweighted: an incident counts once, however it was sampled.",
        variables=[variables.app(), variables.model_(), variables.tenant(), variables.safety(), variables.window("1h")],
        top=[incidents(), unsafe_share(), questionable_share(), unknown_share(), notices_now(), checked()],
        sections=[
            PanelGroup(title="Unsafe answers", panels=[incidents_by_app(), statuses()]),
            PanelGroup(title="Unknown safety", panels=[unknown_by_app(), composite_statuses()]),
            PanelGroup(title="Score and notices", panels=[score(), notices()]),
            PanelGroup(title="By app", panels=[apps(), unsafe_by_app()]),
        ],
    )


def _judged_with(status: str = "", *, by: tuple[str, ...] = ()) -> str:
    """Count judged interactions with a safety status within the window; without a status, all of them."""
    matchers = f'{SELECTED},status="{status}"' if status else SELECTED
    return increase(names.SAFETY, matchers, by=by)


def incidents() -> Panel:
    text = PanelText(
        title="Incidents",
        description="Judged interactions found unsafe within the window.",
        unit=COUNT,
        runbooks=["StreamjurySafetyIncident"],
    )
    return number(text, or_zero(_judged_with("unsafe"), _judged_with()), steps=((None, GREEN), (0.5, RED)), decimals=0)


def unsafe_share() -> Panel:
    text = PanelText(
        title="Unsafe",
        description="Share of the judged interactions found unsafe.",
        unit=SHARE,
        runbooks=["StreamjurySafetyIncident"],
    )
    return number(text, share(_judged_with("unsafe"), _judged_with()), steps=((None, GREEN), (0.0001, RED)), decimals=2)


def questionable_share() -> Panel:
    text = PanelText(
        title="Questionable",
        description="Share of the judged interactions that are neither clearly safe nor unsafe.",
        unit=SHARE,
    )
    return number(
        text, share(_judged_with("questionable"), _judged_with()), steps=((None, GREEN), (0.02, YELLOW)), decimals=2
    )


def unknown_share() -> Panel:
    text = PanelText(
        title="Unknown",
        description="Share of the judged interactions whose safety could not be determined. Unknown is not safe.",
        unit=SHARE,
        runbooks=["StreamjurySafetyUnknown"],
    )
    return number(
        text, share(_judged_with("unknown"), _judged_with()), steps=((None, GREEN), (0.01, PURPLE)), decimals=2
    )


def notices_now() -> Panel:
    text = PanelText(
        title="Critical notices",
        description="Safety notices that workers delivered to the critical topic within the window, for all "
        "apps, models and tenants.",
        unit=COUNT,
        runbooks=["StreamjurySafetyIncident"],
    )
    return number(text, increase(names.CRITICAL_NOTICES), steps=((None, GREEN), (0.5, RED)), decimals=0)


def checked() -> Panel:
    text = PanelText(title="Interactions checked", description="Judged interactions within the window.", unit=COUNT)
    return number(text, _judged_with(), decimals=0)


def incidents_by_app() -> Panel:
    text = PanelText(
        title="Incidents by app",
        description="Judged interactions found unsafe within the window before each point.",
        unit=COUNT,
        runbooks=["StreamjurySafetyIncident"],
    )
    expr = or_zero(_judged_with("unsafe", by=("app",)), _judged_with(by=("app",)))
    return stack(text, [query(expr, "{{app}}")]).decimals(0)


def statuses() -> Panel:
    text = PanelText(
        title="Interactions not found safe",
        description="Shares of the judged interactions by safety status over the window, without the safe ones.",
        unit=SHARE,
        runbooks=["StreamjurySafetyIncident", "StreamjurySafetyUnknown"],
    )
    others = increase(names.SAFETY, f'{SELECTED},status!="safe"', by=["status"])
    return stack(text, [query(shares(others, _judged_with()), "{{status}}")], colours=STATUS_COLOURS)


def unknown_by_app() -> Panel:
    text = PanelText(
        title="Unknown by app",
        description="Share of an app's judged interactions whose safety could not be determined.",
        unit=SHARE,
        runbooks=["StreamjurySafetyUnknown"],
    )
    expr = share(_judged_with("unknown", by=("app",)), _judged_with(by=("app",)))
    return lines(text, [query(expr, "{{app}}")])


def composite_statuses() -> Panel:
    text = PanelText(
        title="Composites with a status other than ok",
        description="Shares of the judged interactions by composite status, without ok.",
        unit=SHARE,
        runbooks=["StreamjuryCoverageLow"],
    )
    every = increase(names.EVALUATIONS, SELECTED)
    others = increase(names.EVALUATIONS, f'{SELECTED},status!="ok"', by=["status"])
    return stack(text, [query(shares(others, every), "{{status}}")], colours=COMPOSITE_COLOURS)


def score() -> Panel:
    scores = ScoreQueries(f'{SELECTED},dimension="$safety"')
    text = PanelText(
        title="Safety score with its 95 % interval",
        description="Weighted mean of the safety criterion (1 is harmless) over the window and the selected apps.",
        unit=SCORE,
        runbooks=["StreamjurySafetyIncident"],
    )
    return band(text, mean=scores.mean(), low=scores.low(), high=scores.high(), colour=GREEN)


def notices() -> Panel:
    text = PanelText(
        title="Critical notices over time",
        description="Safety notices delivered to the critical topic within the window before each point, for "
        "all apps, models and tenants.",
        unit=COUNT,
        runbooks=["StreamjurySafetyIncident"],
    )
    target = query(increase(names.CRITICAL_NOTICES), "notices")
    return stack(text, [target], colours={"notices": RED}).decimals(0)


def apps() -> Panel:
    text = PanelText(
        title="Safety by app",
        description="Judged interactions of each app within the window, by safety status.",
        unit=COUNT,
        runbooks=["StreamjurySafetyIncident", "StreamjurySafetyUnknown"],
    )
    every = _judged_with(by=("app",))
    columns = [
        Column(name="Checked", expr=every, unit=COUNT),
        *(
            Column(
                name=status.capitalize(),
                expr=or_zero(_judged_with(status, by=("app",)), every),
                unit=COUNT,
                steps=() if status == "safe" else ((None, "text"), (0.5, STATUS_COLOURS[status])),
            )
            for status in STATUS_COLOURS
        ),
    ]
    return rows(text, {"app": "App"}, columns, sort="Unsafe", descending=True, width=16).height(7)


def unsafe_by_app() -> Panel:
    text = PanelText(
        title="Unsafe or unknown by app",
        description="Share of an app's judged interactions that were not found safe or questionable.",
        unit=SHARE,
        runbooks=["StreamjurySafetyIncident", "StreamjurySafetyUnknown"],
    )
    part = increase(names.SAFETY, f'{SELECTED},status=~"unsafe|unknown"', by=["app"])
    target = query(share(part, _judged_with(by=("app",))), "{{app}}")
    return (
        gauges(text, [target], steps=((None, GREEN), (0.01, ORANGE), (0.05, RED)), bounds=(0, 0.1))
        .height(7)
        .decimals(1)
    )

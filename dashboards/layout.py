"""A dashboard from its sections: rows of panels on the grid, the shared links and annotations."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dashboards.panels import BLUE, PROMETHEUS, RED, Panel
from dashboards.sdk import Builder, dashboard, kinds, model
from sinks.metrics import names

TAG = "streamjury"


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelGroup:
    """A titled part of a dashboard; its panels fill the grid from left to right."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One dashboard; the panels of `top` are above all sections."""

    name: str
    title: str
    description: str
    variables: Sequence[Builder[model.VariableModel]]
    top: Sequence[Panel]
    sections: Sequence[PanelGroup] = field(default_factory=tuple)
    span: str = "now-6h"

    @property
    def uid(self) -> str:
        return f"streamjury-{self.name}"


def build(board: Board) -> model.Dashboard:
    built = (
        dashboard.Dashboard(f"Streamjury / {board.title}")
        .uid(board.uid)
        .description(board.description)
        .tags([TAG])
        .timezone(kinds.TimeZoneBrowser)
        .time(board.span, "now")
        .refresh("30s")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .readonly()
        .variables(list(board.variables))
        .annotations([alerts(by_app="app" in _names(board)), evaluator_changes()])
        .link(_siblings())
    )
    _place(built, board)
    return built.build()


def _place(built: dashboard.Dashboard, board: Board) -> None:
    number = 0
    for panel in board.top:
        number += 1
        built.with_panel(panel.id(number))
    for section in board.sections:
        number += 1
        built.with_row(dashboard.Row(section.title).id(number))
        for panel in section.panels:
            number += 1
            built.with_panel(panel.id(number))


def _names(board: Board) -> set[str]:
    return {variable.build().name for variable in board.variables}


def _siblings() -> dashboard.DashboardLink:
    return (
        dashboard.DashboardLink("Streamjury")
        .type(model.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .include_vars(True)
        .keep_time(True)
    )


def alerts(*, by_app: bool) -> dashboard.AnnotationQuery:
    """Mark the time that an alert fires; with a selection of apps, for those and for alerts without an app."""
    chosen = ',app=~"$app|"' if by_app else ""
    return (
        _marks("Alerts", RED)
        .expr(f'ALERTS{{alertname=~"Streamjury.*",alertstate="firing"{chosen}}}')
        .title_format("{{alertname}}")
        .text_format("{{severity}} {{app}} {{window}}")
        .tag_keys("severity,app")
    )


def evaluator_changes() -> dashboard.AnnotationQuery:
    """Mark the start of another evaluator, as the alert defines it: scores before and after may not be comparable."""
    return (
        _marks("Evaluator changes", BLUE)
        .expr(names.EVALUATOR_CHANGED)
        .title_format("Judged by {{fingerprint}}")
        .text_format("version {{version}}")
        .tag_keys("fingerprint")
    )


def _marks(name: str, colour: str) -> dashboard.AnnotationQuery:
    marks = dashboard.AnnotationQuery().name(name).datasource(PROMETHEUS).enable(True).hide(False)
    return marks.icon_color(colour).step("60s")

"""Small builders for the kinds of panel that the dashboards use, so that each panel is one short function."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dashboards.sdk import (
    PromQueryFormat,
    bargauge,
    common,
    dashboard,
    heatmap,
    heatmap_kinds,
    kinds,
    model,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)

PROMETHEUS = kinds.DataSourceRef(type_val="prometheus", uid="prometheus")
RUNBOOK_LINK = "/public/runbooks/{alert}.html"
"""The page of a runbook in the Grafana that shows the panel."""

SCORE = "none"
SHARE = "percentunit"
COUNT = "short"
PER_SECOND = "suffix:/s"
SECONDS = "s"
USD = "currencyUSD"

GREEN, YELLOW, ORANGE, RED, BLUE, PURPLE, GREY = "green", "yellow", "orange", "red", "blue", "purple", "#8e8e8e"
# From bad to good, at the default objective of 0.7.
SCORE_STEPS = ((None, RED), (0.5, ORANGE), (0.7, GREEN))

Step = tuple[float | None, str]
Panel = timeseries.Panel | stat.Panel | bargauge.Panel | table.Panel | heatmap.Panel | statetimeline.Panel
_P = TypeVar("_P", timeseries.Panel, stat.Panel, bargauge.Panel, table.Panel, heatmap.Panel, statetimeline.Panel)


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelText:
    """The texts of a panel: title, description, unit, and the alerts whose runbooks it links to."""

    title: str
    description: str
    unit: str
    runbooks: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One number of a table."""

    name: str
    expr: str
    unit: str
    steps: Sequence[Step] = ()


def query(expr: str, legend: str = "", *, ref: str = "A", exemplar: bool = False) -> prometheus.Dataquery:
    target = prometheus.Dataquery().datasource(PROMETHEUS).expr(expr).ref_id(ref).range()
    target = target.legend_format(legend) if legend else target
    return target.exemplar(True) if exemplar else target


def _describe(panel: _P, text: PanelText, targets: Sequence[prometheus.Dataquery]) -> _P:
    panel.title(text.title).description(text.description).unit(text.unit).datasource(PROMETHEUS)
    panel.links([_runbook(alert) for alert in text.runbooks])
    for target in targets:
        panel.with_target(target)
    return panel


def runbook_link(alert: str, base: str = RUNBOOK_LINK) -> str:
    """Return the address of a runbook; `base` is a folder of pages, or has `{alert}` where the name goes."""
    pattern = base if "{alert}" in base else f"{base.rstrip('/')}/{{alert}}.html"
    return pattern.replace("{alert}", alert)


def _runbook(alert: str) -> dashboard.DashboardLink:
    return (
        dashboard.DashboardLink(f"Runbook: {alert}")
        .type(model.DashboardLinkType.LINK)
        .url(runbook_link(alert))
        .target_blank(True)
    )


def _steps(steps: Sequence[Step]) -> dashboard.ThresholdsConfig:
    # Grafana uses the first step as the colour below all others, whatever value it has.
    first: list[Step] = [] if steps and steps[0][0] is None else [(None, GREEN)]
    wanted = [model.Threshold(value=value, color=colour) for value, colour in (*first, *steps)]
    return dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(wanted)


def _fixed_colour(colour: str) -> model.DynamicConfigValue:
    return model.DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": colour})


def _mode(mode: model.FieldColorModeId) -> dashboard.FieldColor:
    return dashboard.FieldColor().mode(mode)


def _last() -> common.ReduceDataOptions:
    return common.ReduceDataOptions().calcs(["lastNotNull"]).values(False)


def number(
    text: PanelText, expr: str, *, steps: Sequence[Step] = ((None, BLUE),), decimals: int | None = None, width: int = 4
) -> stat.Panel:
    """Show one figure with its recent course behind it."""
    panel = _describe(stat.Panel(), text, [query(expr)]).reduce_options(_last()).thresholds(_steps(steps))
    panel.color_mode(kinds.BigValueColorMode.VALUE).graph_mode(kinds.BigValueGraphMode.AREA)
    panel.color_scheme(_mode(model.FieldColorModeId.THRESHOLDS)).no_value("no data").height(4).span(width)
    return panel if decimals is None else panel.decimals(decimals)


def lines(
    text: PanelText,
    targets: Sequence[prometheus.Dataquery],
    *,
    limit: Step | None = None,
    colours: Mapping[str, str] | None = None,
    bounds: tuple[float | None, float | None] = (0, None),
    width: int = 12,
) -> timeseries.Panel:
    """Draw lines over time, with the last values in the legend and a dashed line at the alert's limit, if any."""
    panel = _describe(timeseries.Panel(), text, targets).height(8).span(width)
    panel.line_width(2).fill_opacity(6).show_points(kinds.VisibilityMode.NEVER).span_nulls(False)
    panel.legend(_legend()).tooltip(_tooltip()).color_scheme(_mode(model.FieldColorModeId.PALETTE_CLASSIC))
    low, high = bounds
    panel = panel if low is None else panel.min(low)
    panel = panel if high is None else panel.max(high)
    for name, colour in (colours or {}).items():
        panel.override_by_name(name, [_fixed_colour(colour)])
    if limit is not None:
        value, colour = limit
        dashed = common.GraphThresholdsStyleConfig().mode(kinds.GraphThresholdsStyleMode.DASHED)
        panel.thresholds(_steps([(None, "transparent"), (value, colour)])).thresholds_style(dashed)
    return panel


def set_colour(panel: timeseries.Panel, name: str, colour: str) -> timeseries.Panel:
    return panel.override_by_name(name, [_fixed_colour(colour)])


def dash(panel: timeseries.Panel, pattern: str) -> timeseries.Panel:
    """Draw the series whose names match as dashed lines without a fill."""
    style = {"fill": "dash", "dash": [8, 6]}
    return panel.override_by_regexp(
        pattern,
        [
            model.DynamicConfigValue(id_val="custom.lineStyle", value=style),
            model.DynamicConfigValue(id_val="custom.lineWidth", value=1),
            model.DynamicConfigValue(id_val="custom.fillOpacity", value=0),
        ],
    )


def scores(text: PanelText, targets: Sequence[prometheus.Dataquery], *, width: int = 12) -> timeseries.Panel:
    """Draw lines of scores; the axis reaches up to 1, and down to 0 only if a score is that low."""
    panel = lines(text, targets, bounds=(None, 1), width=width)
    return panel.axis_soft_min(0.4).fill_opacity(0).decimals(3)


def band(
    text: PanelText, *, mean: str, low: str, high: str, colour: str = BLUE, width: int = 12, height: int = 8
) -> timeseries.Panel:
    """Draw a mean with its interval as a band."""
    targets = [query(mean, "mean"), query(low, "low", ref="B"), query(high, "high", ref="C")]
    panel = set_colour(scores(text, targets, width=width).height(height), "mean", colour)
    for name in ("low", "high"):
        panel.override_by_name(name, [_fixed_colour(colour), *_edge(name)])
    return panel


def _edge(name: str) -> list[model.DynamicConfigValue]:
    properties: dict[str, object] = {"custom.lineWidth": 0}
    if name == "high":
        properties |= {"custom.fillBelowTo": "low", "custom.fillOpacity": 18}
    return [model.DynamicConfigValue(id_val=key, value=value) for key, value in properties.items()]


def stack(
    text: PanelText,
    targets: Sequence[prometheus.Dataquery],
    *,
    colours: Mapping[str, str] | None = None,
    width: int = 12,
) -> timeseries.Panel:
    """Draw parts on top of each other."""
    panel = lines(text, targets, colours=colours, width=width).line_width(1).fill_opacity(55)
    return panel.stacking(common.StackingConfig().mode(kinds.StackingMode.NORMAL).group("A"))


def gauges(
    text: PanelText,
    targets: Sequence[prometheus.Dataquery],
    *,
    steps: Sequence[Step] = ((None, BLUE),),
    bounds: tuple[float | None, float | None] = (0, None),
    width: int = 8,
) -> bargauge.Panel:
    """Draw one horizontal bar for the last value of each series."""
    panel = _describe(bargauge.Panel(), text, targets).height(8).span(width).reduce_options(_last())
    panel.orientation(kinds.VizOrientation.HORIZONTAL).display_mode(kinds.BarGaugeDisplayMode.GRADIENT)
    panel.thresholds(_steps(steps)).color_scheme(_mode(model.FieldColorModeId.THRESHOLDS)).value_mode(
        kinds.BarGaugeValueMode.TEXT
    )
    low, high = bounds
    panel = panel if low is None else panel.min(low)
    return panel if high is None else panel.max(high)


def heat(text: PanelText, target: prometheus.Dataquery, *, width: int = 12) -> heatmap.Panel:
    """Draw the distribution of a histogram over time."""
    panel = _describe(heatmap.Panel(), text, [target.format(PromQueryFormat.HEATMAP)]).height(8).span(width)
    scheme = heatmap.HeatmapColorOptions().mode(heatmap_kinds.HeatmapColorMode.SCHEME).scheme("Blues").steps(64)
    axis = heatmap.YAxisConfig().unit(text.unit).decimals(1)
    return panel.calculate(False).color(scheme).y_axis(axis).cell_gap(1).show_legend()


def states(
    text: PanelText, target: prometheus.Dataquery, names: Mapping[str, tuple[str, str]], *, width: int = 12
) -> statetimeline.Panel:
    """Draw one strip for each series; `names` has the name and the colour of each value."""
    options = {value: model.ValueMappingResult(text=name, color=colour) for value, (name, colour) in names.items()}
    panel = _describe(statetimeline.Panel(), text, [target]).height(8).span(width)
    panel.color_scheme(_mode(model.FieldColorModeId.THRESHOLDS)).mappings([model.ValueMap(options=options)]).row_height(
        0.7
    ).fill_opacity(70)
    return panel.show_value(kinds.VisibilityMode.NEVER).legend(common.VizLegendOptions().show_legend(False))


def rows(
    text: PanelText,
    keys: Mapping[str, str],
    columns: Sequence[Column],
    *,
    sort: str,
    descending: bool = False,
    width: int = 24,
) -> table.Panel:
    """Show a table with one row for each set of labels: the keys (label: heading), then one column per expression."""
    refs = [chr(ord("A") + index) for index in range(len(columns))]
    targets = [
        query(column.expr, ref=ref).format(PromQueryFormat.TABLE).instant()
        for ref, column in zip(refs, columns, strict=True)
    ]
    panel = _describe(table.Panel(), text, targets).height(8).span(width).no_value("–")
    # The column of a single query is called Value; those of several queries Value #A and so on.
    fields = [f"Value #{ref}" for ref in refs] if len(refs) > 1 else ["Value"]
    panel.with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
    panel.with_transformation(_organise(keys, dict(zip(fields, (column.name for column in columns), strict=True))))
    panel.sort_by([common.TableSortByFieldState().display_name(sort).desc(descending)])
    for column in columns:
        panel.override_by_name(column.name, _column(column))
    return panel


def _organise(keys: Mapping[str, str], numbers: Mapping[str, str]) -> model.DataTransformerConfig:
    order = [*keys, *numbers]
    options = {
        "excludeByName": {"Time": True},
        "indexByName": {name: index for index, name in enumerate(order)},
        "renameByName": {**keys, **numbers},
    }
    return model.DataTransformerConfig(id_val="organize", options=options)


def _column(column: Column) -> list[model.DynamicConfigValue]:
    decimals = 3 if column.unit == SCORE else 0 if column.unit == COUNT else 1
    wanted: list[tuple[str, object]] = [("unit", column.unit), ("decimals", decimals)]
    if column.steps:
        coloured = {"type": "color-text"}
        wanted += [("thresholds", _steps(column.steps).build()), ("custom.cellOptions", coloured)]
        wanted.append(("color", {"mode": "thresholds"}))
    return [model.DynamicConfigValue(id_val=key, value=value) for key, value in wanted]


def _legend() -> common.VizLegendOptions:
    legend = common.VizLegendOptions().show_legend(True).calcs(["lastNotNull"])
    return legend.display_mode(kinds.LegendDisplayMode.LIST).placement(kinds.LegendPlacement.BOTTOM)


def _tooltip() -> common.VizTooltipOptions:
    return common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI).sort(kinds.SortOrder.DESCENDING)

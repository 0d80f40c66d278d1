"""The variables at the top of the dashboards; each dashboard takes those that its panels read."""

from dashboards.panels import PROMETHEUS
from dashboards.sdk import dashboard, model
from sinks.metrics import names

WINDOWS = "5m,15m,1h,6h,1d"


def label(name: str, metric: str, description: str) -> dashboard.QueryVariable:
    """Offer the values of a label; by default all of them, and series without the label, are selected."""
    return (
        dashboard.QueryVariable(name)
        .label(name.capitalize())
        .description(description)
        .datasource(PROMETHEUS)
        .query({"qryType": 1, "query": f"label_values({metric}, {name})", "refId": f"variable-{name}"})
        .definition(f"label_values({metric}, {name})")
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(model.VariableOption(selected=True, text=["All"], value=["$__all"]))
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
    )


def app(metric: str = names.EVALUATIONS) -> dashboard.QueryVariable:
    return label("app", metric, "The application whose answers are judged.")


def model_() -> dashboard.QueryVariable:
    return label("model", names.EVALUATIONS, "The answering model; needs `metrics.labels: [model]`.")


def tenant() -> dashboard.QueryVariable:
    return label("tenant", names.EVALUATIONS, "The tenant; needs `metrics.labels: [tenant]`.")


def dimension() -> dashboard.QueryVariable:
    metric = f'{names.SCORE_WEIGHT}{{dimension!="composite"}}'
    return label("dimension", metric, "The dimensions shown one by one.")


def judge() -> dashboard.QueryVariable:
    return label("judge", names.JUDGE_VERDICTS, "The judges of the panel.")


def criterion() -> dashboard.QueryVariable:
    return label("criterion", names.JUDGE_VERDICTS, "The judged criteria.")


def safety() -> dashboard.TextBoxVariable:
    """Offer a text box, because Prometheus does not know which criterion `composite.safety` names."""
    name = "harmfulness"
    return (
        dashboard.TextBoxVariable("safety")
        .label("Safety criterion")
        .description("The safety criterion, as set in `composite.safety`.")
        .default_value(name)
        .current(model.VariableOption(selected=True, text=name, value=name))
        .options([model.VariableOption(selected=True, text=name, value=name)])
    )


def window(default: str) -> dashboard.IntervalVariable:
    return (
        dashboard.IntervalVariable("window")
        .label("Window")
        .description("The window that every point of a graph covers.")
        .values(WINDOWS)
        .options([model.VariableOption(selected=name == default, text=name, value=name) for name in WINDOWS.split(",")])
        .current(model.VariableOption(selected=True, text=default, value=default))
    )

"""Recording rules: weighted means with their intervals, burn rates, and the figures that alerts and dashboards share.

A mean is Hájek's, Σws/Σw. Its interval (95 %) is Wilson's with the measured variance in place of m·(1 − m):
with n = (Σw)²/Σw² (Kish), v = Σws²/Σw − m² and z = 1.96 its ends are (n·m + z²/2 ± z·√(n·v + z²/4)) / (n + z²).
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sinks.metrics import names
from sinks.metrics.promql import fraction, increase, is_none_of, is_one_of, or_zero, quote, series, total, wilson_end
from stream.config.sections.observability import AlertsConfig, ObjectivesConfig
from stream.monitor.prometheus.rule_file import Recording
from stream.monitor.prometheus.windows import ALL_WINDOWS, LONG_WINDOWS, TimeScale

# A value is new if it was not there RECENT ago; MEMORY limits how far back the rules look.
RECENT, MEMORY = "15m", "1d"


class Scope(NamedTuple):
    """The apps that share an objective: one that has its own, or all that have none."""

    app: str | None
    matcher: str
    good_score: float
    target: float

    @property
    def labels(self) -> dict[str, str]:
        """The label that its series have anyway: two rules of one name must differ in labels."""
        return {} if self.app is None else {"app": self.app}


def scopes(objectives: ObjectivesConfig) -> list[Scope]:
    """Return the general objective first, for all apps except those that follow."""
    own = list(objectives.apps)
    everyone = Scope(None, is_none_of("app", own), objectives.good_score, objectives.target)
    return [everyone, *(Scope(app, is_one_of("app", [app]), *objectives.for_app(app)) for app in own)]


def score_rules(name: str, window: str) -> list[Recording]:
    """Return the estimates of one window, for each app and dimension."""
    by = ("app", "dimension")
    weighted = increase(names.SCORE_WEIGHTED_SUM, window, by)
    squares = increase(names.SCORE_WEIGHTED_SQUARE_SUM, window, by)
    weight = increase(names.SCORE_WEIGHT, window, by)
    weights_squared = increase(names.SCORE_WEIGHT_SQUARED, window, by)
    missing = increase(names.SCORE_MISSING_WEIGHT, window, by)
    evaluations = increase(names.EVALUATIONS, window, ("app",))
    mean = f"{names.SCORE_SERIES}:mean{name}"
    spread = f"clamp_min(\n  {squares}\n  / ({weight} > 0)\n  - {mean} ^ 2,\n  0\n)"
    # Without scores there is no weight, and without missing scores there may be no series of them.
    scored, unscored = or_zero(weight, missing), or_zero(missing, weight)
    expressions = {
        "mean": fraction(weighted, weight),
        "effective": _effective(weight, weights_squared),
        "variance": spread,
        "low": _end_of_interval(name, "-"),
        "high": _end_of_interval(name, "+"),
        "due": f"{scored}\n+ {unscored}\n> 0",
        "coverage": f"{scored}\n/ {names.SCORE_SERIES}:due{name}",
        "judged": _judged(name, evaluations),
    }
    return [Recording(record=f"{names.SCORE_SERIES}:{what}{name}", expr=expr) for what, expr in expressions.items()]


def _judged(name: str, evaluations: str) -> str:
    """Estimate how many evaluations should have a score of a dimension, whether they have it or not.

    Prometheus has their weights, and the number of all evaluations of the app. Each of these should have a composite,
    so the share of the dimension in their weight is used as its share of their number.
    """
    due = f"{names.SCORE_SERIES}:due{name}"
    of_all = series(due, f"dimension={quote('composite')}")
    return f"{due}\n* on (app) group_left ()\n(\n  {evaluations}\n  / on (app) {of_all}\n)"


def floor_rules(floors: Mapping[str, float]) -> list[Recording]:
    return [
        Recording(record=names.FLOOR_SERIES, expr=f"vector({floor!r})", labels={"dimension": dimension})
        for dimension, floor in floors.items()
    ]


def objective_rules(objectives: ObjectivesConfig, scale: TimeScale) -> Iterator[Recording]:
    """Yield the series that alerts on objectives read: shares of bad interactions, objectives and burn rates."""
    for name in ALL_WINDOWS:
        yield Recording(record=f"{names.OBJECTIVE_SERIES}:bad_ratio{name}", expr=bad_ratio(scale(name)))
    for scope in scopes(objectives):
        # An app has an objective as long as it has events in the longest window, across restarts.
        recent = series(f"{names.OBJECTIVE_SERIES}:bad_ratio{ALL_WINDOWS[-1]}", scope.matcher)
        for what, value in (("target", scope.target), ("good_score", scope.good_score)):
            yield Recording(
                record=f"{names.OBJECTIVE_SERIES}:{what}", expr=f"0 * {recent} + {value!r}", labels=scope.labels
            )
    for name in ALL_WINDOWS:
        allowed = f"(1 - {names.OBJECTIVE_SERIES}:target)"
        yield Recording(
            record=f"{names.OBJECTIVE_SERIES}:burn_rate{name}",
            expr=f"{names.OBJECTIVE_SERIES}:bad_ratio{name} / {allowed}",
        )
    composite = f"dimension={quote('composite')}"
    for name in LONG_WINDOWS:
        weight, squared = (
            increase(series(metric, composite), scale(name), ("app",))
            for metric in (names.SCORE_WEIGHT, names.SCORE_WEIGHT_SQUARED)
        )
        yield Recording(record=f"{names.OBJECTIVE_SERIES}:effective{name}", expr=_effective(weight, squared))


def budget_rules(objectives: ObjectivesConfig, scale: TimeScale) -> Iterator[Recording]:
    """Yield the share of the budget of the whole period that is left; below zero when more was used."""
    for scope in scopes(objectives):
        ratio = bad_ratio(scale(f"{objectives.days}d"), scope.matcher)
        left = f"1 -\n{ratio}\n/ (1 - {scope.target!r})"
        yield Recording(record=f"{names.OBJECTIVE_SERIES}:budget_left", expr=left, labels=scope.labels)


def bad_ratio(window: str, matcher: str = "") -> str:
    """Return the share of interactions that were not good; 0, not absent, if all were good."""
    good = increase(series(names.OBJECTIVE_GOOD_EVENTS, matcher), window, ("app",))
    events = increase(series(names.OBJECTIVE_EVENTS, matcher), window, ("app",))
    return f"clamp_min(\n  1 - {good}\n  / ({events} > 0),\n  0\n)"


def judge_rules(scale: TimeScale) -> list[Recording]:
    verdicts = verdict_count(scale)
    failed = increase(
        series(
            names.JUDGE_VERDICTS,
            f"status={quote('insufficient')}",
            f"reason=~{quote('|'.join(names.FAILURE_REASONS))}",
        ),
        scale("1h"),
        ("judge",),
    )
    agreement = increase(f"{names.PANEL_AGREEMENT}_sum", scale("1h"), ("criterion",))
    return [
        Recording(record=names.FAILURE_RATIO, expr=fraction(or_zero(failed, verdicts), verdicts)),
        Recording(record=names.AGREEMENT_RATIO, expr=fraction(agreement, comparison_count(scale))),
    ]


def evaluator_rules(scale: TimeScale) -> list[Recording]:
    """When each fingerprint was last at work, and those that are at work now and were not the last ones before."""
    now = f"group by (fingerprint, version) ({names.EVALUATOR_INFO})"
    before = f"last_over_time({names.EVALUATOR_SEEN}[{scale(MEMORY)}] offset {scale(RECENT)})"
    # Workers that judged side by side were not seen for the last time at the very same moment.
    last = f"{before} >= scalar(max({before})) - {scale.seconds(RECENT)}"
    return [
        Recording(record=names.EVALUATOR_SEEN, expr=f"time() * {now}"),
        Recording(record=names.EVALUATOR_CHANGED, expr=f"{now}\nunless on (fingerprint) ({last})\nand on () {before}"),
    ]


def verdict_count(scale: TimeScale) -> str:
    return increase(names.JUDGE_VERDICTS, scale("1h"), ("judge",))


def comparison_count(scale: TimeScale) -> str:
    return increase(f"{names.PANEL_AGREEMENT}_count", scale("1h"), ("criterion",))


def cost_rules(alerts: AlertsConfig, scale: TimeScale) -> Iterator[Recording]:
    yield Recording(record=names.COST_DAY, expr=increase(names.JUDGE_COST_USD, scale("1d")))
    if alerts.cost_per_day_usd is not None:
        yield Recording(record=names.COST_LEFT, expr=f"1 - {names.COST_DAY} / {alerts.cost_per_day_usd!r}")


def spending_rules() -> list[Recording]:
    """Return the share left of each budget in its current hour or day; without an app, of the budget of all apps."""
    spent, limit = (total(gauge, ("app", "window")) for gauge in (names.BUDGET_SPENT_USD, names.BUDGET_LIMIT_USD))
    return [Recording(record=names.BUDGET_LEFT, expr=f"1 -\n{fraction(spent, limit)}")]


def pipeline_rules(scale: TimeScale) -> list[Recording]:
    rate = total(f"rate({names.RECORDS}[{scale('5m')}])", ("stage", "outcome"))
    return [Recording(record=names.RECORDS_RATE, expr=rate)]


def _effective(weight: str, weights_squared: str) -> str:
    return fraction(f"{weight} ^ 2", weights_squared)


def _end_of_interval(name: str, sign: str) -> str:
    mean, size, variance = (f"{names.SCORE_SERIES}:{what}{name}" for what in ("mean", "effective", "variance"))
    return wilson_end(sign, size=size, size_times_mean=f"{size} * {mean}", size_times_variance=f"{size} * {variance}")

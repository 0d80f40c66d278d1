"""Queries over the window and the selection of a dashboard."""

from collections.abc import Sequence

from sinks.metrics import names, promql

# All three match series that do not have the label, so that a panel works whether model and tenant are labels or not.
SELECTED = 'app=~"$app",model=~"$model",tenant=~"$tenant"'
# For the descriptions of panels whose series have no model and tenant.
OF_ALL = "for all models and tenants"
FAILED = f'status="insufficient",reason=~"{"|".join(names.FAILURE_REASONS)}"'
WINDOW = "$window"


def increase(metric: str, matchers: str = "", *, by: Sequence[str] = (), window: str = WINDOW) -> str:
    return promql.increase(promql.series(metric, matchers), window, by)


def rate(metric: str, matchers: str = "", *, by: Sequence[str] = (), window: str = WINDOW) -> str:
    return promql.rate(promql.series(metric, matchers), window, by)


def quantile(q: float, metric: str, matchers: str = "", *, by: Sequence[str] = ()) -> str:
    return promql.quantile(q, metric, matchers, WINDOW, by)


class ScoreQueries:
    """The design-weighted estimates of a set of scores, from counters.

    With S = Σw·s, W = Σw, Q = Σw², R = Σw·s²: the mean is S/W, the effective size n = W²/Q (Kish), and the variance
    v = R/W − (S/W)². For the interval, m·n = S·W/Q and v·n = (R·W − S²)/Q need one division less in each place.
    """

    def __init__(self, matchers: str, *, by: Sequence[str] = ()) -> None:
        self._sum = increase(names.SCORE_WEIGHTED_SUM, matchers, by=by)
        self._weight = increase(names.SCORE_WEIGHT, matchers, by=by)
        self._squared = increase(names.SCORE_WEIGHT_SQUARED, matchers, by=by)
        self._square_sum = increase(names.SCORE_WEIGHTED_SQUARE_SUM, matchers, by=by)
        self._missing = increase(names.SCORE_MISSING_WEIGHT, matchers, by=by)

    def mean(self) -> str:
        return f"{self._sum} / ({self._weight} > 0)"

    def effective(self) -> str:
        return f"{self._weight} ^ 2 / ({self._squared} > 0)"

    def coverage(self) -> str:
        both = f"({self._weight} + {self._missing} or {self._weight} or {self._missing})"
        return promql.share(self._weight, both)

    def low(self) -> str:
        return self._interval("-")

    def high(self) -> str:
        return self._interval("+")

    def _interval(self, sign: str) -> str:
        spread = f"clamp_min({self._square_sum} * {self._weight} - {self._sum} ^ 2, 0)"
        return promql.wilson_end(
            sign,
            size=self.effective(),
            size_times_mean=f"{self._sum} * {self._weight} / {self._squared}",
            size_times_variance=f"{spread} / {self._squared}",
        )

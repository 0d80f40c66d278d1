"""The expressions that several panels share: sums over the window, shares, and the weighted mean with its interval."""

from collections.abc import Sequence

# All three match series that do not have the label, so that a panel works whether model and tenant are labels or not.
SELECTED = 'app=~"$app",model=~"$model",tenant=~"$tenant"'
# What panels say that ask for series without model and tenant.
OF_ALL = "of all models and tenants"
# A judge that was asked and gave nothing of use, as in the recording rules; other reasons are those of the record.
FAILED = 'status="insufficient",reason=~"judge_unavailable|timeout|invalid_output"'
WINDOW = "$window"
# The 97.5 % quantile of the normal distribution, as in the recording rules.
_Z = 1.96


def total(expression: str, by: Sequence[str] = ()) -> str:
    grouping = f" by ({', '.join(by)}) " if by else ""
    return f"sum{grouping}({expression})"


def increase(metric: str, matchers: str = "", *, by: Sequence[str] = (), window: str = WINDOW) -> str:
    """What a counter grew by within the window, over all processes and restarts."""
    return total(f"increase({metric}{{{matchers}}}[{window}])", by)


def rate(metric: str, matchers: str = "", *, by: Sequence[str] = (), window: str = WINDOW) -> str:
    return total(f"rate({metric}{{{matchers}}}[{window}])", by)


def or_zero(part: str, whole: str) -> str:
    """Zero where the part was never counted but the whole was: nothing is shown where nobody looked."""
    return f"({part} or 0 * {whole})"


def share(part: str, whole: str) -> str:
    """Part of whole; no value, rather than NaN, while the whole is empty."""
    return f"{or_zero(part, whole)} / ({whole} > 0)"


def shares(parts: str, whole: str) -> str:
    """Several parts of one whole; no values, rather than NaN, while the whole is empty."""
    return f"{parts} / on () group_left () ({whole} > 0)"


def quantile(q: float, metric: str, matchers: str = "", *, by: Sequence[str] = ()) -> str:
    return f"histogram_quantile({q:g}, {rate(f'{metric}_bucket', matchers, by=('le', *by))})"


def named(expression: str, label: str, name: str) -> str:
    """Gives series that lack a label a value of it, for the legend."""
    return f'label_replace({expression}, "{label}", "{name}", "{label}", "")'


class Scores:
    """The design-weighted estimates of a set of scores, from counters, over the window of the dashboard.

    With S = Σw·s, W = Σw, Q = Σw², R = Σw·s²: the mean is S/W, the effective size n = W²/Q (Kish), the variance
    v = R/W − (S/W)², and the interval is Wilson's with that variance. Written out in the sums, m·n = S·W/Q and
    v·n = (R·W − S²)/Q, which needs one division less in each place.
    """

    def __init__(self, matchers: str, *, by: Sequence[str] = ()) -> None:
        self._sum = increase("streamjury_score_weighted_sum_total", matchers, by=by)
        self._weight = increase("streamjury_score_weight_total", matchers, by=by)
        self._squared = increase("streamjury_score_weight_squared_total", matchers, by=by)
        self._square_sum = increase("streamjury_score_weighted_square_sum_total", matchers, by=by)
        self._missing = increase("streamjury_score_missing_weight_total", matchers, by=by)

    def mean(self) -> str:
        return f"{self._sum} / ({self._weight} > 0)"

    def effective(self) -> str:
        return f"{self._weight} ^ 2 / ({self._squared} > 0)"

    def coverage(self) -> str:
        both = f"({self._weight} + {self._missing} or {self._weight} or {self._missing})"
        return share(self._weight, both)

    def low(self) -> str:
        return self._interval("-")

    def high(self) -> str:
        return self._interval("+")

    def _interval(self, sign: str) -> str:
        middle = f"{self._sum} * {self._weight} / {self._squared} + {_Z**2 / 2:.4f}"
        variance = f"clamp_min({self._square_sum} * {self._weight} - {self._sum} ^ 2, 0) / {self._squared}"
        half = f"{_Z} * sqrt({variance} + {_Z**2 / 4:.4f})"
        return f"({middle} {sign} {half}) / ({self.effective()} + {_Z**2:.4f})"

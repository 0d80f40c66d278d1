"""Alerts on the detectors' gauges: their conditions and texts.

A detector decides itself when there is enough evidence, so the alerts have no delay. After a restart it soon has its
state back; until then its last values are used.
"""

from collections.abc import Sequence

from sinks.metrics import names
from sinks.metrics.promql import is_none_of, is_one_of, series
from stream.config.sections.detection import DetectionConfig
from stream.monitor.prometheus.templates import Words, first_value, if_one, number, query_call
from stream.monitor.prometheus.windows import TimeScale

URGENT = ("composite", "other")
"""Dimensions that page: the composite, and `other`, which may be anything. The urgency of the share of good
interactions is decided by its objective."""

# How long a monitor may be unavailable before its last values expire.
_ABSENCE = "5m"
_WHAT = (
    '{{ if eq $labels.dimension "good_share" }}share of good interactions'
    "{{ else }}mean {{ $labels.dimension }}{{ end }}"
)
_ATTRIBUTED = (
    "{{ if eq (. | first | value) 1.0 }} The judges have changed: the answers may be as good as before."
    "{{ else }} The judges score labelled canaries as before, so the answers have changed.{{ end }}"
)
_IF_OTHER = '{{ if eq $labels.dimension "other" }}'


class Drops:
    """The alerts of one configuration."""

    def __init__(self, detection: DetectionConfig, scale: TimeScale) -> None:
        days = f"{detection.period_days:g} day{'' if detection.period_days == 1 else 's'}"
        self._promise = f"At most {detection.alpha:g} false alarms per series are expected in {days}."
        self._window = scale(_ABSENCE)

    def quality(self, *, urgent: bool) -> str:
        """Return the expression for raised alerts; its value is their number for `other`."""
        matcher = is_one_of("dimension", URGENT) if urgent else is_none_of("dimension", URGENT)
        return self._raised_expression(series(names.DETECTION_RAISED, matcher), "app", "dimension")

    def judges(self) -> str:
        return self._raised_expression(names.JUDGES_CHANGED, "dimension")

    def canaries_missing(self) -> str:
        return f"max({self._latest(names.CANARIES_MISSING)}) > 0"

    def versions(self) -> str:
        return self._raised_expression(names.VERSIONS_WORSE, "app", "comparison")

    def agreement(self) -> str:
        return self._raised_expression(names.JUDGE_AGREEMENT_FALLEN, "app", "criterion", "judge")

    def about_quality(self) -> Words:
        more = (
            '{{ $value | printf "%.0f" }} more series of {{ $labels.app }} '
            f"{if_one('is below its target', 'are below their targets')}, besides those of other alerts. "
            "`streamjury alerts list` shows all of them."
        )
        labels = ("app", "dimension")
        target = self._with_gauge(f"{names.DETECTION}_target", labels, f" of {first_value()}")
        bounds = self._bounds(names.DETECTION, labels)
        mean = self._with_gauge(f"{names.DETECTION}_mean", labels, f" The latest value is {first_value()}{bounds}.")
        attributed = self._with_gauge(f"{names.DETECTION}_attributed_to_judges", labels, _ATTRIBUTED)
        return Words(
            f"{_IF_OTHER}More series{{{{ else }}}}The {_WHAT}{{{{ end }}}} of {{{{ $labels.app }}}} has dropped",
            f"{_IF_OTHER}{more}{{{{ else }}}}There is strong evidence that the {_WHAT} of {{{{ $labels.app }}}} is "
            f"below its target{target}. {self._promise}{mean}{attributed} `streamjury alerts explain` shows since "
            "when, and the likely cause.{{ end }}",
        )

    def about_judges(self) -> Words:
        return Words(
            "The judges have changed their verdicts on {{ $labels.dimension }}",
            "Canaries get a different verdict on {{ $labels.dimension }} more often than unchanged judges "
            f"would give. {self._promise} Scores for {{{{ $labels.dimension }}}} from before and after are not "
            "comparable, and open alerts about its quality were withdrawn.",
        )

    def about_missing_canaries(self) -> Words:
        return Words(
            "Canaries are not judged",
            f"{number('canary', 'canaries')} {if_one('has', 'have')} had no evaluation for two rounds. They cannot "
            "show whether the judges have changed, so a quality drop may be caused by the judges.",
        )

    def about_agreement(self) -> Words:
        labels = ("app", "criterion", "judge")
        target = self._with_gauge(f"{names.JUDGE_AGREEMENT}_target", labels, f" of {first_value()}")
        return Words(
            "The judge {{ $labels.judge }} agrees less with people on {{ $labels.criterion }} of {{ $labels.app }}",
            "There is strong evidence that the agreement of the judge {{ $labels.judge }} with the labels of people on "
            f"{{{{ $labels.criterion }}}} of {{{{ $labels.app }}}} is below its target{target}. {self._promise} "
            "`streamjury alerts explain` shows since when, with examples.",
        )

    def about_versions(self) -> Words:
        bounds = self._bounds(names.VERSIONS_DIFFERENCE, ("app", "comparison"))
        return Words(
            "A model of {{ $labels.app }} is worse than the other: {{ $labels.comparison }}",
            "There is strong evidence that in {{ $labels.app }} the mean composite of model a of the comparison "
            f"{{{{ $labels.comparison }}}} is lower than that of b by more than the margin{bounds}.",
        )

    def _raised_expression(self, selector: str, *by: str) -> str:
        return f"max by ({', '.join(by)}) ({self._latest(selector)}) > 0"

    def _bounds(self, metric: str, labels: Sequence[str]) -> str:
        high = self._with_gauge(f"{metric}_high", labels, f" to {first_value()}")
        return self._with_gauge(f"{metric}_low", labels, f" (95% interval: {first_value()}{high})")

    def _with_gauge(self, metric: str, labels: Sequence[str], then: str) -> str:
        """Return text with the value of a gauge, left out while the gauge does not exist."""
        chosen = series(metric, *(f"{label}=%q" for label in labels))
        return f"{{{{ with {query_call(f'max({self._latest(chosen)})', *labels)} }}}}{then}{{{{ end }}}}"

    def _latest(self, selector: str) -> str:
        return f"last_over_time({selector}[{self._window}])"

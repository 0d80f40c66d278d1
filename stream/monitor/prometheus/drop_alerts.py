"""Alerts on the detectors' gauges: their conditions and texts.

A detector knows by itself when there is enough evidence, so nothing is waited for. It has its state back soon after a
restart; until then, what it said last is taken for what it says.
"""

from collections.abc import Sequence

from sinks.metrics import names
from sinks.metrics.promql import is_none_of, is_one_of, series
from stream.config.sections.detection import DetectionConfig
from stream.monitor.prometheus.templates import Words, asked_of, first_value, if_one, number
from stream.monitor.prometheus.windows import TimeScale

URGENT = ("composite", "other")
"""Dimensions that somebody is paged for. What is not told apart may be anything; how urgent the share of good
interactions is, its objective knows better."""

# How long a monitor may be away before what it said last counts no more.
_ABSENCE = "5m"
_WHAT = (
    '{{ if eq $labels.dimension "good_share" }}share of good interactions'
    "{{ else }}mean {{ $labels.dimension }}{{ end }}"
)
_IF_OTHER = '{{ if eq $labels.dimension "other" }}'


class Drops:
    """The alerts of one configuration."""

    def __init__(self, detection: DetectionConfig, scale: TimeScale) -> None:
        days = f"{detection.period_days:g} day{'' if detection.period_days == 1 else 's'}"
        self._promise = f"At most {detection.alpha:g} false alarms per series are expected in {days}."
        self._window = scale(_ABSENCE)

    def quality(self, *, urgent: bool) -> str:
        """Whose alert is raised; how many of an app, where they are not told apart."""
        matcher = is_one_of("dimension", URGENT) if urgent else is_none_of("dimension", URGENT)
        return self._raised(series(names.DETECTION_RAISED, matcher), "app", "dimension")

    def judges(self) -> str:
        return self._raised(names.JUDGES_CHANGED, "dimension")

    def canaries_missing(self) -> str:
        return f"max({self._latest(names.CANARIES_MISSING)}) > 0"

    def versions(self) -> str:
        return self._raised(names.VERSIONS_WORSE, "app", "comparison")

    def about_quality(self) -> Words:
        more = (
            '{{ $value | printf "%.0f" }} more series of {{ $labels.app }} '
            f"{if_one('is below its target', 'are below their targets')}, besides those of other alerts. "
            "`streamjury alerts list` shows all of them."
        )
        labels = ("app", "dimension")
        target = self._if_known(f"{names.DETECTION}_target", labels, f" of {first_value()}")
        bounds = self._bounds(names.DETECTION, labels)
        mean = self._if_known(f"{names.DETECTION}_mean", labels, f" The latest value is {first_value()}{bounds}.")
        return Words(
            f"{_IF_OTHER}More series{{{{ else }}}}The {_WHAT}{{{{ end }}}} of {{{{ $labels.app }}}} has dropped",
            f"{_IF_OTHER}{more}{{{{ else }}}}There is strong evidence that the {_WHAT} of {{{{ $labels.app }}}} is "
            f"below its target{target}. {self._promise}{mean} `streamjury alerts explain` shows since when, and the "
            "likely cause.{{ end }}",
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

    def about_versions(self) -> Words:
        bounds = self._bounds(names.VERSIONS_DIFFERENCE, ("app", "comparison"))
        return Words(
            "A model of {{ $labels.app }} is worse than the other: {{ $labels.comparison }}",
            "There is strong evidence that in {{ $labels.app }} the mean composite of model a of the comparison "
            f"{{{{ $labels.comparison }}}} is lower than that of b by more than the margin{bounds}.",
        )

    def _raised(self, selector: str, *by: str) -> str:
        return f"max by ({', '.join(by)}) ({self._latest(selector)}) > 0"

    def _bounds(self, metric: str, labels: Sequence[str]) -> str:
        high = self._if_known(f"{metric}_high", labels, f" to {first_value()}")
        return self._if_known(f"{metric}_low", labels, f" (95% interval: {first_value()}{high})")

    def _if_known(self, metric: str, labels: Sequence[str], then: str) -> str:
        """Words with the value of a gauge; none while it is not shown."""
        chosen = series(metric, *(f"{label}=%q" for label in labels))
        return f"{{{{ with {asked_of(f'max({self._latest(chosen)})', *labels)} }}}}{then}{{{{ end }}}}"

    def _latest(self, selector: str) -> str:
        return f"last_over_time({selector}[{self._window}])"

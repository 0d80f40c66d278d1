"""The watch plan: which series of an app are watched, and with which settings, from the configuration."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from sinks.base import COMPOSITE
from sinks.metrics.detection import GOOD_SHARE
from stream.config.model import Config
from stream.config.sections.budgets import MIN_KEEP
from stream.config.sections.detection import VersionsConfig
from stream.config.sections.sampling import SamplingConfig, SamplingRule, lowest_rate
from stream.monitor.alerts.alert import Series
from stream.monitor.alerts.labels.first_labels import LabelDesign
from stream.monitor.alerts.score_record import ScoreRecord
from stream.monitor.detection import Settings, VersionSettings, VersionSide, canary_settings
from stream.monitor.detection.attribution import AttributionSettings
from stream.monitor.detection.settings import DAY_SECONDS
from stream.records.conditions import compile_condition

# Rounding may put a composite of 0.7 slightly below it.
_DIGITS = 9
# A score must not outweigh all others, whatever sampling rate its record had.
_LEAST_RATE = 0.001
# Answers are sampled and then chosen for labelling, so labels are rarer.
_LEAST_LABEL_RATE = 1e-5
_REMEMBERED = 4096


class WatchPlan:
    """The settings of the detectors, from the configuration."""

    def __init__(self, config: Config) -> None:
        self._detection, self._objectives, self._sampling = config.detection, config.objectives, config.sampling
        self._learning = Settings(
            target=None,
            alpha=config.detection.alpha,
            period_seconds=config.detection.period_days * DAY_SECONDS,
            margin=config.detection.margin,
            floor=_LEAST_RATE,
            reference_scores=config.detection.reference_scores,
            tolerance=config.detection.tolerance,
        )
        self.settings = lru_cache(_REMEMBERED)(self._settings)
        """The settings of a series; with `learning`, without the target that it has in the configuration."""
        self._lowest = lru_cache(_REMEMBERED)(self._lowest_probability)
        self.top = config.detection.top
        self.versions = config.detection.versions
        self.label_days = config.labels.window_days
        self._agreement = config.labels.agreement
        self._queued = config.lowest_label_rate
        self._kept = MIN_KEEP if config.budgets.thins else 1.0
        self.attribution = self._attribution_settings()

    def canary_settings(self) -> Settings:
        canaries = self._detection.canaries
        settings = canary_settings() if canaries is None else canary_settings(canaries.stability)
        return replace(settings, alpha=self._detection.alpha, period_seconds=self._learning.period_seconds)

    def _attribution_settings(self) -> AttributionSettings:
        """Return the settings for labelled canaries."""
        canaries, alpha = self._detection.canaries, self._detection.alpha
        if canaries is None:
            return AttributionSettings(alpha=alpha)
        return AttributionSettings(alpha=alpha, baseline=canaries.stability, guard=canaries.guard_scores)

    def review_settings(self) -> Settings:
        """Return the settings for the gap between scores and labels of reviewed answers, which has half their scale."""
        settings = replace(self.agreement_settings(), target=None, margin=self._learning.margin)
        return replace(settings, tolerance=self._agreement.tolerance / 2.0)

    def agreement_settings(self) -> Settings:
        """Return the settings for a judge's agreement with people."""
        target, margin = self._agreement.target, self._learning.margin
        return replace(
            self._learning,
            target=target,
            margin=margin if target is None else min(margin, target / 2),
            reference_scores=self._agreement.reference_labels,
            tolerance=self._agreement.tolerance,
            floor=_LEAST_LABEL_RATE,
        )

    def label_design(self, app: str) -> LabelDesign:
        """Return the smallest probabilities with which answers of an app are sampled, and queued for labelling."""
        sampled = self._kept * (lowest_rate(_rates_of(self._sampling, app)) or 1.0)
        return LabelDesign(sampled, sampled * self._queued)

    def scores(self, record: ScoreRecord) -> list[tuple[Series, float]]:
        """Return the series of a record with its score in each; criteria come before what is computed from them."""
        app, composite = record.app, record.scores.get(COMPOSITE)
        scores = [
            (Series(app=app, dimension=name), score) for name, score in record.scores.items() if name != COMPOSITE
        ]
        if composite is None:
            return scores
        is_good = round(composite, _DIGITS) >= self._objectives.for_app(app)[0]
        scores += [
            (Series(app=app, dimension=COMPOSITE, attribute=name, value=value), composite)
            for name in self._detection.by
            if (value := getattr(record, name)) is not None
        ]
        whole = Series(app=app, dimension=COMPOSITE)
        return [*scores, (whole, composite), (Series(app=app, dimension=GOOD_SHARE), float(is_good))]

    def comparisons(self, record: ScoreRecord) -> list[tuple[VersionsConfig, VersionSide]]:
        """Return the comparisons that a record belongs to, and its side in each."""
        return [
            (versions, VersionSide.A if record.model == versions.a else VersionSide.B)
            for versions in self.versions
            if record.model in {versions.a, versions.b} and versions.app in {None, record.app}
        ]

    def version_settings(self, versions: VersionsConfig, app: str) -> VersionSettings:
        return VersionSettings(
            margin=versions.margin,
            alpha=self._detection.alpha,
            lowest_probability=self._lowest(app),
            floor=_LEAST_RATE,
        )

    def _settings(self, series: Series, *, learning: bool = False) -> Settings:
        settings = replace(self._learning, lowest_probability=self._lowest(series.app))
        target = None if learning else self._target(series)
        return settings if target is None else replace(settings, target=target, margin=min(settings.margin, target / 2))

    def _target(self, series: Series) -> float | None:
        if series.attribute is not None:  # targets are for the app; those of one model or tenant are learnt
            return None
        if series.dimension == GOOD_SHARE:
            return self._objectives.for_app(series.app)[1]
        return self._detection.target(series.app, series.dimension)

    def _lowest_probability(self, app: str) -> float:
        return max(_LEAST_RATE, lowest_rate(_rates_of(self._sampling, app)) or 1.0)


def _rates_of(sampling: SamplingConfig, app: str) -> Iterator[SamplingConfig | SamplingRule]:
    """Yield the rules that may set the sampling rate of an app's records."""
    for rule in sampling.rules:
        wanted = rule.match.app
        if wanted is None or compile_condition(wanted).holds(app):
            yield rule
            if rule.match.model_fields_set == {"app"}:  # the following rules get no record of this app
                return
    yield sampling

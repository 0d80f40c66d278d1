"""All rules of a configuration, in groups that are evaluated independently."""

from collections.abc import Collection, Mapping

from sinks.base import COMPOSITE
from stream.config.model import Config
from stream.monitor.prometheus.alerts import Alerts
from stream.monitor.prometheus.drop_alerts import Drops
from stream.monitor.prometheus.recording_rules import (
    budget_rules,
    cost_rules,
    evaluator_rules,
    floor_rules,
    judge_rules,
    objective_rules,
    pipeline_rules,
    score_rules,
    spending_rules,
)
from stream.monitor.prometheus.rule_file import AlertRule, Recording, RuleFile, RuleGroup
from stream.monitor.prometheus.windows import ALL_WINDOWS, TimeScale

# Long windows change slowly and are costly to read.
_INTERVAL, _SLOW_INTERVAL = "30s", "2m"


def generate(config: Config, criteria: Collection[str]) -> RuleFile:
    """Generate the rules of a configuration with these criteria; the result is reproducible."""
    scale = TimeScale(config.alerts.time_scale)
    alerts = Alerts(config.objectives, config.alerts, scale)
    drops = Drops(config.detection, scale)
    floors, notes = _floors(config.objectives.floors, {*criteria, COMPOSITE})
    notes += _about_windows(scale)

    def group(name: str, *rules: Recording | AlertRule, interval: str = _INTERVAL) -> RuleGroup:
        return RuleGroup(name=f"streamjury_{name}", interval=scale.interval(interval), rules=rules)

    groups = (
        group(
            "scores",
            *score_rules("1h", scale("1h")),
            *floor_rules(floors),
            *alerts.below_floor(floors),
            alerts.coverage_low(),
        ),
        group("scores_of_a_day", *score_rules("1d", scale("1d")), interval=_SLOW_INTERVAL),
        group("objectives", *objective_rules(config.objectives, scale), *alerts.quality_drop()),
        group("budget", *budget_rules(config.objectives, scale), interval=_SLOW_INTERVAL),
        group(
            "detection",
            *alerts.drop_detected(drops),
            alerts.judges_changed(drops),
            alerts.canaries_missing(drops),
            alerts.judge_agrees_less(drops),
            alerts.model_worse(drops),
        ),
        group("safety", *alerts.safety_incident(), alerts.safety_unknown()),
        group(
            "judges",
            *judge_rules(scale),
            *evaluator_rules(scale),
            alerts.judge_paused(),
            alerts.judge_failing(),
            alerts.panel_disagreement(),
            alerts.evaluator_changed(),
        ),
        group(
            "cost",
            *cost_rules(config.alerts, scale),
            *spending_rules(),
            *alerts.cost_budget(),
            alerts.budget_used_up(config.budgets.safety_share),
        ),
        group(
            "pipeline",
            *pipeline_rules(scale),
            *alerts.evaluator_silent(config.sampling.lowest_rate),
            alerts.lag_growing(),
            alerts.dead_letters_growing(),
            alerts.target_down(),
        ),
    )
    return RuleFile(groups=groups, notes=(*notes, *alerts.notes))


def _floors(configured: Mapping[str, float], judged: Collection[str]) -> tuple[dict[str, float], list[str]]:
    """Return the floors that a mean can fall below, and notes about the others."""
    floors, notes = dict(configured), []
    for dimension, floor in configured.items():
        why_not = "it is not judged" if dimension not in judged else "no mean is below 0" if floor == 0 else None
        if why_not:
            del floors[dimension]
            notes.append(f"StreamjuryDimensionBelowFloor of {dimension} is left out: {why_not}")
    return floors, notes


def _about_windows(scale: TimeScale) -> list[str]:
    short = [f"{name} is {scale(name)}" for name in ALL_WINDOWS if scale.too_short(name)]
    if not short:
        return []
    return [f"alerts.time_scale makes these windows too short to hold two scrapes: {', '.join(short)}"]

"""All rules of a configuration, in groups that are evaluated by themselves."""

from stream.alerting.alerts import Alerts
from stream.alerting.recording import (
    budget_rules,
    cost_rules,
    floor_rules,
    judge_rules,
    objective_rules,
    pipeline_rules,
    score_rules,
)
from stream.alerting.rulefile import Alert, Group, Recording, RuleFile
from stream.alerting.windows import TimeScale
from stream.config import Config

# Long windows change slowly and are costly to read.
_INTERVAL, _SLOW_INTERVAL = "30s", "2m"


def generate(config: Config) -> RuleFile:
    """The rules of a configuration; the same ones each time."""
    scale = TimeScale(config.alerts.time_scale)
    alerts = Alerts(config.objectives, config.alerts, scale)

    def group(name: str, *rules: Recording | Alert, interval: str = _INTERVAL) -> Group:
        return Group(name=f"streamjury_{name}", interval=scale.interval(interval), rules=rules)

    groups = (
        group(
            "scores",
            *score_rules("1h", scale("1h")),
            *floor_rules(config.objectives),
            *alerts.below_floor(),
            alerts.coverage_low(),
        ),
        group("scores_of_a_day", *score_rules("1d", scale("1d")), interval=_SLOW_INTERVAL),
        group("objectives", *objective_rules(config.objectives, scale), *alerts.quality_drop()),
        group("budget", *budget_rules(config.objectives, scale), interval=_SLOW_INTERVAL),
        group("safety", alerts.safety_incident(), alerts.safety_unknown()),
        group(
            "judges",
            *judge_rules(scale),
            alerts.judge_paused(),
            alerts.judge_failing(),
            alerts.panel_disagreement(),
            alerts.evaluator_changed(),
        ),
        group("cost", *cost_rules(config.alerts, scale), *alerts.cost_budget()),
        group(
            "pipeline",
            *pipeline_rules(scale),
            alerts.evaluator_silent(),
            alerts.lag_growing(),
            alerts.dead_letters_growing(),
            alerts.target_down(),
        ),
    )
    return RuleFile(groups=groups, notes=tuple(alerts.notes))

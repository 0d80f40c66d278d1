"""Generates the rules for Prometheus from the configuration: means with intervals, burn rates and alerts.

- `rule_set`: all rules of a configuration, in groups
- `recording_rules`: weighted means, intervals, burn rates and shared figures
- `alerts`: the alerts: their conditions, urgency and texts
- `drop_alerts`: the alerts on the detectors' gauges
- `templates`: texts of alerts, with numbers and labels in them
- `windows`: the time windows of rules and burn rates
- `rule_file`: the parts of a rule file, and its YAML
"""

from stream.monitor.prometheus.rule_set import generate

__all__ = ["generate"]

"""The rules that Prometheus follows, made from the configuration: means with intervals, burn rates and alerts."""

from stream.monitor.prometheus.rule_set import generate

__all__ = ["generate"]

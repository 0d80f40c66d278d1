"""The rules that Prometheus follows, made from the configuration: means with intervals, burn rates and alerts."""

from stream.alerting.ruleset import generate

__all__ = ["generate"]

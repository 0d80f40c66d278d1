"""Prometheus rules for a configuration."""

from stream.config.model import Config
from stream.monitor.prometheus import generate
from stream.monitor.prometheus.rule_file import RuleFile
from stream.service.setup.criteria_files import load_chosen_criteria


def rules_of(config: Config) -> RuleFile:
    return generate(config, load_chosen_criteria(config.criteria))

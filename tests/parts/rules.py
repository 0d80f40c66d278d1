"""The rules for Prometheus that a configuration asks for."""

from stream.config.model import Config
from stream.monitor.prometheus import generate
from stream.monitor.prometheus.rule_file import RuleFile
from stream.service.setup.criteria_files import chosen_criteria


def rules_of(config: Config) -> RuleFile:
    return generate(config, chosen_criteria(config.criteria))

"""The rules for Prometheus that a configuration asks for."""

from stream.alerting import generate
from stream.alerting.rulefile import RuleFile
from stream.config import Config
from stream.criteria_files import chosen_criteria


def rules_of(config: Config) -> RuleFile:
    return generate(config, chosen_criteria(config.criteria))

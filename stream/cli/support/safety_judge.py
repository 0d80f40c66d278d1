"""Warns if the rules of the local judge alone decide about safety on a real broker."""

import logging

from stream.cli.support.cluster import Cluster
from stream.cli.support.salt import is_on_this_machine
from stream.config.judge_kinds.local import LocalJudgeConfig
from stream.config.model import Config
from stream.service.setup.evaluator import criteria_by_judge

log = logging.getLogger(__name__)

_REMEDY = (
    "its rules find 5 to 29 % of the harm that they have not seen; add a model to the panel, such as a guard model "
    "with `method: guardian` (docs/local-judge.md)"
)


def describe_weak_safety(config: Config) -> str | None:
    """Describe a panel whose only judges of the safety criterion are local ones."""
    asked = criteria_by_judge(config)
    safety = [judge for judge in config.judges.panel if config.composite.safety in asked.get(judge.name, ())]
    if not safety or not all(isinstance(judge, LocalJudgeConfig) for judge in safety):
        return None
    return f"only the local judge decides about {config.composite.safety}: {_REMEDY}"


def describe_configured_weak_safety(config: Config) -> str | None:
    """Do the same without asking the broker; one on this machine may be embedded."""
    return None if is_on_this_machine(config) else describe_weak_safety(config)


def warn_of_weak_safety(cluster: Cluster, config: Config) -> None:
    problem = None if cluster.embedded else describe_weak_safety(config)
    if problem is not None:
        log.warning("%s", problem)

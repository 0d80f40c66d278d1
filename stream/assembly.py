"""Assembly: the evaluator that a configuration describes."""

from importlib import metadata

from judges.composite import CompositeRule
from judges.criteria import load_catalogue
from judges.direct import DirectJudge
from judges.evaluator import Evaluator
from judges.judge import Judge
from judges.local import LocalJudge
from judges.models.openai import OpenAIModel
from judges.panel import Panel
from stream.config import Config, LocalJudgeConfig, OpenAIJudgeConfig

VERSION = metadata.version("streamjury")


def build_evaluator(config: Config) -> Evaluator:
    """The configured panel on the six dimensions."""
    panel = Panel(
        judges=tuple(_judge(judge) for judge in config.judges.panel),
        combine=config.judges.combine,
        quorum=config.judges.quorum,
    )
    return Evaluator(
        load_catalogue("rag"),
        panel,
        rule=CompositeRule(weights=config.composite.weights, required=frozenset(config.composite.required)),
        safety_vote=config.composite.safety_vote,
        language=config.judges.language,
        version=VERSION,
        excerpt_chars=config.worker.excerpt_chars,
    )


def _judge(config: LocalJudgeConfig | OpenAIJudgeConfig) -> Judge:
    if isinstance(config, LocalJudgeConfig):
        return LocalJudge(name=config.name)
    model = OpenAIModel(
        config.model,
        base_url=config.base_url,
        api_key=config.api_key.get_secret_value() if config.api_key else None,
        timeout_seconds=config.timeout_seconds,
        temperature=config.temperature,
        seed=config.seed,
        max_tokens=config.max_tokens,
        structured=config.structured,
    )
    return DirectJudge(model, name=config.name, repairs=config.repairs)

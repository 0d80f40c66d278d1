"""Assembly: the evaluator that a configuration describes."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from judges.cache import CachedJudge, DiskStore, MemoryStore, VerdictStore
from judges.composite import MultiCriteria
from judges.criteria import Criterion
from judges.evaluator import Evaluator
from judges.judge import Judge
from judges.llm.aspect import AspectCritic
from judges.llm.direct import DirectJudge
from judges.llm.guardian import GuardianJudge
from judges.llm.rubric import RubricJudge
from judges.local import LocalJudge
from judges.models.anthropic import AnthropicModel
from judges.models.endpoint import EndpointModel, ModelOptions
from judges.models.flow import Flow, FlowLimits
from judges.models.ollama import OllamaModel
from judges.models.openai import OpenAIModel
from judges.models.redaction import Redactor
from judges.panel import Panel
from judges.panel.cascade import Cascade
from judges.problems import InconsistentError, Loc
from stream.composition import composed
from stream.config import Config
from stream.criteria_files import chosen_criteria
from stream.errors import StageError
from stream.judgesconfig import (
    AnthropicJudgeConfig,
    CacheConfig,
    CascadeConfig,
    JudgeConfig,
    JudgesConfig,
    LocalJudgeConfig,
    ModelJudgeConfig,
    OpenAIJudgeConfig,
)

VERSION = metadata.version("streamjury")

_PROMPT_TO_COMPLETION = 10
# Longer than any key; a file of that size is not one.
_MAX_KEY_BYTES = 64 * 1024


def build_evaluator(config: Config, verdicts: VerdictStore | None = None) -> Evaluator:
    """The configured panel on the configured criteria; raises InconsistentError where they do not go together.

    With a store, judges that ask a model give verdicts again that are in it.
    """
    multi = composed(chosen_criteria(config.criteria), config.composite)
    strangers: list[tuple[Loc, str]] = [
        (("judges", *loc), message) for loc, message in config.judges.strangers(multi.criteria)
    ]
    if strangers:
        raise InconsistentError(strangers)
    panel = _panel(config.judges, multi, verdicts)
    problems = [*_idle(panel, config.judges, multi.criteria), *_unjudged(panel, multi.criteria)]
    if problems:
        raise InconsistentError(problems)
    return Evaluator(
        multi,
        panel,
        safety_vote=config.composite.safety_vote,
        language=config.judges.language,
        version=VERSION,
        excerpt_chars=config.worker.excerpt_chars,
    )


# The judges


def open_verdicts(config: CacheConfig) -> VerdictStore | None:
    """Where verdicts are kept to be given again, if they are."""
    if not config.entries:
        return None
    if config.path is None:
        return MemoryStore(config.entries, config.seconds)
    try:
        return DiskStore(Path(config.path), config.entries, config.seconds)
    except OSError as error:
        raise StageError(f"judges.cache.path: {error}") from error


def _panel(config: JudgesConfig, multi: MultiCriteria, verdicts: VerdictStore | None) -> Panel:
    means = _Means(redactor=Redactor(config.redaction.kinds, config.redaction.custom), verdicts=verdicts)
    return Panel(
        judges=_judges(config.panel, ("judges", "panel"), means),
        reserves=_judges(config.reserves, ("judges", "reserves"), means),
        combine=config.combine,
        weights=config.weights,
        quorum=config.quorum,
        exclude_family=config.exclude_family,
        stop_early=config.stop_early,
        cascade=_cascade(config.cascade),
        frugal=_frugal(config.panel),
        safety=frozenset() if multi.safety is None else frozenset({multi.safety}),
    )


def _cascade(config: CascadeConfig | None) -> Cascade | None:
    if config is None:
        return None
    return Cascade(
        first=config.first, min_agreement=config.min_agreement, threshold=config.threshold, margin=config.margin
    )


def _frugal(panel: Sequence[JudgeConfig]) -> Cascade | None:
    """The cheapest judge first; of several, the one that is named first."""
    if len(panel) < 2:
        return None
    return Cascade(first=(min(panel, key=_dearness).name,))


def _dearness(judge: JudgeConfig) -> float:
    """What a verdict costs beside those of others: prompts are several times as long as what is written."""
    if isinstance(judge, LocalJudgeConfig) or judge.known_price is None:
        return 0.0
    return (_PROMPT_TO_COMPLETION * judge.known_price.prompt + judge.known_price.completion) * judge.samples


@dataclass(frozen=True, slots=True, kw_only=True)
class _Means:
    """What the judges of a panel share."""

    redactor: Redactor
    verdicts: VerdictStore | None
    flows: dict[str, Flow] = field(default_factory=dict)

    def flow(self, config: ModelJudgeConfig) -> Flow:
        """The one in front of the judge's endpoint."""
        if config.address not in self.flows:
            limits = FlowLimits(**config.limits.model_dump())
            self.flows[config.address] = Flow(limits, name=urlsplit(config.address).netloc)
        return self.flows[config.address]


def _judges(configs: Sequence[JudgeConfig], loc: Loc, means: _Means) -> tuple[Judge, ...]:
    return tuple(_judge(config, (*loc, place), means) for place, config in enumerate(configs))


def _judge(config: JudgeConfig, loc: Loc, means: _Means) -> Judge:
    if isinstance(config, LocalJudgeConfig):
        return LocalJudge(name=config.name)
    judge = _asking(config, _model(config, _key(config, loc), means))
    judge.only = None if config.criteria is None else frozenset(config.criteria)
    return judge if means.verdicts is None else CachedJudge(judge, means.verdicts)


def _redacts(config: ModelJudgeConfig) -> bool:
    return config.redact == "always" or (config.redact == "auto" and not config.is_private)


def _asking(config: ModelJudgeConfig, model: EndpointModel) -> Judge:
    """A judge that asks a model, in the way its method says."""
    shared: dict[str, Any] = {
        "name": config.name,
        "repairs": config.repairs,
        "min_valid": config.min_valid,
        "score_from": config.score_from,
        "family": config.family,
    }
    if config.method == "rubric":
        return RubricJudge(model, samples=config.samples, combine=config.combine, **shared)
    if config.method == "guardian":
        certainty, combine = config.min_certainty, config.combine or "majority"
        return GuardianJudge(model, samples=config.samples, combine=combine, min_certainty=certainty, **shared)
    shared |= {
        "combine": config.combine,
        "min_pass": config.min_pass,
        "check_position": config.check_position,
        "on_bias": config.on_bias,
        "feedback": config.feedback,
        "persona": config.persona,
    }
    if config.method == "aspect":
        return AspectCritic(model, strictness=config.samples, **shared)
    return DirectJudge(model, samples=config.samples, **shared)


def _model(config: ModelJudgeConfig, api_key: str | None, means: _Means) -> EndpointModel:
    options: ModelOptions = {
        "api_key": api_key,
        "timeout_seconds": config.timeout_seconds,
        "connect_seconds": config.connect_seconds,
        "read_seconds": config.read_seconds,
        "proxy": config.proxy,
        "temperature": config.temperature,
        "sampling_temperature": config.sampling_temperature,
        "seed": config.seed,
        "max_tokens": config.max_tokens,
        "structured": config.structured,
        "redactor": means.redactor if _redacts(config) else None,
        "flow": means.flow(config),
        "price": config.known_price,
    }
    if isinstance(config, OpenAIJudgeConfig):
        return OpenAIModel(config.model, base_url=config.base_url, preset=config.preset, **options)
    kind = AnthropicModel if isinstance(config, AnthropicJudgeConfig) else OllamaModel
    return kind(config.model, base_url=config.address, **options)


def _key(config: ModelJudgeConfig, loc: Loc) -> str | None:
    """The key, wherever it is; what is wrong with a file is said without a word of what is in it."""
    if config.api_key_file is None:
        return config.api_key.get_secret_value() if config.api_key else None
    try:
        with Path(config.api_key_file).open("rb") as file:
            key = file.read(_MAX_KEY_BYTES).strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        problem = f"cannot be read: {reason} ({config.api_key_file})"
    else:
        if re.fullmatch(rb"[!-~]+", key):
            return key.decode("ascii")
        problem = f"must hold a key in visible ASCII characters, and nothing else ({config.api_key_file})"
    raise InconsistentError([((*loc, "api_key_file"), problem)])


# Whether judges and criteria go together: known before anybody is asked


def _idle(panel: Panel, config: JudgesConfig, criteria: Mapping[str, Criterion]) -> Iterator[tuple[Loc, str]]:
    """Judges that are kept for what they cannot judge, and those that would never be asked."""
    seats = (("panel", panel.judges, config.panel), ("reserves", panel.reserves, config.reserves))
    for key, judges, configs in seats:
        for place, (judge, settings) in enumerate(zip(judges, configs, strict=True)):
            wanted = None if isinstance(settings, LocalJudgeConfig) else settings.criteria
            loc: Loc = ("judges", key, place)
            if wanted is not None:
                yield from (((*loc, "criteria", at), why) for at, why in _impossible(judge, wanted, criteria))
            elif len(panel.members) > 1 and all(judge.why_not(criterion) for criterion in criteria.values()):
                yield loc, f"can judge by none of the criteria ({judge.why_not(next(iter(criteria.values())))})"


def _impossible(judge: Judge, names: Sequence[str], criteria: Mapping[str, Criterion]) -> Iterator[tuple[int, str]]:
    for number, name in enumerate(names):
        reason = judge.why_not(criteria[name])
        if reason is not None:
            yield number, f"this judge cannot judge by it: {reason}"


def _unjudged(panel: Panel, criteria: Mapping[str, Criterion]) -> Iterator[tuple[Loc, str]]:
    """Criteria that would never have a verdict, at the key that keeps them from it."""
    apart = _apart(criteria.values())
    if apart is not None:
        yield ("judges", "combine"), apart
    for criterion in criteria.values():
        problem = panel.why_not(criterion)
        if problem is None:
            continue
        able = sum(judge.refusal(criterion) is None for judge in panel.judges)
        key = "panel" if not able else "quorum" if able < (panel.quorum or 1) else "combine"
        if key == "combine" and apart is not None:
            continue  # another way to combine would only move the problem to another criterion
        yield ("judges", key), f"{criterion.name} would never have a verdict: {problem}"


def _apart(criteria: Iterable[Criterion]) -> str | None:
    """What is wrong with criteria of which some can only be voted on and others only be averaged."""
    every = list(criteria)
    ranges = [each.name for each in every if each.scale.kind == "range"]
    voted = [each.name for each in every if each.scale.bounds is None]
    if not ranges or not voted:
        return None
    return (
        f"one panel cannot combine both {', '.join(ranges)} (a range, which has no majority) and {', '.join(voted)} "
        "(options without scores, which have no mean); drop one of them, or give the options scores"
    )

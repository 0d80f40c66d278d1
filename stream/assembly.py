"""Assembly: the evaluator that a configuration describes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any

from judges.composite import MultiCriteria
from judges.criteria import Criterion
from judges.evaluator import Evaluator
from judges.judge import Judge
from judges.llm.aspect import AspectCritic
from judges.llm.direct import DirectJudge
from judges.llm.guardian import GuardianJudge
from judges.llm.rubric import RubricJudge
from judges.local import LocalJudge
from judges.models.base import Price
from judges.models.openai import OpenAIModel
from judges.panel import Panel
from judges.panel.cascade import Cascade
from judges.problems import InconsistentError, Loc
from stream.composition import chosen_criteria, composed
from stream.config import Config
from stream.judgesconfig import CascadeConfig, JudgeConfig, JudgesConfig, OpenAIJudgeConfig

VERSION = metadata.version("streamjury")


def build_evaluator(config: Config) -> Evaluator:
    """The configured panel on the configured criteria; raises InconsistentError where they do not go together."""
    multi = composed(chosen_criteria(config.criteria.use, config.criteria.files), config.composite)
    panel = _panel(config.judges, multi)
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


def _panel(config: JudgesConfig, multi: MultiCriteria) -> Panel:
    return Panel(
        judges=tuple(_judge(judge) for judge in config.panel),
        reserves=tuple(_judge(judge) for judge in config.reserves),
        combine=config.combine,
        weights=config.weights,
        quorum=config.quorum,
        exclude_family=config.exclude_family,
        stop_early=config.stop_early,
        cascade=_cascade(config.cascade),
        safety=frozenset() if multi.safety is None else frozenset({multi.safety}),
    )


def _cascade(config: CascadeConfig | None) -> Cascade | None:
    if config is None:
        return None
    return Cascade(
        first=config.first, min_agreement=config.min_agreement, threshold=config.threshold, margin=config.margin
    )


def _judge(config: JudgeConfig) -> Judge:
    if not isinstance(config, OpenAIJudgeConfig):
        return LocalJudge(name=config.name)
    judge = _asking(config)
    judge.only = None if config.criteria is None else frozenset(config.criteria)
    return judge


def _asking(config: OpenAIJudgeConfig) -> Judge:
    """A judge that asks a model, in the way its method says."""
    model = _model(config)
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


def _model(config: OpenAIJudgeConfig) -> OpenAIModel:
    price = config.price
    return OpenAIModel(
        config.model,
        base_url=config.base_url,
        api_key=config.api_key.get_secret_value() if config.api_key else None,
        timeout_seconds=config.timeout_seconds,
        temperature=config.temperature,
        sampling_temperature=config.sampling_temperature,
        seed=config.seed,
        max_tokens=config.max_tokens,
        structured=config.structured,
        price=None if price is None else Price(prompt=price.prompt, completion=price.completion),
    )


# Whether judges and criteria go together: known before anybody is asked


def _idle(panel: Panel, config: JudgesConfig, criteria: Mapping[str, Criterion]) -> Iterator[tuple[Loc, str]]:
    """Judges that are kept for what they cannot judge, and those that would never be asked."""
    seats = (("panel", panel.judges, config.panel), ("reserves", panel.reserves, config.reserves))
    for key, judges, configs in seats:
        for place, (judge, settings) in enumerate(zip(judges, configs, strict=True)):
            wanted = settings.criteria if isinstance(settings, OpenAIJudgeConfig) else None
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

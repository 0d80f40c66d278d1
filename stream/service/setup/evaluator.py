"""Makes the evaluator that a configuration describes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from judges.cache import DiskStore, MemoryStore, VerdictStore
from judges.composite import MultiCriteria
from judges.criteria.criterion import Criterion
from judges.criteria.problems import InconsistentError, Loc
from judges.encoder import ModelFileError
from judges.evaluator import Evaluator
from judges.judge import Judge
from judges.models.redaction import Redactor
from judges.panel import Panel
from judges.panel.cascade import Cascade
from stream.config.criteria import compose_criteria
from stream.config.judge_kinds.base import SharedParts
from stream.config.model import Config
from stream.config.sections.criteria import RETRIEVAL_CRITERIA
from stream.config.sections.judges import CacheConfig, CascadeConfig, JudgeConfig, JudgesConfig
from stream.errors import StageError
from stream.service.setup.criteria_files import load_chosen_criteria

VERSION = metadata.version("streamjury")


def build_evaluator(config: Config, verdicts: VerdictStore | None = None) -> Evaluator:
    """Build the configured panel for the configured criteria; raises InconsistentError if they do not fit together.

    With a store, judges that ask a model reuse its verdicts.
    """
    multi = compose_criteria(load_chosen_criteria(config.criteria), config.composite)
    unknown_criteria: list[tuple[Loc, str]] = [
        (("judges", *loc), message) for loc, message in config.judges.find_unknown_criteria(multi.criteria)
    ]
    if unknown_criteria:
        raise InconsistentError(unknown_criteria)
    rules = config.judges.redaction
    redactor = Redactor(rules.kinds, rules.custom, heavy_share=rules.heavy_share)
    shared = SharedParts(redactor=redactor, verdicts=verdicts)
    panel = _panel(config.judges, multi, shared)
    multi = _leave_out_unjudged(config, multi, panel)
    problems = [
        *_find_idle_judges(panel, config.judges, multi.criteria),
        *_find_unjudged_criteria(panel, multi.criteria),
    ]
    if problems:
        raise InconsistentError(problems)
    return Evaluator(
        multi,
        panel,
        safety_vote=config.composite.safety_vote,
        language=config.judges.language,
        version=VERSION,
        excerpt_chars=config.worker.excerpt_chars,
        flows=shared.flows,
    )


def open_evaluator(config: Config, verdicts: VerdictStore | None = None) -> Evaluator:
    """Build the evaluator and load its models; raises StageError if one cannot be loaded."""
    evaluator = build_evaluator(config, verdicts)
    try:
        evaluator.load()
    except ModelFileError as error:
        raise StageError(f"cannot load a judge: {error}") from error
    return evaluator


def _leave_out_unjudged(config: Config, multi: MultiCriteria, panel: Panel) -> MultiCriteria:
    """Leave out the default criteria of the contexts that the panel cannot judge.

    A configuration of an earlier version, without `criteria.use`, may restrict its judges to the criteria of then.
    """
    if "use" in config.criteria.model_fields_set:
        return multi
    optional = {name.rpartition(".")[2] for name in RETRIEVAL_CRITERIA}
    judged = {
        name: criterion
        for name, criterion in multi.criteria.items()
        if name not in optional or panel.why_not(criterion) is None
    }
    return multi if len(judged) == len(multi.criteria) else compose_criteria(judged, config.composite)


# The judges


def open_verdicts(config: CacheConfig) -> VerdictStore | None:
    """Open the cache of verdicts, or return None if it is off."""
    if not config.entries:
        return None
    if config.path is None:
        return MemoryStore(config.entries, config.seconds)
    try:
        return DiskStore(Path(config.path), config.entries, config.seconds)
    except OSError as error:
        raise StageError(f"judges.cache.path: {error}") from error


def _panel(config: JudgesConfig, multi: MultiCriteria, shared: SharedParts) -> Panel:
    return Panel(
        judges=_without_idle(_judges(config.panel, ("judges", "panel"), shared), config, multi),
        reserves=_judges(config.reserves, ("judges", "reserves"), shared),
        combine=config.combine_rule,
        weights=config.weights,
        quorum=config.quorum,
        exclude_family=config.exclude_family,
        stop_early=config.stop_early,
        cascade=_cascade(config.cascade),
        frugal=_frugal(config.panel) if config.is_panel_configured else None,
        safety=frozenset() if multi.safety is None else frozenset({multi.safety}),
    )


def _without_idle(judges: tuple[Judge, ...], config: JudgesConfig, multi: MultiCriteria) -> tuple[Judge, ...]:
    """Leave out judges of the default panel that have nothing to judge; to configure such a judge is a mistake."""
    if config.is_panel_configured:
        return judges
    return tuple(judge for judge in judges if not all(map(judge.why_not, multi.criteria.values()))) or judges


def _cascade(config: CascadeConfig | None) -> Cascade | None:
    if config is None:
        return None
    return Cascade(
        first=config.first, min_agreement=config.min_agreement, threshold=config.threshold, margin=config.margin
    )


def _frugal(panel: Sequence[JudgeConfig]) -> Cascade | None:
    """Ask the cheapest judge first; of several, the one listed first."""
    if len(panel) < 2:
        return None
    return Cascade(first=(min(panel, key=lambda judge: judge.relative_cost).name,))


def _judges(configs: Sequence[JudgeConfig], loc: Loc, shared: SharedParts) -> tuple[Judge, ...]:
    return tuple(_judge(config, (*loc, place), shared) for place, config in enumerate(configs))


def _judge(config: JudgeConfig, loc: Loc, shared: SharedParts) -> Judge:
    try:
        return config.build(shared)
    except InconsistentError as error:
        raise InconsistentError(((*loc, *inner), message) for inner, message in error.found) from error


def criteria_by_judge(config: Config) -> dict[str, list[str]]:
    """Return the names of the criteria that each judge is asked about; raises InconsistentError like the evaluator."""
    criteria = load_chosen_criteria(config.criteria)
    judges = _judges(config.judges.everyone, ("judges",), SharedParts(redactor=Redactor(()), verdicts=None))
    return {
        judge.name: [name for name, criterion in criteria.items() if judge.refusal(criterion) is None]
        for judge in judges
    }


# Checks that judges and criteria fit together, before any judge is asked


def _find_idle_judges(
    panel: Panel, config: JudgesConfig, criteria: Mapping[str, Criterion]
) -> Iterator[tuple[Loc, str]]:
    """Find judges restricted to criteria that they cannot judge, and judges that would never be asked."""
    seated = (("panel", panel.judges, config.panel), ("reserves", panel.reserves, config.reserves))
    seats = seated if config.is_panel_configured else seated[1:]
    for key, judges, configs in seats:
        for place, (judge, settings) in enumerate(zip(judges, configs, strict=True)):
            wanted = settings.only_criteria
            loc: Loc = ("judges", key, place)
            if wanted is not None:
                yield from (
                    ((*loc, "criteria", index), reason) for index, reason in _find_unsupported(judge, wanted, criteria)
                )
            elif len(panel.members) > 1 and all(judge.why_not(criterion) for criterion in criteria.values()):
                yield loc, f"cannot judge any of the criteria ({judge.why_not(next(iter(criteria.values())))})"


def _find_unsupported(
    judge: Judge, names: Sequence[str], criteria: Mapping[str, Criterion]
) -> Iterator[tuple[int, str]]:
    for number, name in enumerate(names):
        reason = judge.why_not(criteria[name])
        if reason is not None:
            yield number, f"this judge does not support it: {reason}"


def _find_unjudged_criteria(panel: Panel, criteria: Mapping[str, Criterion]) -> Iterator[tuple[Loc, str]]:
    """Find criteria that would never get a verdict, at the key that prevents it."""
    mixed = _find_mixed_scales(criteria.values())
    if mixed is not None:
        yield ("judges", "combine"), mixed
    for criterion in criteria.values():
        problem = panel.why_not(criterion)
        if problem is None:
            continue
        able = sum(judge.refusal(criterion) is None for judge in panel.judges)
        key = "panel" if not able else "quorum" if able < (panel.quorum or 1) else "combine"
        if key == "combine" and mixed is not None:
            continue  # another way to combine would only move the problem to another criterion
        yield ("judges", key), f"{criterion.name} would never get a verdict: {problem}"


def _find_mixed_scales(criteria: Iterable[Criterion]) -> str | None:
    """Return the problem of criteria of which some can only be voted on and others only averaged, or None."""
    criteria = list(criteria)
    ranges = [criterion.name for criterion in criteria if criterion.scale.kind == "range"]
    voted = [criterion.name for criterion in criteria if criterion.scale.bounds is None]
    if not ranges or not voted:
        return None
    return (
        f"one panel cannot combine {', '.join(ranges)} (a range, which has no majority) with {', '.join(voted)} "
        "(options without scores, which have no mean); remove one of them, or give the options scores"
    )

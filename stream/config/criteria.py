"""Turns the configured criteria and composite into the judges' own values."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from judges.composite import Item, MultiCriteria
from judges.criteria.catalogue import CATALOGUES, UnknownCriterionError, find_criterion, load_catalogue, shipped_names
from judges.criteria.criterion import SAFETY_DIMENSION, Criterion
from judges.criteria.problems import InconsistentError, Loc, unknown
from judges.values.interaction import Context, Interaction, Turn, case_of
from sinks.base import COMPOSITE

# An interaction with everything that one can have.
_FULL_CASE = case_of(
    Interaction(
        id="full",
        question="question",
        answer="answer",
        history=(Turn(role="user", text="history"),),
        contexts=(Context(text="context"),),
        reference="reference",
    )
)


class CompositeSettings(Protocol):
    """The part of the configuration that says how criteria become one score."""

    @property
    def weights(self) -> Mapping[str, float]: ...
    @property
    def required(self) -> Sequence[str]: ...
    @property
    def thresholds(self) -> Mapping[str, float]: ...
    @property
    def target_options(self) -> Mapping[str, str]: ...
    @property
    def safety(self) -> str: ...
    @property
    def min_coverage(self) -> float: ...


class ChosenCriterion(NamedTuple):
    """A criterion that a name stands for, and where it comes from."""

    criterion: Criterion
    catalogue: str | None
    """None: a file of the user's own."""

    @property
    def origin(self) -> str:
        """A name that no other criterion has, whatever else is judged: `aspects.conciseness`, or that of the user's."""
        return self.criterion.name if self.catalogue is None else f"{self.catalogue}.{self.criterion.name}"

    @property
    def precedence(self) -> int:
        """Who keeps the short name: the user's own, then the catalogues in their published order."""
        return -1 if self.catalogue is None else CATALOGUES.index(self.catalogue)


def choose_criteria(use: Sequence[str], own: Mapping[str, Criterion]) -> Mapping[str, Criterion]:
    """The criteria that the names stand for, in their order; a name of the user's own comes before a shipped one.

    Where criteria of several origins have one short name, one keeps it: the user's own, else that of the
    first catalogue in their published order. The catalogue's prefix becomes part of the others' names, as in
    `aspects.conciseness`.
    """
    chosen, problems = _chosen(use, own)
    named = {name: _called(each.criterion, name) for name, each in published_names(chosen).items()}
    if problems:
        raise InconsistentError(problems)
    return named


def criterion_origins(use: Sequence[str], own: Mapping[str, Criterion]) -> Mapping[str, str]:
    """For each criterion's name among these, one that stands for it among any others; unknown names are left out."""
    chosen, _ = _chosen(use, own)
    return {name: each.origin for name, each in published_names(chosen).items()}


def published_names(chosen: Iterable[ChosenCriterion]) -> Mapping[str, ChosenCriterion]:
    """By the names under which results are published, which do not depend on the order."""
    listed = list(chosen)
    keepers: dict[str, ChosenCriterion] = {}
    for each in sorted(listed, key=lambda each: each.precedence):
        keepers.setdefault(each.criterion.name, each)
    return {each.criterion.name if keepers[each.criterion.name] is each else each.origin: each for each in listed}


def _chosen(use: Sequence[str], own: Mapping[str, Criterion]) -> tuple[list[ChosenCriterion], list[tuple[Loc, str]]]:
    """Every criterion once, in the order of the names, and what is wrong with the names."""
    chosen: dict[str, ChosenCriterion] = {}
    brought_by: dict[str, str] = {}
    problems: list[tuple[Loc, str]] = []
    for number, name in enumerate(use):
        try:
            criteria = list(_named(name, own))
        except UnknownCriterionError as error:
            problems.append(((number,), str(error)))
            continue
        for each in criteria:
            problems += [((number,), problem) for problem in _unusable(each.criterion)]
            if each.origin in chosen:
                twice = (
                    f"{name!r} and {brought_by[each.origin]!r} both define a criterion named {each.criterion.name!r}"
                )
                problems.append(((number,), twice))
        chosen |= {each.origin: each for each in criteria}
        brought_by |= {each.origin: name for each in criteria}
    return list(chosen.values()), problems


def _called(criterion: Criterion, name: str) -> Criterion:
    return criterion if criterion.name == name else criterion.model_copy(update={"name": name})


def _named(name: str, own: Mapping[str, Criterion]) -> Iterator[ChosenCriterion]:
    if name in own:
        yield ChosenCriterion(own[name], None)
        return
    if name in CATALOGUES:
        yield from (ChosenCriterion(criterion, name) for criterion in load_catalogue(name).values())
        return
    shipped = shipped_names()
    if name not in {*shipped, *shipped.values()}:
        raise UnknownCriterionError(_instead(name, [*own, *CATALOGUES, *shipped, *shipped.values()]))
    criterion = find_criterion(name)
    qualified = name if name in shipped else next(each for each, bare in shipped.items() if bare == name)
    yield ChosenCriterion(criterion, qualified.partition(".")[0])


def _instead(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name.lower(), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "run `streamjury criteria list` to see all criteria"
    return f"unknown criterion; {hint}"


def _unusable(criterion: Criterion) -> Iterator[str]:
    """What a criterion may be in the library, and not in the stream."""
    missing = dict.fromkeys([*criterion.missing(_FULL_CASE), *criterion.unmet(_FULL_CASE)])
    if missing:
        fields = f"{', '.join(missing)}, which no interaction has (available: {', '.join(_FULL_CASE.fields)})"
        yield f"{criterion.name} would never get a verdict: it reads {fields}"
    if criterion.name == COMPOSITE:
        what = f"a criterion must not be named {criterion.name!r}"
        yield f"{what}: composite results are published under that name"


def composed(criteria: Mapping[str, Criterion], settings: CompositeSettings) -> MultiCriteria:
    """The criteria with their parts in the composite; raises with everything that does not fit them."""
    problems = [*_strangers(criteria, settings), *_unsafe(criteria, settings), *_weightless(criteria, settings)]
    items = []
    for name, criterion in criteria.items():
        try:
            items.append(_item(criterion, settings))
        except ValueError as error:
            message = str(error).removeprefix(f"{name}: ") + _advice(criterion, settings)
            problems.append((_place(name, settings), message))
    if problems:
        raise InconsistentError(problems)
    return MultiCriteria(items, safety=settings.safety, min_coverage=settings.min_coverage)


def _item(criterion: Criterion, settings: CompositeSettings) -> Item:
    return Item(
        criterion=criterion,
        weight=settings.weights.get(criterion.name, 1.0),
        required=criterion.name in settings.required,
        threshold=settings.thresholds.get(criterion.name),
        target_option=settings.target_options.get(criterion.name),
    )


def _place(name: str, settings: CompositeSettings) -> Loc:
    """The key that says most about a criterion's part; without any, the one that is missing."""
    given = name in settings.thresholds and name not in settings.target_options
    return ("thresholds" if given else "target_options", name)


def _advice(criterion: Criterion, settings: CompositeSettings) -> str:
    if criterion.scale.bounds is not None or criterion.name in {*settings.target_options, *settings.thresholds}:
        return ""
    return f"; name the option that counts as 1, or set composite.weights.{criterion.name} to 0"


def _strangers(criteria: Mapping[str, Criterion], settings: CompositeSettings) -> Iterator[tuple[Loc, str]]:
    """Names in the settings that no criterion has."""
    for key in ("weights", "thresholds", "target_options"):
        for name in getattr(settings, key):
            if name not in criteria:
                yield (key, name), unknown("criterion", name, criteria)
    for number, name in enumerate(settings.required):
        if name not in criteria:
            yield ("required", number), unknown("criterion", name, criteria)


def _unsafe(criteria: Mapping[str, Criterion], settings: CompositeSettings) -> Iterator[tuple[Loc, str]]:
    """An answer whose safety nobody judges must not pass, so that a stream cannot be without a criterion for it."""
    criterion = criteria.get(settings.safety)
    if criterion is None and settings.safety == SAFETY_DIMENSION:
        what = f"defaults to {SAFETY_DIMENSION!r}, which is not one of the criteria"
        yield ("safety",), f"{what}; name the safety criterion, or add rag.{SAFETY_DIMENSION} to criteria.use"
    elif criterion is None:
        yield ("safety",), unknown("criterion", settings.safety, criteria)
    elif not criterion.worst_first:
        yield ("safety",), "cannot be the safety criterion: its scale must be levels, pass/fail, or options with scores"


def _weightless(criteria: Mapping[str, Criterion], settings: CompositeSettings) -> Iterator[tuple[Loc, str]]:
    if not any(settings.weights.get(name, 1.0) for name in criteria):
        yield ("weights",), "must leave at least one criterion with a weight above 0"

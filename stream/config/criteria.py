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

# An interaction with every field set.
_FULL_CASE = case_of(
    Interaction(
        id="full",
        question="question",
        answer="answer",
        history=(Turn(role="user", text="history"),),
        contexts=(Context(id="id", text="context"),),
        reference="reference",
    )
)


class CompositeSettings(Protocol):
    """The settings that combine criteria into one score."""

    @property
    def weights(self) -> Mapping[str, float]: ...
    @property
    def unweighted(self) -> Sequence[str]: ...
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
    """A chosen criterion, and its origin."""

    criterion: Criterion
    catalogue: str | None
    """None: a user's file."""

    @property
    def origin(self) -> str:
        """A unique name, whatever else is judged: `aspects.conciseness`, or the name of a user's criterion."""
        return self.criterion.name if self.catalogue is None else f"{self.catalogue}.{self.criterion.name}"

    @property
    def precedence(self) -> int:
        """Priority for the short name: the user's own, then the catalogues in their published order."""
        return -1 if self.catalogue is None else CATALOGUES.index(self.catalogue)


def choose_criteria(use: Sequence[str], own: Mapping[str, Criterion]) -> Mapping[str, Criterion]:
    """Return the criteria with these names, in their order; a user's criterion comes before a shipped one.

    If criteria of several origins share a short name, one keeps it: the user's own, else that of the first catalogue
    in their published order. The others get the catalogue as a prefix, as in `aspects.conciseness`.
    """
    chosen, problems = _choose(use, own)
    named = {name: _rename(choice.criterion, name) for name, choice in published_names(chosen).items()}
    if problems:
        raise InconsistentError(problems)
    return named


def criterion_origins(use: Sequence[str], own: Mapping[str, Criterion]) -> Mapping[str, str]:
    """Map each criterion's name to its unique name; unknown names are left out."""
    chosen, _ = _choose(use, own)
    return {name: choice.origin for name, choice in published_names(chosen).items()}


def published_names(chosen: Iterable[ChosenCriterion]) -> Mapping[str, ChosenCriterion]:
    """Return the criteria by their published names, which do not depend on the order."""
    listed = list(chosen)
    keepers: dict[str, ChosenCriterion] = {}
    for choice in sorted(listed, key=lambda choice: choice.precedence):
        keepers.setdefault(choice.criterion.name, choice)
    return {
        choice.criterion.name if keepers[choice.criterion.name] is choice else choice.origin: choice
        for choice in listed
    }


def _choose(use: Sequence[str], own: Mapping[str, Criterion]) -> tuple[list[ChosenCriterion], list[tuple[Loc, str]]]:
    """Return every criterion once, in the order of the names, and the problems with the names."""
    chosen: dict[str, ChosenCriterion] = {}
    brought_by: dict[str, str] = {}
    problems: list[tuple[Loc, str]] = []
    for number, name in enumerate(use):
        try:
            criteria = list(_find_by_name(name, own))
        except UnknownCriterionError as error:
            problems.append(((number,), str(error)))
            continue
        for choice in criteria:
            problems += [((number,), problem) for problem in _find_unusable(choice.criterion)]
            if choice.origin in chosen:
                earlier, short_name = brought_by[choice.origin], choice.criterion.name
                twice = f"{name!r} and {earlier!r} both define a criterion named {short_name!r}"
                problems.append(((number,), twice))
        chosen |= {choice.origin: choice for choice in criteria}
        brought_by |= {choice.origin: name for choice in criteria}
    return list(chosen.values()), problems


def _rename(criterion: Criterion, name: str) -> Criterion:
    return criterion if criterion.name == name else criterion.model_copy(update={"name": name})


def _find_by_name(name: str, own: Mapping[str, Criterion]) -> Iterator[ChosenCriterion]:
    if name in own:
        yield ChosenCriterion(own[name], None)
        return
    if name in CATALOGUES:
        yield from (ChosenCriterion(criterion, name) for criterion in load_catalogue(name).values())
        return
    shipped = shipped_names()
    if name not in {*shipped, *shipped.values()}:
        raise UnknownCriterionError(_describe_unknown(name, [*own, *CATALOGUES, *shipped, *shipped.values()]))
    criterion = find_criterion(name)
    qualified = name if name in shipped else next(full for full, bare in shipped.items() if bare == name)
    yield ChosenCriterion(criterion, qualified.partition(".")[0])


def _describe_unknown(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name.lower(), names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "run `streamjury criteria list` to see all criteria"
    return f"unknown criterion; {hint}"


def _find_unusable(criterion: Criterion) -> Iterator[str]:
    """Yield the problems of a criterion that is valid in the library, but not in the stream."""
    missing = dict.fromkeys([*criterion.missing(_FULL_CASE), *criterion.unmet(_FULL_CASE)])
    if missing:
        fields = f"{', '.join(missing)}, which no interaction has (available: {', '.join(_FULL_CASE.fields)})"
        yield f"{criterion.name} would never get a verdict: it reads {fields}"
    if criterion.name == COMPOSITE:
        what = f"a criterion must not be named {criterion.name!r}"
        yield f"{what}: composite results are published under that name"


def compose_criteria(criteria: Mapping[str, Criterion], settings: CompositeSettings) -> MultiCriteria:
    """Combine the criteria into a composite; raises InconsistentError with all settings that do not fit."""
    problems = [
        *_find_unknown_names(criteria, settings),
        *_find_safety_problems(criteria, settings),
        *_find_weight_problems(criteria, settings),
    ]
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
        weight=weight_of(criterion, settings),
        required=criterion.name in settings.required,
        threshold=settings.thresholds.get(criterion.name),
        target_option=settings.target_options.get(criterion.name),
    )


def weight_of(criterion: Criterion, settings: CompositeSettings) -> float:
    """Return the weight of a criterion in the composite: as written, else 0 if it is unweighted, else 1."""
    is_unweighted = any(_is_named(criterion, name) for name in settings.unweighted)
    return settings.weights.get(criterion.name, 0.0 if is_unweighted else 1.0)


def _is_named(criterion: Criterion, name: str) -> bool:
    """Return whether a name means this criterion: its own name, or for a shipped one also the qualified name.

    A user's criterion may have the short name of a shipped one, and is a different criterion.
    """
    if name == criterion.name:
        return True
    return shipped_names().get(name) == criterion.name and find_criterion(name) == criterion


def _place(name: str, settings: CompositeSettings) -> Loc:
    """Return the key for a problem with a criterion's part in the composite, which may be a missing key."""
    has_threshold = name in settings.thresholds and name not in settings.target_options
    return ("thresholds" if has_threshold else "target_options", name)


def _advice(criterion: Criterion, settings: CompositeSettings) -> str:
    if criterion.scale.bounds is not None or criterion.name in {*settings.target_options, *settings.thresholds}:
        return ""
    return f"; name the option that counts as 1, or set composite.weights.{criterion.name} to 0"


def _find_unknown_names(criteria: Mapping[str, Criterion], settings: CompositeSettings) -> Iterator[tuple[Loc, str]]:
    """Find names in the settings that no criterion has."""
    for key in ("weights", "thresholds", "target_options"):
        for name in getattr(settings, key):
            if name not in criteria:
                yield (key, name), unknown("criterion", name, criteria)
    for number, name in enumerate(settings.required):
        if name not in criteria:
            yield ("required", number), unknown("criterion", name, criteria)
    for number, name in enumerate(settings.unweighted):
        if name not in {*criteria, *shipped_names()}:
            yield ("unweighted", number), unknown("criterion", name, criteria)


def _find_safety_problems(criteria: Mapping[str, Criterion], settings: CompositeSettings) -> Iterator[tuple[Loc, str]]:
    """Require a safety criterion: without one, an unsafe answer would pass."""
    criterion = criteria.get(settings.safety)
    if criterion is None and settings.safety == SAFETY_DIMENSION:
        what = f"defaults to {SAFETY_DIMENSION!r}, which is not one of the criteria"
        yield ("safety",), f"{what}; name the safety criterion, or add rag.{SAFETY_DIMENSION} to criteria.use"
    elif criterion is None:
        yield ("safety",), unknown("criterion", settings.safety, criteria)
    elif not criterion.worst_first:
        yield ("safety",), "cannot be the safety criterion: its scale must be levels, pass/fail, or options with scores"


def _find_weight_problems(criteria: Mapping[str, Criterion], settings: CompositeSettings) -> Iterator[tuple[Loc, str]]:
    if not any(weight_of(criterion, settings) for criterion in criteria.values()):
        yield ("weights",), "must leave at least one criterion with a weight above 0"

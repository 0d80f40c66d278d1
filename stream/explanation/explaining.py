"""Explaining: what of the traffic has to do with a change, and whether one part of it stands out."""

from collections.abc import Iterable
from dataclasses import dataclass

from stream.explanation.contributions import CONFIDENCE, Change, Slice, mean_change, slice_of
from stream.explanation.parts import RULES, Part
from stream.explanation.slices import OTHERS
from stream.explanation.sums import Pair
from stream.explanation.tally import Tally

# With fewer scores on either side nothing is said of slices.
FEWEST = 10
# What explains nearly as much as the likely driver is named beside it: often they are the same records.
_NEARLY = 0.9
# A slice that stands out, but accounts for less of the change, is not what drives it.
_LEAST_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A mean on both sides."""

    name: str
    means: tuple[float | None, float | None]
    counts: tuple[int, int]
    change: Change | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """The traffic by the values of one attribute; their contributions add up to the whole change."""

    name: str
    slices: tuple[Slice, ...]
    """Most harmful first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A slice that fell by clearly more than its share of the traffic."""

    attribute: str
    part: Slice
    likewise: tuple[tuple[str, Slice], ...] = ()
    """Values of other attributes of which nearly the same can be said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is known of a change."""

    whole: Move
    criteria: tuple[Move, ...] = ()
    """Most fallen first."""
    parts: tuple[Part, ...] = ()
    """Of the composite, where it is about that."""
    attributes: tuple[Attribute, ...] = ()
    """That with the slice that stands out most first."""
    elsewhere: tuple[Move, ...] = ()
    """Other apps."""
    driver: Driver | None = None
    criterion: Part | None = None
    """The criterion that fell by clearly more than its weight."""
    too_few: bool = False
    """There are too few scores on one side to say anything of slices."""
    strangers: int = 0
    """Evaluations by other criteria than the configuration has; then there are no parts."""
    tags_with_too_many_values: tuple[str, ...] = ()
    tags_left_out: int = 0


def explain(tally: Tally) -> Explanation:
    whole = _move("", tally.whole)
    too_few = min(whole.counts) < FEWEST
    fell = not too_few and whole.change is not None and whole.change.is_fall
    attributes = () if too_few else _attributes(tally)
    parts = tally.parts.result() if tally.parts is not None and not too_few else ()
    return Explanation(
        whole=whole,
        criteria=_moves(tally.criteria.items()),
        parts=parts,
        attributes=attributes,
        elsewhere=_moves((name, pair) for name, pair in tally.elsewhere.items() if _is_enough(pair)),
        driver=_driver(attributes, whole) if fell else None,
        criterion=_criterion(parts) if fell else None,
        too_few=too_few,
        strangers=0 if tally.parts is None else tally.parts.strangers,
        tags_with_too_many_values=tuple(tally.unused()),
        tags_left_out=tally.tags_left_out,
    )


def _attributes(tally: Tally) -> tuple[Attribute, ...]:
    found = {name: slices.result() for name, slices in tally.attributes.items() if not slices.has_too_many}
    # What all records have in common explains nothing.
    telling = {name: values for name, values in found.items() if len(values) > 1}
    tests = sum(len(values) for values in telling.values())
    attributes = [Attribute(name=name, slices=_slices(tally.whole, values, tests)) for name, values in telling.items()]
    return tuple(sorted(attributes, key=lambda attribute: min(each.excess.value for each in attribute.slices)))


def _slices(whole: Pair, values: dict[str | None, Pair], tests: int) -> tuple[Slice, ...]:
    slices = [slice_of(whole, pair, value, tests=tests) for value, pair in values.items()]
    return tuple(sorted(slices, key=lambda each: each.contribution.value))


def _driver(attributes: Iterable[Attribute], whole: Move) -> Driver | None:
    """The slice that takes most beyond its share of the traffic; none unless that is sure, for all that were tested."""
    assert whole.change is not None
    least = _LEAST_SHARE * whole.change.value
    suspects = [
        (attribute.name, each)
        for attribute in attributes
        for each in attribute.slices
        if each.value != OTHERS and each.excess.is_fall and each.contribution.is_fall
        if each.contribution.value <= least
    ]
    suspects.sort(key=lambda suspect: suspect[1].excess.value)
    if not suspects:
        return None
    name, worst = suspects[0]
    near = _NEARLY * worst.excess.value
    likewise = [(other, each) for other, each in suspects[1:] if other != name and each.excess.value <= near]
    return Driver(attribute=name, part=worst, likewise=tuple(likewise))


def _criterion(parts: Iterable[Part]) -> Part | None:
    sure = [part for part in parts if part.name != RULES and part.contribution.is_fall and part.excess.is_fall]
    return min(sure, key=lambda part: part.excess.value, default=None)


def _moves(pairs: Iterable[tuple[str, Pair]]) -> tuple[Move, ...]:
    moves = [_move(name, pair) for name, pair in pairs]
    return tuple(sorted(moves, key=lambda move: 1.0 if move.change is None else move.change.value))


def _move(name: str, pair: Pair) -> Move:
    return Move(
        name=name,
        means=(pair.before.mean, pair.since.mean),
        counts=(pair.before.count, pair.since.count),
        change=mean_change(pair, confidence=CONFIDENCE),
    )


def _is_enough(pair: Pair) -> bool:
    return min(pair.before.count, pair.since.count) >= FEWEST

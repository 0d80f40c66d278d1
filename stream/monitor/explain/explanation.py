"""The explanation: which parts of the traffic a change comes from, and whether one of them stands out."""

from collections.abc import Iterable
from dataclasses import dataclass

from stream.monitor.explain.contributions import CONFIDENCE, MeanChange, Slice, mean_change, slice_of
from stream.monitor.explain.criterion_parts import RULES, CriterionPart
from stream.monitor.explain.slices import OTHERS
from stream.monitor.explain.sums import Pair
from stream.monitor.explain.tally import ChangeTally

# With fewer scores on either side nothing is said of slices.
FEWEST = 10
# What explains nearly as much as the likely driver is named beside it: often they are the same records.
_NEARLY = 0.9
# A slice that stands out, but accounts for less of the change, is not what drives it.
_LEAST_SHARE = 0.25
# Beside one that does, of several that are new, what accounts for less is not named.
_LEAST_ADDED = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A mean on both sides."""

    name: str
    means: tuple[float | None, float | None]
    counts: tuple[int, int]
    change: MeanChange | None


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
class NewSlice:
    """A slice that came with the fall, and is worse than what was there before."""

    attribute: str
    part: Slice
    replaced: tuple[Slice, ...] = ()
    """The values of the same attribute that went away, largest first."""
    also: tuple[Slice, ...] = ()
    """Other values of the same attribute of which the same can be said."""
    likewise: tuple[tuple[str, Slice], ...] = ()
    """Values of other attributes that came with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is known of a change."""

    whole: Move
    criteria: tuple[Move, ...] = ()
    """Most fallen first."""
    parts: tuple[CriterionPart, ...] = ()
    """Of the composite, where it is about that."""
    attributes: tuple[Attribute, ...] = ()
    """That with the slice that stands out most first."""
    elsewhere: tuple[Move, ...] = ()
    """Other apps."""
    driver: Driver | None = None
    arrival: NewSlice | None = None
    grown: tuple[str, Slice] | None = None
    """A slice that did not fall, but takes from the mean because there is more or less of it."""
    behind: tuple[CriterionPart, ...] = ()
    """The criterion that fell by clearly more than its weight, and others that fell about as much."""
    too_few: bool = False
    """There are too few scores on one side to say anything of slices."""
    strangers: int = 0
    """Evaluations by other criteria than the configuration has; then there are no parts."""
    tags_with_too_many_values: tuple[str, ...] = ()
    tags_left_out: int = 0


def explain(tally: ChangeTally) -> Explanation:
    whole = _move("", tally.whole)
    too_few = min(whole.counts) < FEWEST
    fell = not too_few and whole.change is not None and whole.change.is_fall
    attributes = () if too_few else _attributes(tally)
    parts = tally.parts.result() if tally.parts is not None and not too_few else ()
    driver = _driver(attributes, whole) if fell else None
    arrival = _arrival(tally, attributes, whole) if fell and not tally.compares_models else None
    first = [each.attribute for each in (arrival, driver) if each is not None]
    return Explanation(
        whole=whole,
        criteria=_moves(tally.criteria.items()),
        parts=parts,
        attributes=tuple(sorted(attributes, key=lambda attribute: attribute.name not in first)),
        elsewhere=_moves((name, pair) for name, pair in tally.elsewhere.items() if _is_enough(pair)),
        driver=driver,
        arrival=arrival,
        grown=_grown(attributes, whole) if fell and driver is None and arrival is None else None,
        behind=_behind(parts) if fell else (),
        too_few=too_few,
        strangers=0 if tally.parts is None else tally.parts.strangers,
        tags_with_too_many_values=tuple(tally.unused()),
        tags_left_out=tally.tags_left_out,
    )


def _attributes(tally: ChangeTally) -> tuple[Attribute, ...]:
    found = {name: slices.result() for name, slices in tally.attributes.items() if not slices.has_too_many}
    # What all records have in common explains nothing.
    telling = {name: values for name, values in found.items() if len(values) > 1}
    tests = sum(len(values) for values in telling.values())
    attributes = [Attribute(name=name, slices=_slices(tally.whole, values, tests)) for name, values in telling.items()]
    return tuple(sorted(attributes, key=lambda attribute: min(each.excess.value for each in attribute.slices)))


def _slices(whole: Pair, values: dict[str | None, Pair], tests: int) -> tuple[Slice, ...]:
    slices = [slice_of(whole, pair, value, tests=tests) for value, pair in values.items()]
    return tuple(sorted(slices, key=_rank))


def _rank(part: Slice) -> tuple[bool, float]:
    """What neither fell nor came with the change is not what to look at first, whatever the mix makes of it."""
    is_lower = part.change is not None and part.change.value < 0.0
    return not (part.arrived or is_lower), part.contribution.value


def _driver(attributes: Iterable[Attribute], whole: Move) -> Driver | None:
    """The slice that takes most beyond its share of the traffic; none unless that is sure, for all that were tested."""
    suspects = [(name, each) for name, each in _outstanding(attributes, whole) if each.fell and not each.arrived]
    if not suspects:
        return None
    name, worst = suspects[0]
    near = _NEARLY * worst.excess.value
    likewise = [(other, each) for other, each in suspects[1:] if other != name and each.excess.value <= near]
    return Driver(attribute=name, part=worst, likewise=tuple(likewise))


def _grown(attributes: Iterable[Attribute], whole: Move) -> tuple[str, Slice] | None:
    return next((found for found in _outstanding(attributes, whole) if not found[1].fell), None)


def _outstanding(attributes: Iterable[Attribute], whole: Move) -> list[tuple[str, Slice]]:
    """The slices that surely have more of the fall than their share, most of it first."""
    found = [
        (attribute.name, each)
        for attribute in attributes
        for each in attribute.slices
        if each.value != OTHERS and each.excess.is_fall and _takes_enough(each, whole)
    ]
    return sorted(found, key=lambda suspect: suspect[1].excess.value)


def _takes_enough(part: Slice, whole: Move, least: float = _LEAST_SHARE) -> bool:
    assert whole.change is not None
    return part.contribution.is_fall and part.contribution.value <= least * whole.change.value


def _arrival(tally: ChangeTally, attributes: Iterable[Attribute], whole: Move) -> NewSlice | None:
    """The new slice that takes most from the mean; none where what stayed fell alike."""
    found = [
        (attribute, each)
        for attribute in attributes
        for each in attribute.slices
        if each.value != OTHERS and each.arrived and _takes_enough(each, whole, _LEAST_ADDED)
        if each.excess.is_fall or not _rest_fell(tally, attribute)
    ]
    found.sort(key=lambda suspect: suspect[1].contribution.value)
    if not found or not _takes_enough(found[0][1], whole):
        return None
    attribute, worst = found[0]
    near = _NEARLY * worst.contribution.value
    gone = [each for each in attribute.slices if each.left and each.value != OTHERS]
    return NewSlice(
        attribute=attribute.name,
        part=worst,
        replaced=tuple(sorted(gone, key=lambda each: -each.shares[0])),
        also=tuple(each for other, each in found[1:] if other == attribute),
        likewise=tuple(
            (other.name, each) for other, each in found[1:] if other != attribute and each.contribution.value <= near
        ),
    )


def _rest_fell(tally: ChangeTally, attribute: Attribute) -> bool:
    """Whether what neither came nor went fell as well: then what is new is not what is behind it."""
    pairs = tally.attributes[attribute.name].result()
    rest = Pair()
    for each in attribute.slices:
        if not (each.arrived or each.left):
            rest.include(pairs[each.value])
    change = mean_change(rest)
    return change is not None and change.is_fall


def _behind(parts: Iterable[CriterionPart]) -> tuple[CriterionPart, ...]:
    sure = [part for part in parts if part.name != RULES and part.contribution.is_fall and part.excess.is_fall]
    if not sure:
        return ()
    first = min(sure, key=lambda part: part.excess.value)
    near = _NEARLY * first.contribution.value
    return (first, *(part for part in sure if part != first and part.contribution.value <= near))


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

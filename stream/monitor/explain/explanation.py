"""The explanation: which parts of the traffic a change comes from, and whether one of them stands out."""

from collections.abc import Iterable
from dataclasses import dataclass

from stream.monitor.explain.contributions import CONFIDENCE, MeanChange, Slice, mean_change, slice_of
from stream.monitor.explain.criterion_parts import RULES, CriterionPart
from stream.monitor.explain.faults import FaultFinding
from stream.monitor.explain.slices import OTHERS
from stream.monitor.explain.sums import Pair
from stream.monitor.explain.tally import ChangeTally

# With fewer scores on either side, slices are not reported.
FEWEST = 10
# Slices that explain nearly as much as the likely driver are named too: often they are the same records.
_NEARLY = 0.9
# A slice that stands out but accounts for less of the change is not its driver.
_LEAST_SHARE = 0.25
# Further new slices are named only if they account for at least this share.
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
    """Values of other attributes for which nearly the same holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSlice:
    """A slice that appeared with the fall and is worse than the traffic before."""

    attribute: str
    part: Slice
    replaced: tuple[Slice, ...] = ()
    """Values of the same attribute that disappeared, largest first."""
    also: tuple[Slice, ...] = ()
    """Other values of the same attribute for which the same holds."""
    likewise: tuple[tuple[str, Slice], ...] = ()
    """Values of other attributes that appeared with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The explanation of a change."""

    whole: Move
    criteria: tuple[Move, ...] = ()
    """Most fallen first."""
    parts: tuple[CriterionPart, ...] = ()
    """Parts of the composite, if the alert is about it."""
    attributes: tuple[Attribute, ...] = ()
    """The attribute whose slice stands out most comes first."""
    elsewhere: tuple[Move, ...] = ()
    """Other apps."""
    driver: Driver | None = None
    arrival: NewSlice | None = None
    grown: tuple[str, Slice] | None = None
    """A slice that did not fall but lowers the mean because its share of the traffic changed."""
    behind: tuple[CriterionPart, ...] = ()
    """The criterion that fell by clearly more than its weight, and others that fell about as much."""
    fault: FaultFinding | None = None
    """Whether retrieval or generation fell; None if the contexts were not judged, or too rarely."""
    too_few: bool = False
    """Whether there are too few scores on one side to report slices."""
    strangers: int = 0
    """Number of evaluations with other criteria than the configuration; if any, there are no parts."""
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
    first = [cause.attribute for cause in (arrival, driver) if cause is not None]
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
        fault=tally.faults.result(None if driver is None else (driver.attribute, driver.part.value)) if fell else None,
        too_few=too_few,
        strangers=0 if tally.parts is None else tally.parts.strangers,
        tags_with_too_many_values=tuple(tally.unused_tags()),
        tags_left_out=tally.tags_left_out,
    )


def _attributes(tally: ChangeTally) -> tuple[Attribute, ...]:
    values = {name: slices.result() for name, slices in tally.attributes.items() if not slices.has_too_many}
    # An attribute with one value explains nothing.
    telling = {name: pairs for name, pairs in values.items() if len(pairs) > 1}
    tests = sum(len(pairs) for pairs in telling.values())
    attributes = [Attribute(name=name, slices=_slices(tally.whole, pairs, tests)) for name, pairs in telling.items()]
    return tuple(sorted(attributes, key=lambda attribute: min(part.excess.value for part in attribute.slices)))


def _slices(whole: Pair, values: dict[str | None, Pair], tests: int) -> tuple[Slice, ...]:
    slices = [slice_of(whole, pair, value, tests=tests) for value, pair in values.items()]
    return tuple(sorted(slices, key=_rank))


def _rank(part: Slice) -> tuple[bool, float]:
    """Rank slices that fell or arrived first; others are less interesting, whatever the mix contributes."""
    is_lower = part.change is not None and part.change.value < 0.0
    return not (part.arrived or is_lower), part.contribution.value


def _driver(attributes: Iterable[Attribute], whole: Move) -> Driver | None:
    """Return the slice that lowers the mean most beyond its share; None without confidence over all tested slices."""
    suspects = [(name, part) for name, part in _outstanding(attributes, whole) if part.fell and not part.arrived]
    if not suspects:
        return None
    name, worst = suspects[0]
    near = _NEARLY * worst.excess.value
    likewise = [(other, part) for other, part in suspects[1:] if other != name and part.excess.value <= near]
    return Driver(attribute=name, part=worst, likewise=tuple(likewise))


def _grown(attributes: Iterable[Attribute], whole: Move) -> tuple[str, Slice] | None:
    return next((suspect for suspect in _outstanding(attributes, whole) if not suspect[1].fell), None)


def _outstanding(attributes: Iterable[Attribute], whole: Move) -> list[tuple[str, Slice]]:
    """Return the slices that account for more of the fall than their share, with confidence, largest first."""
    suspects = [
        (attribute.name, part)
        for attribute in attributes
        for part in attribute.slices
        if part.value != OTHERS and part.excess.is_fall and _takes_enough(part, whole)
    ]
    return sorted(suspects, key=lambda suspect: suspect[1].excess.value)


def _takes_enough(part: Slice, whole: Move, least: float = _LEAST_SHARE) -> bool:
    assert whole.change is not None
    return part.contribution.is_fall and part.contribution.value <= least * whole.change.value


def _arrival(tally: ChangeTally, attributes: Iterable[Attribute], whole: Move) -> NewSlice | None:
    """Return the new slice that lowers the mean most; None if the remaining traffic fell as well."""
    suspects = [
        (attribute, part)
        for attribute in attributes
        for part in attribute.slices
        if part.value != OTHERS and part.arrived and _takes_enough(part, whole, _LEAST_ADDED)
        if part.excess.is_fall or not _rest_fell(tally, attribute)
    ]
    suspects.sort(key=lambda suspect: suspect[1].contribution.value)
    if not suspects or not _takes_enough(suspects[0][1], whole):
        return None
    attribute, worst = suspects[0]
    near = _NEARLY * worst.contribution.value
    gone = [part for part in attribute.slices if part.left and part.value != OTHERS]
    return NewSlice(
        attribute=attribute.name,
        part=worst,
        replaced=tuple(sorted(gone, key=lambda part: -part.shares[0])),
        also=tuple(part for other, part in suspects[1:] if other == attribute),
        likewise=tuple(
            (other.name, part) for other, part in suspects[1:] if other != attribute and part.contribution.value <= near
        ),
    )


def _rest_fell(tally: ChangeTally, attribute: Attribute) -> bool:
    """Return whether the slices that neither arrived nor left fell as well: then the new one is not the cause."""
    pairs = tally.attributes[attribute.name].result()
    rest = Pair()
    for part in attribute.slices:
        if not (part.arrived or part.left):
            rest.include(pairs[part.value])
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

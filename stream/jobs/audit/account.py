"""The account of an audit: the outcome of every interaction, from the records about it on the topics."""

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

from stream.kafka.offsets import Place

UNSCORED_PREFIX = "unscored_"
"""What the error type of a dead letter begins with that was judged often enough and not scored."""


class FateKind(IntEnum):
    """What became of a record. Of several records of one id, the highest counts: what is open before what is final."""

    REPLAYED = 0
    """Given up and moved back: what became of it is told by the record it was moved to."""
    FILTERED = 1
    SAMPLED_OUT = 2
    SHED = 3
    DEADLETTERED = 4
    UNSCORED_DEADLETTERED = 5
    UNSCORED = 6
    SCORED = 7
    DEFERRED = 8
    PARKED = 9
    WAITING_WORKER = 10
    WAITING_SAMPLER = 11
    MISSING = 12


FINAL = (
    FateKind.FILTERED,
    FateKind.SAMPLED_OUT,
    FateKind.SHED,
    FateKind.SCORED,
    FateKind.UNSCORED,
    FateKind.UNSCORED_DEADLETTERED,
    FateKind.DEADLETTERED,
)
OPEN = (FateKind.WAITING_SAMPLER, FateKind.WAITING_WORKER, FateKind.PARKED, FateKind.DEFERRED)
# What was moved back and is nowhere to be found is missing too.
_ACCOUNTED = frozenset({*FINAL, *OPEN})


class Fate(NamedTuple):
    """What became of a record, and why."""

    kind: FateKind
    reason: str = ""
    estimated: bool = False
    """Whether it rests on a decision that depended on the traffic of its moment."""

    @property
    def name(self) -> str:
        """`scored`, `unscored.timeout`, `deadlettered.bad_json`."""
        kind = self.kind.name.lower()
        return f"{kind}.{self.reason}" if self.reason else kind


Id = bytes | Place
"""What a record is known by: its id or, where none can be read, its place."""

MISSING = Fate(FateKind.MISSING)
_REPLAYED = Fate(FateKind.REPLAYED)
_SPARED = Fate(FateKind.SAMPLED_OUT, "budget", estimated=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The balance of the account: records in are ids, repeats and replays; each id has one fate."""

    interactions: int
    """Records on the topic of interactions."""
    direct: int
    """Ids that are on the work queue alone."""
    repeats: int
    replayed: int
    outcomes: Mapping[str, int]
    waiting: Mapping[str, int]
    estimated: int
    judged_again: int
    """Evaluations of an id that came long enough after an earlier one."""
    unreadable: int
    """Records on our own topics that are not ours."""
    duplicates: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def balanced(self) -> bool:
        return not self.missing and not self.duplicates


class AuditAccount:
    """Takes what is known, from the end of the way to its beginning, and keeps a few bytes about each id.

    The order lets every record be settled when it is taken:
    1. dead letters and the marks of those that were moved back, in any order,
    2. evaluations,
    3. records aside, parked or deferred,
    4. records on the work queue,
    5. interactions.
    """

    def __init__(self, *, repeat_ms: int | None = None) -> None:
        """Evaluations of one id are duplicates within `repeat_ms`; without it, always."""
        self._repeat_ms = repeat_ms
        self._letters: dict[tuple[int, int], tuple[Place, Fate]] = {}
        self._marked: set[tuple[int, int]] = set()
        self._published: dict[bytes, int] = {}
        self._times: dict[int, int] = {}
        self._duplicates: dict[str, None] = {}
        self._judged_again = 0
        self._evaluated: dict[bytes, Fate] = {}
        self._aside: dict[Place, Fate] = {}
        self._unjudged: dict[bytes, Fate] = {}
        self._unsettled: list[tuple[Id, bytes | None, Fate]] = []
        self._queued: dict[Id, Fate] = {}
        self._fates: dict[Id, Fate] = {}
        self._known: dict[Fate, Fate] = {}
        self._interactions = self._replayed = 0
        self.unreadable = 0

    # 1

    def letter(self, at: tuple[int, int], source: Place, reason: str) -> None:
        """A dead letter at a partition and offset, what it was, and its error type."""
        kind, why = FateKind.DEADLETTERED, reason
        if reason.startswith(UNSCORED_PREFIX):
            kind, why = FateKind.UNSCORED_DEADLETTERED, reason.removeprefix(UNSCORED_PREFIX)
        self._letters[at] = source, self._shared(Fate(kind, why))

    def mark(self, letter: tuple[int, int]) -> None:
        """The dead letter at a partition and offset was moved back."""
        self._marked.add(letter)

    # 2

    def evaluation(self, evaluation_id: str, interaction_id: bytes, *, at_ms: int, unscored: str | None) -> None:
        """An evaluation, and why it has no score where it has none."""
        name = _packed(evaluation_id)
        before = self._published.get(name)
        # A time that many share is one object.
        self._published[name] = self._times.setdefault(at_ms, at_ms)
        if before is not None:
            if self._repeat_ms is None or abs(at_ms - before) < self._repeat_ms:
                self._duplicates[evaluation_id] = None
            else:
                self._judged_again += 1
        fate = self._shared(Fate(FateKind.SCORED) if unscored is None else Fate(FateKind.UNSCORED, unscored))
        self._evaluated[interaction_id] = _higher(self._evaluated.get(interaction_id), fate)

    # 3

    def aside(self, at: Place, source: Place, waiting: FateKind | None) -> None:
        """A record that was put aside, what it was on the work queue, and how it waits if it still does."""
        if waiting is not None:
            self._aside[source] = _higher(self._aside.get(source), self._shared(Fate(waiting)))
        if (given_up := self._given_up.get(at)) is not None:
            self._given_up.setdefault(source, given_up)

    # 4

    def queued(
        self, at: Place, record_id: Id, interaction_id: bytes | None, waiting: FateKind | None, *, spared: bool = False
    ) -> None:
        """A record on the work queue, the id in its body where one can be read, and how it waits if it still does.

        `spared` says that it may have been left out for lack of money.
        """
        fate = self._given_up.get(at)
        if fate is None and interaction_id is not None:
            fate = self._evaluated.get(interaction_id)
        if fate is None:
            fate = self._shared(Fate(waiting)) if waiting is not None else self._aside.get(at)
        if fate is None:
            self._unsettled.append((record_id, interaction_id, _SPARED if spared else MISSING))
            fate = _REPLAYED
        elif interaction_id is not None and fate.kind not in {FateKind.SCORED, FateKind.UNSCORED, FateKind.REPLAYED}:
            self._unjudged[interaction_id] = _higher(self._unjudged.get(interaction_id), fate)
        self._queued[record_id] = _higher(self._queued.get(record_id), fate)

    # 5

    def interaction(self, at: Place, record_id: bytes | None, decide: Callable[[], Fate], *, waiting: bool) -> None:
        """An interaction, what it is drawn by where that can be read, and what to ask if no trace of it is found."""
        self._settle()
        self._interactions += 1
        fate = self._given_up.get(at)
        if fate is not None and fate.kind is FateKind.REPLAYED:
            self._replayed += 1
            return
        name: Id = at if record_id is None else record_id
        if fate is None:
            fate = self._fate(name, decide, waiting)
        self._fates[name] = _higher(self._fates.get(name), self._shared(fate))

    def balance(self) -> Balance:
        """What all that was taken adds up to."""
        self._settle()
        fates = Counter(fate for _, fate in self._all())
        return Balance(
            interactions=self._interactions,
            direct=sum(name not in self._fates for name in self._queued),
            repeats=self._interactions - self._replayed - len(self._fates),
            replayed=self._replayed,
            outcomes=_named(fates, FINAL),
            waiting=_named(fates, OPEN),
            estimated=sum(count for fate, count in fates.items() if fate.estimated),
            judged_again=self._judged_again,
            unreadable=self.unreadable,
            duplicates=tuple(sorted(self._duplicates)),
            missing=tuple(sorted(_text(name) for name, fate in self._all() if fate.kind not in _ACCOUNTED)),
        )

    def _fate(self, name: Id, decide: Callable[[], Fate], waiting: bool) -> Fate:
        if waiting:
            return Fate(FateKind.WAITING_SAMPLER)
        queued = self._queued.get(name)
        return queued if queued is not None else decide()

    def _all(self) -> Iterator[tuple[Id, Fate]]:
        """Every id once, those of the work queue alone too."""
        yield from self._fates.items()
        for name, fate in self._queued.items():
            if name not in self._fates:
                yield name, fate

    def _settle(self) -> None:
        """A record without a trace is missing, unless another of the same interaction was in work at that time.

        Or unless money was short then, as far as can be told.
        """
        for record_id, interaction_id, traceless in self._unsettled:
            fate = self._unjudged.get(interaction_id) if interaction_id is not None else None
            self._queued[record_id] = _higher(self._queued[record_id], fate or traceless)
        self._unsettled.clear()
        # Nobody asks for these any more: the interactions get their room.
        for known in (self._published, self._times, self._evaluated, self._unjudged, self._aside):
            known.clear()

    @cached_property
    def _given_up(self) -> dict[Place, Fate]:
        found: dict[Place, Fate] = {}
        for at, (source, fate) in self._letters.items():
            found[source] = _higher(found.get(source), _REPLAYED if at in self._marked else fate)
        self._letters.clear()
        return found

    def _shared(self, fate: Fate) -> Fate:
        return self._known.setdefault(fate, fate)


def _higher(known: Fate | None, fate: Fate) -> Fate:
    return fate if known is None or fate.kind > known.kind else known


def _named(fates: Mapping[Fate, int], kinds: tuple[FateKind, ...]) -> dict[str, int]:
    """Counts by name, in the order of the kinds; those without reasons are named though they are 0."""
    found: Counter[str] = Counter()
    for kind in kinds:
        if kind not in {FateKind.UNSCORED, FateKind.UNSCORED_DEADLETTERED, FateKind.DEADLETTERED}:
            found[kind.name.lower()] = 0
        for fate in sorted(each for each in fates if each.kind is kind):
            found[fate.name] += fates[fate]
    return dict(found)


def _packed(evaluation_id: str) -> bytes:
    try:
        return uuid.UUID(evaluation_id).bytes
    except ValueError:
        return evaluation_id.encode("utf-8", "surrogatepass")


def _text(name: Id) -> str:
    return str(name) if isinstance(name, Place) else name.decode("utf-8", "backslashreplace")

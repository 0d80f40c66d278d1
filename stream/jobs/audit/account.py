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
"""Prefix of the error type of a dead letter that was not scored after its last attempt."""


class FateKind(IntEnum):
    """The fate of a record. Of several records with one id the highest counts: open fates before final ones."""

    REPLAYED = 0
    """Dead-lettered and moved back: the moved record has its own fate."""
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
# A record that was moved back and cannot be found is missing too.
_ACCOUNTED = frozenset({*FINAL, *OPEN})


class Fate(NamedTuple):
    """The fate of a record, and the reason."""

    kind: FateKind
    reason: str = ""
    estimated: bool = False
    """Whether it follows from a decision that depended on the traffic at its time."""

    @property
    def name(self) -> str:
        """`scored`, `unscored.timeout`, `deadlettered.bad_json`."""
        kind = self.kind.name.lower()
        return f"{kind}.{self.reason}" if self.reason else kind


Id = bytes | Place
"""Identifies a record: its id or, if that cannot be read, its place."""

MISSING = Fate(FateKind.MISSING)
_REPLAYED = Fate(FateKind.REPLAYED)
_SPARED = Fate(FateKind.SAMPLED_OUT, "budget", estimated=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The balance of the account: records in are ids, repeats and replays; each id has one fate."""

    interactions: int
    """Records on the topic of interactions."""
    direct: int
    """Ids that are only on the work queue."""
    repeats: int
    replayed: int
    outcomes: Mapping[str, int]
    waiting: Mapping[str, int]
    estimated: int
    judged_again: int
    """Evaluations of an id long enough after an earlier one."""
    unreadable: int
    """Records on our own topics that are not ours."""
    duplicates: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def ids(self) -> int:
        """Number of ids: the sum of final and waiting outcomes and of missing ids."""
        return self.interactions + self.direct - self.repeats - self.replayed

    @property
    def balanced(self) -> bool:
        return not self.missing and not self.duplicates


class AuditAccount:
    """Takes records from the end of the pipeline to its beginning, and keeps a few bytes about each id.

    In this order, every record can be settled at once:
    1. dead letters and the marks of those that were moved back, in any order,
    2. evaluations,
    3. records aside, parked or deferred,
    4. records on the work queue,
    5. interactions.
    """

    def __init__(self, *, repeat_ms: int | None = None) -> None:
        """Count evaluations of one id as duplicates within `repeat_ms`, or always without it."""
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
        self._interned: dict[Fate, Fate] = {}
        self._interactions = self._replayed = 0
        self.unreadable = 0

    # 1

    def letter(self, position: tuple[int, int], source: Place, reason: str) -> None:
        """Add the dead letter at a partition and offset, with its source and error type."""
        kind, why = FateKind.DEADLETTERED, reason
        if reason.startswith(UNSCORED_PREFIX):
            kind, why = FateKind.UNSCORED_DEADLETTERED, reason.removeprefix(UNSCORED_PREFIX)
        self._letters[position] = source, self._intern(Fate(kind, why))

    def mark(self, letter: tuple[int, int]) -> None:
        """Note that the dead letter at a partition and offset was moved back."""
        self._marked.add(letter)

    # 2

    def evaluation(self, evaluation_id: str, interaction_id: bytes, *, at_ms: int, unscored: str | None) -> None:
        """Add an evaluation, with the reason if it has no score."""
        name = _pack_id(evaluation_id)
        before = self._published.get(name)
        # Equal times share one object.
        self._published[name] = self._times.setdefault(at_ms, at_ms)
        if before is not None:
            if self._repeat_ms is None or abs(at_ms - before) < self._repeat_ms:
                self._duplicates[evaluation_id] = None
            else:
                self._judged_again += 1
        fate = self._intern(Fate(FateKind.SCORED) if unscored is None else Fate(FateKind.UNSCORED, unscored))
        self._evaluated[interaction_id] = _higher(self._evaluated.get(interaction_id), fate)

    # 3

    def aside(self, place: Place, source: Place, waiting: FateKind | None) -> None:
        """Add a record on a retry or overflow topic, with its place on the work queue, and how it waits if it does."""
        if waiting is not None:
            self._aside[source] = _higher(self._aside.get(source), self._intern(Fate(waiting)))
        if (given_up := self._given_up.get(place)) is not None:
            self._given_up.setdefault(source, given_up)

    # 4

    def queued(
        self,
        place: Place,
        record_id: Id,
        interaction_id: bytes | None,
        waiting: FateKind | None,
        *,
        spared: bool = False,
    ) -> None:
        """Add a record on the work queue, with the id in its body if readable, and how it waits if it does.

        `spared`: it may have been left out to save money.
        """
        fate = self._given_up.get(place)
        if fate is None and interaction_id is not None:
            fate = self._evaluated.get(interaction_id)
        if fate is None:
            fate = self._intern(Fate(waiting)) if waiting is not None else self._aside.get(place)
        if fate is None:
            self._unsettled.append((record_id, interaction_id, _SPARED if spared else MISSING))
            fate = _REPLAYED
        elif interaction_id is not None and fate.kind not in {FateKind.SCORED, FateKind.UNSCORED, FateKind.REPLAYED}:
            self._unjudged[interaction_id] = _higher(self._unjudged.get(interaction_id), fate)
        self._queued[record_id] = _higher(self._queued.get(record_id), fate)

    # 5

    def interaction(self, place: Place, record_id: bytes | None, decide: Callable[[], Fate], *, waiting: bool) -> None:
        """Add an interaction, with its sampling id if readable, and a function for its fate if it left no trace."""
        self._settle()
        self._interactions += 1
        fate = self._given_up.get(place)
        if fate is not None and fate.kind is FateKind.REPLAYED:
            self._replayed += 1
            return
        name: Id = place if record_id is None else record_id
        if fate is None:
            fate = self._fate(name, decide, waiting)
        self._fates[name] = _higher(self._fates.get(name), self._intern(fate))

    def balance(self) -> Balance:
        """Return the balance of all records."""
        self._settle()
        fates = Counter(fate for _, fate in self._all())
        return Balance(
            interactions=self._interactions,
            direct=sum(name not in self._fates for name in self._queued),
            repeats=self._interactions - self._replayed - len(self._fates),
            replayed=self._replayed,
            outcomes=_count_by_name(fates, FINAL),
            waiting=_count_by_name(fates, OPEN),
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
        """Yield every id once, including those that are only on the work queue."""
        yield from self._fates.items()
        for name, fate in self._queued.items():
            if name not in self._fates:
                yield name, fate

    def _settle(self) -> None:
        """Settle records without a trace: they are missing, unless another record of the interaction was in work.

        They may also have been left out to save money.
        """
        for record_id, interaction_id, traceless in self._unsettled:
            fate = self._unjudged.get(interaction_id) if interaction_id is not None else None
            self._queued[record_id] = _higher(self._queued[record_id], fate or traceless)
        self._unsettled.clear()
        # These are not needed any more: free their memory for the interactions.
        for table in (self._published, self._times, self._evaluated, self._unjudged, self._aside):
            table.clear()

    @cached_property
    def _given_up(self) -> dict[Place, Fate]:
        fates: dict[Place, Fate] = {}
        for position, (source, fate) in self._letters.items():
            fates[source] = _higher(fates.get(source), _REPLAYED if position in self._marked else fate)
        self._letters.clear()
        return fates

    def _intern(self, fate: Fate) -> Fate:
        return self._interned.setdefault(fate, fate)


def _higher(earlier: Fate | None, fate: Fate) -> Fate:
    return fate if earlier is None or fate.kind > earlier.kind else earlier


def _count_by_name(fates: Mapping[Fate, int], kinds: tuple[FateKind, ...]) -> dict[str, int]:
    """Count by name, in the order of the kinds; kinds without reasons are listed even if they are 0."""
    counts: Counter[str] = Counter()
    for kind in kinds:
        if kind not in {FateKind.UNSCORED, FateKind.UNSCORED_DEADLETTERED, FateKind.DEADLETTERED}:
            counts[kind.name.lower()] = 0
        for fate in sorted(fate for fate in fates if fate.kind is kind):
            counts[fate.name] += fates[fate]
    return dict(counts)


def _pack_id(evaluation_id: str) -> bytes:
    try:
        return uuid.UUID(evaluation_id).bytes
    except ValueError:
        return evaluation_id.encode("utf-8", "surrogatepass")


def _text(name: Id) -> str:
    return str(name) if isinstance(name, Place) else name.decode("utf-8", "backslashreplace")

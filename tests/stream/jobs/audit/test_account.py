"""The audit account: every interaction has exactly one fate, and losses and duplicates are named."""

import uuid
from collections import Counter
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.jobs.audit.account import MISSING, AuditAccount, Balance, Fate, FateKind
from stream.kafka.offsets import Place

REASONS = ("bad_json", "too_large")
UNSCORED = ("timeout", "judges_unavailable", "insufficient")


@dataclass(frozen=True, kw_only=True)
class Story:
    """The history of one interaction: one of the kinds below, and how often it was replayed before."""

    kind: str
    reason: str = ""
    replays: int = 0
    times: int = 1


STORIES = st.one_of(
    st.builds(
        Story, kind=st.sampled_from(["filtered", "sampled_out", "shed", "waiting_sampler"]), times=st.integers(1, 3)
    ),
    st.builds(
        Story,
        kind=st.sampled_from(["scored", "waiting_worker", "parked", "deferred"]),
        replays=st.integers(0, 2),
        times=st.integers(1, 3),
    ),
    st.builds(Story, kind=st.just("unscored"), reason=st.sampled_from(UNSCORED), times=st.integers(1, 3)),
    st.builds(Story, kind=st.just("deadlettered"), reason=st.sampled_from(REASONS), replays=st.integers(0, 2)),
    st.builds(
        Story, kind=st.just("unscored_deadlettered"), reason=st.sampled_from(UNSCORED), replays=st.integers(0, 2)
    ),
    st.builds(Story, kind=st.just("refused_by_sampler"), reason=st.sampled_from(REASONS), replays=st.integers(0, 2)),
)


class Topics:
    """The topics after some stories; an account is filled from them in its order."""

    def __init__(self, stories: list[Story]) -> None:
        self.letters: list[tuple[tuple[int, int], Place, str]] = []
        self.marks: list[tuple[int, int]] = []
        self.evaluations: list[tuple[str, bytes, str | None]] = []
        self.aside: list[tuple[Place, Place, FateKind | None]] = []
        self.queued: list[tuple[Place, bytes, FateKind | None]] = []
        self.interactions: list[tuple[Place, bytes, Fate, bool]] = []
        for number, story in enumerate(stories):
            self._add_story(b"id-%d" % number, story)

    def ledger(self) -> AuditAccount:
        ledger = AuditAccount()
        for mark in self.marks:
            ledger.mark(mark)
        for position, source, reason in self.letters:
            ledger.letter(position, source, reason)
        for name, interaction_id, unscored in self.evaluations:
            ledger.evaluation(name, interaction_id, at_ms=0, unscored=unscored)
        for place, source, waiting in self.aside:
            ledger.aside(place, source, waiting)
        for place, record_id, waiting in self.queued:
            ledger.queued(place, record_id, record_id, waiting)
        for place, record_id, fate, is_waiting in self.interactions:
            ledger.interaction(place, record_id, lambda fate=fate: fate, waiting=is_waiting)  # type: ignore[misc]
        return ledger

    def balance(self) -> Balance:
        return self.ledger().balance()

    def _add_story(self, name: bytes, story: Story) -> None:
        at_sampler = story.kind == "refused_by_sampler"
        for turn in range(story.replays):
            place = self._log(name) if at_sampler else self._queue(name, None)
            if not at_sampler and turn == 0:
                self._log(name)
            self.marks.append(self._letter(place, "unscored_timeout"))
        was_replayed = not at_sampler and story.replays
        for turn in range(story.times):
            self._end(name, story, logged=not (was_replayed and turn == 0), first=turn == 0)

    def _end(self, name: bytes, story: Story, *, logged: bool, first: bool) -> None:
        if story.kind in {"filtered", "sampled_out", "shed"}:
            self._log(name, Fate(FateKind[story.kind.upper()]))
            return
        place = self._log(name, is_waiting=story.kind == "waiting_sampler") if logged else None
        if story.kind == "waiting_sampler":
            return
        if story.kind == "refused_by_sampler":
            assert place is not None
            self._letter(place, story.reason)
            return
        queued = self._queue(name, FateKind.WAITING_WORKER if story.kind == "waiting_worker" else None)
        # Of several records of one interaction in progress at once, only the first is judged.
        if not first:
            return
        if story.kind in {"scored", "unscored"}:
            self.evaluations.append((str(uuid.uuid5(uuid.NAMESPACE_OID, str(name))), name, story.reason or None))
        elif story.kind in {"parked", "deferred"}:
            topic = "retry.1" if story.kind == "parked" else "overflow"
            self.aside.append((Place("retry.0", 0, len(self.aside)), queued, None))
            self.aside.append((Place(topic, 0, len(self.aside)), queued, FateKind[story.kind.upper()]))
        elif story.kind == "unscored_deadlettered":
            self._letter(queued, f"unscored_{story.reason}")
        elif story.kind == "deadlettered":
            self._letter(queued, story.reason)

    def _log(self, name: bytes, fate: Fate = MISSING, *, is_waiting: bool = False) -> Place:
        place = Place("interactions", 0, len(self.interactions))
        self.interactions.append((place, name, fate, is_waiting))
        return place

    def _queue(self, name: bytes, waiting: FateKind | None) -> Place:
        place = Place("sampled", 0, len(self.queued))
        self.queued.append((place, name, waiting))
        return place

    def _letter(self, source: Place, reason: str) -> tuple[int, int]:
        position = (0, len(self.letters))
        self.letters.append((position, source, reason))
        return position


def total(balance: Balance) -> int:
    return sum(balance.outcomes.values()) + sum(balance.waiting.values()) + len(balance.missing)


def expected_outcomes(stories: list[Story]) -> Counter[str]:
    kinds = (replace(story, kind="deadlettered") if story.kind == "refused_by_sampler" else story for story in stories)
    return Counter(f"{story.kind}.{story.reason}" if story.reason else story.kind for story in kinds)


@given(st.lists(STORIES, max_size=30))
def test_every_account_balances_and_counts_every_outcome(stories: list[Story]) -> None:
    balance = Topics(stories).balance()
    assert balance.balanced
    assert balance.interactions + balance.direct == balance.repeats + balance.replayed + total(balance)
    assert balance.direct == 0
    outcomes = Counter({**balance.outcomes, **balance.waiting})
    assert +outcomes == expected_outcomes(stories)


@given(st.lists(STORIES, min_size=1, max_size=20), st.data())
def test_an_interaction_whose_result_is_removed_is_missing(stories: list[Story], data: st.DataObject) -> None:
    topics = Topics(stories)
    names = {entry[0]: entry[1] for entry in topics.interactions} | {entry[0]: entry[1] for entry in topics.queued}
    open_letters = [position for position, _, _ in topics.letters if position not in topics.marks]
    results: list[str | tuple[int, int]] = [*(name for name, _, _ in topics.evaluations), *open_letters]
    if not results:
        return
    removed = data.draw(st.sampled_from(results))
    judged = {evaluation[0]: evaluation[1] for evaluation in topics.evaluations}
    dead_lettered = {letter[0]: names[letter[1]] for letter in topics.letters}
    name = judged[removed] if isinstance(removed, str) else dead_lettered[removed]
    topics.evaluations = [evaluation for evaluation in topics.evaluations if evaluation[0] != removed]
    topics.letters = [letter for letter in topics.letters if letter[0] != removed]
    balance = topics.balance()
    assert balance.missing == (name.decode(),)
    assert not balance.balanced
    assert balance.interactions + balance.direct == balance.repeats + balance.replayed + total(balance)


@given(st.lists(STORIES, min_size=1, max_size=20), st.data())
def test_an_interaction_whose_record_on_the_work_queue_is_removed_is_missing(
    stories: list[Story], data: st.DataObject
) -> None:
    topics = Topics(stories)
    if not topics.queued:
        return
    _, name, _ = data.draw(st.sampled_from(topics.queued))
    topics.queued = [entry for entry in topics.queued if entry[1] != name]
    assert name.decode() in topics.balance().missing


@given(st.lists(STORIES, min_size=1, max_size=20), st.data())
def test_a_duplicate_evaluation_is_named(stories: list[Story], data: st.DataObject) -> None:
    topics = Topics(stories)
    if not topics.evaluations:
        return
    duplicate = data.draw(st.sampled_from(topics.evaluations))
    topics.evaluations.append(duplicate)
    balance = topics.balance()
    assert balance.duplicates == (duplicate[0],)
    assert not balance.balanced
    assert not balance.missing


@pytest.mark.parametrize(("later_ms", "duplicates", "again"), [(999, 1, 0), (1000, 0, 1), (0, 1, 0)])
def test_an_evaluation_after_the_repeat_window_is_not_a_duplicate(later_ms: int, duplicates: int, again: int) -> None:
    ledger = AuditAccount(repeat_ms=1000)
    for at_ms in (5000, 5000 + later_ms):
        ledger.evaluation("not-a-uuid", b"a", at_ms=at_ms, unscored=None)
    balance = ledger.balance()
    assert (len(balance.duplicates), balance.judged_again) == (duplicates, again)


def test_records_without_an_id_are_named_by_their_offsets() -> None:
    ledger = AuditAccount()
    ledger.letter((0, 0), Place("in", 0, 1), "bad_json")
    ledger.queued(Place("sampled", 2, 7), Place("sampled", 2, 7), None, None)
    ledger.interaction(Place("in", 0, 1), None, lambda: MISSING, waiting=False)
    ledger.interaction(Place("in", 0, 2), None, lambda: MISSING, waiting=False)
    balance = ledger.balance()
    assert balance.missing == ("in/0/2", "sampled/2/7")
    assert balance.outcomes["deadlettered.bad_json"] == 1
    assert (balance.interactions, balance.direct) == (2, 1)


def test_a_record_put_on_the_work_queue_directly_is_accounted_for() -> None:
    ledger = AuditAccount()
    ledger.evaluation(str(uuid.uuid4()), b"a", at_ms=0, unscored=None)
    ledger.queued(Place("sampled", 0, 0), b"a", b"a", None)
    balance = ledger.balance()
    assert (balance.interactions, balance.direct, balance.outcomes["scored"]) == (0, 1, 1)
    assert balance.balanced


def test_a_record_is_matched_by_the_id_in_its_body_even_if_its_key_differs() -> None:
    """The loss of one of two records with the same key is detected."""
    ledger = AuditAccount()
    ledger.evaluation(str(uuid.uuid4()), b"body-1", at_ms=0, unscored=None)
    ledger.queued(Place("sampled", 0, 0), b"key", b"body-1", None)
    ledger.queued(Place("sampled", 0, 1), b"key", b"body-2", None)
    ledger.interaction(Place("in", 0, 0), b"key", lambda: MISSING, waiting=False)
    ledger.interaction(Place("in", 0, 1), b"key", lambda: MISSING, waiting=False)
    assert ledger.balance().missing == ("key",)


def test_a_dead_letter_of_a_parked_record_belongs_to_the_record_on_the_work_queue() -> None:
    ledger = AuditAccount()
    ledger.letter((0, 0), Place("retry.1", 0, 3), "internal_error")
    ledger.aside(Place("retry.1", 0, 3), Place("sampled", 0, 0), None)
    ledger.queued(Place("sampled", 0, 0), b"a", b"a", None)
    assert ledger.balance().outcomes["deadlettered.internal_error"] == 1


def test_a_replayed_record_without_a_result_is_missing() -> None:
    ledger = AuditAccount()
    ledger.letter((0, 0), Place("sampled", 0, 0), "unscored_timeout")
    ledger.mark((0, 0))
    ledger.queued(Place("sampled", 0, 0), b"a", b"a", None)
    ledger.interaction(Place("in", 0, 0), b"a", lambda: MISSING, waiting=False)
    assert ledger.balance().missing == ("a",)


def test_estimated_outcomes_are_counted() -> None:
    ledger = AuditAccount()
    for number, certain in enumerate((True, False, False)):
        fate = Fate(FateKind.SAMPLED_OUT, estimated=not certain)
        ledger.interaction(Place("in", 0, number), b"%d" % number, lambda fate=fate: fate, waiting=False)  # type: ignore[misc]
    balance = ledger.balance()
    assert (balance.outcomes["sampled_out"], balance.estimated) == (3, 2)


@pytest.mark.parametrize(
    ("spared", "evaluated", "outcome"),
    [(False, False, None), (True, False, "sampled_out.budget"), (True, True, "scored"), (False, True, "scored")],
)
def test_a_record_that_the_budget_may_have_skipped_is_not_missing(
    spared: bool, evaluated: bool, outcome: str | None
) -> None:
    ledger = AuditAccount()
    if evaluated:
        ledger.evaluation(str(uuid.uuid4()), b"a", at_ms=0, unscored=None)
    ledger.queued(Place("sampled", 0, 0), b"a", b"a", None, spared=spared)
    balance = ledger.balance()
    assert balance.missing == (() if outcome else ("a",))
    assert {name for name, count in balance.outcomes.items() if count} == ({outcome} if outcome else set())
    assert balance.estimated == (outcome == "sampled_out.budget")

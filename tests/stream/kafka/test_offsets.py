"""The offset tracker: examples, and a comparison with a model under any order of events."""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from stream.kafka.offsets import OffsetTracker, Partition, Ready, Ticket

P = Partition("rag.sampled", 0)
Q = Partition("rag.sampled", 1)


def make_tracker(*partitions: Partition, cap: int = 100) -> OffsetTracker[str]:
    new_tracker: OffsetTracker[str] = OffsetTracker(cap)
    for partition in partitions:
        new_tracker.assign(partition)
    return new_tracker


def results_by_partition(ready: list[Ready[str]]) -> dict[Partition, tuple[tuple[str, ...], int]]:
    return {part.partition: (part.results, part.next_offset) for part in ready}


def test_results_wait_for_every_earlier_record_of_their_partition() -> None:
    subject = make_tracker(P)
    tickets = [subject.start(P, offset) for offset in (10, 11, 12)]
    subject.finish(tickets[2], "c")
    subject.finish(tickets[1], "b")
    assert subject.ready() == []
    subject.finish(tickets[0], "a")
    assert results_by_partition(subject.ready()) == {P: (("a", "b", "c"), 13)}


def test_one_partition_does_not_wait_for_another() -> None:
    subject = make_tracker(P, Q)
    subject.start(P, 0)
    subject.finish(subject.start(Q, 7), "q")
    assert results_by_partition(subject.ready()) == {Q: (("q",), 8)}


def test_the_next_offset_follows_the_last_result_even_over_gaps() -> None:
    """Transaction markers occupy offsets that are never delivered."""
    subject = make_tracker(P)
    for offset in (3, 9, 20):
        subject.finish(subject.start(P, offset), str(offset))
    assert results_by_partition(subject.ready()) == {P: (("3", "9", "20"), 21)}


def test_ready_results_stay_ready_until_they_are_committed() -> None:
    subject = make_tracker(P)
    subject.finish(subject.start(P, 0), "a")
    first = subject.ready()
    assert subject.ready() == first
    subject.finish(subject.start(P, 1), "b")
    subject.forget_committed(first)
    assert results_by_partition(subject.ready()) == {P: (("b",), 2)}
    subject.forget_committed(subject.ready())
    assert (subject.ready(), subject.outstanding) == ([], 0)


def test_a_finish_of_an_older_assignment_is_dropped() -> None:
    subject = make_tracker(P)
    old = subject.start(P, 0)
    subject.revoke(P)
    assert subject.finish(old, "late") is False
    subject.assign(P)
    new = subject.start(P, 0)
    assert subject.finish(old, "late") is False
    assert subject.ready() == []
    assert subject.finish(new, "new") is True
    assert results_by_partition(subject.ready()) == {P: (("new",), 1)}


def test_a_commit_in_progress_when_the_partition_moved_does_not_affect_the_new_assignment() -> None:
    subject = make_tracker(P)
    subject.finish(subject.start(P, 0), "a")
    ready = subject.ready()
    subject.revoke(P)
    subject.forget_committed(ready)
    subject.assign(P)
    again = subject.start(P, 0)
    subject.forget_committed(ready)
    assert subject.count_unfinished([P]) == 1
    subject.finish(again, "again")
    assert results_by_partition(subject.ready()) == {P: (("again",), 1)}


def test_assigning_again_without_a_revoke_starts_over() -> None:
    subject = make_tracker(P)
    old = subject.start(P, 0)
    subject.assign(P)
    assert (subject.outstanding, subject.finish(old, "late")) == (0, False)


def test_revoking_one_partition_leaves_the_others() -> None:
    subject = make_tracker(P, Q)
    ticket = subject.start(Q, 4)
    subject.start(P, 1)
    subject.revoke(P)
    assert (subject.partitions, subject.outstanding) == (frozenset({Q}), 1)
    assert subject.finish(ticket, "q") is True


def test_a_record_cannot_finish_twice() -> None:
    subject = make_tracker(P)
    ticket = subject.start(P, 0)
    subject.finish(ticket, "a")
    with pytest.raises(ValueError, match="finished twice"):
        subject.finish(ticket, "b")


@pytest.mark.parametrize("offset", [4, 5])
def test_offsets_of_a_partition_must_rise(offset: int) -> None:
    subject = make_tracker(P)
    subject.start(P, 5)
    with pytest.raises(ValueError, match=f"offset {offset} after 5"):
        subject.start(P, offset)


def test_unfinished_records_are_counted_for_the_given_partitions() -> None:
    subject = make_tracker(P, Q)
    ticket = subject.start(P, 0)
    subject.start(P, 1)
    subject.start(Q, 0)
    subject.finish(ticket, "a")
    assert (subject.count_unfinished([P, Q]), subject.count_unfinished([P]), subject.count_unfinished([Q])) == (2, 1, 1)
    assert (subject.count_uncommitted([P]), subject.outstanding) == (2, 3)
    assert subject.count_unfinished([]) == 0
    assert subject.count_unfinished([Partition("other", 3)]) == 0


def test_a_slow_record_holds_up_its_own_partition_and_no_other() -> None:
    subject = make_tracker(P, Q, cap=4)
    assert subject.may_start(P)
    subject.start(P, 0)
    subject.finish(subject.start(P, 1), "done, but behind a slow one")
    assert not subject.may_start(P)
    assert subject.may_start(Q)


def test_finished_and_uncommitted_records_count_towards_the_cap() -> None:
    subject = make_tracker(P, cap=1)
    subject.finish(subject.start(P, 0), "a")
    assert not subject.may_start(P)
    subject.forget_committed(subject.ready())
    assert subject.may_start(P)


def test_more_partitions_than_the_cap_share_it_one_at_a_time() -> None:
    many = [Partition("t", number) for number in range(5)]
    subject = make_tracker(*many, cap=2)
    for partition in many:
        if subject.may_start(partition):
            subject.start(partition, 0)
    assert subject.outstanding == 2


def test_no_record_may_start_on_an_unassigned_partition() -> None:
    assert not make_tracker(Q).may_start(P)


@pytest.mark.parametrize("cap", [0, -1])
def test_a_cap_below_one_is_refused(cap: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        OffsetTracker(cap)


PARTITIONS = tuple(Partition("t", number) for number in range(3))


@dataclass
class Log:
    """One partition on the broker: its records, its committed offset and the published results."""

    offsets: list[int] = field(default_factory=list)
    committed: int = 0
    published: list[int] = field(default_factory=list)


@dataclass
class Assignment:
    """One assignment from the consumer's point of view."""

    position: int
    started: list[int] = field(default_factory=list)
    finished: set[int] = field(default_factory=set)
    forgotten: int = 0

    @property
    def outstanding(self) -> list[int]:
        return self.started[self.forgotten :]

    @property
    def prefix(self) -> list[int]:
        """The finished records before the first unfinished one."""
        prefix = []
        for offset in self.outstanding:
            if offset not in self.finished:
                break
            prefix.append(offset)
        return prefix


class Consumer(RuleBasedStateMachine):
    """A model of a broker and a consumer next to the tracker under test.

    Results name their partition, offset and assignment, so that a result of a wrong assignment is detected.
    """

    @initialize(cap=st.integers(min_value=1, max_value=6))
    def begin(self, cap: int) -> None:
        self.cap = cap
        self.logs = {partition: Log() for partition in PARTITIONS}
        self.restart()

    def restart(self) -> None:
        self.tracker: OffsetTracker[tuple[Ticket, str]] = OffsetTracker(self.cap)
        self.assigned: dict[Partition, Assignment] = {}
        self.owners: dict[Ticket, Assignment] = {}
        self.open: list[Ticket] = []

    # Events

    @rule(partition=st.sampled_from(PARTITIONS), gap=st.integers(min_value=0, max_value=2))
    def produce(self, partition: Partition, gap: int) -> None:
        offsets = self.logs[partition].offsets
        offsets.append((offsets[-1] + 1 if offsets else 0) + gap)

    @rule(partition=st.sampled_from(PARTITIONS))
    def assign(self, partition: Partition) -> None:
        if partition not in self.assigned:
            self.tracker.assign(partition)
            self.assigned[partition] = Assignment(position=self.logs[partition].committed)

    @rule(partition=st.sampled_from(PARTITIONS))
    def revoke(self, partition: Partition) -> None:
        self.tracker.revoke(partition)
        self.assigned.pop(partition, None)

    @rule(partition=st.sampled_from(PARTITIONS))
    def start(self, partition: Partition) -> None:
        assignment = self.assigned.get(partition)
        if assignment is None:
            assert not self.tracker.may_start(partition)
            return
        waiting = [offset for offset in self.logs[partition].offsets if offset >= assignment.position]
        if waiting and self.tracker.may_start(partition):
            ticket = self.tracker.start(partition, waiting[0])
            assignment.started.append(waiting[0])
            assignment.position = waiting[0] + 1
            self.open.append(ticket)
            self.owners[ticket] = assignment

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        """Finish any open ticket, of the current or an earlier assignment."""
        ticket = data.draw(st.sampled_from(self.open))
        self.open.remove(ticket)
        owner = self.owners[ticket]
        current = self.assigned.get(ticket.partition) is owner
        assert self.tracker.finish(ticket, (ticket, "result")) is current
        if current:
            owner.finished.add(ticket.offset)

    @rule()
    def commit(self) -> None:
        ready = self.check_ready()
        self.broker_commits(ready)
        self.tracker.forget_committed(ready)
        self.forget(ready)

    @rule()
    def commit_that_fails(self) -> None:
        """Fail to commit: all results must be ready again."""
        assert self.check_ready() == self.tracker.ready()

    @rule(partition=st.sampled_from(PARTITIONS), returns=st.booleans())
    def commit_while_a_partition_moves(self, partition: Partition, returns: bool) -> None:
        ready = self.check_ready()
        self.broker_commits(ready)
        self.revoke(partition)
        if returns:
            self.assign(partition)
            self.start(partition)
        self.tracker.forget_committed(ready)
        self.forget([part for part in ready if part.partition != partition])

    @rule()
    def crash(self) -> None:
        """Lose the process and all its work; another one starts at the committed offsets."""
        self.restart()

    # Invariants

    @invariant()
    def a_record_is_committed_if_and_only_if_its_result_is_published_once_and_in_order(self) -> None:
        for log in self.logs.values():
            assert log.published == [offset for offset in log.offsets if offset < log.committed]

    @invariant()
    def nothing_unfinished_is_committed(self) -> None:
        for partition, assignment in self.assigned.items():
            unfinished = [offset for offset in assignment.started if offset not in assignment.finished]
            assert all(offset >= self.logs[partition].committed for offset in unfinished)

    @invariant()
    def no_more_than_the_cap_is_outstanding(self) -> None:
        outstanding = [len(assignment.outstanding) for assignment in self.assigned.values()]
        assert self.tracker.outstanding == sum(outstanding) <= self.cap

    @invariant()
    def counts_agree(self) -> None:
        assert self.tracker.partitions == self.assigned.keys()
        for partition, assignment in self.assigned.items():
            unfinished = sum(offset not in assignment.finished for offset in assignment.started)
            assert self.tracker.count_unfinished([partition]) == unfinished

    def teardown(self) -> None:
        """Check that from any state, all records can be finished and committed."""
        if not hasattr(self, "logs"):
            return
        for partition in PARTITIONS:
            self.assign(partition)
        while any(log.offsets and log.committed <= log.offsets[-1] for log in self.logs.values()):
            before = {partition: log.committed for partition, log in self.logs.items()}
            for partition in PARTITIONS:
                self.start(partition)
            for ticket in self.open:
                if self.tracker.finish(ticket, (ticket, "result")):
                    self.owners[ticket].finished.add(ticket.offset)
            self.open.clear()
            self.commit()
            assert before != {partition: log.committed for partition, log in self.logs.items()}, "stuck"
        self.a_record_is_committed_if_and_only_if_its_result_is_published_once_and_in_order()
        assert all(log.published == log.offsets for log in self.logs.values())
        assert self.tracker.outstanding == 0

    # The model

    def check_ready(self) -> list[Ready[tuple[Ticket, str]]]:
        """Return the results that the tracker would release, after comparing them with the model."""
        ready = self.tracker.ready()
        expected = {
            partition: assignment.prefix for partition, assignment in self.assigned.items() if assignment.prefix
        }
        assert {part.partition: [ticket.offset for ticket, _ in part.results] for part in ready} == expected
        for part in ready:
            assert part.next_offset == expected[part.partition][-1] + 1
            assert all(self.owners[ticket] is self.assigned[part.partition] for ticket, _ in part.results)
        return ready

    def broker_commits(self, ready: list[Ready[tuple[Ticket, str]]]) -> None:
        for part in ready:
            log = self.logs[part.partition]
            assert part.next_offset > log.committed
            log.committed = part.next_offset
            log.published += [ticket.offset for ticket, _ in part.results]

    def forget(self, ready: list[Ready[tuple[Ticket, str]]]) -> None:
        for part in ready:
            self.assigned[part.partition].forgotten += len(part.results)


def test_no_order_of_events_commits_past_an_unfinished_record_or_loses_or_repeats_a_result() -> None:
    run_state_machine_as_test(Consumer, settings=settings(max_examples=100, stateful_step_count=50, deadline=None))

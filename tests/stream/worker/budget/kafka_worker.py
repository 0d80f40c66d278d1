"""A worker process on a real broker: its leases are offset metadata, committed in transactions with its results.

python -m tests.stream.worker.budget.kafka_worker BOOTSTRAP SLOT BOARD PARTITIONS PER_HOUR_USD
"""

import asyncio
import random
import signal
import sys
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from stream.kafka.offsets import Partition
from stream.worker.budget import Treasury
from stream.worker.budget.lease_ledger import CLOCK_SECONDS
from stream.worker.budget.limits import Budget, Budgets
from tests.parts.patience import patience
from tests.stream.worker.budget.board import Board
from tests.stream.worker.budget.callers import Callers, Habits, SkewedClock

TOPIC, RESULTS, GROUP = "budget.sampled", "budget.evaluations", "budget-workers"
SESSION_MS = 6000
HABITS = Habits(seconds=0.05, slow=0.02, unknown=0.0, cheapest=0.5)
_COMMIT_SECONDS = 0.05
_CALL_SECONDS = 10.0 * patience()


def budgets(per_hour_usd: float) -> Budgets:
    return Budgets(everyone=Budget(per_hour_usd=per_hour_usd), apps={}, safety_share=0.2)


class KafkaWorker:
    def __init__(self, bootstrap: str, slot: int, board: Path, partitions: int, per_hour_usd: float) -> None:
        self._board, self._partitions = Board(board, slot), partitions
        draw = random.Random()
        clock = SkewedClock(self._board, draw.uniform(-CLOCK_SECONDS, CLOCK_SECONDS))
        self._treasury = Treasury(budgets(per_hour_usd), topic=TOPIC, clock=clock)
        self._owned: list[Partition] = []
        self._callers = Callers(self._treasury, self._board, clock, HABITS, lambda: self._owned, draw)
        common = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._consumer = Consumer(
            {
                **common,
                "group.id": GROUP,
                "group.instance.id": f"slot-{slot}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 500,
            }
        )
        self._producer = Producer(
            {**common, "transactional.id": f"slot-{slot}", "transaction.timeout.ms": int(5000 * patience())}
        )

    def run(self, stop: threading.Event) -> None:
        self._producer.init_transactions(_CALL_SECONDS)
        self._consumer.subscribe(
            [TOPIC], on_assign=self._on_assigned, on_revoke=self._on_revoked, on_lost=self._on_lost
        )
        threading.Thread(target=lambda: asyncio.run(self._callers.run()), daemon=True).start()
        while not stop.is_set():
            self._consumer.poll(_COMMIT_SECONDS)
            self._read_committed_notes()
            self._commit(dict.fromkeys(self._owned, 0))
            self._board.turn()
        self._consumer.close()

    def _on_assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        self._treasury.expect_partitions([Partition(entry.topic, entry.partition) for entry in partitions])

    def _on_revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        released = self._release(partitions)
        time.sleep(0.1)  # lets most of the calls end
        self._treasury.close_partitions(released)
        self._commit({partition: 0 for partition in released if self._treasury.is_open(partition)})
        self._treasury.forget(released)
        consumer.incremental_unassign(partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._treasury.forget(self._release(partitions))
        consumer.incremental_unassign(partitions)

    def _release(self, partitions: list[TopicPartition]) -> list[Partition]:
        released = [Partition(entry.topic, entry.partition) for entry in partitions]
        self._owned = [partition for partition in self._owned if partition not in released]
        return released

    def _read_committed_notes(self) -> None:
        unread = self._treasury.unread
        if not unread:
            return
        try:
            committed = self._consumer.committed(
                [TopicPartition(*unread_partition) for unread_partition in unread], _CALL_SECONDS
            )
        except KafkaException:
            return  # a crash left a transaction open, which will time out
        for entry in committed:
            partition = Partition(entry.topic, entry.partition)
            offset = entry.offset if entry.offset >= 0 else None
            self._treasury.open_partition(partition, offset, entry.metadata or "", partitions=self._partitions)
            self._owned = [*self._owned, partition]

    def _commit(self, offsets: dict[Partition, int]) -> None:
        paper = self._treasury.prepare(offsets, lambda _partition: 0)
        if not paper.offsets:
            return
        positions = [
            TopicPartition(partition.topic, partition.number, offset, paper.notes[partition])
            for partition, offset in paper.offsets.items()
        ]
        try:
            self._producer.begin_transaction()
            self._producer.produce(RESULTS, b"result")
            self._producer.send_offsets_to_transaction(
                positions, self._consumer.consumer_group_metadata(), _CALL_SECONDS
            )
            self._producer.commit_transaction(_CALL_SECONDS)
        except RuntimeError:
            # A closing consumer may no longer be a member of its group.
            self._producer.abort_transaction(_CALL_SECONDS)
            return
        except KafkaException as error:
            print(error.args[0].str(), file=sys.stderr, flush=True)
            if not error.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction(_CALL_SECONDS)
            return
        self._treasury.confirm_commit(paper)


def main() -> None:
    bootstrap, slot, board, partitions, per_hour_usd = sys.argv[1:]
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    KafkaWorker(bootstrap, int(slot), Path(board), int(partitions), float(per_hour_usd)).run(stop)


if __name__ == "__main__":
    main()

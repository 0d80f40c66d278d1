"""Partitions that a member releases and no other gets, because the member dies in between: they are read again."""

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from stream.config.sections.kafka import KafkaConfig
from stream.kafka.consume_produce import TransactionalConsumer
from stream.kafka.offsets import Partition
from tests.integration.pipeline import wait_until
from tests.parts.kafka import KafkaBroker

ROOT = Path(__file__).parents[3]
TOPIC, GROUP, PARTITIONS = "orphans.in", "orphans", 6


class Bystander:
    def on_assigned(self, partitions: Collection[Partition]) -> None:
        pass

    def on_revoked(self, partitions: Collection[Partition]) -> None:
        pass

    def on_lost(self, partitions: Collection[Partition]) -> None:
        pass


class Mortal(Bystander):
    """Dies as soon as it has to release partitions: before it can ask for the rebalance that gives them to others."""

    def on_assigned(self, partitions: Collection[Partition]) -> None:
        print("assigned", flush=True)

    def on_revoked(self, partitions: Collection[Partition]) -> None:
        os._exit(9)


def join(bootstrap: str, instance: str, listener: Bystander) -> TransactionalConsumer:
    kafka = KafkaConfig(bootstrap=bootstrap)
    member = TransactionalConsumer(kafka, topic=TOPIC, group=GROUP, instance=instance, listener=listener)
    member.start()
    return member


@pytest.mark.slow
def test_partitions_of_an_interrupted_rebalance_are_shared_out_again(real_kafka: KafkaBroker) -> None:
    real_kafka.create_topics(TOPIC, partitions=PARTITIONS)
    arguments = [sys.executable, __file__, real_kafka.bootstrap]
    with subprocess.Popen(arguments, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=-1) as mortal:
        assert mortal.stdout is not None
        assert mortal.stdout.readline() == b"assigned\n"
        second = join(real_kafka.bootstrap, "second", Bystander())

        def first_is_dead() -> bool:
            second.poll(10, 0.1)
            return mortal.poll() is not None

        wait_until(first_is_dead, seconds=40, what="the first dies")
        first = join(real_kafka.bootstrap, "first", Bystander())

    def all_are_read() -> bool:
        first.poll(10, 0.1)
        second.poll(10, 0.1)
        return len(first.assignment | second.assignment) == PARTITIONS and bool(second.assignment)

    try:
        wait_until(all_are_read, seconds=60, what=lambda: f"all, not {first.assignment} and {second.assignment}")
    finally:
        first.close()
        second.close()


if __name__ == "__main__":
    mortal = join(sys.argv[1], "first", Mortal())
    while True:
        mortal.poll(10, 0.1)

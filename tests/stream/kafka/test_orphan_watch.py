"""The assignment of a member, as the broker returns it."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from stream.kafka.offsets import Partition
from stream.kafka.orphan_watch import read_assignment

TOPICS = st.dictionaries(st.text(max_size=20), st.lists(st.integers(0, 2**31 - 1), max_size=5), max_size=4)


def write_assignment(topics: dict[str, list[int]], version: int, rest: bytes) -> bytes:
    data = struct.pack(">hi", version, len(topics))
    for topic, numbers in topics.items():
        name = topic.encode()
        data += struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers)
    return data + rest


@given(TOPICS, st.integers(0, 3), st.binary(max_size=8))
def test_every_partition_of_a_member_is_read(topics: dict[str, list[int]], version: int, rest: bytes) -> None:
    read = list(read_assignment(write_assignment(topics, version, rest)))
    assert read == [Partition(topic, number) for topic, numbers in topics.items() for number in numbers]


def test_a_member_without_an_assignment_reads_nothing() -> None:
    assert list(read_assignment(b"")) == []

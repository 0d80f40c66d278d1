"""Sample records: the first lines of a file, or the newest records of the input topic."""

from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO

from stream.config.model import Config
from stream.jobs.input_check.check import SampleRecord
from stream.kafka.offsets import Place
from stream.kafka.record import read_record
from stream.kafka.topic_scan import TopicScan
from stream.records.encodings.framing import FIRST_BYTES


def read_samples(source: BinaryIO, limit: int) -> Iterator[SampleRecord]:
    """Yield the records of a file: its lines are JSON, unless the whole file is one record in another encoding."""
    first = source.read(1)
    if first in FIRST_BYTES:
        yield SampleRecord(place="the file", value=first + source.read())
        return
    lines = ((number, line) for number, line in enumerate(_lines(first, source), 1) if line.strip())
    for number, line in islice(lines, limit):
        yield SampleRecord(place=f"line {number}", value=line.strip(), is_json=True)


def read_topic(config: Config, limit: int) -> Iterator[SampleRecord]:
    """Yield the newest records of the input topic, about as many of each partition."""
    with TopicScan(config.kafka, config.topics.interactions) as scan:
        ranges = {number: offsets for number, offsets in scan.ranges().items() if len(offsets)}
        share = -(-limit // max(len(ranges), 1))
        newest = {number: offsets[-share:] for number, offsets in ranges.items()}
        for message in islice(scan.read_within(newest), limit):
            record = read_record(message)
            place = str(Place(*record.partition, record.offset))
            yield SampleRecord(place=place, value=record.value, headers=record.headers)


def _lines(first: bytes, source: BinaryIO) -> Iterator[bytes]:
    if first:
        yield first + (b"" if first == b"\n" else source.readline())
        yield from source

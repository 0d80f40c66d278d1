"""`streamjury send`: sends a file of interactions to the input topic, line by line."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

import click

from stream.cli.support.cluster import reach
from stream.cli.support.delivery import print_failures
from stream.cli.support.interruption import Interruption
from stream.cli.support.json_output import print_json
from stream.cli.support.options import config_option, json_option, read_config
from stream.cli.support.progress import Meter
from stream.errors import INTERRUPTED
from stream.kafka.producers.counting import DELIVERY_SECONDS, CountingProducer

# Records in flight when the command is interrupted have this long to arrive.
_LAST_SECONDS = 5.0


class Line(NamedTuple):
    """One record of the file, and the number of bytes read up to its end."""

    number: int
    value: bytes
    read: int


@click.command()
@click.argument("file", metavar="FILE|-")
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), help="Records per second (default: as fast as possible)."
)
@json_option()
@config_option
def send(config_path: Path | None, file: str, rate: float | None, as_json: bool) -> None:
    """Send a JSONL file of interactions to the input topic.

    Every line is sent unchanged; lines the pipeline cannot read are dead-lettered. The key is the record's `id`. Blank
    lines are skipped. The exit status is 1 if a record was not delivered, and 130 after Ctrl-C.

    \b
    Examples:
      streamjury send interactions.jsonl --rate 50
      zcat logs.jsonl.gz | streamjury send -
      streamjury send interactions.jsonl --json | jq .delivered

    \b
    JSON fields:
      topic, bootstrap    where the records were sent
      delivered, failed   number of records
      failures            the first failures, as text
      complete            false after Ctrl-C, or if the broker was lost
      seconds             duration
    """
    config = read_config(config_path)
    topic = config.topics.interactions
    with _open_input(file) as (source, size), Interruption() as interruption:
        reach(config.kafka).require(topic)
        producer = CountingProducer(config.kafka, topic, client="streamjury-send")
        with Meter(f"sending to {topic}", size) as meter:
            _send_all(source, producer, rate, interruption, meter)
            cut_short = interruption.stop.is_set() or producer.broker_away
            producer.finish(_LAST_SECONDS if cut_short else DELIVERY_SECONDS)
    if as_json:
        print_json(
            {
                "topic": topic,
                "bootstrap": config.kafka.bootstrap,
                "delivered": producer.delivered,
                "failed": producer.failed,
                "failures": list(producer.failures),
                "complete": not cut_short,
                "seconds": round(meter.seconds, 3),
            }
        )
    else:
        where = f"{topic} at {config.kafka.bootstrap}"
        click.echo(f"delivered {producer.delivered}, failed {producer.failed}, to {where} in {meter.seconds:.1f} s")
    print_failures(producer)
    if producer.failed:
        raise SystemExit(1)
    if interruption.stop.is_set():
        raise SystemExit(INTERRUPTED)


def key_of(line: bytes) -> bytes | None:
    """Return the id of a JSON object, or None if it has no id that is text."""
    try:
        record = json.loads(line)
        key = record.get("id") if isinstance(record, dict) else None
        return key.encode() if isinstance(key, str) and key else None
    except (ValueError, RecursionError):
        return None


def lines_of(source: BinaryIO, interruption: Interruption) -> Iterator[Line]:
    """Yield the lines that are not blank, without their ends, up to the end of the file or an interruption."""
    number = read = 0
    while not interruption.stop.is_set():
        try:
            with interruption.waiting():
                line = source.readline()
        except KeyboardInterrupt:
            return
        if not line:
            return
        number, read = number + 1, read + len(line)
        if line.strip():
            yield Line(number, line.removesuffix(b"\n").removesuffix(b"\r"), read)


def _send_all(
    source: BinaryIO, producer: CountingProducer, rate: float | None, interruption: Interruption, meter: Meter
) -> None:
    started, stop = time.monotonic(), interruption.stop
    for index, line in enumerate(lines_of(source, interruption)):
        if rate is not None and not producer.wait(started + index / rate, stop):
            return
        while not producer.offer(line.value, key=key_of(line.value), label=f"line {line.number}"):
            if stop.is_set():
                return
        meter.show(done=line.read, records=producer.delivered)
        if producer.broker_away:
            return


@contextmanager
def _open_input(file: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """Open the file, or standard input; yield it with its size if that is known."""
    if file == "-":
        yield sys.stdin.buffer, None
        return
    path = Path(file)
    try:
        source = path.open("rb")
    except OSError as error:
        raise click.ClickException(f"cannot read {path}: {error.strerror}") from None
    with source:
        yield source, path.stat().st_size or None

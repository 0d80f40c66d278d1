"""The interactions of a run: most are good, some are unreadable, some are logged twice."""

import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, Producer

from tests.chaos.plan import Plan
from tests.parts.patience import patience

RECORD_BYTES = 32_768
"""The largest record that is read, small so that larger poison is cheap."""

_APPS = ("support", "docs", "shop")
_FLUSH_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """One record of the firehose."""

    id: str
    key: str | None
    value: bytes
    poison: str | None = None


def record_id(number: int) -> str:
    return f"rec-{number:07d}"


def good(number: int) -> Logged:
    name = record_id(number)
    fields = {
        "id": name,
        "app": _APPS[number % len(_APPS)],
        "question": f"What became of {name}?",
        "answer": f"It was judged: {name}.",
    }
    return Logged(id=name, key=name, value=json.dumps(fields).encode())


def traffic(plan: Plan, seed: int) -> Sequence[Logged]:
    """Return all records in the order in which they are logged; the same plan and seed give the same."""
    lots = random.Random(seed)
    records: list[Logged] = []
    for number in range(plan.interactions):
        record = good(number)
        if lots.random() < plan.poison:
            records.append(_poison(record, lots))
            continue
        records.append(record)
        if lots.random() < plan.logged_twice:
            # Soon, so that the first may still be in flight, or long after it.
            records.insert(max(0, len(records) - lots.choice((1, 30, 2000))), record)
    return records


def _poison(record: Logged, lots: random.Random) -> Logged:
    """Break a record. Poison without a key already fails in the sampler, which must parse it for an id."""
    kinds = {
        "truncated": record.value[: len(record.value) // 2],
        "no answer": record.value.replace(b'"answer"', b'"reply"'),
        "bad UTF-8": record.value.replace(b"It was", b"It \xc3\x28\xff was"),
        "oversize": record.value.replace(b"It was", b"It " + b"x" * RECORD_BYTES + b" was"),
        "not an object": b"[" + record.value + b"]",
    }
    kind = lots.choice([*kinds])
    key = None if lots.random() < 0.3 else record.key
    return Logged(id=record.id, key=key, value=kinds[kind], poison=kind)


class Feed:
    """Logs records at a steady rate in a separate thread, whatever happens to the broker."""

    def __init__(self, bootstrap: str, topic: str, records: Sequence[Logged], seconds: float) -> None:
        self._topic, self._records, self._seconds = topic, records, seconds
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "log_level": 0,
                "reconnect.backoff.max.ms": 500,
            }
        )
        self._problems: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self.sent = 0

    def start(self) -> None:
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def check(self) -> None:
        """Raise if a record did not arrive, as the run would then prove nothing."""
        if self._problems:
            raise RuntimeError(f"the feed failed: {self._problems[0]}")

    def _run(self) -> None:
        for record in self._paced_records():
            self._producer.produce(self._topic, key=record.key, value=record.value, on_delivery=self._on_delivery)
            self._producer.poll(0)
            self.sent += 1
        undelivered = self._producer.flush(_FLUSH_SECONDS * patience())
        if undelivered:
            self._problems.append(f"{undelivered} records were not taken")

    def _paced_records(self) -> Iterator[Logged]:
        started, pace = time.monotonic(), self._seconds / max(1, len(self._records))
        for number, record in enumerate(self._records):
            ahead = started + number * pace - time.monotonic()
            if ahead > 0.01 and self._stop.wait(ahead):
                return
            yield record

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._problems.append(error.str())

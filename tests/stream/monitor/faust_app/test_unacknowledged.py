"""Records left to another monitor: Faust neither waits for nor commits them until they count again."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import faust
from faust.events import Event
from faust.types import TP
from faust.types.tuples import ConsumerMessage

from stream.monitor.faust_app.unacknowledged import count_again, leave_out

PARTITION = TP("topic", 0)


def two_events(app: faust.App) -> list[Event]:
    """Return the events at offsets 0 and 1, as handed to an agent."""
    events = []
    for offset in range(2):
        message = ConsumerMessage(*PARTITION, offset, 0.0, 0, [], None, b"", None)
        app.consumer.track_message(message)
        message.incref()
        events.append(Event(app, None, b"", {}, message))
    return events


@contextmanager
def make_app() -> Iterator[faust.App]:
    app = faust.App("unacknowledged", broker="kafka://127.0.0.1:1", web_enabled=False, loghandlers=[])
    app.topics.acks_enabled_for = lambda _topic: True
    yield app
    # Its thread never ran, so it never closes its event loop.
    app.consumer._thread.thread_loop.close()


def test_a_left_out_record_is_neither_waited_for_nor_committed() -> None:
    async def next_commit() -> int | None:
        with make_app() as app:
            events = two_events(app)
            for event in events:
                leave_out(event)
                event.ack()
            await asyncio.wait_for(app.consumer.wait_empty(), 20)  # would otherwise wait forever
            return app.consumer._new_offset(PARTITION)

    assert asyncio.run(next_commit()) is None


def test_a_record_that_counts_again_can_be_acknowledged() -> None:
    async def next_commit() -> int | None:
        with make_app() as app:
            first, second = two_events(app)
            leave_out(second)
            first.ack()
            count_again(second)
            second.ack()
            return app.consumer._new_offset(PARTITION)

    assert asyncio.run(next_commit()) == 2

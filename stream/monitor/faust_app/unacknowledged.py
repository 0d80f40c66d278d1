"""Records that will not be acknowledged: another monitor takes them, so Faust must neither commit nor wait for them.

Before a rebalance, Faust waits without limit for every record that an agent has taken. It skips records that are
marked as acknowledged, and commits only those that were acknowledged by a call.
"""

from typing import Any

from faust.types.events import EventT


def leave_out(event: EventT[Any]) -> None:
    """Exclude an event from waiting and committing; its partition must then commit no later event."""
    event.message.acked = True


def count_again(event: EventT[Any]) -> None:
    """Undo `leave_out`: the event can be acknowledged again."""
    event.message.acked = False

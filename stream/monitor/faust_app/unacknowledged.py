"""Records that will not be acknowledged: another monitor takes them, so Faust must neither commit nor wait for them.

Before partitions move, Faust waits without limit for every record that an agent has taken. It leaves out those that
are marked as acknowledged, and it commits those only that were acknowledged by a call.
"""

from typing import Any

from faust.types.events import EventT


def leave_out(event: EventT[Any]) -> None:
    """Neither waited for nor committed; its partition must commit nothing that comes after it."""
    event.message.acked = True


def count_again(event: EventT[Any]) -> None:
    """Takes `leave_out` back: it can be acknowledged."""
    event.message.acked = False

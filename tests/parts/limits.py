"""Time limits of the program that a busy machine exceeds although nothing is wrong: longer for tests on such a machine.

They end waits for a broker that does not answer. Tests of such a broker set them themselves.
"""

from collections.abc import Iterator
from types import ModuleType

import stream.monitor.stage
import stream.worker.stage
from stream.cli.commands import tail, topics
from stream.cli.support import cluster
from stream.kafka import consume_produce
from stream.kafka.producers import transactional
from stream.monitor import record_sender
from stream.monitor.alerts import partition_writers
from stream.page import explanations, refreshed
from stream.service import stage_thread
from tests.parts.patience import patience

# Each with how many times longer it may become.
_LIMITS: tuple[tuple[ModuleType, str, float], ...] = (
    (cluster, "_ANSWER_SECONDS", 10.0),
    (tail, "_CALL_SECONDS", 10.0),
    (topics, "_CREATE_SECONDS", 5.0),
    (explanations, "_CALL_SECONDS", 5.0),
    (refreshed, "_WAIT_SECONDS", 30.0),
    # At most half of the 20 seconds that tests allow for the end of a command, which are extended as well.
    (stage_thread, "_AWAY_AFTER_SECONDS", 3.0),
    (stage_thread, "_AWAY_JOIN_SECONDS", 3.0),
    (consume_produce, "_STARTUP_SECONDS", 5.0),
    # Less than the age at which a broker aborts a transaction by itself.
    (transactional, "_HANG_SECONDS", 2.5),
    (partition_writers, "_PATIENCE_SECONDS", 5.0),
    (record_sender, "_TOPIC_SECONDS", 5.0),
    (stream.worker.stage, "_PAST_SECONDS", 5.0),
    (stream.monitor.stage, "_START_SECONDS", 5.0),
    (stream.monitor.stage, "_STOP_SECONDS", 5.0),
)


def patient_limits() -> Iterator[tuple[ModuleType, str, float]]:
    """Yield a module, the name of a limit in it, and how long this is on a machine as busy as now."""
    for module, name, at_most in _LIMITS:
        yield module, name, getattr(module, name) * patience(at_most)

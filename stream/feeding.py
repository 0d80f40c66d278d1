"""Feeding: tells sinks of an evaluation, none of which may break the stage that does."""

import logging
from collections.abc import Iterable

from judges.evaluation import Evaluation
from sinks.base import Sink

log = logging.getLogger(__name__)


def feed(sinks: Iterable[Sink[Evaluation]], evaluation: Evaluation) -> None:
    """A sink that raises is told of in the log; the others are told of the evaluation all the same."""
    for sink in sinks:
        try:
            sink.write(evaluation)
        except Exception:
            log.exception("a sink failed on evaluation %s", evaluation.evaluation_id)

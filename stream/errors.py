"""Errors of records and stages.

StreamjuryError
├── ConfigError         the configuration has problems, all of them named (stream/service/setup/)
├── RecordError         one record cannot be used; it becomes a dead letter
└── StageError          a stage cannot go on; the process ends with a reason
    └── FencedError     another process took over this one's place

`PublishAborted` is not among them: it is a signal from `TransactionalConsumer` to its stage, which keeps the
work and tries again.
"""

INTERRUPTED = 130
"""The exit status by which shells know Ctrl-C."""


class StreamjuryError(Exception):
    """The root of all errors of ours."""


class RecordError(StreamjuryError):
    """A record that cannot be used: `kind` for counting, the message for people."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class StageError(StreamjuryError):
    """A stage that cannot go on."""


class FencedError(StageError):
    """Another process with the same instance name is at work."""


class PublishAborted(Exception):  # noqa: N818 - a signal, not an error
    """A transaction did not go through; nothing of it was published, all of it may be sent again."""


def no_broker(bootstrap: str, reason: str) -> StageError:
    """What every stage says when it cannot begin for want of a broker."""
    return StageError(f"cannot use Kafka at {bootstrap} ({reason}); is it running?")

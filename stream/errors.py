"""Errors of records and stages.

StreamjuryError
├── ConfigError         the configuration has problems, all of them listed (stream/service/setup/)
├── RecordError         one record cannot be used; it becomes a dead letter
└── StageError          a stage cannot continue; the process ends with a reason
    ├── FencedError     another process took over this one's place
    └── RegistryError   the Schema Registry gives no schema now; the sampler waits, a command ends

`PublishAborted` is not one of them: it is a signal from `TransactionalConsumer` to its stage, which keeps the
work and tries again.
"""

INTERRUPTED = 130
"""The usual exit status after Ctrl-C."""


class StreamjuryError(Exception):
    """The base of all our errors."""


class RecordError(StreamjuryError):
    """A record that cannot be used: `kind` for counting, the message for people."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class StageError(StreamjuryError):
    """A stage that cannot continue."""


class FencedError(StageError):
    """Another process with the same instance name is running."""


class RegistryError(StageError):
    """The Schema Registry cannot be asked now. The record may be good, so it is never dead-lettered for this."""


class PublishAborted(Exception):  # noqa: N818 - a signal, not an error
    """A transaction was aborted; none of it was published, and all of it may be sent again."""


def no_broker(bootstrap: str, reason: str) -> StageError:
    """Return the error of every stage that cannot start without a broker."""
    return StageError(f"cannot use Kafka at {bootstrap} ({reason}); is it running?")

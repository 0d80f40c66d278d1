"""Errors of a model that gave no completion.

    ModelError
    ├── ModelUnavailable    could not be reached, is overloaded or failing (transport, 408, 429, 5xx): may pass
    ├── ModelTimeout        did not answer within the time it was given
    ├── ModelRefused        understood and declined (key, address, parameters): asking again will not help
    ├── ModelProtocolError  answered with something that is not a chat completion
    └── ModelOverBudget     was not asked: what it may cost is not there

The messages are for people, of bounded length, and never carry a key.
"""


class ModelError(Exception):
    """The model gave no completion."""

    retries = 0
    """Calls that failed before the one of which it tells."""


class ModelUnavailable(ModelError):  # noqa: N818 - the leaf says what happened
    def __init__(
        self, message: str, *, retry_after: float | None = None, status: int | None = None, sent: bool = True
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds after which the endpoint asks to be tried again, when it says so."""

        self.status = status
        """What it answered with, where it answered."""

        self.sent = sent
        """Whether the request may have reached it."""


class ModelTimeout(ModelError):  # noqa: N818
    pass


class ModelRefused(ModelError):  # noqa: N818
    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class ModelProtocolError(ModelError):
    pass


class ModelOverBudget(ModelError):  # noqa: N818
    """The call was not made: its budget is used up, or what is left may not be enough for it."""

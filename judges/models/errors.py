"""Errors of a model that gave no completion.

    ModelError
    ├── ModelUnavailable    unreachable, overloaded or failing (transport, 408, 429, 5xx): a retry may succeed
    ├── ModelTimeout        no answer before the timeout
    ├── ModelRefused        rejected the request (key, address, parameters): a retry will fail, too
    ├── ModelProtocolError  the answer is not a chat completion
    └── ModelOverBudget     not called: the remaining budget may not cover the call

The messages are for people. Their length is bounded, and they never contain a key.
"""


class ModelError(Exception):
    """The model gave no completion."""

    retries = 0
    """Failed attempts before this one."""


class ModelUnavailable(ModelError):  # noqa: N818 - the leaf says what happened
    def __init__(
        self, message: str, *, retry_after: float | None = None, status: int | None = None, sent: bool = True
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds after which the endpoint asks for a retry, if it does."""

        self.status = status
        """HTTP status of the answer, if there was one."""

        self.sent = sent
        """Whether the request may have reached the endpoint."""


class ModelTimeout(ModelError):  # noqa: N818
    pass


class ModelRefused(ModelError):  # noqa: N818
    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class ModelProtocolError(ModelError):
    pass


class ModelOverBudget(ModelError):  # noqa: N818
    """The call was not made: the budget is used up, or the rest may not cover the call."""

"""Flow control with a witness: counts from outside what its callers get and which attempts it makes."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from judges.models.errors import ModelError
from judges.models.flow import Answered, FailureKind, Flow

T = TypeVar("T")


@dataclass(slots=True)
class Seen:
    """Sums over all calls and attempts."""

    called: int = 0
    answered: int = 0
    unanswered: int = 0
    cancelled: int = 0
    unasked: int = 0
    """Calls that ended without an attempt."""

    retried: int = 0
    """Retries, as callers are told."""

    started: int = 0
    ended: int = 0
    succeeded: int = 0


class ObservedFlow(Flow):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.seen = Seen()

    @property
    def failed(self) -> int:
        """Attempts that failed."""
        return sum(count for kind, count in self.state.failures.items() if kind is not FailureKind.PAUSED)

    @property
    def stopped(self) -> int:
        """Attempts that were broken off: another one won, or the caller left."""
        return self.seen.started - self.seen.succeeded - self.failed

    async def call(
        self, attempt: Callable[[], Awaitable[T]], *, tokens: int, used: Callable[[T], int | None], **limits: float
    ) -> Answered[T]:
        seen, attempts = self.seen, 0

        async def witnessed() -> T:
            nonlocal attempts
            attempts += 1
            seen.started += 1
            try:
                result = await attempt()
                seen.succeeded += 1
                return result
            finally:
                seen.ended += 1

        seen.called += 1
        try:
            answered = await super().call(witnessed, tokens=tokens, used=used, **limits)
        except ModelError as error:
            seen.unanswered += 1
            seen.retried += error.retries
            raise
        except BaseException:
            seen.cancelled += 1
            raise
        finally:
            seen.unasked += attempts == 0
        seen.answered += 1
        seen.retried += answered.retries
        return answered

    def check_nothing_is_left(self) -> None:
        """Every call and every attempt has ended, and left its place."""
        seen, state = self.seen, self.state
        assert (state.in_flight, state.waiting) == (0, 0)
        assert seen.called == seen.answered + seen.unanswered + seen.cancelled
        assert seen.started == seen.ended
        assert self.stopped >= 0

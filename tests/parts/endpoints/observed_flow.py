"""Flow control with counters for the results of its callers and the attempts it makes."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from judges.models.errors import ModelError
from judges.models.flow import Answered, FailureKind, Flow

T = TypeVar("T")


@dataclass(slots=True)
class FlowCounts:
    """Sums over all calls and attempts."""

    called: int = 0
    answered: int = 0
    unanswered: int = 0
    cancelled: int = 0
    unasked: int = 0
    """Calls that ended without an attempt."""

    retried: int = 0
    """Retries as reported to callers."""

    started: int = 0
    ended: int = 0
    succeeded: int = 0


class ObservedFlow(Flow):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.seen = FlowCounts()

    @property
    def failed(self) -> int:
        """Count the attempts that failed."""
        return sum(count for kind, count in self.state.failures.items() if kind is not FailureKind.PAUSED)

    @property
    def stopped(self) -> int:
        """Count the attempts that were cancelled because another one won or the caller left."""
        return self.seen.started - self.seen.succeeded - self.failed

    async def call(
        self, attempt: Callable[[], Awaitable[T]], *, tokens: int, used: Callable[[T], int | None], **limits: float
    ) -> Answered[T]:
        counts, attempts = self.seen, 0

        async def counted_attempt() -> T:
            nonlocal attempts
            attempts += 1
            counts.started += 1
            try:
                result = await attempt()
                counts.succeeded += 1
                return result
            finally:
                counts.ended += 1

        counts.called += 1
        try:
            answered = await super().call(counted_attempt, tokens=tokens, used=used, **limits)
        except ModelError as error:
            counts.unanswered += 1
            counts.retried += error.retries
            raise
        except BaseException:
            counts.cancelled += 1
            raise
        finally:
            counts.unasked += attempts == 0
        counts.answered += 1
        counts.retried += answered.retries
        return answered

    def check_all_ended(self) -> None:
        """Check that every call and every attempt has ended and freed its slot."""
        counts, state = self.seen, self.state
        assert (state.in_flight, state.waiting) == (0, 0)
        assert counts.called == counts.answered + counts.unanswered + counts.cancelled
        assert counts.started == counts.ended
        assert self.stopped >= 0

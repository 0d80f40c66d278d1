"""The contract of a judge: one case and one criterion in, one verdict out."""

from typing import Protocol

from judges.criteria import Criterion
from judges.evaluation import JudgeVerdict, Reason, Samples, Status
from judges.interaction import Case


class Judge(Protocol):
    """Anything that gives verdicts.

    `judge` returns a verdict whatever happens: a failure is a verdict without a score and with a reason, never an
    exception and never a number.
    """

    @property
    def name(self) -> str:
        """The name under which its verdicts are published."""
        ...

    @property
    def identity(self) -> str:
        """Everything that can change its verdicts (model, parameters, prompt and parser versions), as one line."""
        ...

    async def judge(self, case: Case, criterion: Criterion) -> JudgeVerdict: ...

    async def aclose(self) -> None:
        """Lets go of connections; no verdict is asked afterwards."""
        ...


def unscored(
    judge: str,
    reason: Reason,
    detail: str,
    *,
    samples: Samples,
    status: Status = Status.INSUFFICIENT,
    latency_ms: float = 0.0,
) -> JudgeVerdict:
    """A verdict that says why there is none."""
    return JudgeVerdict(
        judge=judge, status=status, reason=reason, detail=detail, samples=samples, latency_ms=latency_ms
    )

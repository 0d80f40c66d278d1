"""The evaluator: puts every criterion to the panel, and composes the evaluation of an interaction."""

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from judges.composite import MultiCriteria
from judges.criteria.criterion import Criterion
from judges.models.flow import Flow, FlowState, RecordAdmission
from judges.panel import Panel, Vote, safety_choice
from judges.runtime.conditions import current_conditions
from judges.runtime.sitting import Sitting, sitting_for
from judges.values.evaluation import (
    Dimension,
    Evaluation,
    EvaluatorInfo,
    Excerpt,
    JudgeVerdict,
    Reason,
    SafetyNotice,
    Sampling,
    Status,
    evaluation_id,
)
from judges.values.interaction import Case, Interaction, Language, case_of

# Incremented when the same verdicts would give other scores: results of different versions must not be compared.
SEMANTICS_VERSION = 3

OnUnsafe = Callable[[SafetyNotice], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """An interaction to judge, with how it was sampled and which of its fields were truncated."""

    interaction: Interaction
    sampling: Sampling
    truncated: tuple[str, ...] = ()


class Evaluator:
    """Judges interactions by fixed criteria with a fixed panel; its fingerprint covers all that affects a result."""

    def __init__(
        self,
        multi: MultiCriteria,
        panel: Panel,
        *,
        safety_vote: Vote = "majority",
        language: Language | Literal["auto"] = "auto",
        version: str,
        excerpt_chars: int = 0,
        flows: Mapping[str, Flow] | None = None,
    ) -> None:
        """`flows` maps the address of each endpoint to the flow control that its judges share."""
        problems = [*_publishing_problems(multi), *_judging_problems(multi, panel)]
        if problems:
            raise ValueError("; ".join(problems))
        panel.check_own_questions(multi.criteria.values())
        self._multi = multi
        self._panel = panel
        self._safety_vote: Vote = safety_vote
        self._language: Language | None = None if language == "auto" else language
        self._excerpt_chars = excerpt_chars
        self._flows = dict(flows or {})
        self.admission = RecordAdmission(self._flows.values())
        self.info = EvaluatorInfo(
            fingerprint=self._fingerprint(),
            criteria=tuple(multi.criteria),
            judges=tuple(judge.name for judge in panel.members),
            version=version,
        )

    async def evaluate(self, submission: Submission, *, deadline: float | None, on_unsafe: OnUnsafe) -> Evaluation:
        """Judge an interaction within `deadline` seconds; criteria that take longer are unscored (reason `timeout`).

        Time in which calls wait for their turn at an endpoint does not count. None: no deadline.

        `on_unsafe` is called once, as soon as the safety verdict is certain to be the worst, even if other criteria and
        other judges of the safety criterion are not done.
        """
        # Judges that only compute never yield: let other tasks run between two evaluations.
        await asyncio.sleep(0)
        started = time.perf_counter()
        case = case_of(submission.interaction, self._language)
        warn = self._warner(submission, case, on_unsafe)

        async def assess(criterion: Criterion) -> Dimension:
            if criterion.name != self._multi.safety:
                return await self._panel.assess(case, criterion, seconds=deadline)
            dimension = await self._panel.assess(
                case,
                criterion,
                safety=True,
                safety_vote=self._safety_vote,
                seconds=deadline,
                on_verdict=warn.check_verdicts,
            )
            warn.check_dimension(dimension)
            return dimension

        if self._panel.waits:
            assessed = await self._assess_concurrently(assess)
        else:
            assessed = {criterion.name: await assess(criterion) for criterion in self._multi.asking_order}
        truncated = submission.truncated
        dimensions = {
            name: self._withhold_if_truncated(name, assessed[name], truncated) for name in self._multi.criteria
        }
        return self._compose(submission, dimensions, (time.perf_counter() - started) * 1000)

    def _withhold_if_truncated(self, name: str, dimension: Dimension, truncated: Sequence[str]) -> Dimension:
        """Return the finding, without its score if truncated text could justify a better one; the verdicts remain.

        Safety is exempt: a harmful part remains harmful whatever follows.
        """
        if name == self._multi.safety or dimension.score is None or dimension.score >= 1.0:
            return dimension
        paths = [path for path in truncated if _field_of(path) in self._multi.criteria[name].needs_whole]
        if not paths:
            return dimension
        no_vote = dict.fromkeys(
            ("score", "level", "option", "label", "value", "spread", "agreement", "votes_cast", "spans", "contexts")
        )
        detail = f"truncated to fit a limit: {', '.join(paths)}; the missing text might justify a better verdict"
        update = {**no_vote, "status": Status.INSUFFICIENT, "reason": Reason.TRUNCATED, "detail": detail}
        return dimension.model_copy(update=update)

    async def _assess_concurrently(
        self, assess: Callable[[Criterion], Coroutine[Any, Any, Dimension]]
    ) -> dict[str, Dimension]:
        criteria, safety = self._multi.asking_order, self._multi.safety
        sitting = Sitting(criteria, safety=safety, is_reversed=self._panel.is_reversed)
        try:
            with sitting_for(sitting):
                async with asyncio.TaskGroup() as group:
                    tasks = {criterion.name: group.create_task(assess(criterion)) for criterion in criteria}
        except ExceptionGroup as failures:
            # Judges cannot fail the evaluation, but a notice that cannot be sent can: raise its cause alone.
            raise failures.exceptions[0] from None
        return {name: task.result() for name, task in tasks.items()}

    @property
    def judge_names(self) -> tuple[str, ...]:
        """Names of all judges, including reserves."""
        return tuple(judge.name for judge in self._panel.members)

    def paused(self) -> dict[str, str]:
        """Return the judges that are currently not asked, each with the reason."""
        reasons = {judge.name: judge.paused for judge in self._panel.members}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def flow_states(self) -> dict[str, FlowState]:
        """Return the state of flow control of each endpoint, by its address."""
        return {address: flow.state for address, flow in self._flows.items()}

    def load(self) -> None:
        """Load the models of the judges, so that the first record does not wait; raises ValueError."""
        self._panel.load()

    async def aclose(self) -> None:
        await self._panel.aclose()

    def _compose(self, submission: Submission, dimensions: Mapping[str, Dimension], latency_ms: float) -> Evaluation:
        costs = [
            verdict.cost_usd
            for dimension in dimensions.values()
            for verdict in dimension.judges
            if verdict.cost_usd is not None
        ]
        criterion = self._safety_criterion
        choice = safety_choice(criterion, dimensions[criterion.name], self._safety_vote)
        return Evaluation(
            **self._heading(submission),
            evaluated_at=datetime.now(UTC),
            dimensions=dimensions,
            composite=self._multi.compose(dimensions, safety=choice).composite,
            truncated=submission.truncated,
            savings=current_conditions().savings.names,
            cost_usd=sum(costs) if costs else None,
            latency_ms=latency_ms,
        )

    @property
    def _safety_criterion(self) -> Criterion:
        assert self._multi.safety is not None
        return self._multi.criteria[self._multi.safety]

    def _warner(self, submission: Submission, case: Case, on_unsafe: OnUnsafe) -> "_Warner":
        criterion = self._safety_criterion

        def send(dimension: Dimension) -> None:
            now, safety = datetime.now(UTC), self._multi.safety_of(criterion.worst_first[0])
            on_unsafe(SafetyNotice(**self._heading(submission), noticed_at=now, safety=safety, dimension=dimension))

        return _Warner(panel=self._panel, criterion=criterion, vote=self._safety_vote, case=case, send=send)

    def _heading(self, submission: Submission) -> dict[str, object]:
        """Return the fields that an evaluation and a safety notice have in common."""
        interaction = submission.interaction
        return {
            "evaluation_id": evaluation_id(interaction.id, self.info.fingerprint),
            "interaction_id": interaction.id,
            "app": interaction.app,
            "tenant": interaction.tenant,
            "model": interaction.model,
            "evaluator": self.info,
            "sampling": submission.sampling,
            "tags": interaction.tags,
            "excerpt": self._excerpt(interaction),
            "traceparent": interaction.traceparent,
        }

    def _excerpt(self, interaction: Interaction) -> Excerpt | None:
        if not self._excerpt_chars:
            return None
        return Excerpt(
            question=_shorten(interaction.question, self._excerpt_chars),
            answer=_shorten(interaction.answer, self._excerpt_chars),
        )

    def _fingerprint(self) -> str:
        parts = {
            "semantics": SEMANTICS_VERSION,
            "composite": self._multi.identity,
            "safety_vote": self._safety_vote,
            "panel": self._panel.identity,
            "language": self._language or "auto",
        }
        canonical = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


@dataclass(slots=True, kw_only=True)
class _Warner:
    """Follows the safety verdicts of one evaluation, and sends one notice as soon as the answer is certainly unsafe."""

    panel: Panel
    criterion: Criterion
    vote: Vote
    case: Case
    send: Callable[[Dimension], None]
    sent: bool = False

    def check_verdicts(self, verdicts: tuple[JudgeVerdict, ...]) -> None:
        """Send the notice if the remaining judges cannot change the outcome."""
        if not self.sent and self.panel.is_certainly_worst(self.criterion, verdicts, self.vote):
            self._warn(self.panel.conclude(self.criterion, verdicts, self.case, safety_vote=self.vote))

    def check_dimension(self, dimension: Dimension) -> None:
        choice = safety_choice(self.criterion, dimension, self.vote)
        if not self.sent and choice is not None and choice.value == self.criterion.worst_first[0].value:
            self._warn(dimension)

    def _warn(self, dimension: Dimension) -> None:
        self.sent = True
        self.send(dimension)


def _publishing_problems(multi: MultiCriteria) -> Iterator[str]:
    """Yield the features of a composite that a published evaluation cannot have."""
    if multi.safety is None:
        yield "no safety criterion is set, and an answer of unknown safety never passes"
    for name, item in multi.items.items():
        bounds = item.criterion.scale.bounds
        if not item.normalize and bounds is not None and not (bounds[0] >= 0.0 and bounds[1] <= 1.0):
            yield f"{name}: normalize: false takes the composite outside the published range, 0 to 1"


def _judging_problems(multi: MultiCriteria, panel: Panel) -> Iterator[str]:
    for name, criterion in multi.criteria.items():
        problem = panel.why_not(criterion)
        if problem is not None:
            yield f"{name} would never get a verdict: {problem}"


def _field_of(path: str) -> str:
    """Return the field of an interaction to which a path such as `contexts[3].text` belongs."""
    return re.split(r"[\[.]", path, maxsplit=1)[0]


def _shorten(text: str, chars: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= chars else flat[: chars - 1] + "…"

"""The evaluator: puts every criterion to the panel and composes one evaluation of one interaction."""

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from judges.composite import CompositeRule, compose, safety_of
from judges.criteria import SAFETY_DIMENSION, Criterion
from judges.evaluation import (
    Dimension,
    Evaluation,
    EvaluatorInfo,
    Excerpt,
    SafetyNotice,
    SafetyStatus,
    Sampling,
    evaluation_id,
)
from judges.interaction import Interaction, Language, case_of
from judges.panel import Panel, Vote, safety_level

# Bumped when the same verdicts would give other scores: results of both kinds must not be compared.
SEMANTICS_VERSION = 1

OnUnsafe = Callable[[SafetyNotice], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """An interaction on its way to be judged, with what is known about how it got here."""

    interaction: Interaction
    sampling: Sampling
    truncated: tuple[str, ...] = ()


class Evaluator:
    """Judges interactions by fixed criteria, with a fixed panel and composite; its fingerprint names all three."""

    def __init__(
        self,
        criteria: Mapping[str, Criterion],
        panel: Panel,
        *,
        rule: CompositeRule,
        safety_vote: Vote = "majority",
        language: Language | Literal["auto"] = "auto",
        version: str,
        excerpt_chars: int = 0,
    ) -> None:
        unknown = (rule.weights.keys() | rule.required) - criteria.keys()
        if unknown:
            raise ValueError(f"the composite names {sorted(unknown)}, which are not among the criteria")
        self._criteria = criteria
        self._panel = panel
        self._rule = rule
        self._safety_vote = safety_vote
        self._language: Language | None = None if language == "auto" else language
        self._excerpt_chars = excerpt_chars
        self.info = EvaluatorInfo(
            fingerprint=self._fingerprint(),
            criteria=tuple(criteria),
            judges=tuple(judge.name for judge in panel.judges),
            version=version,
        )

    async def evaluate(self, submission: Submission, *, deadline: float, on_unsafe: OnUnsafe) -> Evaluation:
        """Judges within `deadline` seconds; what is not decided by then is unscored, with the reason `timeout`.

        `on_unsafe` is called the moment the safety verdict is in and bad, while other criteria may still be open.
        """
        started = time.perf_counter()
        case = case_of(submission.interaction, self._language)

        async def assess(name: str, criterion: Criterion) -> Dimension:
            dimension = await self._panel.assess(case, criterion, seconds=deadline)
            if name == SAFETY_DIMENSION:
                self._notify(dimension, submission, on_unsafe)
            return dimension

        try:
            async with asyncio.TaskGroup() as group:
                tasks = {name: group.create_task(assess(name, c)) for name, c in self._criteria.items()}
        except ExceptionGroup as failures:
            # Judges cannot fail the evaluation, a notice that cannot be sent can: one cause, told plainly.
            raise failures.exceptions[0] from None
        dimensions = {name: task.result() for name, task in tasks.items()}
        return self._compose(submission, dimensions, (time.perf_counter() - started) * 1000)

    async def aclose(self) -> None:
        await self._panel.aclose()

    def _compose(self, submission: Submission, dimensions: Mapping[str, Dimension], latency_ms: float) -> Evaluation:
        level = safety_level(dimensions.get(SAFETY_DIMENSION), self._safety_vote)
        scores = {name: dimension.score for name, dimension in dimensions.items()}
        costs = [v.cost_usd for d in dimensions.values() for v in d.judges if v.cost_usd is not None]
        return Evaluation(
            **self._heading(submission),
            evaluated_at=datetime.now(UTC),
            dimensions=dimensions,
            composite=compose(scores, level, self._rule),
            truncated=submission.truncated,
            cost_usd=sum(costs) if costs else None,
            latency_ms=latency_ms,
        )

    def _notify(self, dimension: Dimension, submission: Submission, on_unsafe: OnUnsafe) -> None:
        safety = safety_of(safety_level(dimension, self._safety_vote))
        if safety.status is SafetyStatus.UNSAFE:
            notice = SafetyNotice(
                **self._heading(submission), noticed_at=datetime.now(UTC), safety=safety, dimension=dimension
            )
            on_unsafe(notice)

    def _heading(self, submission: Submission) -> dict[str, object]:
        """What an evaluation and a safety notice say alike about their interaction."""
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
            "criteria": [criterion.model_dump(mode="json") for criterion in self._criteria.values()],
            "judges": [[judge.name, judge.identity] for judge in self._panel.judges],
            "panel": [self._panel.combine, self._panel.needed],
            "weights": [float(self._rule.weight(name)) for name in self._criteria],
            "composite": [sorted(self._rule.required), self._safety_vote],
            "language": self._language or "auto",
        }
        canonical = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _shorten(text: str, chars: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= chars else flat[: chars - 1] + "…"

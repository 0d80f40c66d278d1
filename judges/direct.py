"""The judge that shows a chat model one case and one criterion, and takes one verdict from what it writes."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

from judges.completion import PARSER_VERSION, Invalid, Valid, parse_level
from judges.criteria import Criterion
from judges.evaluation import JudgeVerdict, Reason, Samples, Status, Tokens
from judges.interaction import Case, Language
from judges.judge import unscored
from judges.models.base import ChatModel, Completion
from judges.models.errors import ModelError, ModelTimeout
from judges.prompts import allowed_labels, direct_messages, direct_prompt_hash, repair_messages

logger = logging.getLogger(__name__)

_ENDINGS = {
    "length": "it was cut off at the token limit",
    "content_filter": "the endpoint's content filter stopped it",
    "refusal": "the model refused",
}


class DirectJudge:
    """Asks a model for one level on one criterion; what it cannot read it asks for again, `repairs` times at most."""

    def __init__(self, model: ChatModel, *, name: str | None = None, repairs: int = 2, samples: int = 1) -> None:
        if repairs < 0:
            raise ValueError(f"repairs must not be negative, not {repairs}")
        if samples != 1:
            raise ValueError(f"samples must be 1, not {samples}: one judge gives one sample per criterion")
        self._model = model
        self._name = name or model.name
        self._repairs = repairs
        self._prompt = direct_prompt_hash()

    @property
    def name(self) -> str:
        return self._name

    @property
    def identity(self) -> str:
        method = f"direct prompt={self._prompt} parser={PARSER_VERSION} repairs={self._repairs}"
        return f"{method} model=({self._model.identity})"

    async def judge(self, case: Case, criterion: Criterion) -> JudgeVerdict:
        if criterion.to_evaluate not in case.fields:
            detail = f"record {case.id} has no field {criterion.to_evaluate}"
            return unscored(self._name, Reason.NOTHING_TO_JUDGE, detail, samples=Samples(requested=0))
        sample, started = _Sample(), time.perf_counter()
        verdict = await self._sampled(sample, case, criterion)
        latency_ms = (time.perf_counter() - started) * 1000
        return verdict.model_copy(update={"latency_ms": latency_ms, "tokens": sample.tokens})

    async def aclose(self) -> None:
        await self._model.aclose()

    async def _sampled(self, sample: "_Sample", case: Case, criterion: Criterion) -> JudgeVerdict:
        try:
            parsed = await self._ask(sample, case, criterion)
        except ModelTimeout as error:
            return self._failed(Reason.TIMEOUT, str(error))
        except ModelError as error:
            return self._failed(Reason.UNAVAILABLE, str(error))
        except Exception as error:
            # A defect of a model's driver costs its verdict, not the record.
            logger.exception("judge %s failed on record %s, criterion %s", self._name, case.id, criterion.name)
            return self._failed(Reason.UNAVAILABLE, f"the judge failed: {type(error).__name__}")
        if isinstance(parsed, Invalid):
            detail = f"{parsed.reason} (after {sample.calls} call{'s' if sample.calls > 1 else ''})"
            return unscored(self._name, Reason.INVALID_OUTPUT, detail, samples=Samples(requested=1, invalid=1))
        return self._scored(parsed, criterion, case.language)

    async def _ask(self, sample: "_Sample", case: Case, criterion: Criterion) -> Valid | Invalid:
        """The task, then at most `repairs` times the task again with the last output and what was wrong with it."""
        task, schema = direct_messages(case, criterion), verdict_schema(criterion, case.language)
        messages = task
        while True:
            completion = await self._model.complete(messages, schema=schema)
            sample.count(completion)
            parsed = parse_level(completion.text, criterion, case.language)
            if isinstance(parsed, Valid):
                return parsed
            parsed = _with_ending(parsed, completion.finish_reason)
            if sample.calls > self._repairs:
                return parsed
            messages = task + repair_messages(completion.text, parsed.reason, criterion, case.language)

    def _failed(self, reason: Reason, detail: str) -> JudgeVerdict:
        return unscored(self._name, reason, detail, samples=Samples(requested=1, error=1))

    def _scored(self, parsed: Valid, criterion: Criterion, language: Language) -> JudgeVerdict:
        level = parsed.level
        return JudgeVerdict(
            judge=self._name,
            status=Status.NOT_APPLICABLE if level is None else Status.SCORED,
            score=None if level is None else criterion.normalise(level),
            level=level,
            option=None if level is None else criterion.scale.label(level, language),
            explanation=parsed.explanation,
            feedback=parsed.feedback,
            samples=Samples(requested=1, valid=1),
        )


def verdict_schema(criterion: Criterion, language: Language) -> Mapping[str, object]:
    """The JSON Schema of the output; the explanation comes first, so that the verdict follows from it."""
    return {
        "type": "object",
        "properties": {
            "explanation": {"type": "string"},
            "verdict": {"type": "string", "enum": list(allowed_labels(criterion, language))},
        },
        "required": ["explanation", "verdict"],
        "additionalProperties": False,
    }


@dataclass(slots=True, kw_only=True)
class _Sample:
    """What one sample cost, whether or not it became a verdict."""

    calls: int = 0
    tokens: Tokens | None = None

    def count(self, completion: Completion) -> None:
        self.calls += 1
        if completion.prompt_tokens is None and completion.completion_tokens is None:
            return
        before = self.tokens or Tokens()
        self.tokens = Tokens(
            prompt=before.prompt + (completion.prompt_tokens or 0),
            completion=before.completion + (completion.completion_tokens or 0),
        )


def _with_ending(parsed: Invalid, finish_reason: str | None) -> Invalid:
    ending = _ENDINGS.get(finish_reason or "")
    return parsed if ending is None else Invalid(reason=f"{parsed.reason}; {ending}")

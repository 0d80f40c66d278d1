"""The evaluation: what a panel found about one interaction, as it is computed and as it is published."""

import hashlib
import uuid
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt

from judges.interaction import TagValue

# Fixed for ever: evaluation ids must be the same in every process and version.
_EVALUATION_NAMESPACE = uuid.UUID("6f0d4e0a-54c9-5d0e-9b1c-3c3f3a6d8a51").bytes

Score = Annotated[FiniteFloat, Field(ge=0.0, le=1.0)]

# Draws have 53 bits: nothing is chosen with less, and what claims to be would outweigh all else for good.
MIN_PROBABILITY = 2.0**-53


class Status(StrEnum):
    """What became of one question put to one judge or to a panel.

    Only `scored` carries a score, and always does unless the criterion's options have none.
    """

    SCORED = "scored"
    INSUFFICIENT = "insufficient"
    NOT_APPLICABLE = "not_applicable"


class Reason(StrEnum):
    """Why something was not scored."""

    INVALID_OUTPUT = "invalid_output"
    UNAVAILABLE = "judge_unavailable"
    TIMEOUT = "timeout"
    UNSUPPORTED = "unsupported_criterion"
    MISSING_FIELD = "missing_field"
    NO_MAJORITY = "no_majority"
    POSITION_BIAS = "position_bias"
    SAME_FAMILY = "same_family"
    QUORUM = "quorum_not_met"
    BUDGET = "budget"
    NOTHING_TO_JUDGE = "nothing_to_judge"


class CompositeStatus(StrEnum):
    OK = "ok"
    QUESTIONABLE = "questionable"
    UNSAFE = "unsafe"
    SAFETY_UNKNOWN = "safety_unknown"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    """A required criterion was not met."""


class SafetyStatus(StrEnum):
    SAFE = "safe"
    QUESTIONABLE = "questionable"
    UNSAFE = "unsafe"
    UNKNOWN = "unknown"


class _Part(BaseModel):
    """Readers of a later version's records keep the fields they do not know."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Samples(_Part):
    """How many answers a judge was to give, and what they were worth. Only valid ones vote."""

    requested: NonNegativeInt
    valid: NonNegativeInt = 0
    invalid: NonNegativeInt = 0
    error: NonNegativeInt = 0
    saved: NonNegativeInt = 0
    """Not asked for, because the others had decided."""

    repairs: NonNegativeInt = 0
    """Further calls that were made to have an invalid answer repaired."""

    retries: NonNegativeInt = 0
    """Further calls that were made because an endpoint did not answer."""


class Tokens(_Part):
    prompt: NonNegativeInt = 0
    completion: NonNegativeInt = 0


class Reversed(_Part):
    """What a judge said when the options stood in reverse order."""

    score: Score | None = None
    option: str | None = None


class JudgeVerdict(_Part):
    """What one judge said on one criterion."""

    judge: str
    status: Status
    score: Score | None = None
    level: int | None = None
    option: str | None = None
    value: FiniteFloat | None = None
    """The finding on the criterion's own scale: a level, an option's score, a number of the range, or their mean."""

    tie: bool = False
    """No option had a majority, and the worse side was taken."""

    agreement: Score | None = None
    """Share of the valid samples that found what the judge found, on a range how near they are to it; absent with
    fewer than two."""

    certainty: Score | None = None
    """The probability that the model gave to its answer against the other one, where it was asked for it."""

    explanation: str = ""
    feedback: str | None = None
    reason: Reason | None = None
    detail: str | None = None
    """The failure in words, for people; never parsed."""

    samples: Samples
    position_bias: bool | None = None
    """Whether the verdict changed with the order of the options; None where that was not checked."""

    reversed: Reversed | None = None
    asked_at: AwareDatetime | None = None
    latency_ms: FiniteFloat = 0.0
    tokens: Tokens | None = None
    cost_usd: FiniteFloat | None = None
    cached: bool = False
    redacted: Mapping[str, NonNegativeInt] = Field(default_factory=dict)
    """Values of each kind (e-mail addresses, keys, …) that were kept from the judge's endpoint; never the values."""

    suspect: bool = False
    """A completion repeated instructions, or a whole verdict, that stand in the judged text and not in the prompt. The
    verdict is the judge's own as far as can be told, and worth a look."""


class Path(StrEnum):
    """Which judges of a cascade were asked, and why."""

    FIRST = "first"
    FULL_UNABLE = "full:first_cannot_judge"
    FULL_FAILED = "full:first_failed"
    FULL_SAFETY = "full:safety"
    FULL_DISAGREEMENT = "full:low_agreement"
    FULL_THRESHOLD = "full:near_threshold"


class Dimension(_Part):
    """What the panel found on one criterion."""

    status: Status
    score: Score | None = None
    level: int | None = None
    option: str | None = None
    value: FiniteFloat | None = None
    """The score on the criterion's own scale; between two levels where judges differ, while `level` is voted."""

    reason: Reason | None = None
    detail: str | None = None
    """The failure in words, for people; never parsed."""

    spread: FiniteFloat | None = None
    """Largest minus smallest judge score; absent with fewer than two."""

    agreement: Score | None = None
    """Share of the pairs of judges that found the same, on a range how near they are; absent with fewer than two."""

    effective_votes: FiniteFloat | None = None
    """How many independent judges the panel is worth, from how they erred lately; absent until enough was seen."""

    path: Path | None = None
    """How far a cascade went; absent where there is none."""

    excluded: tuple[str, ...] = ()
    """Judges left out because their model is of the family that wrote the answer."""

    calls_saved: NonNegativeInt = 0
    """Samples that were not asked for, of all judges, because the outcome was decided."""

    judges: tuple[JudgeVerdict, ...] = ()


class Safety(_Part):
    level: int | None = None
    status: SafetyStatus


class Composite(_Part):
    score: Score | None
    status: CompositeStatus
    coverage: Score
    """Share of the criteria's weight that has a score."""

    safety: Safety


class EvaluatorInfo(_Part):
    """Who judged: results with the same fingerprint are comparable."""

    fingerprint: str
    criteria: tuple[str, ...]
    judges: tuple[str, ...]
    version: str


class Sampling(_Part):
    """How the record was chosen; means over evaluations are weighted by 1 / probability."""

    probability: Annotated[FiniteFloat, Field(ge=MIN_PROBABILITY, le=1.0)] = 1.0
    rule: str = "all"
    lane: str = "main"


class Excerpt(_Part):
    """The beginnings of the texts, so that a reader of results need not join topics."""

    question: str
    answer: str


class _About(_Part):
    """What everything published about one interaction says alike."""

    evaluation_id: str
    interaction_id: str
    app: str | None = None
    tenant: str | None = None
    model: str | None = None
    evaluator: EvaluatorInfo
    sampling: Sampling
    tags: Mapping[str, TagValue] = Field(default_factory=dict)
    excerpt: Excerpt | None = None
    traceparent: str | None = None


class Evaluation(_About):
    """The result of judging one interaction."""

    evaluated_at: AwareDatetime
    dimensions: Mapping[str, Dimension]
    composite: Composite
    truncated: tuple[str, ...] = ()
    """Paths of the interaction's fields that were cut to the configured limits before judging."""

    savings: tuple[str, ...] = ()
    """What was left out because a budget ran low: samples, reserves, cascade."""

    cost_usd: FiniteFloat | None = None
    latency_ms: FiniteFloat = 0.0


class SafetyNotice(_About):
    """Sent as soon as the safety verdict is known, before the rest of the evaluation is."""

    noticed_at: AwareDatetime
    safety: Safety
    dimension: Dimension


def evaluation_id(interaction_id: str, fingerprint: str) -> str:
    """The same work has the same name, wherever and however often it is done.

    That is `uuid.uuid5`, put together by hand in a third of the time.
    """
    name = f"{fingerprint}/{interaction_id}".encode()
    digest = bytearray(hashlib.sha1(_EVALUATION_NAMESPACE + name, usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50  # version 5
    digest[8] = digest[8] & 0x3F | 0x80  # of the usual variant
    text = digest.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

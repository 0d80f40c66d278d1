"""The evaluation: the verdicts of a panel on one interaction, as they are computed and published."""

import hashlib
import uuid
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt, PrivateAttr

from judges.values.context_verdicts import ContextVerdict
from judges.values.interaction import TagValue
from judges.values.spans import AnswerSpan

# Never change it: evaluation ids must be the same in every process and version.
_EVALUATION_NAMESPACE = uuid.UUID("6f0d4e0a-54c9-5d0e-9b1c-3c3f3a6d8a51").bytes

Score = Annotated[FiniteFloat, Field(ge=0.0, le=1.0)]

# Random draws have 53 bits: a smaller probability is impossible, and its weight would exceed all others for good.
MIN_PROBABILITY = 2.0**-53


class Status(StrEnum):
    """Whether a judge or a panel reached a verdict on a criterion.

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
    TRUNCATED = "truncated"
    HEAVILY_REDACTED = "heavily_redacted"


class CompositeStatus(StrEnum):
    """The meaning of a composite score, or why there is none."""

    OK = "ok"
    QUESTIONABLE = "questionable"
    UNSAFE = "unsafe"
    SAFETY_UNKNOWN = "safety_unknown"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    """A required criterion was not met."""


class SafetyStatus(StrEnum):
    """Whether an answer is safe."""

    SAFE = "safe"
    QUESTIONABLE = "questionable"
    UNSAFE = "unsafe"
    UNKNOWN = "unknown"


class _Part(BaseModel):
    """Keeps unknown fields, so that records of later versions can be read."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Samples(_Part):
    """Number of answers that were requested from a judge, and how they turned out. Only valid ones vote."""

    requested: NonNegativeInt = Field(description="Answers requested from the judge.")
    valid: NonNegativeInt = Field(default=0, description="Answers with a verdict on the criterion's scale.")
    invalid: NonNegativeInt = Field(default=0, description="Answers without a readable verdict.")
    error: NonNegativeInt = Field(default=0, description="Calls that failed without an answer.")
    saved: NonNegativeInt = Field(default=0, description="Answers not requested because the others had decided.")
    repairs: NonNegativeInt = Field(default=0, description="Additional calls to repair an invalid answer.")
    retries: NonNegativeInt = Field(default=0, description="Additional calls because an endpoint failed.")
    shared: NonNegativeInt = Field(
        default=0,
        description=(
            "Answers that came with those to other criteria, in a call that is counted there: `valid` + `invalid` + "
            "`error` + `repairs` − `shared` is the number of calls."
        ),
    )


class Tokens(_Part):
    """Tokens that a judge used on one criterion, as its endpoint counts them; equal shares of a call for several."""

    prompt: NonNegativeInt = Field(default=0, description="Tokens of the prompts.")
    completion: NonNegativeInt = Field(default=0, description="Tokens of the completions.")


class Reversed(_Part):
    """The verdict of a judge with the options in reverse order."""

    score: Score | None = Field(
        default=None, description="Score from 0 (worst) to 1 (best); null if there was no verdict with a score."
    )
    option: str | None = Field(default=None, description="Chosen level or option; null if there is none.")


# Pass and fail are recognized by name: with `score_from: mean` the score of a pass is below 1. Evaluations written
# before version 3 of the semantics have the Russian names.
_PASS_OR_FAIL = {"pass": True, "fail": False, "соответствует": True, "не соответствует": False}


def _is_passed(option: str | None, level: int | None, score: float | None) -> bool | None:
    if level is not None and option in _PASS_OR_FAIL:
        return _PASS_OR_FAIL[option]
    return None if score is None else score == 1.0


class JudgeVerdict(_Part):
    """The verdict of one judge on one criterion."""

    judge: str = Field(description="Name of the judge.")
    status: Status = Field(description="Whether the judge reached a verdict.")
    score: Score | None = Field(
        default=None,
        description="Score from 0 (worst) to 1 (best); null if not scored, and for options without scores.",
    )
    level: int | None = Field(
        default=None, description="Chosen level, or 1 for pass and 0 for fail; null on other scales."
    )
    option: str | None = Field(
        default=None,
        description=(
            "Chosen level or option, by its English label whatever the language of the texts; null on a range and "
            "without a verdict."
        ),
    )
    label: str | None = Field(
        default=None,
        description=(
            "Label of the option in the language of the texts, for people. Null without an option, and in records of "
            "versions that wrote this label as `option`."
        ),
    )
    value: FiniteFloat | None = Field(
        default=None,
        description=(
            "Verdict on the criterion's own scale: a level, an option's score, a number of the range, or their mean. "
            "Null without a verdict."
        ),
    )
    tie: bool = Field(
        default=False,
        description="True if several options tied for most samples, and the worst of them was taken.",
    )
    agreement: Score | None = Field(
        default=None,
        description=(
            "Share of the valid samples that agree with the verdict; on a range, how close they are to it. Null with "
            "fewer than two."
        ),
    )
    votes_cast: NonNegativeInt | None = Field(
        default=None,
        description=(
            "Number of samples behind `agreement`: fewer than requested if the rest could not change the verdict, or "
            "failed. Null without `agreement`."
        ),
    )
    certainty: Score | None = Field(
        default=None,
        description=(
            "Probability that the model assigned to its answer, against the other one; null if not requested."
        ),
    )
    explanation: str = Field(default="", description="Explanation by the judge.")
    spans: tuple[AnswerSpan, ...] | None = Field(
        default=None,
        description=(
            "Sentences of the answer that the judge checked, in order and without overlaps; null if it names none."
        ),
    )
    contexts: tuple[ContextVerdict, ...] | None = Field(
        default=None,
        description="Whether each context is useful, in their order; null unless the criterion judges each of them.",
    )
    feedback: str | None = Field(
        default=None, description="Advice on a better answer; null unless `feedback` is on for the criterion."
    )
    reason: Reason | None = Field(default=None, description="Why there is no score; null if there is one.")
    detail: str | None = Field(
        default=None, description="The failure in words, for people; never parsed. Null if nothing failed."
    )
    samples: Samples = Field(description="Number of answers requested, and their outcomes.")
    position_bias: bool | None = Field(
        default=None, description="Whether the verdict changed with the order of the options; null if not checked."
    )
    reversed: Reversed | None = Field(
        default=None, description="Verdict with the options in reverse order; null unless `check_position` is on."
    )
    asked_at: AwareDatetime | None = Field(
        default=None, description="Time when the judge was asked; null if it was not."
    )
    latency_ms: FiniteFloat = Field(default=0.0, description="Duration of judging, in milliseconds.")
    tokens: Tokens | None = Field(
        default=None, description="Tokens used; null if the endpoint does not count them, and from the cache."
    )
    cost_usd: FiniteFloat | None = Field(
        default=None, description="Cost in US dollars, 0 from the cache; null if the price is unknown."
    )
    cached: bool = Field(default=False, description="True if the verdict came from the cache, without a call.")
    redacted: Mapping[str, NonNegativeInt] = Field(
        default_factory=dict,
        description=(
            "Number of values of each kind (e-mail addresses, keys, …) that were redacted from the prompt; never the "
            "values."
        ),
    )
    heavily_redacted: bool = Field(
        default=False,
        description=(
            "True if more of the judged text was redacted than `judges.redaction.heavy_share` allows; a safety "
            "verdict is then `insufficient`."
        ),
    )
    suspect: bool = Field(
        default=False,
        description=(
            "True if a completion repeated instructions, or a whole verdict, from the judged text that are not in the "
            "prompt: a possible prompt injection. The verdict seems to be the judge's own, but review it."
        ),
    )
    # Not published: for the caller of the judge.
    _votes: tuple[str | float, ...] | None = PrivateAttr(default=None)
    _prompt: tuple[tuple[str, str], ...] | None = PrivateAttr(default=None)

    @property
    def passed(self) -> bool | None:
        """Whether it passed; on scales other than pass/fail, whether the best was chosen; None without a score."""
        return _is_passed(self.option, self.level, self.score)

    @property
    def votes(self) -> tuple[str | float, ...]:
        """The vote of each valid sample, in order; empty for a verdict that was read from a record."""
        if self._votes is not None:
            return self._votes
        single = _vote_of(self)
        return (single,) if self.samples.valid == 1 and single is not None else ()

    @property
    def prompt(self) -> tuple[tuple[str, str], ...] | None:
        """The first messages to the model, as pairs of role and text; None unless the judge has `keep_prompt`."""
        return self._prompt

    def add_details(
        self, votes: tuple[str | float, ...] | None, prompt: tuple[tuple[str, str], ...] | None
    ) -> "JudgeVerdict":
        """Add unpublished details for the caller to this verdict, in place: no other code has it yet."""
        self._votes, self._prompt = votes, prompt
        return self


def _vote_of(verdict: JudgeVerdict) -> str | float | None:
    if verdict.status is Status.NOT_APPLICABLE:
        return Status.NOT_APPLICABLE.value
    return verdict.option if verdict.option is not None else verdict.value


class Path(StrEnum):
    """Which judges of a cascade were asked, and why."""

    FIRST = "first"
    FULL_UNABLE = "full:first_cannot_judge"
    FULL_FAILED = "full:first_failed"
    FULL_SAFETY = "full:safety"
    FULL_DISAGREEMENT = "full:low_agreement"
    FULL_THRESHOLD = "full:near_threshold"


class Dimension(_Part):
    """The verdict of the panel on one criterion."""

    status: Status = Field(description="Whether the panel reached a verdict.")
    score: Score | None = Field(
        default=None,
        description="Score from 0 (worst) to 1 (best); null if not scored, and for options without scores.",
    )
    level: int | None = Field(
        default=None, description="Level that the panel voted for, or 1 for pass and 0 for fail; null on other scales."
    )
    option: str | None = Field(
        default=None,
        description=(
            "Winning level or option, by its English label whatever the language of the texts; null on a range and "
            "without a verdict."
        ),
    )
    label: str | None = Field(
        default=None,
        description=(
            "Label of the option in the language of the texts, for people. Null without an option, and in records of "
            "versions that wrote this label as `option`."
        ),
    )
    value: FiniteFloat | None = Field(
        default=None,
        description=(
            "Score on the criterion's own scale; between two levels if judges differ, while `level` is voted. Null "
            "without a verdict."
        ),
    )
    reason: Reason | None = Field(default=None, description="Why there is no score; null if there is one.")
    detail: str | None = Field(
        default=None, description="The failure in words, for people; never parsed. Null if nothing failed."
    )
    spread: FiniteFloat | None = Field(
        default=None, description="Largest minus smallest judge score, 0 to 1; null with fewer than two scores."
    )
    agreement: Score | None = Field(
        default=None,
        description=(
            "Share of the pairs of judges that agree; on a range, how close they are. Null with fewer than two."
        ),
    )
    votes_cast: NonNegativeInt | None = Field(
        default=None,
        description=(
            "Number of judges behind `agreement`: fewer than the panel has if the rest could not change the outcome, "
            "or failed. Null without `agreement`."
        ),
    )
    effective_votes: FiniteFloat | None = Field(
        default=None,
        description=(
            "Number of independent judges that the panel is equivalent to, estimated from its recent errors; null "
            "until there are enough verdicts."
        ),
    )
    path: Path | None = Field(
        default=None, description="Judges of a cascade that were asked, and why; null if there is no cascade."
    )
    excluded: tuple[str, ...] = Field(
        default=(), description="Judges excluded because their model is of the family that wrote the answer."
    )
    calls_saved: NonNegativeInt = Field(
        default=0, description="Samples of all judges not requested because the outcome was decided."
    )
    spans: tuple[AnswerSpan, ...] | None = Field(
        default=None,
        description=(
            "Sentences of the answer, each with the worst verdict of the judges that name sentences (the best with "
            "`combine: max`); in order and without overlaps. Null if no judge does, and if truncated text could "
            "justify better verdicts."
        ),
    )
    contexts: tuple[ContextVerdict, ...] | None = Field(
        default=None,
        description=(
            "Whether each context is useful according to more than half of the judges, in their order; null unless the "
            "criterion judges each of them, and if truncated text could justify better verdicts."
        ),
    )
    judges: tuple[JudgeVerdict, ...] = Field(default=(), description="Verdicts of the judges.")

    @property
    def passed(self) -> bool | None:
        """Whether it passed; on scales other than pass/fail, whether the best was chosen; None without a score."""
        return _is_passed(self.option, self.level, self.score)

    @property
    def votes(self) -> Mapping[str, str | float | None]:
        """The choice or number of each judge, by the judge's name; None if it gave none."""
        return {verdict.judge: _vote_of(verdict) for verdict in self.judges}


class Safety(_Part):
    """The verdict on safety."""

    level: int | None = Field(
        default=None, description="Level of the safety criterion that the panel voted for; null without a verdict."
    )
    status: SafetyStatus = Field(description="Meaning of the verdict: whether the answer is safe.")


class Composite(_Part):
    """One score for the whole answer, which a safety failure overrides."""

    score: Score | None = Field(
        description=(
            "Weighted mean from 0 (worst) to 1 (best), 0 if unsafe or a required criterion was not met; null if "
            "safety is unknown or too many verdicts are missing."
        )
    )
    status: CompositeStatus = Field(description="Meaning of the score, or why there is none.")
    coverage: Score = Field(
        description=(
            "Share of the quality criteria's weight that has a verdict, 0 to 1. It excludes the safety criterion and "
            "criteria that do not apply."
        )
    )
    safety: Safety = Field(description="Verdict on safety.")


class EvaluatorInfo(_Part):
    """The evaluator: results with the same fingerprint are comparable."""

    fingerprint: str = Field(description="Hash of criteria, judges, prompts and rules.")
    criteria: tuple[str, ...] = Field(description="Names of the criteria.")
    judges: tuple[str, ...] = Field(description="Names of the judges.")
    version: str = Field(description="Version of Streamjury.")


class Sampling(_Part):
    """How the record was chosen; means over evaluations are weighted by 1 / probability."""

    probability: Annotated[FiniteFloat, Field(ge=MIN_PROBABILITY, le=1.0)] = Field(
        default=1.0, description="π, above 0 and up to 1: a mean weighs this evaluation by 1/π."
    )
    rule: str = Field(default="all", description="Sampling rule that selected the record.")
    lane: str = Field(default="main", description="`main`, `safety`, a lane of the rules, `backfill` or `canary`.")


class Excerpt(_Part):
    """The beginnings of the texts, so that a reader of results need not join topics."""

    question: str = Field(description="Start of the question.")
    answer: str = Field(description="Start of the answer.")


class _About(_Part):
    """The fields that everything published about one interaction shares."""

    evaluation_id: str = Field(
        description="uuid5 of interaction id and fingerprint: repeating the work gives the same id."
    )
    interaction_id: str = Field(
        description=(
            "Id of the judged interaction; followed by `#` and a digest of its content if other content was already "
            "judged under the same id."
        )
    )
    app: str | None = Field(default=None, description="App of the interaction; null if it has none.")
    tenant: str | None = Field(default=None, description="Tenant of the interaction; null if it has none.")
    model: str | None = Field(
        default=None, description="Model that wrote the answer; null if the interaction names none."
    )
    evaluator: EvaluatorInfo = Field(description="Criteria and judges that produced the result.")
    sampling: Sampling = Field(description="How the interaction was sampled.")
    tags: Mapping[str, TagValue] = Field(default_factory=dict, description="Tags of the interaction.")
    excerpt: Excerpt | None = Field(
        default=None, description="Starts of the texts; null if `worker.excerpt_chars` is 0."
    )
    traceparent: str | None = Field(
        default=None, description="W3C trace context of the interaction; null if it has none."
    )


class Evaluation(_About):
    """The result of judging one interaction."""

    evaluated_at: AwareDatetime = Field(description="Time when the interaction was judged.")
    dimensions: Mapping[str, Dimension] = Field(description="Verdicts of the panel, by the name of the criterion.")
    composite: Composite = Field(description="All verdicts combined in one score.")
    truncated: tuple[str, ...] = Field(
        default=(),
        description="Paths of the interaction's fields that were truncated to the configured limits before judging.",
    )
    savings: tuple[str, ...] = Field(
        default=(), description="Work left out because a budget ran low: `samples`, `reserves`, `cascade`."
    )
    cost_usd: FiniteFloat | None = Field(
        default=None, description="Cost of all judges in US dollars; null if a price is unknown."
    )
    latency_ms: FiniteFloat = Field(default=0.0, description="Duration of judging, in milliseconds.")


class SafetyNotice(_About):
    """Sent as soon as the safety verdict is known, before the rest of the evaluation is."""

    noticed_at: AwareDatetime = Field(description="Time when the verdict was certain.")
    safety: Safety = Field(description="Verdict on safety.")
    dimension: Dimension = Field(description="Verdicts of the panel on the safety criterion.")


def evaluation_id(interaction_id: str, fingerprint: str) -> str:
    """Return an id that is the same wherever and however often the same work is done.

    It equals `uuid.uuid5`, computed by hand in a third of the time.
    """
    name = f"{fingerprint}/{interaction_id}".encode()
    digest = bytearray(hashlib.sha1(_EVALUATION_NAMESPACE + name, usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50  # version 5
    digest[8] = digest[8] & 0x3F | 0x80  # the RFC 4122 variant
    text = digest.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

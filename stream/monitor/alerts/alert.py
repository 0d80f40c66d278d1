"""The alert about a series, as it is published on the alerts topic."""

import uuid
from datetime import UTC, datetime
from enum import StrEnum
from typing import Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt

from stream.monitor.detection import EventKind

# Never changes: the same alert has the same id, whichever monitor announces it and however often.
_NAMESPACE = uuid.UUID("0c5dc7f3-7a70-5d0b-8e0e-0d6a2a1f6a57")

# Arithmetic with dates beyond these may overflow.
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)


class Subject(StrEnum):
    """The subject of an alert."""

    QUALITY = "quality"
    """The mean of a series is below its target."""
    JUDGES = "judges"
    """The judges give the canaries other verdicts than before."""
    VERSIONS = "versions"
    """One model is worse than another in the same traffic."""
    AGREEMENT = "agreement"
    """A judge agrees less with people than before."""


class Cause(StrEnum):
    """Why an alert was cleared."""

    RECOVERED = "recovered"
    JUDGES_CHANGED = "judges_changed"
    """The judges had changed, so the alert about quality does not hold."""
    EVALUATOR_CHANGED = "evaluator_changed"
    """The evaluator, or the target, that it was about is no longer used."""
    GONE = "gone"
    """The series gets no more scores."""


class Attribution(StrEnum):
    """What moved the scores that an alert about quality is about."""

    SYSTEM = "system"
    """The answers: the judges score labelled canaries as before."""
    JUDGE = "judge"
    """The judges: their scores have moved against the labels of people, or their verdicts on canaries have changed."""
    UNKNOWN = "unknown"
    """There are no labelled canaries, or too few of their scores since the drop."""


class _AlertPart(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class Series(_AlertPart):
    """The series of scores that an alert is about."""

    app: str = Field(description="The app; `canaries` for alerts about the judges.")
    dimension: str = Field(description="A criterion, `composite`, or `good_share`.")
    attribute: str | None = Field(
        default=None,
        description=(
            "`model` or `tenant` for a series of one model or tenant, `versions` for a comparison of two models, "
            "`judge` for the agreement of a judge with people, null for the whole app."
        ),
    )
    value: str | None = Field(
        default=None,
        description="Name of that model, tenant or judge, or of the comparison; null for the whole app.",
    )

    @property
    def key(self) -> str:
        """The key of its alerts."""
        about = "" if self.attribute is None else f"/{self.attribute}={self.value}"
        return f"{self.app}/{self.dimension}{about}"


class Suspect(_AlertPart):
    """A dimension that may be behind the drop."""

    dimension: str = Field(description="Name of the dimension.")
    estimate: FiniteFloat = Field(description="Its mean since its own suspected onset, 0 to 1.")
    low: FiniteFloat = Field(description="Lower end of the interval of the estimate.")
    high: FiniteFloat = Field(description="Upper end of the interval of the estimate.")
    target: FiniteFloat = Field(description="Lowest mean that is not a drop.")
    evidence: FiniteFloat = Field(
        description="Natural logarithm of the evidence that its own mean is below its own target."
    )


class Example(_AlertPart):
    """An interaction to look at."""

    interaction_id: str = Field(description="Id of the interaction.")
    score: FiniteFloat = Field(description="Its score in the series, 0 to 1.")
    at: AwareDatetime = Field(description="Time when it was judged.")


class Alert(_AlertPart):
    """One announcement. All announcements of one alert have the same `alert_id`."""

    alert_id: str = Field(description="Id of the alert; the same for all its announcements.")
    kind: EventKind = Field(description="Whether the alert starts, continues or ends.")
    subject: Subject = Field(
        description=(
            "Whether it is about the answers, the judges, a comparison of two models, or the agreement of a judge with "
            "people."
        )
    )
    series: Series = Field(description="The series of scores that it is about.")
    at: AwareDatetime = Field(description="Time of the score that caused the announcement.")
    raised_at: AwareDatetime = Field(description="Time when the alert was raised.")
    onset_at: AwareDatetime = Field(description="Time when the drop likely began.")
    recovered_at: AwareDatetime | None = Field(
        default=None, description="Time when the recovery likely began; null unless it recovered."
    )
    cause: Cause | None = Field(default=None, description="Why it was cleared; null unless `kind` is `cleared`.")
    attribution: Attribution = Field(
        default=Attribution.UNKNOWN,
        description=(
            "For an alert about quality: whether the answers (`system`) or the judges (`judge`) moved the scores, from "
            "the labels of canaries and of reviewed answers; `unknown` until that is known."
        ),
    )
    models: tuple[str, ...] = Field(
        default=(),
        description=(
            "For a comparison: the model that may be worse, then the model it is compared with. Otherwise empty."
        ),
    )
    target: FiniteFloat = Field(
        description="Lowest mean that is not a drop, 0 to 1; for a comparison, the largest tolerated difference."
    )
    evidence: FiniteFloat = Field(
        description=(
            "Natural logarithm of the evidence: of the drop when raised, of the recovery when updated or cleared."
        )
    )
    enough: FiniteFloat = Field(description="Evidence required to raise or clear the alert, on the same scale.")
    estimate: FiniteFloat = Field(
        description=(
            "Mean since the onset, or since the recovery when cleared, 0 to 1; for a comparison, the difference, -1 to "
            "1."
        )
    )
    low: FiniteFloat = Field(description="Lower end of the interval of the estimate, at the time of the announcement.")
    high: FiniteFloat = Field(description="Upper end of the interval of the estimate, at the same time.")
    effective_n: FiniteFloat = Field(
        description="Number of equally weighted scores that would be as informative as those of the estimate."
    )
    scores: NonNegativeInt = Field(description="Number of scores in the estimate.")
    worst_dimensions: tuple[Suspect, ...] = Field(
        default=(), description="Dimensions that may be behind the drop, strongest evidence first."
    )
    examples: tuple[Example, ...] = Field(
        default=(), description="Up to three interactions with the lowest recent scores."
    )
    fingerprint: str = Field(
        description=(
            "Fingerprint of the evaluator whose verdicts it is about; empty for the agreement of a judge, which is "
            "followed over all evaluators."
        )
    )
    summary: str = Field(default="", description="The announcement in one sentence, for people.")

    @property
    def key(self) -> str:
        """The key on the topic: scores of another evaluator are another series."""
        return f"{self.series.key}/{self.fingerprint}"

    @classmethod
    def read(cls, value: bytes) -> Self:
        """Read a record of the alerts topic; raise ValueError if no monitor can have written it."""
        alert = cls.model_validate_json(value)
        for when in (alert.at, alert.raised_at, alert.onset_at, alert.recovered_at):
            if when is not None and not _EARLIEST <= when <= _LATEST:
                raise ValueError(f"has the time {when}")
        return alert


def alert_id(series: Series, fingerprint: str, raised_at: float) -> str:
    return str(uuid.uuid5(_NAMESPACE, f"{series.key}/{fingerprint}/{raised_at:.3f}"))


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)

"""The alert: what is announced about a series, as it stands on the alerts topic."""

import uuid
from datetime import UTC, datetime
from enum import StrEnum
from typing import Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, FiniteFloat, NonNegativeInt

from stream.detection import Kind

# Fixed for ever: the same alarm has the same id, whoever announces it and however often.
_NAMESPACE = uuid.UUID("0c5dc7f3-7a70-5d0b-8e0e-0d6a2a1f6a57")


class Subject(StrEnum):
    """What an alert is about."""

    QUALITY = "quality"
    """The mean of a series is below its target."""
    JUDGES = "judges"
    """The judges say other things of the canaries than they used to."""
    VERSIONS = "versions"
    """One model is worse than another in the same traffic."""


class Cause(StrEnum):
    """Why an alert was cleared."""

    RECOVERED = "recovered"
    JUDGES_CHANGED = "judges_changed"
    """It was the judges that had changed: what was said of the quality does not hold."""
    EVALUATOR_CHANGED = "evaluator_changed"
    """The evaluator, or the target, that it was about is no longer used."""
    GONE = "gone"
    """Nothing comes any more of what it was about."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class Series(_Part):
    """What is watched."""

    app: str
    """The app; `canaries` where it is about the judges."""
    dimension: str
    """A criterion, `composite`, or `good_share`."""
    attribute: str | None = None
    """`model` or `tenant` where only one of them is meant; `versions` where two models are compared."""
    value: str | None = None
    """Which one; of a comparison, its name."""

    @property
    def key(self) -> str:
        """The key of its alerts."""
        about = "" if self.attribute is None else f"/{self.attribute}={self.value}"
        return f"{self.app}/{self.dimension}{about}"


class Suspect(_Part):
    """A dimension that may be behind it."""

    dimension: str
    estimate: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat
    target: FiniteFloat
    evidence: FiniteFloat
    """The natural logarithm of the evidence that its own mean is below its own target."""


class Example(_Part):
    """An interaction to look at."""

    interaction_id: str
    score: FiniteFloat
    at: AwareDatetime


class Alert(_Part):
    """One announcement. All that are about one alarm have the same `alert_id`."""

    alert_id: str
    kind: Kind
    subject: Subject
    series: Series
    at: AwareDatetime
    """The time of the score that it follows from."""
    raised_at: AwareDatetime
    onset_at: AwareDatetime
    """When the drop is likely to have begun."""
    recovered_at: AwareDatetime | None = None
    cause: Cause | None = None
    """Why it was cleared."""
    models: tuple[str, ...] = ()
    """Of a comparison: the model that may be worse, and the one that it is compared with."""
    target: FiniteFloat
    """What the mean is to be at least; of a comparison, the most by which the model may be worse."""
    evidence: FiniteFloat
    """The natural logarithm of the evidence: of the drop when raised, of the recovery when updated or cleared."""
    enough: FiniteFloat
    """As much evidence it takes."""
    estimate: FiniteFloat
    """The mean since the onset, since the recovery when cleared; of a comparison, the difference."""
    low: FiniteFloat
    high: FiniteFloat
    effective_n: FiniteFloat
    scores: NonNegativeInt
    worst_dimensions: tuple[Suspect, ...] = ()
    """Most evidence first."""
    examples: tuple[Example, ...] = ()
    """Up to three of the lowest scores of late."""
    fingerprint: str
    """The evaluator whose verdicts it is about."""
    summary: str = ""
    """All of this in a sentence, for people."""

    @property
    def key(self) -> str:
        """What one evaluator finds of a series: another's is another series."""
        return f"{self.series.key}/{self.fingerprint}"

    @property
    def announcement_id(self) -> str:
        """The same announcement has the same id; an alarm has several."""
        return f"{self.alert_id}/{self.kind.value}/{self.at.timestamp():.3f}"

    @classmethod
    def read(cls, value: bytes) -> Self:
        return cls.model_validate_json(value)


def alert_id(series: Series, fingerprint: str, raised_at: float) -> str:
    return str(uuid.uuid5(_NAMESPACE, f"{series.key}/{fingerprint}/{raised_at:.3f}"))


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)

"""The form of a stored partition: the states of apps and of the canaries, as they are read back from the topic."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from judges.values.evaluation import Score
from stream.monitor.alerts.alert import Alert
from stream.monitor.alerts.score_record import MAX_ID_CHARS, DimensionName, Name, Offset
from stream.monitor.detection.stored import Count, Moment, Number, Target

VERSION = 1


# Sums of squared weights are larger than other sums.
_Weights = Annotated[FiniteFloat, Field(ge=-1e60, le=1e60)]
_Gap = Annotated[FiniteFloat, Field(ge=-1.0, le=1.0)]
StoredJudged = tuple[Count, _Weights, _Weights, _Weights, _Weights, _Weights]


class _StoredPart(BaseModel):
    # Numbers are numbers: no text, no truth value.
    model_config = ConfigDict(strict=True, frozen=True)


class StoredInclusion(_StoredPart):
    """Which evaluations are included."""

    reached: dict[Annotated[str, Field(pattern=r"^[0-9]{1,4}$")], tuple[Offset, Moment]]
    recent: Annotated[str, Field(pattern=r"^([0-9a-f]{12})*$")]
    count: Count


class StoredSeriesWatch(_StoredPart):
    """A series with its detector, its lowest scores and its alert."""

    state: str
    aimed: Target | None
    lowest: list[tuple[Annotated[str, Field(max_length=MAX_ID_CHARS)], Score, Moment]]
    alarm: tuple[Name, Moment, Moment, Number, Number, Number, Number] | None
    heard: Count
    attribution: Literal["system", "judge", "unknown"] = "unknown"


class StoredSeries(_StoredPart):
    """The name of a series."""

    app: Name
    dimension: DimensionName
    attribute: Name | None = None
    value: Name | None = None


class StoredVersionWatch(_StoredPart):
    """A comparison of two models."""

    state: str
    worse: tuple[Name, Moment] | None


class StoredEvaluator(_StoredPart):
    """The state of an app by one evaluator."""

    idle: Count
    series: list[tuple[StoredSeries, StoredSeriesWatch]]
    versions: dict[Name, StoredVersionWatch]


class _StoredWatch(_StoredPart):
    v: Literal[1]
    included: StoredInclusion
    announced: list[Annotated[Alert, Field(strict=False)]]


class StoredApp(_StoredWatch):
    """The complete state of an app."""

    evaluators: dict[Name, StoredEvaluator]
    judged: dict[Annotated[str, Field(pattern=r"^[0-9]{1,6}$")], dict[DimensionName, StoredJudged]] = {}
    """Sums over the judged answers, by day and criterion. States of earlier versions have none."""
    agreement: list[tuple[Name, DimensionName, StoredSeriesWatch]] = []
    """How well each judge agrees with people, by judge and criterion. States of earlier versions have none."""
    reviews: dict[DimensionName, tuple[str, Moment | None]] = {}
    """Gaps between scores and labels of reviewed answers, by criterion. States of earlier versions have none."""


class StoredCriterion(_StoredPart):
    """The state of the canaries by one evaluator and criterion."""

    expected: dict[Name, Name | list[Name]]
    original: dict[Name, Name]
    watch: StoredSeriesWatch


class StoredAttribution(_StoredPart):
    """The gaps between scores and labels of canaries, by one evaluator and criterion."""

    anchors: dict[Name, tuple[Score, _Gap | None, list[_Gap]]]
    stricter: str
    milder: str
    latest: Annotated[list[Moment], Field(max_length=100)]
    changed_at: Moment | None


class StoredCanaryEvaluator(_StoredPart):
    """The state of the canaries by one evaluator."""

    idle: Count
    criteria: dict[DimensionName, StoredCriterion]
    anchors: dict[DimensionName, StoredAttribution] = {}
    """States of earlier versions have none."""


class StoredCanaries(_StoredWatch):
    """The complete state of the canaries."""

    evaluators: dict[Name, StoredCanaryEvaluator]
    labels: dict[Name, dict[DimensionName, Score]] = {}
    """Labels of canaries, by criterion. States of earlier versions have none."""

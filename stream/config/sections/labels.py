"""The section `labels`: which answers people are asked to label."""

from pydantic import Field, FiniteFloat

from stream.config.section import Section
from stream.config.sections.observability import PositiveRate


class LabelQueueConfig(Section):
    """A designed sample of the judged answers: those whose scores are probably wrong are chosen more often."""

    rate: PositiveRate = Field(
        default=0.1, description="Largest probability with which a judged answer is queued for labelling."
    )
    floor: PositiveRate = Field(
        default=0.1, description="Least share of the rate, for answers whose scores are probably right."
    )
    threshold: FiniteFloat | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Scores close to it are queued more often; null: only disagreement of the judges counts.",
    )
    sampled_at: FiniteFloat | None = Field(
        default=None,
        gt=0,
        le=1,
        description=(
            "Sampling probability up to which the full rate applies; answers that were sampled more often stand for "
            "less traffic and are queued less often. null: `sampling.rate`, or 1 with a target."
        ),
    )


class AgreementConfig(Section):
    """The alert when a judge agrees less with people than before."""

    target: FiniteFloat | None = Field(
        default=None,
        ge=0.1,
        le=0.9999,
        description="Alert below this mean agreement, from 0 to 1; null: learnt from the first labels.",
    )
    reference_labels: int = Field(
        default=200, ge=20, le=20_000, description="Minimum number of labels to learn a judge's usual agreement from."
    )
    tolerance: FiniteFloat = Field(
        default=0.02, ge=0, le=0.9, description="Drop below the learnt agreement that is still tolerated."
    )


class LabelsConfig(Section):
    """Labels of people."""

    queue: LabelQueueConfig | None = Field(
        default=None,
        description="Which answers the page queues for labelling; null: `page.review_rate` of them, at random.",
        examples=[{"rate": 0.1, "floor": 0.1}],
    )
    agreement: AgreementConfig = Field(
        default_factory=AgreementConfig,
        description="Alerts about judges that agree less with people; `detection.alpha` bounds false ones.",
    )
    window_days: int = Field(
        default=7, ge=1, le=31, description="Days of judged answers, in UTC, that the monitor's corrected means cover."
    )

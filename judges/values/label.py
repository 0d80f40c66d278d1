"""The label: the verdict of a person on an answer, as it is published."""

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, FiniteFloat

from judges.values.evaluation import Score

Probability = Annotated[FiniteFloat, Field(gt=0.0, le=1.0)]

LabelKind = Literal["review", "anchor", "feedback"]


class Label(BaseModel):
    """The verdict of one person by one criterion, or its retraction."""

    model_config = ConfigDict(extra="allow", frozen=True)

    label_id: str = Field(description="Unique id of this record.")
    interaction_id: str = Field(description="Id of the labelled interaction, as in its evaluation, or its trace id.")
    evaluation_id: str | None = Field(
        default=None, description="Evaluation that the person was shown, without its verdicts; null if there is none."
    )
    criterion: str = Field(description="Name of the criterion.")
    option: str | None = Field(
        default=None, description="Chosen level or option, by its English label; null in a retraction."
    )
    score: Score | None = Field(
        default=None,
        description="Score of the option, from 0 (worst) to 1 (best); null in a retraction, and if it has none.",
    )
    who: str = Field(description="Name of the person; on the page from `http.tokens`, and `local` without tokens.")
    labelled_at: AwareDatetime = Field(description="Time of the label or the retraction.")
    probability: Probability | None = Field(
        default=None,
        description=(
            "Probability with which the interaction was sampled and then chosen for review: a mean over labels weighs "
            "it by 1/probability. Null if it was not chosen at random."
        ),
    )
    kind: LabelKind = Field(
        default="review",
        description=(
            "`review`: a reviewer labelled an answer of live traffic; `anchor`: a canary was labelled; `feedback`: a "
            "user of the service reacted, which is never mixed with the other two."
        ),
    )
    comment: str | None = Field(default=None, description="Remark of the person; null without one.")
    retracts: str | None = Field(
        default=None, description="Id of the label that this record retracts; null if it is a label."
    )

"""The schema of a file of results of one offline run: one JSON document per line."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, FiniteFloat, JsonValue, NonNegativeInt, PositiveInt

from judges.values.evaluation import Evaluation, EvaluatorInfo

SCHEMA = "streamjury.results/1"


class _ResultPart(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class CriterionInfo(_ResultPart):
    """The facts about a criterion that its scores depend on."""

    name: str = Field(description="Name of the criterion; scores are listed by it.")
    title: str = Field(description="Title for people.")
    question: str = Field(description="Question that the judges answer.")
    weight: FiniteFloat = Field(description="Weight in the composite, 0 or more.")
    bounds: tuple[FiniteFloat, FiniteFloat] | None = Field(
        description="Lowest and highest value of its own scale; null for options without scores."
    )
    choices: Sequence[tuple[str, FiniteFloat | None]] = Field(
        default=(), description="Labels with their values, worst first; empty for a range."
    )
    safety: bool = Field(default=False, description="True for the safety criterion.")


class Run(_ResultPart):
    """The first line: the evaluator, the input and the options. Nothing in it is secret."""

    kind: Literal["run"] = Field(default="run", description="Kind of line.")
    schema_version: str = Field(default=SCHEMA, description="Version of the file format.")
    name: str = Field(description="Name of the judged file; `-` for standard input.")
    input_digest: str | None = Field(
        default=None, description="Digest of the bytes of the file; null for standard input."
    )
    started_at: AwareDatetime = Field(description="Time when the run started.")
    evaluator: EvaluatorInfo = Field(description="Criteria and judges that produced the results.")
    criteria: tuple[CriterionInfo, ...] = Field(description="The criteria, in the order of the report.")
    parameters: Mapping[str, JsonValue] = Field(
        description="Options of the command and settings of the judges, without secrets."
    )
    columns: tuple[str, ...] = Field(
        default=(), description="Columns of the file, in its order; empty if it has no columns."
    )


class RowError(_ResultPart):
    """Why a row has no evaluation."""

    kind: str = Field(description="Reason, in one word.")
    message: str = Field(description="Reason, for people.")


class Row(_ResultPart):
    """The result of one row of the file."""

    kind: Literal["row"] = Field(default="row", description="Kind of line.")
    row: PositiveInt = Field(description="Number of the row: the first record is 1, whichever line it starts on.")
    source: Mapping[str, JsonValue] = Field(description="The original row: its columns, or its JSON object.")
    evaluation: Evaluation | None = Field(default=None, description="Result of judging; null if there is an error.")
    error: RowError | None = Field(default=None, description="Why it was not judged; null if it was.")
    seconds: FiniteFloat = Field(default=0.0, description="Duration of judging the row, in seconds.")


class End(_ResultPart):
    """The last line of a finished run."""

    kind: Literal["end"] = Field(default="end", description="Kind of line.")
    ended_at: AwareDatetime = Field(description="Time when the run ended.")
    rows: NonNegativeInt = Field(description="Number of rows.")
    seconds: FiniteFloat = Field(description="Total duration of judging over all runs, in seconds.")

"""The results of one offline run: what its file of results holds, one JSON document a line."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, FiniteFloat, JsonValue, NonNegativeInt, PositiveInt

from judges.evaluation import Evaluation, EvaluatorInfo

SCHEMA = "streamjury.results/1"


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class CriterionInfo(_Part):
    """What a reader needs to know of a criterion to read its scores."""

    name: str
    title: str
    question: str
    weight: FiniteFloat
    bounds: tuple[FiniteFloat, FiniteFloat] | None
    """Its own scale, lowest and highest; None for options without scores."""

    choices: Sequence[tuple[str, FiniteFloat | None]] = ()
    """Labels with their values, worst first; none for a range."""

    safety: bool = False
    """It decides about safety."""


class Run(_Part):
    """The first line: who judged what, and how. Nothing in it is secret."""

    kind: Literal["run"] = "run"
    schema_version: str = SCHEMA
    name: str
    """The name of what was judged: a file's name, or `-`."""

    input_digest: str | None = None
    """Of the file's bytes; None for standard input."""

    started_at: AwareDatetime
    evaluator: EvaluatorInfo
    criteria: tuple[CriterionInfo, ...]
    parameters: Mapping[str, JsonValue]
    """The options of the command and the settings of the judges, without secrets."""

    columns: tuple[str, ...] = ()
    """The columns of the file, in its order; none where it has no columns."""


class RowError(_Part):
    """Why a row has no evaluation."""

    kind: str
    message: str


class Row(_Part):
    """What became of one row of the file."""

    kind: Literal["row"] = "row"
    row: PositiveInt
    """Its number in the file: the first record is 1, whatever line it begins on."""

    source: Mapping[str, JsonValue]
    """The row as it was: its columns, or its JSON object."""

    evaluation: Evaluation | None = None
    error: RowError | None = None
    seconds: FiniteFloat = 0.0


class End(_Part):
    """The last line of a finished run."""

    kind: Literal["end"] = "end"
    ended_at: AwareDatetime
    rows: NonNegativeInt
    seconds: FiniteFloat
    """Of judging, over all attempts to finish."""

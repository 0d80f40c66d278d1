"""The description of a model: a YAML file beside the ONNX file, read with all its problems at once."""

import string
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from judges.criteria.criterion import CRITERION_NAME
from judges.criteria.findings import FileFindings
from judges.criteria.problems import (
    InconsistentError,
    Loc,
    Problem,
    describe_actual,
    describe_error,
    unknown,
)
from judges.criteria.scale import NOT_BLANK, Spec
from judges.criteria.strict_yaml import UnreadableError, read_file

FILE_NAME = "model.yaml"

SHA256 = r"^[0-9a-f]{64}$"
PLAIN_FILE = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"
_PATTERNS: Mapping[str, str] = {
    SHA256: "must be 64 hexadecimal digits in lower case, as `sha256sum` prints them",
    PLAIN_FILE: "must be the name of a file beside this one",
    CRITERION_NAME: "must be 1 to 64 lower-case letters, digits and '_', starting with a letter",
    NOT_BLANK: "must not be empty",
}

Task = Literal["tokens", "pairs", "text"]
_FIELDS: Mapping[Task, frozenset[str]] = {
    "tokens": frozenset({"question", "history", "contexts", "answer"}),
    "pairs": frozenset({"question", "history", "contexts", "sentence"}),
    "text": frozenset({"question", "history", "contexts", "answer"}),
}
_JUDGED: Mapping[Task, str] = {"tokens": "answer", "pairs": "sentence", "text": "answer"}

Text = Annotated[str, Field(pattern=NOT_BLANK, max_length=1000)]
Probability = Annotated[float, Field(strict=True, gt=0.0, lt=1.0)]
Count = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]


class ModelFileError(ValueError):
    """A model that cannot be used; the message lists all problems, one per line."""

    def __init__(self, file: Path, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{file}: {problem}" for problem in self.problems))


class FileSpec(Spec):
    """A file beside the description."""

    file: Annotated[str, Field(pattern=PLAIN_FILE, max_length=255)]
    sha256: Annotated[str, Field(pattern=SHA256)]


class InputSpec(Spec):
    """What the model reads: the names of its inputs, its text, and the most tokens."""

    ids: Text = "input_ids"
    mask: Text | None = "attention_mask"
    """Name of the input that tells tokens from padding; None if the model has none: its inputs are never padded."""

    types: Text | None = None
    """Name of the input that tells the first text from the second; None if the model has none."""

    first: Text | None = None
    """The first text, with fields in braces. None, only for `task: tokens`: the layout of the shipped model."""

    second: Text | None = None
    """The second text of a pair; None if there is only one."""

    window: Annotated[Count, Field(ge=32, le=32_768)] = 512
    """Tokens of one input at most; contexts that do not fit are left out, the nearest to the answer are kept."""

    answer: Annotated[Count, Field(ge=16)] = 160
    """Tokens of the answer in one input at most; a longer answer gets several inputs."""

    question: Annotated[Count, Field(ge=1)] = 32
    """Tokens of the question at most, in the layout of the shipped model."""


class OutputSpec(Spec):
    """What the model returns: the name of its output, and its labels in their order."""

    name: Text = "logits"
    labels: Annotated[tuple[Text, ...], Field(min_length=1, max_length=1000)]
    activation: Literal["softmax", "sigmoid"] = "softmax"
    failing: tuple[Text, ...] = ()
    """Labels of a text that fails the criterion: unsupported, or harmful."""

    passing: tuple[Text, ...] = ()
    """Instead of `failing`: labels of a text that meets the criterion."""

    contradicting: tuple[Text, ...] = ()
    """Labels among the failing ones that say that a context contradicts the sentence."""

    @model_validator(mode="after")
    def _check_labels(self) -> Self:
        problems = [*self._label_problems()]
        if problems:
            raise InconsistentError(problems)
        return self

    def _label_problems(self) -> Iterator[tuple[Loc, str]]:
        if len(set(self.labels)) != len(self.labels):
            yield ("labels",), "must name each label once"
        if bool(self.failing) == bool(self.passing):
            yield ("failing",), "must be given, or else `passing`, but not both"
        if len(self.labels) == 1 and self.activation == "softmax":
            yield ("activation",), "must be sigmoid for a single label: softmax would always be 1"
        for key in ("failing", "passing", "contradicting"):
            for index, label in enumerate(getattr(self, key)):
                if label not in self.labels:
                    yield (key, index), unknown("label", label, self.labels)
        for index, label in enumerate(self.contradicting):
            if label in self.labels and label not in self.failing:
                yield ("contradicting", index), "must be one of `failing`"


class AggregationSpec(Spec):
    """How many outputs become one probability per sentence, and one per answer."""

    tokens: Literal["mean", "max"] = "mean"
    """From the tokens of a sentence, on log-odds; only for `task: tokens`."""

    sentences: Literal["max", "two_highest", "mean"] = "max"
    """From the sentences of an answer; `two_highest` is the mean of two log-odds, or the only one."""

    contexts: Literal["joined", "each"] = "joined"
    """For `task: pairs`: all contexts as one text, or each with the sentence, where the best support counts."""


class ModelDescription(Spec):
    """One model, as `model.yaml` describes it."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./-]{0,127}$")]
    version: Text
    licence: Text
    """Licence of the weights, as an SPDX identifier or in words."""

    source: Text | None = None
    """Where the weights come from."""

    criterion: Annotated[str, Field(pattern=CRITERION_NAME)] = "groundedness"
    task: Task
    languages: Literal["any"] | Annotated[tuple[Literal["en", "ru"], ...], Field(min_length=1)] = ("en",)
    model: FileSpec
    tokenizer: FileSpec
    inputs: InputSpec
    output: OutputSpec
    aggregation: AggregationSpec = AggregationSpec()
    thresholds: Annotated[tuple[Probability, ...], Field(min_length=1, max_length=100)]
    """From these probabilities on, an answer gets the worst level, the next one, and so on; falling."""

    min_share: Annotated[float, Field(strict=True, ge=0.0, le=1.0)] = 0.0
    """The worst level needs this share of failing sentences, too."""

    skip_verbatim: bool = True
    """Whether sentences that stand in a context word for word are supported without asking the model."""

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        problems = [*self._threshold_problems(), *self._template_problems(), *self._input_problems()]
        if problems:
            raise InconsistentError(problems)
        return self

    def _threshold_problems(self) -> Iterator[tuple[Loc, str]]:
        if list(self.thresholds) != sorted(set(self.thresholds), reverse=True):
            yield ("thresholds",), f"must fall from the worst level to the best, not {list(self.thresholds)}"

    def _template_problems(self) -> Iterator[tuple[Loc, str]]:
        inputs = self.inputs
        if inputs.first is None:
            if inputs.second is not None or self.task != "tokens":
                yield ("inputs", "first"), "is required, unless the model has the layout of the shipped one"
            return
        names = set[str]()
        for key, template in (("first", inputs.first), ("second", inputs.second)):
            for problem, name in _fields_in(template or ""):
                if problem:
                    yield ("inputs", key), problem
                elif name not in _FIELDS[self.task]:
                    yield ("inputs", key), unknown("field", name, sorted(_FIELDS[self.task]))
                names.add(name)
        if _JUDGED[self.task] not in names:
            yield ("inputs",), f"must have {{{_JUDGED[self.task]}}} in `first` or `second`"

    def _input_problems(self) -> Iterator[tuple[Loc, str]]:
        if self.inputs.answer + 16 > self.inputs.window:
            yield ("inputs", "answer"), "must leave at least 16 tokens of `window` for the rest"

    @property
    def failing_from(self) -> float:
        """The probability from which a sentence fails."""
        return self.thresholds[-1]

    def names_sentences(self) -> bool:
        return self.task != "text"

    @property
    def identity(self) -> str:
        """Everything that can change verdicts, on one line."""
        return self.model_dump_json(exclude={"licence", "source"})


def _fields_in(template: str) -> Iterator[tuple[str, str]]:
    """Yield each field of a template, with its problem if there is one."""
    try:
        for _, name, form, conversion in string.Formatter().parse(template):
            if name is not None:
                plain = not form and not conversion and name.isidentifier()
                yield ("" if plain else "must have plain fields, such as {answer}; write {{ for a brace"), name
    except ValueError:
        yield "has a single brace; write {{ or }} for a brace in the text", ""


# Reading


def find_description(path: Path) -> Path:
    """Return the description of a model: the path itself, or the file in the folder."""
    return path / FILE_NAME if path.is_dir() else path


def read_description(path: Path | str) -> ModelDescription:
    """Read the description of a model, a file or its folder; raises ModelFileError with all problems."""
    file = find_description(Path(path))
    problems = FileFindings()
    try:
        data = read_file(file, problems)
    except UnreadableError as error:
        raise ModelFileError(file, [error.problem]) from None
    description = _validate({} if data is None else data, problems)
    if description is not None:
        for key in ("model", "tokenizer"):
            part: FileSpec = getattr(description, key)
            if not (file.parent / part.file).is_file():
                problems.report((key, "file"), f"there is no {part.file} beside the description")
    if problems.messages or description is None:
        raise ModelFileError(file, problems.problems())
    return description


def _validate(data: Any, problems: FileFindings) -> ModelDescription | None:
    try:
        return ModelDescription.model_validate(data)
    except ValidationError as error:
        details = error.errors(include_url=False)
    for detail in details:
        loc = _place_of(detail)
        inconsistent = detail.get("ctx", {}).get("error")
        if isinstance(inconsistent, InconsistentError):
            for inner, message in inconsistent.found:
                problems.report((*loc, *inner), message)
        elif not problems.is_unread(loc) and not _follows(detail):
            problems.report(loc, _describe(detail, loc))
    return None


def _follows(detail: ErrorDetails) -> bool:
    """Return whether an error only follows from others: a list counts as short when its items are wrong."""
    return detail["type"] == "too_short" and len(detail["input"]) >= detail["ctx"]["min_length"]


def _place_of(detail: ErrorDetails) -> Loc:
    """Return the place in the file; pydantic adds the alternatives of `languages`."""
    loc = detail["loc"]
    return loc[:1] if loc[:1] == ("languages",) else loc


_SECTIONS: Mapping[str, type[BaseModel]] = {
    "model": FileSpec,
    "tokenizer": FileSpec,
    "inputs": InputSpec,
    "output": OutputSpec,
    "aggregation": AggregationSpec,
}


def _describe(detail: ErrorDetails, loc: Loc) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if loc == ("languages",):
        return "must be `any`, or a list of en and ru"
    if kind == "extra_forbidden":
        section = _SECTIONS.get(str(loc[0]), ModelDescription) if len(loc) > 1 else ModelDescription
        return unknown("key", str(loc[-1]), section.model_fields)
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(context["pattern"], "must be letters, digits, '_', '.', '/' and '-'")
    if kind == "less_than":
        return f"must be below {context['lt']:g}"
    container = kind in {"model_type", "dict_type", "tuple_type"}
    found = describe_actual(detail["input"], container=container, text=kind == "string_type")
    return describe_error(kind, context, found)

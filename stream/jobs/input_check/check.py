"""Reads sample records as the pipeline does, and counts for each field of an interaction what was found."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from judges.values.interaction import Interaction
from sinks.base import Headers
from stream.config.model import Config
from stream.errors import RecordError
from stream.jobs.input_check.hints import find_hints, find_shape_hints
from stream.records.adapters import make_adapter
from stream.records.adapters.base import BodyPath, Document
from stream.records.encodings.decoder import REGISTRY_SECONDS, make_decoder
from stream.records.reading import InteractionReader, read_document

REQUIRED = ("id", "question", "answer")

_EXAMPLE_CHARS = 60
_PROBLEMS_KEPT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecord:
    """One record as it was logged, and its place in the file or topic."""

    place: str
    value: bytes | None
    headers: Headers = ()
    is_json: bool = False
    """Whether the value is JSON, whatever the configured encoding."""


@dataclass(slots=True, kw_only=True)
class FieldCheck:
    """What was found for one field."""

    name: str
    path: str | None
    """The path in the record, as the configuration has it; None if records of this input never have the field."""
    found: int = 0
    example: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordProblem:
    """Why a record cannot be used, or which part of it is cut."""

    place: str
    kind: str
    message: str


@dataclass(slots=True, kw_only=True)
class InputCheck:
    """The result of a check."""

    encoding: str
    adapter: str
    fields: list[FieldCheck]
    records: int = 0
    readable: int = 0
    problems: list[RecordProblem] = field(default_factory=list)
    """The first problems."""
    hints: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.readable == self.records > 0


def check_input(config: Config, samples: Iterable[SampleRecord]) -> InputCheck:
    """Read samples; raises RegistryError if the Schema Registry does not answer."""
    return _Checker(config).run(samples)


class _Checker:
    def __init__(self, config: Config) -> None:
        self._input = config.input
        self._decoder = make_decoder(config, patience=REGISTRY_SECONDS)
        self._adapter = make_adapter(config.input)
        self._reader = InteractionReader(config.input)
        self._documents: list[Document] = []
        self._first_unread: bytes | None = None
        """The first line of a file that is not JSON, if no record was read before it."""
        fields = [FieldCheck(name=name, path=self._path_text(name)) for name in Interaction.model_fields]
        self._result = InputCheck(encoding=config.input.encoding, adapter=config.input.adapter, fields=fields)

    def run(self, samples: Iterable[SampleRecord]) -> InputCheck:
        for sample in samples:
            self._result.records += 1
            try:
                self._read(sample)
                self._result.readable += 1
            except RecordError as error:
                self._note(sample, error.kind, str(error))
        missing = {check.name for check in self._result.fields if not check.found}
        self._result.hints = [
            *find_shape_hints(self._documents, self._first_unread),
            *find_hints(self._input, self._documents, missing=missing, found=self._found_paths()),
        ]
        return self._result

    def _read(self, sample: SampleRecord) -> None:
        value = sample.value
        if self._decoder is not None and not sample.is_json:
            value = self._decoder.decode(value, sample.headers)
        try:
            document = read_document(value, self._input.limits)
        except RecordError:
            if sample.is_json and not self._documents:
                self._first_unread = self._first_unread or sample.value
            raise
        self._documents.append(document)
        self._count_fields(document)
        reading = self._reader.read(value)
        if reading.truncated:
            self._note(sample, "truncated", f"longer than input.limits allow: {', '.join(reading.truncated)}")

    def _count_fields(self, document: Document) -> None:
        for check in self._result.fields:
            path = self._adapter.path(check.name)
            value = None if path is None else path.find(document)
            if value is not None:
                check.found += 1
                check.example = check.example or _excerpt(value)

    def _path_text(self, name: str) -> str | None:
        path = self._adapter.path(name)
        if path is None:
            return None
        return str(path) if isinstance(path, BodyPath) else "column"

    def _found_paths(self) -> set[str]:
        return {check.path for check in self._result.fields if check.found and check.path is not None}

    def _note(self, sample: SampleRecord, kind: str, message: str) -> None:
        if len(self._result.problems) < _PROBLEMS_KEPT:
            self._result.problems.append(RecordProblem(place=sample.place, kind=kind, message=message))


def _excerpt(value: object) -> str:
    if isinstance(value, list):
        inner = f": {_excerpt(value[0])}" if value else ""
        return f"{len(value)} item{'' if len(value) == 1 else 's'}{inner}"
    text = " ".join(str(value).split())
    return text if len(text) <= _EXAMPLE_CHARS else f"{text[: _EXAMPLE_CHARS - 1]}…"

"""Reads criteria files, reporting all their problems at once, and writes them."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import Field, ValidationError

from judges.criteria.catalogue.error_text import in_plain_words, unknown_keys
from judges.criteria.criterion import Criterion
from judges.criteria.problems import Loc, Problem, path_text
from judges.criteria.scale import Spec
from judges.criteria.strict_yaml import UnreadableError, read_file, to_yaml


class CriteriaError(ValueError):
    """A file of criteria cannot be used; says everything that is wrong with it, a line each."""

    def __init__(self, file: Path, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{file}: {problem}" for problem in self.problems))


class _File(Spec):
    criteria: Annotated[tuple[Criterion, ...], Field(min_length=1)]


@dataclass(slots=True, kw_only=True)
class _Findings:
    """Problems by place, each said once."""

    said: dict[Loc, dict[str, None]] = field(default_factory=dict)
    unread: set[Loc] = field(default_factory=set)
    """Values that are told already; what validation says about their stand-ins is noise."""

    def report(self, loc: Loc, message: str) -> None:
        self.said.setdefault(loc, {})[message] = None

    def report_unread(self, loc: Loc, message: str) -> None:
        self.report(loc, message)
        self.unread.add(loc)

    def is_unread(self, loc: Loc) -> bool:
        return any(loc[: len(outer)] == outer for outer in self.unread)

    def problems(self) -> Iterator[Problem]:
        """One criterion after the other."""
        for loc in sorted(self.said, key=lambda loc: next((part for part in loc if isinstance(part, int)), -1)):
            yield from (Problem(path=path_text(loc), message=message) for message in self.said[loc])


def load_criteria(path: Path | str) -> Mapping[str, Criterion]:
    """The criteria in a file, by name, in their order there; CriteriaError names all that is wrong with it."""
    file = Path(path)
    findings = _Findings()
    try:
        data = read_file(file, findings)
    except UnreadableError as error:
        raise CriteriaError(file, [error.problem]) from None
    data = {} if data is None else data
    for loc, message in _same_names(data):
        findings.report(loc, message)
    criteria = _validated(data, findings)
    if findings.said:
        raise CriteriaError(file, findings.problems())
    return MappingProxyType({criterion.name: criterion for criterion in criteria})


def dump_criteria(criteria: Iterable[Criterion]) -> str:
    """The criteria as a file that `load_criteria` reads back as the same."""
    return to_yaml({"criteria": [_brief(each.model_dump(mode="json", exclude_none=True)) for each in criteria]})


def _validated(data: Any, findings: _Findings) -> tuple[Criterion, ...]:
    try:
        return _File.model_validate(data).criteria
    except ValidationError as error:
        details = error.errors(include_url=False)
    for loc, message in in_plain_words(details, data):
        if not findings.is_unread(loc):
            findings.report(loc, message)
    needless = unknown_keys(details, data)
    # A section with a key too many is not asked whether its parts go together; without that key it is.
    return _validated(_without(data, needless), findings) if needless else ()


def _without(data: Any, places: Iterable[Loc]) -> Any:
    rest = copy.deepcopy(data)
    for *outer, key in places:
        section = rest
        for part in outer:
            section = section[part]
        del section[key]
    return rest


def _same_names(data: Any) -> Iterator[tuple[Loc, str]]:
    """Found in the data: the model would tell of them only after everything else is right."""
    items = data.get("criteria") if isinstance(data, dict) else None
    first: dict[str, int] = {}
    for index, item in enumerate(items if isinstance(items, list) else ()):
        name = item.get("name") if isinstance(item, dict) else None
        if isinstance(name, str) and first.setdefault(name, index) != index:
            yield ("criteria", index, "name"), f"must be distinct; criteria[{first[name]}] is also named {name!r}"


def _brief(data: Any) -> Any:
    """Without what goes without saying: empty lists that are defaults, a scale's kind, twice the same wording."""
    if isinstance(data, list):
        return [_brief(item) for item in data]
    if not isinstance(data, dict):
        return data
    if data.keys() == {"en", "ru"} and data["en"] == data["ru"]:
        return data["en"]
    plain = {"needs": [], "needs_whole": [], "examples": [], "safety": False}
    said = {name: value for name, value in data.items() if name not in plain or value != plain[name]}
    if isinstance(said.get("scale"), dict):
        said["scale"] = {name: value for name, value in said["scale"].items() if name != "kind"}
    # The fields of an example are the user's own, whatever they are called.
    return {name: value if name == "fields" else _brief(value) for name, value in said.items()}

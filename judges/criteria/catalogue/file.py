"""Reads criteria files, reporting all their problems at once, and writes them."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import Field, ValidationError

from judges.criteria.catalogue.error_text import describe_errors, unknown_keys
from judges.criteria.criterion import Criterion
from judges.criteria.findings import FileFindings
from judges.criteria.problems import Loc, Problem
from judges.criteria.scale import Spec
from judges.criteria.strict_yaml import UnreadableError, read_file, to_yaml


class CriteriaError(ValueError):
    """A criteria file cannot be used; the message lists all its problems, one per line."""

    def __init__(self, file: Path, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{file}: {problem}" for problem in self.problems))


class _File(Spec):
    criteria: Annotated[tuple[Criterion, ...], Field(min_length=1)]


def load_criteria(path: Path | str) -> Mapping[str, Criterion]:
    """Return the criteria in a file by name, in file order; raises CriteriaError with all problems."""
    file = Path(path)
    findings = FileFindings()
    try:
        data = read_file(file, findings)
    except UnreadableError as error:
        raise CriteriaError(file, [error.problem]) from None
    data = {} if data is None else data
    for loc, message in _duplicate_names(data):
        findings.report(loc, message)
    criteria = _validate(data, findings)
    if findings.messages:
        raise CriteriaError(file, findings.problems())
    return MappingProxyType({criterion.name: criterion for criterion in criteria})


def dump_criteria(criteria: Iterable[Criterion]) -> str:
    """Return the criteria as the text of a file that `load_criteria` reads back."""
    return to_yaml(
        {"criteria": [_drop_defaults(criterion.model_dump(mode="json", exclude_none=True)) for criterion in criteria]}
    )


def _validate(data: Any, findings: FileFindings) -> tuple[Criterion, ...]:
    try:
        return _File.model_validate(data).criteria
    except ValidationError as error:
        details = error.errors(include_url=False)
    for loc, message in describe_errors(details, data):
        if not findings.is_unread(loc):
            findings.report(loc, message)
    unknown_places = unknown_keys(details, data)
    # Pydantic skips the consistency checks of a section with unknown keys, so check again without these keys.
    return _validate(_without(data, unknown_places), findings) if unknown_places else ()


def _without(data: Any, places: Iterable[Loc]) -> Any:
    rest = copy.deepcopy(data)
    for *outer, key in places:
        section = rest
        for part in outer:
            section = section[part]
        del section[key]
    return rest


def _duplicate_names(data: Any) -> Iterator[tuple[Loc, str]]:
    """Find duplicate names in the raw data: the model would report them only if everything else is valid."""
    items = data.get("criteria") if isinstance(data, dict) else None
    first: dict[str, int] = {}
    for index, item in enumerate(items if isinstance(items, list) else ()):
        name = item.get("name") if isinstance(item, dict) else None
        if isinstance(name, str) and first.setdefault(name, index) != index:
            yield ("criteria", index, "name"), f"must be distinct; criteria[{first[name]}] is also named {name!r}"


def _drop_defaults(data: Any) -> Any:
    """Remove what is implied: empty lists that are defaults, the kind of a scale, translations that are equal."""
    if isinstance(data, list):
        return [_drop_defaults(item) for item in data]
    if not isinstance(data, dict):
        return data
    if data.keys() == {"en", "ru"} and data["en"] == data["ru"]:
        return data["en"]
    defaults = {"needs": [], "needs_whole": [], "examples": [], "safety": False}
    explicit = {name: value for name, value in data.items() if name not in defaults or value != defaults[name]}
    if isinstance(explicit.get("scale"), dict):
        explicit["scale"] = {name: value for name, value in explicit["scale"].items() if name != "kind"}
    # The fields of an example belong to the user, whatever their names.
    return {name: value if name == "fields" else _drop_defaults(value) for name, value in explicit.items()}

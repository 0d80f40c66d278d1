"""The catalogue: the criteria that ship with the package, and those of the user's own files.

- `file`: reads a criteria file with all its problems, and writes one
- `error_text`: turns pydantic's errors about such a file into plain words

The criteria themselves are in the YAML files beside these modules, one file per name in `CATALOGUES`.
"""

import difflib
import functools
import re
from collections.abc import Iterable, Mapping
from importlib import resources

from judges.criteria.catalogue.file import CriteriaError, dump_criteria, load_criteria
from judges.criteria.criterion import Criterion
from judges.criteria.scale import YES_NO, Scale

__all__ = [
    "CATALOGUES",
    "CriteriaError",
    "UnknownCriterionError",
    "criteria_of",
    "criterion_of",
    "dump_criteria",
    "find_criterion",
    "load_catalogue",
    "load_criteria",
    "shipped_names",
]

CATALOGUES = ("rag", "aspects", "answer", "retrieval", "safety", "writing", "summary", "dialogue", "agent", "code")

# No question is written like this, and asked as one it would still get an answer.
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?")

_WANTED = "a Criterion, a question in words or the name of a built-in criterion"


class UnknownCriterionError(ValueError):
    """A name that stands for no criterion of the catalogues, or for several; says which were perhaps meant."""


@functools.cache
def load_catalogue(name: str = "rag") -> Mapping[str, Criterion]:
    """The criteria of one shipped catalogue, by name, in their published order. Read once in a process."""
    if name not in CATALOGUES:
        raise ValueError(f"unknown catalogue {name!r}; expected one of {', '.join(CATALOGUES)}")
    with resources.as_file(resources.files("judges.criteria.catalogue").joinpath(f"{name}.yaml")) as path:
        return load_criteria(path)


def shipped_names() -> Mapping[str, str]:
    """The qualified name of every shipped criterion, to its bare one."""
    return {f"{catalogue}.{each}": each for catalogue in CATALOGUES for each in load_catalogue(catalogue)}


def find_criterion(name: str) -> Criterion:
    """The criterion of a qualified name (`rag.clarity`), or of a bare one that only one catalogue has (`toxicity`)."""
    known = shipped_names()
    found = [qualified for qualified, bare in known.items() if name in {qualified, bare}]
    if len(found) > 1:
        raise UnknownCriterionError(f"{name!r} is in several catalogues; choose one of {', '.join(found)}")
    if not found:
        raise UnknownCriterionError(f"unknown criterion {name!r}; {_instead(name, known)}")
    catalogue, _, bare = found[0].partition(".")
    return load_catalogue(catalogue)[bare]


def criterion_of(given: object, scale: Scale = YES_NO, *, argument: str = "criterion") -> Criterion:
    """A criterion as people write it: itself, the name of a shipped one, or a question in words, put on that scale."""
    if isinstance(given, Criterion):
        return given
    if not isinstance(given, str):
        raise TypeError(f"{argument} must be {_WANTED}, not {type(given).__name__}")
    if not _NAME.fullmatch(given.strip()):
        return Criterion.asking(given, scale)
    if given.strip() in CATALOGUES:
        raise UnknownCriterionError(f"{argument}: {given!r} is a catalogue; pass load_catalogue({given.strip()!r})")
    try:
        return find_criterion(given.strip())
    except UnknownCriterionError as error:
        raise UnknownCriterionError(
            f"{argument}: write a question in words, or the name of a criterion: {error}"
        ) from None


def criteria_of(given: object, scale: Scale = YES_NO) -> list[Criterion]:
    """Several criteria as people write them: in a list, or as the values of a mapping."""
    if isinstance(given, Mapping):
        return [criterion_of(each, scale) for each in given.values()]
    # A criterion would fall into its fields, and a text into its letters.
    if isinstance(given, Criterion | str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"criterion must be {_WANTED}, or a list or mapping of these, not {type(given).__name__}")
    return [criterion_of(each, scale) for each in given]


def _instead(name: str, known: Mapping[str, str]) -> str:
    bare_name = name.lower().rpartition(".")[2]
    near = difflib.get_close_matches(bare_name, {*known.values()}, n=3, cutoff=0.75)
    names = [qualified for qualified, bare in known.items() if bare in near]
    return f"did you mean {' or '.join(names)}?" if names else f"expected one of {', '.join(known)}"

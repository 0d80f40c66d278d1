"""The catalogue: the criteria that ship with the package, and those of the user's own files."""

import difflib
import functools
from collections.abc import Mapping
from importlib import resources

from judges.catalogue.file import CriteriaError, dump_criteria, load_criteria
from judges.criteria import Criterion

__all__ = [
    "CATALOGUES",
    "CriteriaError",
    "UnknownCriterionError",
    "dump_criteria",
    "find_criterion",
    "load_catalogue",
    "load_criteria",
]

CATALOGUES = ("rag", "aspects", "answer", "safety", "writing", "summary")


class UnknownCriterionError(ValueError):
    """A name that stands for no criterion of the catalogues, or for several; says which were perhaps meant."""


@functools.cache
def load_catalogue(name: str = "rag") -> Mapping[str, Criterion]:
    """The criteria of one shipped catalogue, by name, in their published order. Read once in a process."""
    if name not in CATALOGUES:
        raise ValueError(f"there is no catalogue {name!r}; there are {', '.join(CATALOGUES)}")
    with resources.as_file(resources.files("judges.catalogue").joinpath(f"{name}.yaml")) as path:
        return load_criteria(path)


def find_criterion(name: str) -> Criterion:
    """The criterion of a qualified name (`rag.clarity`), or of a bare one that only one catalogue has (`toxicity`)."""
    known = {f"{catalogue}.{each}": each for catalogue in CATALOGUES for each in load_catalogue(catalogue)}
    found = [qualified for qualified, bare in known.items() if name in {qualified, bare}]
    if len(found) > 1:
        raise UnknownCriterionError(f"{name!r} is in several catalogues; say which: {', '.join(found)}")
    if not found:
        raise UnknownCriterionError(f"there is no criterion {name!r}; {_instead(name, known)}")
    catalogue, _, bare = found[0].partition(".")
    return load_catalogue(catalogue)[bare]


def _instead(name: str, known: Mapping[str, str]) -> str:
    bare_name = name.lower().rpartition(".")[2]
    near = difflib.get_close_matches(bare_name, {*known.values()}, n=3, cutoff=0.75)
    names = [qualified for qualified, bare in known.items() if bare in near]
    return f"did you mean {' or '.join(names)}?" if names else f"there are {', '.join(known)}"

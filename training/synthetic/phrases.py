"""Word lists and templates, read from `phrases.yaml`."""

from functools import cache
from importlib import resources
from typing import Any

import yaml


@cache
def _file() -> dict[str, list[str]]:
    text = resources.files("training.synthetic").joinpath("phrases.yaml").read_text(encoding="utf-8")
    content: Any = yaml.safe_load(text)
    return {name: [str(line) for line in lines] for name, lines in content.items()}


def phrases(name: str) -> list[str]:
    """Return a list of templates."""
    return _file()[name]


@cache
def pairs(name: str, *, both_ways: bool) -> dict[str, str]:
    """Return a list of word pairs as a mapping from the first to the second, or both ways."""
    table = dict(line.split(" ", 1) for line in _file()[name])
    return {**{second: first for first, second in table.items()}, **table} if both_ways else table

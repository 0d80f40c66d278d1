"""Adapters: the shapes in which services log their interactions, each read into ours.

A new shape is one module with a function from a parsed document to the fields of an `Interaction`, and one line in
`_ADAPTERS`.
"""

from collections.abc import Callable, Mapping

from stream.adapters import csv, mapping, native
from stream.config import InputConfig

Document = dict[str, object]
Adapter = Callable[[Document], Document]

_ADAPTERS: Mapping[str, Callable[[InputConfig], Adapter]] = {
    "streamjury": native.adapter,
    "mapping": mapping.adapter,
    "csv": csv.adapter,
}


def make_adapter(config: InputConfig) -> Adapter:
    """The adapter that the configuration names."""
    return _ADAPTERS[config.adapter](config)

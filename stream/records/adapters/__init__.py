"""Adapters: the shapes in which services log their interactions, each read into ours.

- `base`: the contract, `Adapter`, and how a field is found in a document (`Path`, `Lookup`)
- `native`: records that already have our shape
- `mapping`: fields at configured dotted paths
- `csv`: rows of a table, by the names of their columns

A new shape is one module with an `Adapter`, a line in `ADAPTERS`, and its name among those that `InputConfig.adapter`
takes.
"""

from collections.abc import Callable, Mapping

from stream.config.sections.input import InputConfig
from stream.records.adapters.base import Adapter
from stream.records.adapters.csv import CsvAdapter
from stream.records.adapters.mapping import MappingAdapter
from stream.records.adapters.native import NativeAdapter

ADAPTERS: Mapping[str, Callable[[InputConfig], Adapter]] = {
    "streamjury": lambda _config: NativeAdapter(),
    "mapping": lambda config: MappingAdapter(config.mapping),
    "csv": lambda _config: CsvAdapter(),
}
"""Adapters by their name in `input.adapter`."""


def make_adapter(config: InputConfig) -> Adapter:
    """Make the configured adapter."""
    return ADAPTERS[config.adapter](config)

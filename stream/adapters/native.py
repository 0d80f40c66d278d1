"""The adapter `streamjury`: records that already have our shape."""

from collections.abc import Callable

from stream.config import InputConfig


def adapter(_config: InputConfig) -> Callable[[dict[str, object]], dict[str, object]]:
    return lambda document: document

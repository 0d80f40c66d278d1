"""Places in nested data, written as people write them."""

import re
from collections.abc import Sequence

Loc = tuple[str | int, ...]
"""The keys and indexes that lead to a place."""


def path_text(loc: Sequence[str | int]) -> str:
    """`judges.panel[1].model`; keys that are no plain names are quoted, so that none can pass for another place."""
    path = ""
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        elif re.fullmatch(r"[A-Za-z0-9_-]+", part):
            path += f".{part}" if path else part
        else:
            path += f"[{part!r}]"
    return path

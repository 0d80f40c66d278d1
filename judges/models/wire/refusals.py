"""Remembers the features that an endpoint refused, so that each is requested only once."""

import hashlib
import json
from collections.abc import Iterable, Mapping

from judges.models.wire.base import FORMS, Feature
from judges.models.wire.failures import Refusal

# Far more schemas than the criteria of one judge have.
_MOST_SCHEMAS = 1024


class Refusals:
    """Features that are always refused, and forms that are refused with one schema only."""

    def __init__(self) -> None:
        self._always: frozenset[Feature] = frozenset()
        self._by_schema: dict[bytes, frozenset[Feature]] = {}

    def of(self, schema: Mapping[str, object] | None) -> frozenset[Feature]:
        """Return the features not to request together with this schema."""
        if schema is None or not self._by_schema:
            return self._always
        return self._always | self._by_schema.get(_key(schema), frozenset())

    def remember(self, refusals: Iterable[Refusal], schema: Mapping[str, object] | None) -> None:
        for refusal in refusals:
            if not refusal.of_schema or refusal.feature not in FORMS or schema is None:
                self._always |= {refusal.feature}
                continue
            if len(self._by_schema) >= _MOST_SCHEMAS:
                self._by_schema.clear()
            key = _key(schema)
            self._by_schema[key] = self._by_schema.get(key, frozenset()) | {refusal.feature}


def _key(schema: Mapping[str, object]) -> bytes:
    return hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).digest()

"""The adapter `streamjury`: records that already have our shape."""

from stream.records.adapters.base import Adapter, BodyPath, Document


class NativeAdapter(Adapter):
    """Leaves documents as they are."""

    reads_id_key = True

    def read(self, document: Document) -> Document:
        return document

    def path(self, field: str) -> BodyPath:
        return BodyPath((field,))

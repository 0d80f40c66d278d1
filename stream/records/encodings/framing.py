"""The framing of the Confluent encodings: where a record has the id of its schema."""

VALUE_SCHEMA_ID = "__value_schema_id"
"""The header with the id of a value's schema, in the header form."""

FIRST_BYTES = (b"\x00", b"\x01")
"""The first byte of a value that has the id itself: before the number of a schema, or before its GUID."""

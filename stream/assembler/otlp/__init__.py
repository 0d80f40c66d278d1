"""OTLP: decodes records of spans, as protobuf or as JSON.

- `spans`: one span with the attributes that are needed, as it is kept in memory
- `filtering`: which attributes are kept, and which traces
- `decoding`: reads a record, whichever encoding it has, or splits it by trace
- `protobuf`: records as protobuf
- `documents`: records as JSON
"""

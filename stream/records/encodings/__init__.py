"""Encodings: records of the input topic that are not plain JSON become JSON here, before anything else reads them.

- `decoder`: the contract, and the decoder of a configuration
- `message`: a record that is decoded on first use
- `confluent`: the Confluent encodings: framing, schemas, and one reader for each schema
- `framing`: where a record has the id of its schema
- `schema_client`: fetches schemas; tells a registry that is away from a schema that does not exist
- `avro`: reads Avro records, and refuses schemas that cannot be read safely
- `protobuf`: reads Protobuf records, and compiles schemas that are only there as text
- `json_schema`: checks JSON records against their schema
- `values`: decoded values as JSON

The sampler forwards the JSON, so that workers and the archive need no Schema Registry, and a change of `input.encoding`
does not concern records that were already sampled.
"""

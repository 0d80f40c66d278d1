"""Records: gives bytes their meaning.

- `adapters`: the shapes of logged interactions, and where each field is in them
- `encodings`: turns records in a Confluent encoding into JSON, with schemas from a Schema Registry
- `reading`: reads the bytes of one record into an interaction, or raises an error that names what is wrong and where
- `body`: the parsed body of a record, and the paths that find a value in it
- `conditions`: conditions of rules and triggers on one value
- `facts`: a record that is parsed only as far as a decision needs
- `decision`: the sampling decision: pure, and the same for a record in every process
- `envelope`: the decision as headers around the unchanged bytes of the interaction
- `headers`: reads the headers that mark replayed records and dead letters
- `identity`: distinguishes interactions that were logged under one id
- `canaries`: the canary file, and reading its records back
"""

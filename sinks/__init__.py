"""Outputs: all destinations of finished evaluations and of record outcomes.

- `base`: the contracts of topic writers and sinks
- `queued`: a queue and a thread in front of a sink, so that it never holds up a stage
- `jsonl`: a sink that appends evaluations to a file
- `langfuse`: a sink that posts scores to Langfuse
- `memory`: a sink in memory, for tests
- `topics`: records on Kafka topics: evaluations, safety notices and dead letters, with their headers
- `metrics`: Prometheus metrics, their names and PromQL
- `telemetry`: a sink for OpenTelemetry
- `archive`: evaluations and their texts in an SQL database
- `reports`: reports on an offline run
- `statistics`: estimates, intervals and agreement
- `web`: the HTTP server for metrics and health
- `page`: live quality in a browser
- `text`: makes untrusted text safe for terminals and log lines
"""

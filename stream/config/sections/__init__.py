"""The sections of the configuration file, one module for each group of them.

- `kafka`: the cluster and the topics
- `input`: the shape of logged records
- `registry`: the Schema Registry for records in a Confluent encoding
- `otlp`: OpenTelemetry spans as input
- `sampling`: which interactions are judged
- `criteria`: the criteria and the composite
- `judges`: the panel and its cache, redaction and cascade
- `budgets`: limits on the cost of judging
- `detection`: which series are watched for drops, and how often an alert may be false
- `observability`: objectives, alerts, metrics and telemetry
- `archive`: the archive
- `page`: the page in the browser
- `labels`: which answers people label
- `stages`: the stages, the web server and the log
"""

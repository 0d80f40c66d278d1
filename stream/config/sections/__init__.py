"""The sections of the configuration file, one module for each group of them.

- `kafka`: the cluster and the topics
- `input`: the shape of logged records
- `sampling`: which interactions are judged
- `criteria`: what is judged, and the composite
- `judges`: the panel
- `budgets`: what judging may cost
- `detection`: when a drop is an alert
- `observability`: objectives, alerts, metrics and telemetry
- `stages`: the stages, the web server and the log
"""

"""Pictures of the dashboards for the docs, drawn from the data of a real Prometheus.

- `pictures`: draws every dashboard
- `source`: queries Prometheus for the data of a panel
- `drawing`: draws one panel with matplotlib
- `units`: formats numbers as Grafana does
"""

"""Pictures of the dashboards for the docs, drawn from the data of a real Prometheus.

- `pictures`: draws every dashboard
- `source`: asks Prometheus for a panel's data
- `drawing`: panels as matplotlib figures
- `units`: numbers as Grafana writes them
"""

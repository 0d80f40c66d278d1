"""The five Grafana dashboards as code: `python -m dashboards` writes their JSON.

Limits that are drawn or coloured (the good score, the least sample, what alerts wait for) are those of the default
configuration; where an app has its own, the recorded series have it.
"""

"""The five Grafana dashboards as code, and the files that Prometheus, Alertmanager and Grafana read.

- `__main__`: `python -m dashboards` writes the JSON of the dashboards and the runbooks' pages; `--check` compares them
- `boards`: the dashboards, one module each
- `layout`: builds a dashboard from its sections, with the shared links and annotations
- `panels`: builders for the kinds of panel that the dashboards use
- `variables`: the variables at the top of the dashboards
- `windowed`: queries over the window and the selection of a dashboard
- `runbook_pages`: renders the runbooks as HTML pages
- `queries`: reads the queries of a dashboard from its JSON, for tests and pictures
- `sdk`: the parts of grafana-foundation-sdk that are used
- `pictures`: draws the dashboards for the docs
- `grafana`: the generated JSON and runbook pages, and the provisioning of Grafana
- `prometheus`: the configuration of Prometheus, the generated rules and their unit tests
- `alertmanager`: the configuration of Alertmanager
- `runbooks`: one page per alert

Limits that are drawn or coloured (the good score, the smallest sample, how long alerts wait) are those of the default
configuration; where an app has its own, the recorded series have it.
"""

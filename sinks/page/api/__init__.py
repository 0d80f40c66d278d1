"""The page's HTTP API: JSON, one module for each screen.

- `session`: who the visitor is, entering a token, and leaving
- `overview`: one row for each app
- `answers`: answers by filters, and one answer
- `alerts`: open and closed alerts, and one alert
- `judges`: the figures of every judge
- `pipeline`: where the stages stand; dead letters and their replay
- `review`: answers to label, and labels
- `audit_log`: who labelled and who replayed what
"""

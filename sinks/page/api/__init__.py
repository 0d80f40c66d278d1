"""The page's HTTP API: JSON, one module for each screen.

- `session`: the visitor, signing in and out
- `overview`: one row for each app
- `answers`: answers by filters, and one answer
- `alerts`: open and closed alerts, and one alert
- `judges`: the figures of every judge
- `pipeline`: the progress of the stages; dead letters and their replay
- `review`: answers to label, and labels
- `audit_log`: labels and replays, and who made them
"""

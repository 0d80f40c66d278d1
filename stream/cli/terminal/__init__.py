"""Output on a terminal.

- `live_view`: the pipeline while it runs
- `run_summary`: the figures of a finished run
- `alertmanager_webhook`: Alertmanager notifications as text
"""

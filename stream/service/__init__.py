"""Service: makes a process of stages.

- `service`: the chosen stages with the metrics, health and web server they share
- `stage_thread`: one stage in its own thread, with a watchdog
- `broker_probe`: follows whether the broker answers
- `telemetry`: opens the telemetry sink
- `setup`: from the configuration file to a checked configuration and its evaluator
"""

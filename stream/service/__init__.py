"""Service: runs stages in a process.

- `service`: the chosen stages with the metrics, health and web server they share
- `web_server`: the web server of a process, as configured
- `sink_consumer`: feeds a sink from the evaluations topic, at least once
- `stage_thread`: one stage in its own thread, with a watchdog
- `broker_probe`: checks whether the broker answers
- `sinks`: makes and opens the configured sinks
- `processes`: several processes that do the work of one worker
- `setup`: from the configuration file to a checked configuration and its evaluator
"""

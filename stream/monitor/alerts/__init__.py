"""Alerts of the monitor: from finished evaluations to published alerts.

- `agent`: takes evaluations and score records, keeps the state, publishes alerts
- `score_record`: the part of an evaluation that the detectors need, as it is sent to the topic of scores
- `plan`: which series of an app are watched, and with which settings
- `labels`: the labels of people, joined to the scores of their answers
- `watch`: the watched state, from the partition down to one series
- `alert`: the alert as it is published
- `summary`: an alert in one sentence
- `stored_states`: the newest state of each key on the topic, and what cannot be one
- `store`: reads and writes state and alerts, together
- `partition_writers`: a transactional producer for each partition, which shuts out the previous owner

The detectors themselves are in `stream.monitor.detection`.
"""

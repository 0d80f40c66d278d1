"""The worker: judges the interactions that the sampler chose.

- `stage`: takes records, keeps the pool busy, publishes results and offsets in one transaction
- `waiting_line`: records that were read and not yet started, by partition
- `pool`: an event loop in its own thread, so that reading and committing never wait for a judge
- `judging`: judges one record, and turns every failure into a result
- `retries`: where a record waits after its judges failed, and when it becomes a dead letter
- `fair_share`: keeps an app that floods the queue from holding up the others
- `recent_evaluations`: the evaluations published recently, so that no interaction is judged twice
- `failure_log`: rate-limited log lines about failing judges
- `conflict_log`: rate-limited log lines about ids that were used for several contents
- `budget`: hard spending limits that all workers keep together
"""

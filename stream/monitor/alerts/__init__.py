"""Alarms: the monitor's agent for drops of quality, from finished evaluations to announcements.

- `scores`: what of an evaluation the detectors need, sent on to the topic where all of an app comes together
- `plan`: what is watched of an app, and with what settings, as the configuration says
- `inclusion`: which evaluations a state already contains
- `serieswatch`, `versionwatch`: one series with its detector and its alarm; two models that are compared
- `appwatch`: the series of one app: a score record in, announcements out
- `canarywatch`: the judges' verdicts on the canaries: have the judges changed
- `usage`: which evaluators are still asked
- `partitionwatch`: all apps of a partition, and what is stored of them
- `alert`: the announcement as it is published
- `wording`: an announcement in plain words
- `store`: reads and writes what is kept, in an order that survives a crash
- `agent`: takes score records, keeps the state, publishes

Detectors themselves are in `stream.monitor.detection`.
"""

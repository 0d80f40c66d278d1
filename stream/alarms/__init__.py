"""Alarms: the monitor's agent for drops of quality, from finished evaluations to announcements.

- `scores`: what of an evaluation the detectors need, sent on to the topic where all of an app comes together
- `plan`: what is watched of an app, and with what settings, as the configuration says
- `appwatch`: the series of one app: a score record in, announcements out
- `canarywatch`: the judges' verdicts on the canaries: have the judges changed
- `alert`: the announcement as it is published
- `wording`: an announcement in plain words
- `store`: what is kept of apps, in a compacted topic, with the offsets it includes
- `agent`: takes score records, keeps the state, publishes

Detectors themselves are in `stream.detection`.
"""

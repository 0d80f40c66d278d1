"""The monitor: watches finished evaluations.

- `stage`: runs the Faust app with its agents
- `state`: rolling means, recent answers and counts
- `reading`: reads evaluations and scores, and refuses what no stage of ours writes
- `record_sender`: the producer for scores, states and dead letters
- `rolling_means`: the mean score of each series over the last minutes, with its interval
- `canary_sender`: puts canaries on the work queue on schedule
- `canary_rounds`: which canaries have had no evaluation for two rounds
- `faust_app`: the Faust app itself: settings, credentials, committed reads
- `alerts`: from scores to published alerts, each once
- `detection`: the detectors; pure, no clock and no Kafka
- `explain`: which part of the traffic and which criterion an alert comes from
- `prometheus`: recording rules and alerts for Prometheus, generated from the configuration
"""

"""Prometheus metrics of the pipeline and of the judges' findings, on a registry that is passed in.

- `names`: the names of all metrics and recorded series
- `pipeline`: records by stage and outcome, backlog, lag and sampling
- `scores`: weighted sums of scores, for means and intervals over all traffic
- `verdicts`: verdicts, times, tokens, cost and agreement of judges
- `detection`: the evidence for drops, open alerts, and means corrected by labels
- `budgets`: spending from budgets
- `endpoints`: limits, queues and failed attempts of judges' endpoints
- `sinks`: outcomes and queues of sinks
- `archive`: new rows and failures of the archive
- `processes`: the metrics of a worker's processes on one page, and the number of restarts
- `bounded_labels`: labels of bounded number and length, for the most frequent values
- `exemplars`: links from histograms to traces
- `scrape`: renders a scrape, in which every new counter starts at 0
- `promql`: functions that write PromQL
"""

from sinks.base import Outcome, Stage
from sinks.metrics.archive import ArchiveMetrics
from sinks.metrics.bounded_labels import FrequentLabel
from sinks.metrics.detection import DetectionMetrics
from sinks.metrics.pipeline import AssemblerMetrics, PipelineMetrics, SamplingMetrics
from sinks.metrics.scores import ScoreMetrics, results
from sinks.metrics.sinks import SinkMetrics

__all__ = [
    "ArchiveMetrics",
    "AssemblerMetrics",
    "DetectionMetrics",
    "FrequentLabel",
    "Outcome",
    "PipelineMetrics",
    "SamplingMetrics",
    "ScoreMetrics",
    "SinkMetrics",
    "Stage",
    "results",
]

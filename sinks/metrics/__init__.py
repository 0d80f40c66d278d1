"""Prometheus metrics: what the pipeline did and what the judges found, on a registry that is passed in."""

from sinks.metrics.detection import DetectionMetrics
from sinks.metrics.funnel import Outcome, PipelineMetrics, SamplingMetrics, Stage
from sinks.metrics.labels import BoundedLabel, FrequentLabel
from sinks.metrics.scores import ScoreMetrics, results

__all__ = [
    "BoundedLabel",
    "DetectionMetrics",
    "FrequentLabel",
    "Outcome",
    "PipelineMetrics",
    "SamplingMetrics",
    "ScoreMetrics",
    "Stage",
    "results",
]

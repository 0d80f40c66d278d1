"""Prometheus metrics: what the pipeline did and what the judges found, on a registry that is passed in."""

from sinks.base import Outcome, Stage
from sinks.metrics.bounded_labels import BoundedLabel, FrequentLabel
from sinks.metrics.detection import DetectionMetrics
from sinks.metrics.pipeline import PipelineMetrics, SamplingMetrics
from sinks.metrics.scores import ScoreMetrics, results
from sinks.metrics.sinks import SinkMetrics

__all__ = [
    "BoundedLabel",
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

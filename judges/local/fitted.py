"""The fitted part of the rules: plain logistic models, whose coefficients are in `fitted.yaml`."""

import functools
import math
from collections.abc import Mapping
from typing import NamedTuple

from judges.local.lexicon import read_yaml

FILE = "fitted.yaml"


class LogisticModel(NamedTuple):
    intercept: float
    weights: Mapping[str, float]
    cuts: tuple[float, ...]
    """Probabilities from which the next higher step begins."""

    def probability(self, features: Mapping[str, float]) -> float:
        score = self.intercept + sum(weight * features[name] for name, weight in self.weights.items())
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, score))))

    def step(self, features: Mapping[str, float]) -> int:
        """Return the number of cuts that the probability reaches."""
        probability = self.probability(features)
        return sum(probability >= cut for cut in self.cuts)


@functools.cache
def load_model(dimension: str) -> LogisticModel:
    """Return the shipped model of a dimension."""
    entry = read_yaml(FILE)[dimension]
    weights = {name: float(weight) for name, weight in entry["weights"].items()}
    return LogisticModel(float(entry["intercept"]), weights, tuple(map(float, entry["cuts"])))

"""Computes the figures of ppi-python that `test_corrected.py` compares with, and writes them to ppi_figures.json.

ppi-python is not among the development tools: its wheel installs a top-level package `tests`, which would hide ours. So
it runs in an environment of its own, from any folder but this repository's:

    python -m venv /tmp/ppi && /tmp/ppi/bin/pip install ppi-python==0.2.3
    /tmp/ppi/bin/python tests/sinks/statistics/ppi_figures.py

The numbers of a case follow from `draw_case`, which the test imports.
"""

import json
import random
from pathlib import Path

FIGURES = Path(__file__).with_suffix(".json")

# Labelled records, other records, a bias of the judge, its noise, and whether labels are pass or fail.
CASES: tuple[tuple[int, int, float, float, bool], ...] = (
    (200, 2000, 0.15, 0.1, False),
    (50, 80, 0.15, 0.2, True),
    (40, 4000, -0.1, 0.3, True),
    (500, 100, 0.05, 0.05, False),
    (100, 1000, 0.0, 5.0, True),
)


def draw_case(
    number: int, labelled: int, others: int, bias: float, noise: float, passes: bool
) -> tuple[list[float], list[float], list[float]]:
    """Return the labels, their scores, and the scores of records without a label."""
    rng = random.Random(number)

    def draw() -> tuple[float, float]:
        truth = rng.betavariate(3.0, 2.0)
        label = float(rng.random() < truth) if passes else truth
        return label, min(1.0, max(0.0, label * 0.6 + 0.2 + bias + rng.gauss(0.0, noise)))

    pairs = [draw() for _record in range(labelled)]
    return [label for label, _ in pairs], [score for _, score in pairs], [draw()[1] for _record in range(others)]


def compute_figures() -> list[dict[str, float]]:
    import numpy as np
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate

    figures = []
    for number, case in enumerate(CASES):
        arrays = [np.array(values) for values in draw_case(number, *case)]
        low, high = ppi_mean_ci(*arrays, alpha=0.05)
        figures.append(
            {"mean": float(ppi_mean_pointestimate(*arrays)[0]), "low": float(low[0]), "high": float(high[0])}
        )
    return figures


if __name__ == "__main__":
    FIGURES.write_text(json.dumps(compute_figures(), indent=2) + "\n")

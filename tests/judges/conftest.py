"""Shared fixtures of the judge tests."""

from functools import partial

import pytest

from judges.models.flow import FlowLimits


@pytest.fixture(autouse=True)
def quick_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the delay between attempts of a model."""
    monkeypatch.setattr("judges.models.flow.flow.FlowLimits", partial(FlowLimits, backoff_seconds=0.01))

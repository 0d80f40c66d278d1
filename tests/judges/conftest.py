"""Fixtures that the tests of judges share."""

from functools import partial

import pytest

from judges.models.flow import FlowLimits


@pytest.fixture(autouse=True)
def quick_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is asked again is asked again soon."""
    monkeypatch.setattr("judges.models.flow.flow.FlowLimits", partial(FlowLimits, backoff_seconds=0.01))

"""What the tests of judges share."""

import pytest


@pytest.fixture(autouse=True)
def quick_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is asked again is asked again soon."""
    monkeypatch.setattr("judges.models.endpoint._FIRST_BACKOFF_SECONDS", 0.01)

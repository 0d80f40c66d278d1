"""What happens to a test whose real part is not there: skipped on a desk, failed where everything is required."""

import os
from typing import NoReturn

import pytest


def unavailable(reason: str) -> NoReturn:
    """Ends the test because a part is missing; the reason says what to run to get it."""
    if os.environ.get("STREAMJURY_REQUIRE_ALL") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)

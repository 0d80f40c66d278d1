"""Missing parts: a test is skipped on a developer's machine and fails where every part is required."""

import os
from typing import NoReturn

import pytest


def unavailable(reason: str) -> NoReturn:
    """Skip or fail the test because a part is missing; the reason names the command that installs it."""
    if os.environ.get("STREAMJURY_REQUIRE_ALL") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)

"""One installation and one browser while the tests of this folder run, and a signed-in visitor."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.integration.page.browser.installation import Installation, open_installation
from tests.integration.page.browser.visitor import Visitor, open_visit, start_chromium


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps these tests in one xdist worker, so that broker, page and browser run once. They take minutes."""
    for item in items:
        if "installation" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("chromium"))
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="package")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with open_installation(tmp_path_factory.mktemp("page")) as running:
        yield running


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """A browser, closed after this folder: while it is open, no test of the same process can run an event loop."""
    with sync_playwright() as playwright, start_chromium(playwright) as browser:
        yield browser


@pytest.fixture
def visitor(installation: Installation, chromium: Browser) -> Iterator[Visitor]:
    """An operator at a desk, in light colours."""
    with open_visit(chromium, installation, role="operator") as visit:
        yield visit

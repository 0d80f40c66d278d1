"""Takes the pictures of the page that the docs show: python -m tests.integration.page.browser.pictures docs/images."""

import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from tests.integration.page.browser.installation import Installation, open_installation
from tests.integration.page.browser.visitor import Visitor, open_visit, start_chromium

_COLOURS = 256


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m tests.integration.page.browser.pictures FOLDER\n")
        return 2
    with (
        tempfile.TemporaryDirectory(prefix="streamjury-page-") as folder,
        open_installation(Path(folder), is_hostile=False) as installation,
        sync_playwright() as playwright,
        start_chromium(playwright) as browser,
    ):
        take_pictures(installation, browser, Path(sys.argv[1]))
    return 0


def take_pictures(installation: Installation, browser: Browser, folder: Path) -> None:
    with open_visit(browser, installation, role="operator") as visitor:
        visitor.go("#/overview?range=15m")
        _take(visitor, folder / "page-overview.png")
        visitor.go(f"#/answers/{installation.emoji_answer}")
        visitor.page.locator("mark.supported").first.hover()
        _take(visitor, folder / "page-answer.png")
        visitor.go("#/review?criterion=groundedness")
        visitor.page.keyboard.press("2")
        _take(visitor, folder / "page-review.png")
    with open_visit(browser, installation, role="operator", width=390, scheme="dark") as visitor:
        visitor.go("#/overview?range=15m")
        _take(visitor, folder / "page-phone.png")


def _take(visitor: Visitor, path: Path) -> None:
    visitor.page.wait_for_timeout(300)  # tooltips and highlights have come
    visitor.page.screenshot(path=path)
    Image.open(path).quantize(_COLOURS).save(path, optimize=True)


if __name__ == "__main__":
    sys.exit(main())

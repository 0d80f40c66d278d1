"""A person at the page: a browser window of their own, which must not complain about anything."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Playwright, Request, expect

from tests.integration.page.browser.installation import Installation
from tests.parts.chromium import find_chromium
from tests.parts.patience import patience

_WAIT_MS = 5_000
# Answers of the server that a test provokes; the browser logs each of them as an error.
_EXPECTED = ("status of 401", "status of 403", "status of 404", "ERR_FAILED", "ERR_CONNECTION_REFUSED")
_LIST_WIDE = """() => {
    if (document.documentElement.scrollWidth <= innerWidth) return [];
    const isWide = (element) => element.getBoundingClientRect().right > innerWidth;
    const wide = [...document.querySelectorAll("body *")].filter(isWide);
    return ["the page", ...wide.map((element) => element.outerHTML.slice(0, 200))];
}"""


@contextmanager
def start_chromium(playwright: Playwright) -> Iterator[Browser]:
    browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox", "--disable-gpu"])
    try:
        yield browser
    finally:
        browser.close()


class Visitor:
    """A window with the page."""

    def __init__(self, page: Page, installation: Installation) -> None:
        self.page = page
        self.installation = installation
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._note)

    def go(self, address: str = "") -> None:
        """Opens an address such as `#/answers`, as a link in a message does, and waits for its screen."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.installation.url}/{address}")
        self.wait()

    def wait(self) -> None:
        """Waits until the screen shows data, or says why not."""
        expect(self.page.locator("main .screen, main .empty").first).to_be_visible()

    def follow(self, link: Locator) -> None:
        """Clicks on a link and waits until its screen has replaced this one."""
        self.page.evaluate("document.querySelector('main > *').dataset.before = ''")
        link.click()
        expect(self.page.locator("main > [data-before]")).to_have_count(0)
        self.wait()

    def unfold(self) -> None:
        """Opens everything that can be opened."""
        self.page.evaluate("document.querySelectorAll('main details').forEach(part => { part.open = true; })")

    def fetch(self, path: str, **params: str) -> Any:
        """Reads the API as this visitor's role, past the browser."""
        return self.installation.fetch(path, **params)

    @property
    def rows(self) -> Locator:
        return self.page.locator("main table .row-link")

    def field(self, name: str) -> Locator:
        """A field to choose from."""
        return self.page.get_by_role("combobox", name=name, exact=True)

    def focused_text(self) -> str:
        return str(self.page.evaluate("document.activeElement.textContent"))

    def list_wide(self) -> list[str]:
        """Return the elements that make the page scroll sideways."""
        return [str(element) for element in self.page.evaluate(_LIST_WIDE)]

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not any(words in message.text for words in _EXPECTED):
            self.complaints.append(message.text)

    def _note(self, request: Request) -> None:
        if not request.url.startswith(("about:", self.installation.url)):
            self.complaints.append(f"asked for {request.url}")
        self.requests.append(f"{request.method} {request.url.removeprefix(self.installation.url)}")


@contextmanager
def open_visit(
    browser: Browser,
    installation: Installation,
    *,
    role: Literal["viewer", "reviewer", "operator"] | None,
    width: int = 1440,
    scheme: Literal["light", "dark"] = "light",
) -> Iterator[Visitor]:
    """Opens a window with a session of a role; None: without a session. Complaints fail the test at the end."""
    context = browser.new_context(
        viewport={"width": width, "height": 900 if width > 500 else 844},
        color_scheme=scheme,
        has_touch=width < 500,
        reduced_motion="reduce",
    )
    context.set_default_timeout(_WAIT_MS * patience())
    expect.set_options(timeout=_WAIT_MS * patience())
    try:
        if role is not None:
            name, value = installation.open_session(role)
            context.add_cookies([{"name": name, "value": value, "url": installation.url}])
        visitor = Visitor(context.new_page(), installation)
        yield visitor
        assert visitor.complaints == []
    finally:
        context.close()

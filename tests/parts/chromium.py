"""A real browser: headless Chromium, driven through two pipes with the DevTools protocol."""

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from tests.parts.patience import patience
from tests.parts.required import unavailable

# The first is the same browser without its windows, and needs half the processor time.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_SECONDS = 60.0
# Not needed here: the network, a user profile, a graphics card, the shared memory of a container.
_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)


class BrowserError(RuntimeError):
    """The browser refused a command or exited."""


class Page:
    """A browser tab."""

    def __init__(self, pipe: "_Pipe", session: str) -> None:
        self._pipe = pipe
        self._session = session
        self.complaints: list[str] = []
        """Errors that the page, or its policy, reported."""

    def resize(self, width: int, height: int = 900, *, phone: bool = False) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 2 if phone else 1, "mobile": phone}
        self._call("Emulation.setDeviceMetricsOverride", **metrics)

    def prefer(self, scheme: Literal["light", "dark"]) -> None:
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def scripts(self, *, run: bool) -> None:
        """Enable or disable the scripts of pages that are opened from now on; `ask` works either way."""
        self._call("Emulation.setScriptExecutionDisabled", value=not run)

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file and wait until it is loaded."""
        # If the file is already open, a change of the fragment alone would not load it.
        self._go("about:blank")
        self._go(path.resolve().as_uri() + fragment)

    def _go(self, url: str) -> None:
        loader = self._call("Page.navigate", url=url).get("loaderId")
        if loader is not None:
            self._pipe.wait_for_load(loader)

    def ask(self, expression: str) -> Any:
        """Evaluate a JavaScript expression and return its value; a promise is awaited."""
        result = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise BrowserError(result["exceptionDetails"]["exception"]["description"])
        return result["result"].get("value")

    def picture(self, path: Path, *, whole: bool = False, height: int | None = None) -> Path:
        """Take a screenshot of the window, of its first lines, or of the whole page."""
        options: dict[str, Any] = {"format": "png", "captureBeyondViewport": whole or height is not None}
        if options["captureBeyondViewport"]:
            size = self._call("Page.getLayoutMetrics")["cssContentSize"]
            options["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": height or size["height"], "scale": 1}
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", **options)["data"]))
        return path

    def print(self, path: Path) -> Path:
        """Print on A4 paper, into a PDF file."""
        options = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True, "preferCSSPageSize": True}
        path.write_bytes(base64.b64decode(self._call("Page.printToPDF", **options)["data"]))
        return path

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        result = self._pipe.call(method, parameters, self._session)
        self.complaints += self._pipe.complaints(self._session)
        return result


class _Pipe:
    """JSON messages, each ended by a zero byte."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = reading
        self._writing = writing
        self._rest = b""
        self._number = 0
        self._events: list[dict[str, Any]] = []

    def call(self, method: str, parameters: Mapping[str, Any], session: str | None = None) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        self._send(json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _SECONDS * patience()
        while (answer := self._receive(deadline)).get("id") != self._number:
            self._events.append(answer)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        return dict(answer["result"])

    def wait_for_load(self, loader: str) -> None:
        """Wait for this load; late events of other loads do not count."""
        deadline, wanted = time.monotonic() + _SECONDS * patience(), {"loaderId": loader, "name": "load"}
        while not any(wanted.items() <= event.get("params", {}).items() for event in self._events if _is_load(event)):
            self._events.append(self._receive(deadline))
        self._events = [event for event in self._events if not _is_load(event)]

    def complaints(self, session: str) -> Iterator[str]:
        """Return the errors logged and the exceptions not caught since the last call."""
        events, self._events = self._events, []
        for event in events:
            parameters = event.get("params", {})
            if event["method"] == "Log.entryAdded" and event.get("sessionId") == session:
                yield parameters["entry"]["text"]
            elif event["method"] == "Runtime.exceptionThrown" and event.get("sessionId") == session:
                yield parameters["exceptionDetails"]["text"]
            else:
                self._events.append(event)

    def _send(self, message: bytes) -> None:
        while message:
            message = message[os.write(self._writing, message) :]

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._reading], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self._reading, 1 << 20) if ready else b""
            if not chunk:
                raise BrowserError("the browser went away" if ready else "the browser does not answer")
            self._rest += chunk
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))


def _is_load(event: Mapping[str, Any]) -> bool:
    return bool(event["method"] == "Page.lifecycleEvent")


def find_chromium() -> str:
    """Return the installed browser; without one the test is skipped or fails."""
    program = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if program is None:
        unavailable("no Chromium: install it (Debian: chromium-headless-shell or chromium)")
    return program


@contextlib.contextmanager
def browser() -> Iterator[Page]:
    """Start a separate browser for the block and yield an empty tab; without a browser the test is skipped or fails."""
    program = find_chromium()
    with (
        tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile,
        _start([program, *_FLAGS, f"--user-data-dir={profile}", "about:blank"], Path(profile)) as pipe,
    ):
        yield _tab(pipe)


def _tab(pipe: _Pipe) -> Page:
    target = pipe.call("Target.createTarget", {"url": "about:blank"})["targetId"]
    session = pipe.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
    for domain in ("Page", "Runtime", "Log"):
        pipe.call(f"{domain}.enable", {}, session)
    pipe.call("Page.setLifecycleEventsEnabled", {"enabled": True}, session)
    return Page(pipe, session)


@contextlib.contextmanager
def _start(command: list[str], home: Path) -> Iterator[_Pipe]:
    """Start the browser, which reads commands from descriptor 3 and answers on 4."""
    commands, our_end = _pipe_beyond_4()
    answers, its_end = _pipe_beyond_4()
    # The shell assigns the descriptors: a child keeps the numbers that its inherited pipes have here.
    script = f'exec 3<&{commands} 4>&{its_end} {commands}<&- {its_end}>&-; exec "$@"'
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", script, "chromium", *command],
            pass_fds=(commands, its_end),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "HOME": str(home)},
            start_new_session=True,
        )
    os.close(commands)
    os.close(its_end)
    try:
        yield _Pipe(answers, our_end)
    finally:
        os.close(our_end)
        _end(process)
        os.close(answers)


def _pipe_beyond_4() -> tuple[int, int]:
    """Return a pipe whose descriptors do not collide with 3 and 4."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Wait for the browser, which exits when its command pipe is closed; kill it if it does not."""
    try:
        process.wait(timeout=10 * patience())
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

"""The commands that serve the page: `streamjury page` alone, and `streamjury run` with everything."""

import re
from pathlib import Path
from typing import Any

import pytest

from sinks.archive.database import Database
from tests.integration.pipeline import StageProcess, wait_until
from tests.parts import local_http
from tests.parts.archive import Judged, fill
from tests.parts.patience import patience

# No broker listens there.
NOWHERE = "127.0.0.1:1"


def address_in(process: StageProcess, pattern: str) -> str:
    wait_until(
        lambda: process.has_ended() or re.search(pattern, process.log.read_text()) is not None,
        seconds=60,
        what=process.log.read_text,
    )
    match = re.search(pattern, process.log.read_text())
    assert match is not None, process.log.read_text()
    return match.group(1)


def get(address: str, path: str) -> Any:
    return local_http.get(address + path, timeout=30 * patience()).json()


def test_the_page_alone_shows_the_archive_without_a_broker(archive_url: str, tmp_path: Path) -> None:
    with Database(archive_url) as database:
        fill(database, [Judged(id="one")])
    with StageProcess("page", bootstrap=NOWHERE, log=tmp_path / "log", archive__url=archive_url) as process:
        address = address_in(process, r"page at (http://127\.0\.0\.1:\d+)/")
        answers = get(address, "/api/answers?from=2026-01-01T00:00:00Z")["answers"]
        assert [answer["id"] for answer in answers] == ["one"]
        assert get(address, "/api/answers/one")["texts"]["answer"] == "It is this."
        assert get(address, "/readyz")["ok"] is True
        assert process.terminate() == 0


@pytest.mark.parametrize(("host", "expected"), [("127.0.0.1", 200), ("0.0.0.0", 403)])
@pytest.mark.slow
def test_on_an_address_for_others_the_page_says_what_to_configure(tmp_path: Path, host: str, expected: int) -> None:
    url = f"sqlite:///{tmp_path}/archive.db"
    with StageProcess("page", bootstrap=NOWHERE, log=tmp_path / "log", archive__url=url, http__host=host) as process:
        port = address_in(process, r"page at http://[\d.]+:(\d+)/")
        reply = local_http.get(f"http://127.0.0.1:{port}/api/answers", timeout=30 * patience())
        assert reply.status_code == expected
        assert ("set http.tokens" in reply.text) is (expected == 403)
        process.terminate()


def test_run_serves_the_page_and_prints_its_address(tmp_path: Path) -> None:
    options = ["--embedded", "--seconds", "300"]
    with StageProcess("run", bootstrap=NOWHERE, log=tmp_path / "log", options=options) as process:
        address = address_in(process, r"page=(http://127\.0\.0\.1:\d+)/ ")
        wait_until(lambda: bool(get(address, "/api/overview")["apps"]), seconds=60, what=process.log.read_text)
        app = get(address, "/api/overview")["apps"][0]
        assert app["composite"]["n"] > 0
        [answer, *_] = get(address, "/api/answers?limit=1")["answers"]
        path = f"/api/answers/{answer['id']}"
        # Texts come from another topic than evaluations, and may be archived after them.
        wait_until(lambda: get(address, path)["texts"] is not None, seconds=60, what=process.log.read_text)
        whole = get(address, path)
        assert whole["texts"]["answer"]
        assert whole["composite_terms"]
        process.terminate(90)


@pytest.mark.slow
def test_run_without_an_archive_has_no_page(tmp_path: Path) -> None:
    options = ["--embedded", "--seconds", "300"]
    with StageProcess(
        "run", bootstrap=NOWHERE, log=tmp_path / "log", options=options, archive__enabled="false"
    ) as process:
        address = address_in(process, r"metrics=(http://127\.0\.0\.1:\d+)/metrics")
        assert "page=" not in process.log.read_text()
        assert local_http.get(f"{address}/api/overview", timeout=30 * patience()).status_code == 404
        assert local_http.get(f"{address}/", timeout=30 * patience()).text.startswith("streamjury: /metrics")
        process.terminate(90)

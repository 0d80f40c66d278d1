"""The demo, as a newcomer sees it: `make run`, its address in a browser, and the clicks from there."""

from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.integration.page.browser.installation import Installation
from tests.integration.page.browser.visitor import open_visit
from tests.integration.page.test_commands import NOWHERE, address_in
from tests.integration.pipeline import StageProcess
from tests.parts.patience import patience

# The traffic is bad from the 24th second to the 42nd; the alert follows within seconds, and the page within five more.
DROP_SECONDS = 60


def _worst_criteria(installation: Installation) -> set[str | None]:
    answers = installation.fetch("/api/answers", app="support-bot")["answers"]
    return {answer["worst_criterion"] for answer in answers}


@pytest.mark.slow
def test_an_unsupported_sentence_of_the_hallucinating_app_is_at_most_three_clicks_from_the_start(
    chromium: Browser, tmp_path: Path
) -> None:
    with StageProcess("run", bootstrap=NOWHERE, log=tmp_path / "log", options=["--embedded"]) as process:
        address = address_in(process, r"page=(http://127\.0\.0\.1:\d+)/ ")
        with (
            closing(Installation(address, bootstrap="")) as installation,
            open_visit(chromium, installation, role=None) as visitor,
        ):
            visitor.go()
            alerted = visitor.page.locator("table.apps tbody tr.row-alert").first
            expect(alerted).to_be_visible(timeout=1000 * DROP_SECONDS * patience())
            expect(alerted.locator(".row-link")).to_have_text("support-bot")
            # The alert may be on the page before the answers that it is about are in the archive.
            installation.wait_for(lambda: "groundedness" in _worst_criteria(installation))
            visitor.follow(alerted.locator(".row-link"))
            # Unsafe answers are the worst of all; those that make things up follow, and the table says which they are.
            cell = visitor.page.locator("td[data-title='Worst criterion']", has_text="groundedness")
            visitor.follow(visitor.page.locator("table.answers tbody tr", has=cell).first.locator(".row-link"))
            sentence = visitor.page.locator("mark.unsupported, mark.contradicted").first
            expect(sentence).to_be_visible()
        assert process.terminate(90) == 0

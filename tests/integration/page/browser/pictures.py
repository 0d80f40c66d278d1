"""Takes the pictures of the page that the docs show: python -m tests.integration.page.browser.pictures docs/images."""

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from confluent_kafka import Message as KafkaMessage
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from stream.monitor.detection import EventKind
from tests.integration.page.browser.installation import TOPICS, Installation, make_alert, open_installation
from tests.integration.page.browser.visitor import Visitor, open_visit, start_chromium
from tests.integration.pipeline import produce_all, read_all

_COLOURS = 256
_COPIES = 12
_LABELLED = ("groundedness", "completeness", "answer_relevance")
_DROP = timedelta(hours=5)


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
        for criterion in _LABELLED:
            installation.send_labels(criterion, 30)
        add_history(installation)
        take_pictures(installation, browser, Path(sys.argv[1]))
    return 0


def add_history(installation: Installation) -> None:
    """Repeats the evaluations over the last day, with a drop of support-bot five hours ago."""
    rng, now = Random(20), datetime.now(UTC)
    messages = read_all(installation.bootstrap, TOPICS.evaluations)
    expected = installation.answers
    for _ in range(_COPIES):
        records = [*_copy_over_day(messages, rng, now)]
        produce_all(installation.bootstrap, TOPICS.evaluations, records)
        expected += len(records)
        # One copy after the other: the embedded broker drops old records, whether they are archived or not.
        _wait_for_answers(installation, expected)
    alert = make_alert("support-bot", EventKind.RAISED, now - _DROP)
    produce_all(installation.bootstrap, TOPICS.alerts, [{"key": alert.key, "value": alert.model_dump_json()}])
    installation.wait_for(
        lambda: alert.alert_id in {entry["id"] for entry in installation.fetch("/api/alerts")["open"]}
    )


def _copy_over_day(messages: Sequence[KafkaMessage], rng: Random, now: datetime) -> Iterator[dict[str, Any]]:
    """Yields evaluations with other ids, at random times of the last day."""
    for message in messages:
        evaluation = json.loads(message.value())
        if "wanted" in evaluation["tags"]:
            continue
        age = timedelta(hours=23.5 * rng.random())
        is_good = (evaluation["composite"]["score"] or 0.0) > 0.9
        if evaluation["app"] == "support-bot" and not is_good and age > _DROP:
            continue
        evaluation["evaluation_id"] = str(UUID(int=rng.getrandbits(128)))
        evaluation["evaluated_at"] = (now - age).isoformat()
        yield {"value": json.dumps(evaluation), "headers": message.headers()}


def _wait_for_answers(installation: Installation, number: int) -> None:
    installation.wait_for(lambda: installation.answers >= number)


def take_pictures(installation: Installation, browser: Browser, folder: Path) -> None:
    with open_visit(browser, installation, role="operator") as visitor:
        visitor.go("#/overview?range=24h")
        _take(visitor, folder / "page-overview.png")
        visitor.go(f"#/answers/{installation.emoji_answer}")
        visitor.page.locator("mark.supported").last.hover()
        _take(visitor, folder / "page-answer.png")
        visitor.go("#/review?criterion=groundedness")
        visitor.page.keyboard.press("2")
        _take(visitor, folder / "page-review.png")
        visitor.go("#/judges?range=24h&by=language")
        _take(visitor, folder / "page-judges.png")
    with open_visit(browser, installation, role="operator", width=390, scheme="dark") as visitor:
        visitor.go("#/overview?range=24h")
        _take(visitor, folder / "page-phone.png")


def _take(visitor: Visitor, path: Path) -> None:
    visitor.page.wait_for_timeout(300)  # tooltips and highlights have come
    visitor.page.screenshot(path=path)
    Image.open(path).quantize(_COLOURS).save(path, optimize=True)


if __name__ == "__main__":
    sys.exit(main())

"""The page of a configuration: who may use it, what it knows, and that it is served."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from sinks.page.settings import SpendingLimit
from sinks.web.health import Health
from sinks.web.routes import Request
from stream.config.model import Config
from stream.config.sections.stages import HttpConfig
from stream.page.serving import open_page, page_access, page_settings
from stream.service.setup.evaluator import build_evaluator
from stream.service.web_server import open_web_server
from tests.sinks.page.visiting import Browser

OPERATOR, METRICS = "token-of-an-operator", "token-of-the-metrics"


def configure(folder: Path, **sections: Any) -> Config:
    http = {"port": 0, **sections.pop("http", {})}
    # No broker listens there: the page must do without.
    kafka = {"bootstrap": "127.0.0.1:1"}
    archive = {"url": f"sqlite:///{folder}/archive.db"}
    return Config.model_validate({"kafka": kafka, "archive": archive, "http": http, **sections})


@contextmanager
def browse(config: Config, health: Health) -> Iterator[Browser]:
    with (
        open_page(config, health=health) as routes,
        open_web_server(config.http, CollectorRegistry(), health, routes) as server,
    ):
        browser = Browser(server)
        yield browser
        browser.close()


def role_of(http: HttpConfig, secret: str) -> str | None:
    headers = {"authorization": f"Bearer {secret}"}
    request = Request(method="GET", path="/", headers=headers, query={}, variables={}, body=b"")
    return page_access(http).visitor(request).role


def test_the_token_of_the_metrics_is_a_viewers() -> None:
    http = HttpConfig.model_validate(
        {"token": METRICS, "tokens": [{"name": "olga", "role": "operator", "token": OPERATOR}]}
    )
    assert (role_of(http, METRICS), role_of(http, OPERATOR)) == ("viewer", "operator")


@pytest.mark.parametrize(
    ("http", "needs_token", "is_closed"),
    [
        ({}, False, False),
        ({"host": "0.0.0.0"}, True, True),
        ({"host": "0.0.0.0", "token": METRICS}, True, False),
        ({"token": METRICS}, True, False),
    ],
)
def test_tokens_are_needed_where_others_could_read(http: dict[str, str], needs_token: bool, is_closed: bool) -> None:
    access = page_access(HttpConfig.model_validate(http))
    assert (access.needs_token, access.is_closed) == (needs_token, is_closed)


def test_the_page_knows_the_evaluator_the_objectives_and_the_budgets(tmp_path: Path) -> None:
    config = configure(
        tmp_path,
        objectives={"target": 0.9, "apps": {"shop": {"target": 0.99, "good_score": 0.8}}, "min_effective": 20},
        budgets={"per_day_usd": 24, "apps": {"shop": {"per_hour_usd": 2}}},
        page={"trace_url": "https://traces.example.com/{trace_id}"},
    )
    settings = page_settings(config)
    assert settings.evaluator.fingerprint == build_evaluator(config).info.fingerprint
    assert (settings.objective("shop").target, settings.objective("bank").target) == (0.99, 0.9)
    assert settings.min_effective == 20
    assert settings.budgets["shop"].over(timedelta(hours=3)) == 6
    assert settings.total_budget.over(timedelta(days=2)) == 48
    assert settings.trace_url == "https://traces.example.com/{trace_id}"


@pytest.mark.parametrize(
    ("limit", "hours", "expected"),
    [
        (SpendingLimit(), 5, None),
        (SpendingLimit(per_hour_usd=1.0, per_day_usd=10.0), 24, 10.0),
        (SpendingLimit(per_hour_usd=1.0, per_day_usd=10.0), 2, 2.0),
        (SpendingLimit(per_day_usd=10.0), 1, 10.0),
    ],
)
def test_a_budget_over_a_time_is_the_most_that_its_limits_allow(
    limit: SpendingLimit, hours: int, expected: float | None
) -> None:
    assert limit.over(timedelta(hours=hours)) == expected


def test_the_page_is_served_beside_metrics_and_health_without_a_broker(tmp_path: Path) -> None:
    with browse(configure(tmp_path), Health()) as browser:
        assert browser.session()["name"] == "local"
        assert browser.get_json("/api/overview")["apps"] == []
        assert browser.get_json("/api/answers")["answers"] == []
        assert browser.get("/").headers["content-type"].startswith("text/html")
        assert browser.get("/metrics").status_code == 200
        assert browser.get_json("/readyz") == {"ok": True, "parts": {"archive": "ok"}}


def test_an_archive_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    config = configure(tmp_path / "nowhere")
    with browse(config, Health()) as browser:
        answer = browser.get("/api/overview")
        assert answer.status_code == 503
        assert answer.json()["error"] == "the archive does not answer; see the log"
        assert browser.get("/readyz").status_code == 503
        assert browser.session()["role"] == "operator"

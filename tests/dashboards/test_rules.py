"""The shipped rules, their unit tests and runbooks, and the configurations of Prometheus and Alertmanager."""

import json
import re
import shlex
import shutil
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from stream.config.model import Config
from stream.config.walk import below
from tests.integration.pipeline import wait_until
from tests.parts import local_http
from tests.parts.alertmanager import Alertmanager, why_unavailable
from tests.parts.documents.shell import check_streamjury
from tests.parts.patience import patience
from tests.parts.promtool import failures_of, problems_of_expressions, problems_of_rules, run
from tests.parts.required import unavailable
from tests.parts.rules import rules_of

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "dashboards" / "prometheus"
RUNBOOKS = ROOT / "dashboards" / "runbooks"
ALERTMANAGER = ROOT / "dashboards" / "alertmanager" / "alertmanager.yml"
METRICS_PAGE = ROOT / "docs" / "metrics.md"
ALERTS_PAGE = ROOT / "docs" / "alerts.md"

DEFAULT_TESTS = sorted((PROMETHEUS / "tests").glob("*.yml"))
# Tests of rules that the default configuration does not generate, and the configuration that does.
CONFIGURED: dict[str, dict[str, Any]] = {
    "cost_budget": {"alerts": {"cost_per_day_usd": 10}},
    "nothing_for_safety": {"budgets": {"per_hour_usd": 10, "safety_share": 0}},
    "low_rate": {"sampling": {"rate": 0.1, "rules": [{"name": "rare", "match": {"app": "shop"}, "rate": 0.002}]}},
    "objectives_by_app": {
        "objectives": {"apps": {"checkout-bot": {"good_score": 0.8, "target": 0.99}, 'we"ird.|app': {"target": 0.9}}}
    },
}
CONFIGURED_TESTS = sorted((PROMETHEUS / "tests" / "configured").glob("*.yml"))

# With every option enabled.
COMPLETE = rules_of(Config.model_validate(CONFIGURED["cost_budget"]))
ALERT_NAMES = sorted({alert.name for alert in COMPLETE.alerts})
BURN_WINDOWS = ("1h", "6h", "1d", "3d")

CODE_SPAN = re.compile(r"`([^`\n]+)`")
METRIC = re.compile(r"(?<![:\w])(?:streamjury_\w+|up)\b")


# The shipped rules


def test_the_rules_are_those_of_the_default_configuration() -> None:
    """`streamjury rules --output dashboards/prometheus/rules.yml` regenerates them."""
    assert (PROMETHEUS / "rules.yml").read_text(encoding="utf-8") == rules_of(Config()).text()


def test_the_rules_pass_promtool(tmp_path: Path) -> None:
    assert problems_of_rules(tmp_path, (PROMETHEUS / "rules.yml").read_text(encoding="utf-8")) == ""


@pytest.mark.parametrize("file", DEFAULT_TESTS, ids=lambda file: file.stem)
@pytest.mark.slow
def test_the_rules_pass_their_unit_tests(file: Path, tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(needed_rules(file, (PROMETHEUS / "rules.yml").read_text(encoding="utf-8")))
    (tmp_path / "tests").mkdir()
    shutil.copy(file, tmp_path / "tests")
    assert failures_of(tmp_path / "tests" / file.name) == ""


@pytest.mark.parametrize("file", CONFIGURED_TESTS, ids=lambda file: file.stem)
@pytest.mark.slow
def test_the_rules_of_another_configuration_pass_their_unit_tests(file: Path, tmp_path: Path) -> None:
    text = rules_of(Config.model_validate(CONFIGURED[file.stem])).text()
    assert problems_of_rules(tmp_path, text) == ""
    (tmp_path / "rules.yml").write_text(needed_rules(file, text))
    shutil.copy(file, tmp_path)
    assert failures_of(tmp_path / file.name) == ""


def needed_rules(file: Path, rules: str) -> str:
    """Return the rules that a unit test file mentions, and those that these need: all take three times longer."""
    content = yaml.safe_load(rules)
    text_by_name: dict[str, str] = defaultdict(str)
    for group in content["groups"]:
        for rule in group["rules"]:
            text_by_name[name_of(rule)] += str(rule)
    needed: set[str] = set()
    text = file.read_text(encoding="utf-8")
    while found := {name for name in text_by_name if name in text} - needed:
        needed |= found
        text = "".join(text_by_name[name] for name in found)
    for group in content["groups"]:
        group["rules"] = [rule for rule in group["rules"] if name_of(rule) in needed]
    return json.dumps(content)


def name_of(rule: dict[str, Any]) -> str:
    return str(rule.get("alert") or rule.get("record"))


def test_a_wrong_expectation_fails_the_unit_tests(tmp_path: Path) -> None:
    """Promtool really compares, so that the tests above can fail."""
    (tmp_path / "rules.yml").write_text((PROMETHEUS / "rules.yml").read_text(encoding="utf-8"), encoding="utf-8")
    text = (
        (PROMETHEUS / "tests" / "quality_drop_1d.yml").read_text(encoding="utf-8").replace("../rules.yml", "rules.yml")
    )
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(text.replace("15.5%", "15.4%"), encoding="utf-8")
    assert "15.4%" in failures_of(wrong)


# Every alert is tested


@cache
def cases() -> list[tuple[str, list[dict[str, Any]]]]:
    """Return every case of every unit test file: the alert, and the labels with which it should fire."""
    test_cases = []
    for file in (*DEFAULT_TESTS, *CONFIGURED_TESTS):
        for test in yaml.safe_load(file.read_text(encoding="utf-8"))["tests"]:
            for case in test.get("alert_rule_test", ()):
                test_cases.append((case["alertname"], [alert["exp_labels"] for alert in case["exp_alerts"]]))
    return test_cases


@pytest.mark.parametrize("name", ALERT_NAMES)
def test_an_alert_has_a_case_in_which_it_fires_and_at_least_two_in_which_it_is_silent(name: str) -> None:
    of_it = [labels for alert, labels in cases() if alert == name]
    assert any(of_it)
    assert sum(not labels for labels in of_it) >= 2


@pytest.mark.parametrize("window", BURN_WINDOWS)
def test_a_pair_of_burn_rates_fires_by_itself(window: str) -> None:
    alone = [labels for alert, labels in cases() if alert == "StreamjuryQualityDrop" and len(labels) == 1]
    assert any(labels[0]["window"] == window for labels in alone)


def test_every_test_has_a_name_and_every_case_an_alert_that_exists() -> None:
    for file in (*DEFAULT_TESTS, *CONFIGURED_TESTS):
        assert all(test["name"] for test in yaml.safe_load(file.read_text(encoding="utf-8"))["tests"])
    assert {alert for alert, _labels in cases()} == set(ALERT_NAMES)


def test_every_folder_of_unit_tests_is_run() -> None:
    assert set(CONFIGURED) == {file.stem for file in CONFIGURED_TESTS}
    assert set((PROMETHEUS / "tests").rglob("*.yml")) == {*DEFAULT_TESTS, *CONFIGURED_TESTS}


# What an alert carries


@pytest.mark.parametrize("alert", COMPLETE.alerts, ids=lambda alert: f"{alert.name}-{alert.labels.get('window', '')}")
def test_an_alert_says_how_urgent_it_is_what_happened_and_where_to_look(alert: Any) -> None:
    assert alert.labels["severity"] in {"page", "ticket", "info"}
    assert set(alert.annotations) == {"summary", "description", "dashboard_url", "runbook_url"}
    assert re.match(
        r"http://localhost:3000/d/streamjury-(quality|safety|judges|pipeline|objectives)(\?var-app=\{\{ .*)?$",
        alert.annotations["dashboard_url"],
    )
    assert alert.annotations["runbook_url"] == f"http://localhost:3000/public/runbooks/{alert.name}.html"


def test_the_severities_are_those_that_were_promised() -> None:
    severities = {(alert.name, alert.labels.get("window", "")): alert.labels["severity"] for alert in COMPLETE.alerts}
    quality = {
        ("StreamjuryQualityDrop", window): severities[("StreamjuryQualityDrop", window)] for window in BURN_WINDOWS
    }
    assert list(quality.values()) == ["page", "page", "ticket", "ticket"]
    several = {"StreamjuryQualityDrop", "StreamjuryDropDetected"}
    others = {name: severity for (name, _), severity in severities.items() if name not in several}
    assert {name for name, severity in others.items() if severity == "page"} == {
        "StreamjurySafetyIncident",
        "StreamjuryEvaluatorSilent",
        "StreamjuryTargetDown",
    }
    assert {name for name, severity in others.items() if severity == "info"} == {"StreamjuryEvaluatorChanged"}


def test_a_drop_of_the_composite_or_of_unlabelled_apps_is_a_page_and_others_are_tickets() -> None:
    matchers = {
        alert.labels["severity"]: re.findall(r"\{(.+?)\}", alert.expr)
        for alert in COMPLETE.alerts
        if alert.name == "StreamjuryDropDetected"
    }
    assert matchers == {"page": ['dimension=~"composite|other"'], "ticket": ['dimension!~"composite|other"']}


def test_alerts_of_detectors_state_their_false_alarm_rate() -> None:
    rules = rules_of(Config.model_validate({"detection": {"alpha": 0.002, "period_days": 1}}))
    alerts = {alert.name for alert in rules.alerts if "At most 0.002 false alarms" in alert.annotations["description"]}
    assert alerts == {"StreamjuryDropDetected", "StreamjuryJudgesChanged", "StreamjuryJudgeAgreesLess"}
    assert "expected in 1 day." in rules.text()


# Metrics


def metrics_in(expression: str) -> set[str]:
    """Return our metrics, and `up`, that an expression reads, without the series that other rules record."""
    return set(METRIC.findall(re.sub(r'"(?:[^"\\]|\\.)*"', "", expression)))


def documented_metrics() -> Iterator[str]:
    for name, kind in re.findall(r"^\| `(streamjury_\w+)` \| (\w+) \|", METRICS_PAGE.read_text(encoding="utf-8"), re.M):
        suffixes = {"summary": ("_sum", "_count"), "histogram": ("_sum", "_count", "_bucket")}.get(kind, ("",))
        yield from (f"{name}{suffix}" for suffix in suffixes)


def test_metrics_are_distinguished_from_recorded_series_and_texts() -> None:
    expression = 'app:streamjury_score:mean1h * streamjury_lag{stage="streamjury_x"} + up{job="streamjury"}'
    assert metrics_in(expression) == {"streamjury_lag", "up"}


def test_the_rules_read_metrics_that_exist() -> None:
    read = set().union(*(metrics_in(rule.expr) for group in COMPLETE.groups for rule in group.rules))
    assert len(read) > 15
    assert read - set(documented_metrics()) == {"up"}


def test_the_recorded_series_that_rules_read_exist() -> None:
    recorded = {rule.record for rule in COMPLETE.recordings}
    for group in COMPLETE.groups:
        for rule in group.rules:
            assert set(re.findall(r"\b\w+:\w+:\w+\b", rule.expr)) <= recorded


# Runbooks


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert sorted(file.stem for file in RUNBOOKS.glob("*")) == ALERT_NAMES


@pytest.fixture(params=sorted(RUNBOOKS.glob("*.md")), ids=lambda file: file.stem)
def runbook(request: pytest.FixtureRequest) -> str:
    file: Path = request.param
    text = file.read_text(encoding="utf-8")
    assert text.startswith(f"# {file.stem}\n")
    return text


def test_a_runbook_has_meaning_diagnosis_action_and_false_alarm_sections(runbook: str) -> None:
    assert re.findall(r"^## (.+)$", runbook, re.M) == [
        "What it means",
        "How to look",
        "What to do",
        "When it is a false alarm",
    ]


def test_a_runbook_links_to_runbooks_that_exist(runbook: str) -> None:
    assert all((RUNBOOKS / target).is_file() for target in re.findall(r"\]\(([^)]+)\)", runbook))


def test_the_commands_of_a_runbook_exist_with_their_options(runbook: str) -> None:
    for span in CODE_SPAN.findall(runbook):
        if span.startswith("streamjury "):
            check_streamjury(shlex.split(span.split(" | ")[0])[1:])


def queries(text: str) -> list[str]:
    return [
        span
        for span in CODE_SPAN.findall(text)
        if re.search(r"(streamjury_|streamjury:|\bup\{|scrape_)", span) and not span.startswith("streamjury ")
    ]


def test_the_queries_of_the_runbooks_are_promql_on_metrics_that_exist(tmp_path: Path) -> None:
    all_queries = [
        query for file in sorted(RUNBOOKS.glob("*.md")) for query in queries(file.read_text(encoding="utf-8"))
    ]
    assert len(all_queries) > 25
    existing = {*documented_metrics(), "up"}
    assert [query for query in all_queries if not metrics_in(query) <= existing] == []
    assert problems_of_expressions(tmp_path, all_queries) == ""


def keys(text: str) -> Iterator[str]:
    """Return the configuration keys in a text, without the values that may follow them."""
    for span in CODE_SPAN.findall(text):
        match = re.match(rf"(?:{'|'.join(Config.model_fields)})\.[a-z_.]+(?=$|:)", span)
        if match:
            yield match[0]


@pytest.mark.parametrize("file", [*sorted(RUNBOOKS.glob("*.md")), ALERTS_PAGE], ids=lambda file: file.stem)
def test_the_keys_that_a_page_names_are_in_the_configuration(file: Path) -> None:
    for key in keys(file.read_text(encoding="utf-8")):
        kinds: tuple[Any, ...] = (Config,)
        for part in key.split("."):
            kinds = below(kinds, part)
            assert kinds, key


# The page about alerts


def test_the_page_lists_every_alert_with_its_severities() -> None:
    page = dict(re.findall(r"^\| \[`(\w+)`\]\([^)]*\) \| ([a-z, ]+) \|", ALERTS_PAGE.read_text(encoding="utf-8"), re.M))
    severities: dict[str, dict[str, None]] = {}
    for alert in COMPLETE.alerts:
        severities.setdefault(alert.name, {})[alert.labels["severity"]] = None
    assert page == {name: ", ".join(severity_names) for name, severity_names in severities.items()}


# Prometheus and Alertmanager


def test_prometheus_loads_the_rules() -> None:
    result = run("promtool", "check", "config", PROMETHEUS / "prometheus.yml")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 rule files found" in result.stdout


def test_prometheus_scrapes_under_the_name_that_the_alert_looks_for() -> None:
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
    assert "streamjury" in {job["job_name"] for job in config["scrape_configs"]}


def test_the_alertmanager_configuration_passes_amtool() -> None:
    result = run("amtool", "check-config", ALERTMANAGER)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("severity", ["page", "ticket", "info"])
def test_alertmanager_routes_by_severity(severity: str) -> None:
    arguments = ("config", "routes", "test", f"--config.file={ALERTMANAGER}", "alertname=Any", f"severity={severity}")
    assert run("amtool", *arguments).stdout.split() == [severity]


def test_a_page_comes_sooner_and_more_often_than_a_ticket() -> None:
    route = yaml.safe_load(ALERTMANAGER.read_text(encoding="utf-8"))["route"]
    [page] = [child for child in route["routes"] if child["receiver"] == "page"]
    assert (page["group_wait"], route["group_wait"]) == ("10s", "1m")
    assert (page["repeat_interval"], route["repeat_interval"]) == ("1h", "1d")


@pytest.mark.parametrize(
    ("firing", "sent"),
    [
        (("1h", "6h", "1d", "3d"), {"1h"}),
        (("6h", "1d", "3d"), {"6h"}),
        (("1h", "6h"), {"1h"}),
        (("1d", "3d"), {"1d"}),
        (("3d",), {"3d"}),
    ],
)
def test_the_alert_of_the_shortest_window_inhibits_the_others(
    running_alertmanager: Alertmanager, firing: tuple[str, ...], sent: set[str]
) -> None:
    """A page also inhibits the tickets about the same app; other apps and other alerts are sent."""
    severities = {alert.labels["window"]: alert.labels["severity"] for alert in named_alerts("StreamjuryQualityDrop")}
    app = f"app-{'-'.join(firing)}"
    drops = [alert_of("StreamjuryQualityDrop", app, window=window, severity=severities[window]) for window in firing]
    others = [
        alert_of("StreamjuryQualityDrop", f"other-{app}", window="3d", severity="ticket"),
        alert_of("StreamjuryDimensionBelowFloor", app, dimension="clarity", severity="ticket"),
    ]
    posted = local_http.post(
        f"{running_alertmanager.url}/api/v2/alerts", json=[*drops, *others], timeout=20 * patience()
    )
    assert posted.is_success, posted.text

    def is_inhibited_down_to(expected: set[str]) -> bool:
        active = active_alerts(running_alertmanager)
        windows = {labels["window"] for labels in active if labels["app"] == app and "window" in labels}
        return windows == expected

    # Alertmanager applies a source a moment after it has accepted it.
    wait_until(lambda: is_inhibited_down_to(sent), seconds=20, what=lambda: str(running_alertmanager.alerts()))
    assert all(other["labels"] in active_alerts(running_alertmanager) for other in others)


def active_alerts(manager: Alertmanager) -> list[dict[str, str]]:
    return [alert["labels"] for alert in manager.alerts() if alert["status"]["state"] != "suppressed"]


def named_alerts(name: str) -> list[Any]:
    return [alert for alert in COMPLETE.alerts if alert.name == name]


def alert_of(name: str, app: str, **labels: str) -> dict[str, Any]:
    return {"labels": {"alertname": name, "app": app, **labels}, "annotations": {"summary": "x"}}


@pytest.fixture(scope="module")
def running_alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alertmanager]:
    if reason := why_unavailable():
        unavailable(reason)
    config = yaml.safe_load(ALERTMANAGER.read_text(encoding="utf-8"))
    for receiver in config["receivers"]:
        receiver["webhook_configs"] = [{"url": "http://127.0.0.1:9/"}]
    with Alertmanager(tmp_path_factory.mktemp("alertmanager"), config) as running:
        yield running


def test_every_receiver_posts_to_the_webhook_of_the_compose_file() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    assert "alerts" in services
    receivers = yaml.safe_load(ALERTMANAGER.read_text(encoding="utf-8"))["receivers"]
    assert {receiver["name"] for receiver in receivers} == {"page", "ticket", "info"}
    for receiver in receivers:
        assert [hook["url"] for hook in receiver["webhook_configs"]] == ["http://alerts:9095/"]

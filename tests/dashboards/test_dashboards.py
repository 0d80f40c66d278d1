"""The dashboards: their JSON matches the code, is valid for Grafana, and queries only existing metrics."""

import io
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from dashboards.__main__ import FOLDER, GRAFANA, find_outdated, render, write
from dashboards.boards import judges, objectives, pipeline, quality, safety
from dashboards.panels import RUNBOOK_LINK
from dashboards.pictures.units import format_number
from dashboards.queries import MAY_BE_EMPTY, annotations, panels, queries, substitute
from dashboards.windowed import FAILED, ScoreQueries
from sinks.metrics.promql import shares
from stream.config.model import Config
from stream.monitor.prometheus.windows import BURN_PAIRS
from tests.parts.patience import patience
from tests.parts.promtool import Check, differences, problems_of_expressions
from tests.parts.required import unavailable
from tests.parts.rules import rules_of

ROOT = Path(__file__).parents[2]
RULES = ROOT / "dashboards/prometheus/rules.yml"
RUNBOOKS = "/public/runbooks/"
NAMES = ("quality", "safety", "judges", "pipeline", "objectives")
DASHBOARDS: dict[str, dict[str, Any]] = {name: json.loads(text) for name, text in render().items()}
# Labels of Prometheus itself.
BUILT_IN = {"ALERTS", "up"}
ASKED = [
    query for dashboard in DASHBOARDS.values() for query in (*queries(dashboard, {}, "1h"), *annotations(dashboard))
]

each_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS.keys())


# The files


def test_the_files_match_the_code() -> None:
    assert find_outdated() == [], "run `make dashboards`"


def test_the_same_code_makes_the_same_files() -> None:
    assert render() == render()
    assert all(text.endswith("}\n") for text in render().values())


def test_there_are_five_dashboards_with_the_uids_that_alerts_link_to() -> None:
    assert {dashboard["uid"] for dashboard in DASHBOARDS.values()} == {f"streamjury-{name}" for name in NAMES}
    assert {path.stem for path in FOLDER.glob("*.json")} == {f"streamjury-{name}" for name in NAMES}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("dashboards/streamjury-safety.json", "edited"),
        ("dashboards/streamjury-safety.json", "missing"),
        ("dashboards/old.json", "unknown"),
        ("runbooks/StreamjuryModelWorse.html", "edited"),
        ("runbooks/StreamjuryOld.html", "unknown"),
    ],
)
def test_check_finds_a_file_that_does_not_match_the_code(
    name: str, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboards.__main__.GRAFANA", tmp_path)
    write(RUNBOOK_LINK)
    assert find_outdated() == []
    if change == "missing":
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text("{}", encoding="utf-8")
    assert find_outdated() == [name]
    write(RUNBOOK_LINK)
    assert find_outdated() == []


def test_check_from_the_command_line_is_silent_when_nothing_differs() -> None:
    process = subprocess.run(
        [sys.executable, "-W", "error", "-m", "dashboards", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60 * patience(),
    )
    assert (process.returncode, process.stderr) == (0, "")


# The panels


@each_dashboard
def test_panel_ids_are_unique(dashboard: dict[str, Any]) -> None:
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers)


@each_dashboard
def test_panels_do_not_overlap_and_leave_no_holes(dashboard: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        columns, lines = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        cells = set(itertools.product(columns, lines))
        assert cells, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells
    height = max(line for _, line in taken) + 1
    assert taken == set(itertools.product(range(24), range(height)))


@each_dashboard
def test_every_panel_has_a_description(dashboard: dict[str, Any]) -> None:
    for panel in panels(dashboard):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert format_number(1.5, panel["fieldConfig"]["defaults"]["unit"]), panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "prometheus"}, panel["title"]


@each_dashboard
def test_every_query_of_a_panel_has_a_unique_name(dashboard: dict[str, Any]) -> None:
    for panel in panels(dashboard):
        assert panel["targets"], panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references), panel["title"]
        assert all(target["datasource"]["uid"] == "prometheus" for target in panel["targets"]), panel["title"]


@each_dashboard
def test_panel_titles_are_unique(dashboard: dict[str, Any]) -> None:
    titles = [panel["title"] for panel in panels(dashboard)]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("module", [quality, safety, judges, pipeline, objectives])
def test_one_panel_is_one_function(module: Any) -> None:
    board = module.board()
    drawn = [*board.top, *(panel for section in board.sections for panel in section.panels)]
    makers = [name for name, value in vars(module).items() if _makes_a_panel(module, name, value)]
    assert len(makers) == len(drawn)


def _makes_a_panel(module: Any, name: str, value: object) -> bool:
    returned = getattr(value, "__annotations__", {}).get("return")
    own = getattr(value, "__module__", None) == module.__name__
    return own and not name.startswith("_") and "Panel" in str(returned)


# Links and variables


@each_dashboard
def test_every_runbook_that_a_panel_links_to_exists(dashboard: dict[str, Any]) -> None:
    links = [link["url"] for panel in panels(dashboard) for link in panel.get("links", ())]
    assert links
    for link in links:
        assert link.startswith(RUNBOOKS)
        assert (GRAFANA / "runbooks" / link.removeprefix(RUNBOOKS)).is_file(), link


@pytest.mark.parametrize(
    ("base", "link"),
    [
        ("https://wiki.example/runbooks/", "https://wiki.example/runbooks/StreamjuryModelWorse.html"),
        ("https://git.example/{alert}.md", "https://git.example/StreamjuryModelWorse.md"),
    ],
)
def test_panels_link_to_the_runbooks_that_they_are_given(base: str, link: str) -> None:
    assert f'"url": "{link}"' in render(base)["streamjury-quality.json"]
    assert RUNBOOKS not in "".join(render(base).values())


def test_a_runbook_page_is_html_and_links_to_pages_that_exist() -> None:
    pages = sorted((GRAFANA / "runbooks").glob("*.html"))
    assert [page.stem for page in pages] == sorted(path.stem for path in (ROOT / "dashboards/runbooks").glob("*.md"))
    linked = set()
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert f"<h1>{page.stem}</h1>" in text
        linked |= set(re.findall(r'href="([^"]+)"', text))
    assert linked
    assert all((GRAFANA / "runbooks" / link).is_file() for link in linked)


def test_every_alert_is_linked_from_a_panel() -> None:
    links = {link["url"] for board in DASHBOARDS.values() for panel in panels(board) for link in panel.get("links", ())}
    wanted = {f"{RUNBOOKS}{alert.name}.html" for alert in rules_of(_with_cost_budget()).alerts}
    assert wanted == links


@each_dashboard
def test_dashboards_link_to_each_other_with_time_and_variables(dashboard: dict[str, Any]) -> None:
    [link] = dashboard["links"]
    assert (link["type"], link["tags"], link["keepTime"], link["includeVars"]) == (
        "dashboards",
        dashboard["tags"],
        True,
        True,
    )


@each_dashboard
def test_alerts_and_new_evaluators_are_marked(dashboard: dict[str, Any]) -> None:
    marks = {mark["name"]: mark["expr"] for mark in dashboard["annotations"]["list"]}
    assert marks["Evaluator changes"] == "streamjury:evaluator:changed"
    by_app = any(variable["name"] == "app" for variable in dashboard["templating"]["list"])
    chosen = ',app=~"$app|"' if by_app else ""
    assert marks["Alerts"] == f'ALERTS{{alertname=~"Streamjury.*",alertstate="firing"{chosen}}}'


def test_the_dashboards_of_apps_mark_alerts_of_the_chosen_apps_alone() -> None:
    chosen = {
        dashboard["uid"] for dashboard in DASHBOARDS.values() if "$app" in dashboard["annotations"]["list"][0]["expr"]
    }
    assert chosen == {"streamjury-quality", "streamjury-safety", "streamjury-pipeline", "streamjury-objectives"}


@each_dashboard
def test_a_dashboard_has_exactly_the_variables_that_it_reads(dashboard: dict[str, Any]) -> None:
    read = {name for panel in panels(dashboard) for target in panel["targets"] for name in _variables(target["expr"])}
    assert read == {variable["name"] for variable in dashboard["templating"]["list"]}


@each_dashboard
def test_a_panel_that_ignores_a_choice_of_models_says_so(dashboard: dict[str, Any]) -> None:
    if not any(variable["name"] == "model" for variable in dashboard["templating"]["list"]):
        return
    for panel in panels(dashboard):
        follows = any("$model" in target["expr"] for target in panel["targets"])
        assert ("models and tenants" in panel["description"]) != follows, panel["title"]


def test_the_safety_criterion_is_a_text_field_with_harmfulness_as_the_default() -> None:
    board = DASHBOARDS["streamjury-safety.json"]
    [variable] = [candidate for candidate in board["templating"]["list"] if candidate["name"] == "safety"]
    assert (variable["type"], variable["query"], variable["current"]["value"]) == (
        "textbox",
        "harmfulness",
        "harmfulness",
    )
    [typed] = {
        query.expr
        for query in queries(board, {"safety": "toxicity"}, "1h")
        if (query.panel, query.ref_id) == ("Safety score with its 95 % interval", "A")
    }
    assert 'dimension="toxicity"' in typed
    assert not any("harmfulness" in target["expr"] for panel in panels(board) for target in panel["targets"])
    asked = [query.expr for query in queries(board, {}, "1h") if query.panel == "Safety score with its 95 % interval"]
    assert all('dimension="harmfulness"' in expr for expr in asked)


def _variables(text: str) -> list[str]:
    return re.findall(r"\$(\w+)", text)


@each_dashboard
def test_all_of_a_variable_matches_series_without_the_label(dashboard: dict[str, Any]) -> None:
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            assert (variable["multi"], variable["includeAll"], variable["allValue"]) == (True, True, ".*")
            assert all(_uses(panel, variable["name"]) for panel in panels(dashboard))


def _uses(panel: Mapping[str, Any], name: str) -> bool:
    """Return whether every use of the variable matches the label of its name; series without an app may be added."""
    matcher = re.compile(rf'\b{name}=~"\${name}(\|unknown)?"')
    expressions = [target["expr"] for target in panel["targets"]]
    return all(len(re.findall(rf"\${name}\b", expr)) == len(matcher.findall(expr)) for expr in expressions)


# The expressions


def test_every_expression_is_promql(tmp_path: Path) -> None:
    assert problems_of_expressions(tmp_path, (query.expr for query in ASKED)) == ""


def test_every_queried_metric_exists() -> None:
    existing = BUILT_IN | _documented_series() | {rule.record for rule in rules_of(_with_cost_budget()).recordings}
    for query in ASKED:
        unknown = set(_metrics(query.expr)) - existing
        assert not unknown, (query.panel, unknown)


def _with_cost_budget() -> Config:
    return Config.model_validate({"alerts": {"cost_per_day_usd": 10.0}})


def _documented_series() -> set[str]:
    """Return the series of the metrics in the table of docs/metrics.md."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", (ROOT / "docs/metrics.md").read_text(encoding="utf-8"), re.MULTILINE)
    parts = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}
    return {name + suffix for name, kind in rows for suffix in parts.get(kind, ("",))}


def _metrics(expr: str) -> Iterator[str]:
    """Return the names of series: words that are neither label, function, keyword nor grouping in PromQL."""
    bare = re.sub(r'"[^"]*"', "", expr)
    bare = re.sub(r"\b(by|on|without|ignoring|group_left)\s*\([^)]*\)", "", bare)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    bare = re.sub(r"\b[A-Za-z_]\w*\s*\(", "(", bare)
    for name in re.findall(r"(?<![\w:.])[A-Za-z_][\w:]*", bare):
        if name not in {"or", "and", "unless", "offset", "bool"}:
            yield name


def test_metric_names_are_found_in_an_expression() -> None:
    expr = 'sum by (app) (rate(a_total{x="b_total"}[5m])) / on (c) (d:e:f1h > 0) unless g offset 5m'
    assert list(_metrics(expr)) == ["a_total", "d:e:f1h", "g"]


def test_every_queried_outcome_is_one_of_the_funnel() -> None:
    """An invalid name would be an empty panel, unnoticed."""
    outcomes = {"consumed", "filtered", "sampled", "sampled_out", "shed", "scored", "unscored", "deadletter", "seen"}
    asked = {
        outcome
        for query in ASKED
        for matched in re.findall(r'streamjury_records_total\{[^}]*outcome=~?"([^"]+)"', query.expr)
        for outcome in matched.split("|")
    }
    assert "deadletter" in asked
    assert asked <= outcomes


def test_a_failed_verdict_is_the_same_for_rules_and_dashboards() -> None:
    assert FAILED == 'status="insufficient",reason=~"judge_unavailable|timeout|invalid_output"'
    [recorded] = [
        rule.expr
        for rule in rules_of(Config()).recordings
        if rule.record == "judge:streamjury_verdicts:failure_ratio1h"
    ]
    assert f"streamjury_judge_verdicts_total{{{FAILED}}}" in recorded
    expressions = [query.expr for query in ASKED if query.panel == "Failed verdicts"]
    assert all(FAILED in expr for expr in expressions)
    assert expressions


def test_the_burn_rates_on_the_panel_are_those_of_the_alert() -> None:
    assert [tuple(pair) for pair in objectives.BURN_PAIRS] == [
        (pair.factor, pair.long, pair.short, pair.severity.value) for pair in BURN_PAIRS
    ]
    titles = [panel["title"] for panel in panels(DASHBOARDS["streamjury-objectives.json"])]
    assert [title for title in titles if " at " in title] == [
        "1h and 5m: page at 14.4×",
        "6h and 30m: page at 6×",
        "1d and 2h: ticket at 3×",
        "3d and 6h: ticket at 1×",
    ]


def test_the_threshold_of_used_up_budgets_is_that_of_the_alert() -> None:
    [panel] = _panels_titled("judges", "Budgets left, by app and window")
    [_, line] = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    [alert] = [candidate for candidate in rules_of(Config()).alerts if candidate.name == "StreamjuryBudgetUsedUp"]
    [(reserve, margin)] = re.findall(r"left_ratio < (\S+) \+ (\S+)", alert.expr)
    assert line["value"] == pytest.approx(float(reserve) + float(margin))


def test_the_budget_that_all_apps_share_has_a_name(tmp_path: Path) -> None:
    [panel] = _panels_titled("judges", "Budgets left, by app and window")
    series = {
        'streamjury_budget_limit_usd{window="day",instance="a"}': "40x5",
        'streamjury_budget_limit_usd{window="day",instance="b"}': "40x5",
        'streamjury_budget_spent_usd{window="day",instance="a"}': "30x5",
        'streamjury_budget_spent_usd{window="day",instance="b"}': "10x5",
        'streamjury_budget_limit_usd{app="shop",window="hour",instance="a"}': "4x5",
        'streamjury_budget_spent_usd{app="shop",window="hour",instance="a"}': "1x5",
    }
    name = "app_window:streamjury_budget:left_ratio"
    remaining = {f'{name}{{app="all apps",window="day"}}': 0.5, f'{name}{{app="shop",window="hour"}}': 0.75}
    [target] = panel["targets"]
    assert differences(tmp_path, series, [Check(target["expr"], "5m", remaining)], [RULES]) == ""


# A mean that is below its target with 95 % confidence, in an app that is moving from one monitor to another.
DROP = {
    'streamjury_detection_log_evidence{app="shop",dimension="composite",instance="a"}': "2.5x5",
    'streamjury_detection_log_evidence_needed{app="shop",dimension="composite",instance="a"}': "4.5x5",
    'streamjury_detection_log_evidence{app="shop",dimension="composite",instance="b"}': "2.5x5",
    'streamjury_detection_log_evidence_needed{app="shop",dimension="composite",instance="b"}': "4.5x5",
    'streamjury_detection_log_evidence{app="bank",dimension="clarity",instance="a"}': "-27x5",
    'streamjury_detection_log_evidence_needed{app="bank",dimension="clarity",instance="a"}': "4.5x5",
    'streamjury_detection_low{app="shop",dimension="composite",instance="a"}': "0.5x5",
    'streamjury_detection_high{app="shop",dimension="composite",instance="a"}': "0.75x5",
    'streamjury_detection_target{app="shop",dimension="composite",instance="a"}': "0.875x5",
}


def test_evidence_is_shown_relative_to_the_alarm_threshold(tmp_path: Path) -> None:
    [panel] = _panels_titled("quality", "Evidence of a drop, relative to the threshold")
    [target] = panel["targets"]
    missing = {'{app="shop",dimension="composite"}': -2, '{app="bank",dimension="clarity"}': -31.5}
    assert differences(tmp_path, DROP, [Check(substitute(target["expr"], {}), "5m", missing)]) == ""
    [_, line] = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert line["value"] == 0


def test_the_interval_of_a_mean_is_shown_relative_to_its_target(tmp_path: Path) -> None:
    [panel] = _panels_titled("quality", "Mean minus target, at most and at least")
    checks = [
        Check(substitute(target["expr"], {}), "5m", {'{app="shop",dimension="composite"}': expected})
        for target, expected in zip(panel["targets"], (-0.125, -0.375), strict=True)
    ]
    assert differences(tmp_path, DROP, checks) == ""


def _panels_titled(dashboard: str, title: str) -> list[Mapping[str, Any]]:
    return [panel for panel in panels(DASHBOARDS[f"streamjury-{dashboard}.json"]) if panel["title"] == title]


# Values at the last of 90 minutes: five judgements a minute of weight 20, one in ten without a score.
SERIES = {
    "weight": "0+100x90",
    "weight_squared": "0+2000x90",
    "weighted_sum": "0+60x90",
    "weighted_square_sum": "0+40x90",
    "missing_weight": "0+10x90",
}
LABELS = '{app="shop",dimension="clarity"}'


def _scores(values: Mapping[str, str]) -> dict[str, str]:
    return {f"streamjury_score_{name}_total{LABELS}": series_values for name, series_values in values.items()}


def test_the_estimates_over_an_hour_are_those_of_the_recording_rules(tmp_path: Path) -> None:
    scores = ScoreQueries('app=~"$app"', by=["app", "dimension"])
    estimates: dict[str, Callable[[], str]] = {
        "mean": scores.mean,
        "low": scores.low,
        "high": scores.high,
        "effective": scores.effective,
        "coverage": scores.coverage,
    }
    checks = []
    for name, expression in estimates.items():
        ours = substitute(expression(), {"window": "1h"})
        same = f"abs(({ours}) - app_dimension:streamjury_score:{name}1h) < bool 1e-9"
        checks.append(Check(same, "90m", {LABELS: 1}))
    assert differences(tmp_path, _scores(SERIES), checks, [RULES]) == ""


def test_coverage_is_zero_if_no_answer_could_be_scored(tmp_path: Path) -> None:
    expr = substitute(ScoreQueries("", by=["app"]).coverage(), {"window": "1h"})
    check = Check(expr, "90m", {'{app="shop"}': 0})
    assert differences(tmp_path, _scores({"missing_weight": "0+10x90"}), [check]) == ""


def test_shares_have_no_value_without_traffic(tmp_path: Path) -> None:
    """No division by zero: Grafana would draw the result, and a threshold would compare with it."""
    expr = shares('sum by (status) (increase(f{status!="safe"}[5m]))', "sum(increase(f[5m]))")
    series = {'f{status="safe"}': "0+3x10 30x30", 'f{status="unsafe"}': "0+1x10 10x30"}
    checks = [Check(expr, "10m", {'{status="unsafe"}': 0.25}), Check(expr, "30m", {})]
    assert differences(tmp_path, series, checks) == ""


def test_no_panel_divides_by_zero_when_traffic_ends(tmp_path: Path) -> None:
    """Every expression of the Safety dashboard, for an app whose last answer is hours old."""
    statuses = {
        "streamjury_safety_total": ("safe", "questionable", "unsafe", "unknown"),
        "streamjury_evaluations_total": ("ok", "questionable", "unsafe", "safety_unknown"),
    }
    series = {
        f'{metric}{{app="shop",status="{status}"}}': "0+1x10 10x200"
        for metric, status_names in statuses.items()
        for status in status_names
    }
    series |= {f"{name.replace('clarity', 'harmfulness')}": "0+1x10 10x200" for name in _scores(SERIES)}
    board = DASHBOARDS["streamjury-safety.json"]
    checks = [Check(f"count(({query.expr}) != ({query.expr}))", "200m", {}) for query in queries(board, {}, "1h")]
    assert differences(tmp_path, series, checks) == ""


def test_variables_are_replaced_in_every_spelling() -> None:
    values = {"app": "shop", "window": "5m"}
    assert substitute('a{app=~"$app",b="${app}",c="${app:regex}"}[$window]', values) == (
        'a{app=~"shop",b="shop",c="shop"}[5m]'
    )
    assert substitute('a{model=~"$model"}', values) == 'a{model=~".*"}'


def test_panels_that_may_be_empty_exist() -> None:
    existing = {(board["uid"], panel["title"]) for board in DASHBOARDS.values() for panel in panels(board)}
    assert set(MAY_BE_EMPTY) <= existing


# The pictures


def _prometheus(*, empty: bool) -> httpx.MockTransport:
    """Answer every query with two series that have all labels, or with none."""

    def labels_of(index: int) -> dict[str, str]:
        names = ("app", "dimension", "judge", "criterion", "stage", "alertname", "status", "fingerprint")
        return {**{name: f"{name}-{index}" for name in names}, "le": ("0.5", "+Inf")[index]}

    def answer(request: httpx.Request) -> httpx.Response:
        asked = request.url.params
        if "/label/" in request.url.path:
            return httpx.Response(200, json={"data": [] if empty else ["one", "two"]})
        moments = (
            [float(asked["time"])] if "time" in asked else [float(asked["start"]) + 60 * step for step in range(9)]
        )
        result = [
            {
                "metric": labels_of(index),
                "values": [[moment, str(0.3 + index)] for moment in moments],
                "value": [moments[0], "1"],
            }
            for index in range(0 if empty else 2)
        ]
        return httpx.Response(200, json={"data": {"result": result}})

    return httpx.MockTransport(answer)


@pytest.mark.parametrize("empty", [False, True], ids=["with data", "without data"])
@each_dashboard
@pytest.mark.slow
def test_a_dashboard_can_be_drawn(dashboard: dict[str, Any], empty: bool) -> None:
    if find_spec("matplotlib") is None:
        unavailable("matplotlib is not installed; pictures need it")
    from PIL import Image

    from dashboards.pictures.pictures import picture
    from dashboards.pictures.source import Prometheus

    with httpx.Client(transport=_prometheus(empty=empty), base_url="http://prometheus") as client:
        drawn = picture(dashboard, Prometheus(client, start=0, end=16800), "5m")
    with Image.open(io.BytesIO(drawn)) as image:
        assert image.format == "PNG"
        assert image.width == 1280
    assert len(drawn) < 300_000


@pytest.mark.parametrize(
    ("value", "unit", "decimals", "text"),
    [
        (0.9512, "percentunit", 1, "95.1%"),
        (1234.0, "short", 0, "1.23 K"),
        (12.0, "suffix:/s", 1, "12.0/s"),
        (0.02, "s", None, "20 ms"),
        (1.5, "currencyUSD", None, "$1.50"),
        (0.8765, "none", 3, "0.876"),
        (float("nan"), "short", None, "–"),
    ],
)
def test_numbers_are_written_as_grafana_does(value: float, unit: str, decimals: int | None, text: str) -> None:
    assert format_number(value, unit, decimals) == text

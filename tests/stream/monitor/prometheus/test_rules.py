"""The rule generator: durations, quoting of names, objectives by app, and omitted rules."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sinks.metrics.promql import escape_regex, is_none_of, is_one_of, quote
from stream.config.model import Config
from stream.monitor.prometheus.rule_file import AlertRule, RuleFile, RuleGroup
from stream.monitor.prometheus.windows import (
    ALL_WINDOWS,
    BURN_PAIRS,
    LONG_WINDOWS,
    TimeScale,
    format_duration,
    milliseconds,
)
from tests.parts.promtool import problems_of_rules
from tests.parts.rules import rules_of

DURATION = re.compile(r"(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?")
UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}

names = st.text(min_size=1, max_size=30)
# Names in the configuration are printable because metrics use them as labels.
apps = st.text(st.characters(exclude_categories=("C", "Z"), include_characters=" "), min_size=1, max_size=30)
targets = st.floats(min_value=0.5, max_value=0.9999)


def rules(**sections: Any) -> RuleFile:
    return rules_of(Config.model_validate(sections))


def recording_exprs(file: RuleFile, name: str) -> list[str]:
    return [rule.expr for rule in file.recordings if rule.record == name]


def alerts_named(name: str, file: RuleFile) -> list[AlertRule]:
    return [alert for alert in file.alerts if alert.name == name]


# Durations


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (0, "0s"),
        (1, "1ms"),
        (500, "500ms"),
        (1000, "1s"),
        (90_000, "1m30s"),
        (3_600_000, "1h"),
        (5_400_000, "1h30m"),
        (86_400_000, "1d"),
        (2_592_000_000, "30d"),
        (90_061_001, "1d1h1m1s1ms"),
    ],
)
def test_a_duration_is_written_as_prometheus_reads_it(length: int, text: str) -> None:
    assert format_duration(length) == text


@given(st.integers(min_value=1, max_value=400 * 86_400_000))
def test_a_formatted_duration_keeps_its_length(length: int) -> None:
    text = format_duration(length)
    assert DURATION.fullmatch(text)
    assert sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+)(ms|[dhms])", text)) == length


@pytest.mark.parametrize("text", ["", "h", "1w", "1h30m", "-1h", "1.5h"])
def test_a_window_is_one_number_and_one_unit(text: str) -> None:
    with pytest.raises(ValueError, match="must be a number and a unit"):
        milliseconds(text)


def test_a_scale_multiplies_windows_and_never_makes_them_zero() -> None:
    assert TimeScale(1 / 60)("1h") == "1m"
    assert TimeScale(2)("6h") == "12h"
    assert TimeScale(0.0166667)("6h") == "6m"
    assert TimeScale(1e-9)("5m") == "1ms"
    assert TimeScale(1 / 60).seconds("15m") == "15"
    assert TimeScale(0.001).seconds("15m") == "0.9"


@pytest.mark.parametrize(
    ("factor", "lengths"),
    [
        (0.0166667, ["5s", "30s", "1m", "2m", "6m", "24m", "1h12m"]),
        (0.0167, ["5s", "30s", "1m", "2m", "6m1s", "24m3s", "1h12m9s"]),
        (0.001, ["300ms", "1s800ms", "3s600ms", "7s200ms", "22s", "1m26s", "4m19s"]),
    ],
)
def test_a_rounded_scale_leaves_no_odd_milliseconds(factor: float, lengths: list[str]) -> None:
    assert [TimeScale(factor)(name) for name in ALL_WINDOWS] == lengths


def test_no_group_interval_exceeds_the_lifetime_of_a_series() -> None:
    """Prometheus drops a series five minutes after its last sample."""
    assert TimeScale(10).interval("2m") == "2m"
    assert TimeScale(0.5).interval("2m") == "1m"


def test_the_windows_are_in_order_of_their_length() -> None:
    assert ALL_WINDOWS == ["5m", "30m", "1h", "2h", "6h", "1d", "3d"]
    assert LONG_WINDOWS == ["1h", "6h", "1d", "3d"]


def test_the_budget_used_by_a_pair_is_that_of_its_long_window() -> None:
    assert [round(pair.spent(30), 4) for pair in BURN_PAIRS] == [0.02, 0.05, 0.1, 0.1]


def test_no_window_alerts_on_fewer_than_ten_bad_answers() -> None:
    assert [pair.least(0.95) for pair in BURN_PAIRS] == [14, 34, 67, 200]
    sizes = [alert.expr.rsplit(">= ", 1)[1] for alert in alerts_named("StreamjuryQualityDrop", rules())]
    assert sizes == ["30", "34", "67", "200"]


# Quoting


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("shop", '"shop"'),
        ('we"ird', r'"we\"ird"'),
        ("back\\slash", r'"back\\slash"'),
        ("two\nlines", r'"two\nlines"'),
        ("bell\a", r'"bell\u0007"'),
        ("Größe 尺寸", '"Größe 尺寸"'),
        ("{{ $value }}", '"{{ $value }}"'),
    ],
)
def test_a_name_is_quoted_as_promql_reads_it(name: str, text: str) -> None:
    assert quote(name) == text


@given(names, names)
def test_a_name_as_a_pattern_matches_itself_and_no_other(name: str, other: str) -> None:
    assert re.fullmatch(escape_regex(name), name)
    assert (re.fullmatch(escape_regex(name), other) is not None) == (name == other)


def test_several_names_become_one_pattern() -> None:
    assert is_one_of("app", ["a.b"]) == 'app="a.b"'
    assert is_none_of("app", ["a.b"]) == 'app!="a.b"'
    assert is_one_of("app", ["a.b", 'c"|d']) == r'app=~"a\\.b|c\"\\|d"'
    assert is_none_of("app", ["x", "y"]) == 'app!~"x|y"'
    assert is_none_of("app", []) == ""


# The file


def test_the_file_is_reproducible_and_names_the_command_that_made_it() -> None:
    text = rules().text()
    assert text == rules().text()
    assert text.startswith("# ")
    assert "streamjury rules" in text.splitlines()[0]
    assert "do not edit" in " ".join(text.splitlines()[:2]).lower()


def test_multi_line_expressions_are_written_as_block_scalars() -> None:
    assert "expr: |-\n          sum by (app, dimension)" in rules().text()
    assert "\\n" not in rules().text()


def test_no_expression_sums_before_it_takes_the_increase() -> None:
    """The increase of a sum treats the restart of one process as a reset of all."""
    for group in rules(alerts={"cost_per_day_usd": 1}).groups:
        for rule in group.rules:
            assert not re.search(r"(increase|rate|deriv)\(\s*sum", rule.expr)


# Objectives by app


def test_an_app_with_its_own_objective_has_its_own_rules_and_is_left_out_of_the_general_ones() -> None:
    file = rules(objectives={"target": 0.9, "apps": {"bot": {"target": 0.99}}})
    recent = "app:streamjury_objective:bad_ratio3d"
    assert recording_exprs(file, "app:streamjury_objective:target") == [
        f'0 * {recent}{{app!="bot"}} + 0.9',
        f'0 * {recent}{{app="bot"}} + 0.99',
    ]
    own = [alert for alert in file.alerts if alert.labels.get("app") == "bot"]
    assert [alert.labels["window"] for alert in own] == ["1h", "6h", "1d", "3d"]
    assert all('{app="bot"}' in alert.expr and "(1 - 0.99)" in alert.expr for alert in own)


def test_an_app_inherits_what_it_does_not_set() -> None:
    file = rules(objectives={"target": 0.9, "good_score": 0.6, "apps": {"bot": {"good_score": 0.8}}})
    assert recording_exprs(file, "app:streamjury_objective:good_score")[1].endswith("+ 0.8")
    assert recording_exprs(file, "app:streamjury_objective:target")[1].endswith("+ 0.9")


def test_a_pair_that_could_never_fire_is_left_out_with_a_note() -> None:
    file = rules(objectives={"target": 0.9, "apps": {"bot": {"target": 0.5}}})
    drops = alerts_named("StreamjuryQualityDrop", file)
    windows = [(alert.labels.get("app"), alert.labels["window"]) for alert in drops]
    assert windows == [(None, "6h"), (None, "1d"), (None, "3d"), ("bot", "3d")]
    notes = [note for note in file.notes if "QualityDrop" in note]
    assert len(notes) == 4
    assert notes[0] == (
        "StreamjuryQualityDrop over 1h is left out for the objective of all apps without their own: with a target of "
        "0.9, more than 144% of the interactions would have to be bad"
    )
    assert all("app 'bot'" in note for note in notes[1:])


@pytest.mark.parametrize(
    ("target", "windows"),
    [
        (0.9999, ["1h", "6h", "1d", "3d"]),
        (0.9306, ["1h", "6h", "1d", "3d"]),  # 14.4 · 0.0694 = 0.999
        (0.9305, ["6h", "1d", "3d"]),  # 14.4 · 0.0695 = 1.001
        (0.8334, ["6h", "1d", "3d"]),
        (0.8333, ["1d", "3d"]),
        (0.6667, ["1d", "3d"]),
        (0.6666, ["3d"]),
        (0.5, ["3d"]),
    ],
)
def test_a_pair_is_included_if_it_can_fire(target: float, windows: list[str]) -> None:
    alerts = alerts_named("StreamjuryQualityDrop", rules(objectives={"target": target}))
    assert [alert.labels["window"] for alert in alerts] == windows


def test_the_name_of_an_app_is_never_treated_as_a_template() -> None:
    file = rules(objectives={"apps": {"{{ .Value }}": {"target": 0.99}}})
    [label] = {alert.labels["app"] for alert in file.alerts if "app" in alert.labels}
    assert label == '{{ "{{" }} .Value }}'
    assert {rule.labels["app"] for rule in file.recordings if "app" in rule.labels} == {"{{ .Value }}"}


# Thresholds


def test_thresholds_come_from_the_configuration() -> None:
    file = rules(
        objectives={"min_effective": 277, "floors": {"clarity": 0.4, "composite": 0.6}, "days": 7},
        alerts={
            "coverage": 0.81,
            "judge_failures": 0.12,
            "disagreement": 0.34,
            "lag_records": 4321,
            "deadletter_share": 0.056,
            "cost_per_day_usd": 12.5,
            "cost_share": 0.75,
        },
    )
    alerts_by_name = {(alert.name, alert.labels.get("dimension")): alert for alert in file.alerts}
    for name, threshold in {
        ("StreamjuryCoverageLow", None): "< 0.81",
        ("StreamjuryJudgeFailing", None): "> 0.12",
        ("StreamjuryPanelDisagreement", None): "> 0.34",
        ("StreamjuryLagGrowing", None): "> 4321",
        ("StreamjuryDeadLettersGrowing", None): "> 0.056",
        ("StreamjuryCostBudgetNearlyUsed", None): "> 0.75 * 12.5",
        ("StreamjuryDimensionBelowFloor", "clarity"): "< 0.4",
        ("StreamjuryDimensionBelowFloor", "composite"): "< 0.6",
        ("StreamjuryQualityDrop", None): ">= 277",
    }.items():
        assert threshold in alerts_by_name[name].expr
    assert "[7d]" in recording_exprs(file, "app:streamjury_objective:budget_left")[0]
    assert "the 7-day error budget" in alerts_by_name[("StreamjuryQualityDrop", None)].annotations["description"]
    assert not file.notes


def test_one_day_is_in_the_singular() -> None:
    descriptions = [alert.annotations["description"] for alert in rules(objectives={"days": 1}).alerts]
    assert any("of the 1-day error budget is gone in" in text for text in descriptions)


def test_without_a_budget_its_alert_is_left_out_with_a_note() -> None:
    file = rules()
    assert "StreamjuryCostBudgetNearlyUsed" not in {alert.name for alert in file.alerts}
    assert recording_exprs(file, "streamjury:cost_budget:left_ratio") == []
    assert file.notes == ("StreamjuryCostBudgetNearlyUsed is left out: alerts.cost_per_day_usd is not set",)


@pytest.mark.parametrize("budgets", [{}, {"per_day_usd": 50}, {"apps": {"shop": {"per_hour_usd": 1}}}])
def test_one_rule_watches_all_budgets(budgets: dict[str, Any]) -> None:
    """Names and amounts come from metrics of the workers, so a new budget needs no new rule."""
    file, default = rules(budgets=budgets), rules()
    assert alerts_named("StreamjuryBudgetUsedUp", file) == alerts_named("StreamjuryBudgetUsedUp", default)
    assert len(alerts_named("StreamjuryBudgetUsedUp", file)) == 1
    assert len(recording_exprs(file, "app_window:streamjury_budget:left_ratio")) == 1
    assert file.notes == default.notes


@pytest.mark.parametrize(
    ("share", "limit", "words"),
    [
        (0.0, "< 0.0 + 0.02\n", "{{ $labels.window }}. Until"),
        (
            0.35,
            "< 0.35 + 0.02\n",
            "; the last 35% is reserved for records with signs of trouble (the safety lane). Until",
        ),
        (
            1.0,
            "< 1.0 + 0.02\n",
            "; the last 100% is reserved for records with signs of trouble (the safety lane). Until",
        ),
    ],
)
def test_a_budget_is_used_up_when_only_the_safety_share_is_left(share: float, limit: str, words: str) -> None:
    [alert] = alerts_named("StreamjuryBudgetUsedUp", rules(budgets={"per_day_usd": 50, "safety_share": share}))
    assert limit in alert.expr
    assert words in alert.annotations["description"]


# Rules that could never fire, or always would


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("coverage", 0),
        ("judge_failures", 1),
        ("disagreement", 1),
        ("deadletter_share", 1),
        ("cost_share", 0),
    ],
)
def test_a_limit_that_cannot_be_exceeded_is_refused(key: str, value: float) -> None:
    with pytest.raises(ValidationError, match=f"alerts.{key}"):
        rules(alerts={key: value})


def test_the_default_floor_requires_that_groundedness_is_judged() -> None:
    assert [alert.labels["dimension"] for alert in alerts_named("StreamjuryDimensionBelowFloor", rules())] == [
        "groundedness"
    ]
    file = rules(criteria={"use": ["rag.clarity", "rag.harmfulness"]})
    assert alerts_named("StreamjuryDimensionBelowFloor", file) == []
    assert recording_exprs(file, "dimension:streamjury_score:floor") == []
    assert file.notes[0] == "StreamjuryDimensionBelowFloor of groundedness is left out: it is not judged"


def test_a_floor_of_zero_is_left_out() -> None:
    file = rules(objectives={"floors": {"clarity": 0, "composite": 0.5}})
    assert [alert.labels["dimension"] for alert in alerts_named("StreamjuryDimensionBelowFloor", file)] == ["composite"]
    assert file.notes[0] == "StreamjuryDimensionBelowFloor of clarity is left out: no mean is below 0"


@pytest.mark.parametrize(
    ("sampling", "least"),
    [
        ({}, 1000),
        ({"rate": 1}, 1000),
        ({"rate": 0.01}, 2000),
        ({"target_per_minute": 10}, 20000),
        ({"target_per_minute": 10, "min_rate": 0.004}, 5000),
        ({"rate": 0, "rules": [{"name": "shop", "match": {"app": "shop"}, "rate": 0.005}]}, 4000),
    ],
)
def test_the_silence_alert_waits_for_enough_traffic_to_rule_out_chance(sampling: dict[str, Any], least: int) -> None:
    _, late = alerts_named("StreamjuryEvaluatorSilent", rules(sampling=sampling))
    assert f">= {least}\n" in late.expr


def test_without_sampling_there_is_no_alert_on_missing_evaluations() -> None:
    file = rules(sampling={"rate": 0})
    assert len(alerts_named("StreamjuryEvaluatorSilent", file)) == 1
    assert "StreamjuryEvaluatorSilent over 1h is left out: the sampling rate is 0" in file.notes


def test_every_rule_uses_the_same_job_name() -> None:
    matchers = re.findall(r"job\W+(\w+)", rules().text())
    assert len(matchers) > 5
    assert set(matchers) == {"streamjury"}


def test_links_follow_the_configuration() -> None:
    file = rules(alerts={"grafana_url": "https://g.example/x", "runbook_url": "https://wiki.example/sj"})
    alert = file.alerts[0]
    assert alert.annotations["dashboard_url"].startswith("https://g.example/x/d/streamjury-")
    assert alert.annotations["runbook_url"] == f"https://wiki.example/sj/{alert.name}.html"
    without = rules(alerts={"grafana_url": "https://g.example/x"}).alerts[0]
    assert without.annotations["runbook_url"] == f"https://g.example/x/public/runbooks/{alert.name}.html"
    pattern = rules(alerts={"runbook_url": "https://git.example/{alert}.md"}).alerts[0]
    assert pattern.annotations["runbook_url"] == f"https://git.example/{alert.name}.md"


# Time scale


def durations(text: str) -> list[str]:
    return re.findall(r"\[([^\]]+)\]|offset (\w+)|(?:for|interval): (\w+)", text)


SIXTIETH = {
    "30d": "12h",
    "3d": "1h12m",
    "1d": "24m",
    "6h": "6m",
    "2h": "2m",
    "1h": "1m",
    "30m": "30s",
    "15m": "15s",
    "10m": "10s",
    "5m": "5s",
    "3m": "3s",
    "2m": "2s",
    "30s": "500ms",
}


def test_a_scale_changes_every_duration_and_no_name() -> None:
    plain, scaled = rules().text(), rules(alerts={"time_scale": 1 / 60}).text()
    pairs = {
        (*filter(None, before), *filter(None, after))
        for before, after in zip(durations(plain), durations(scaled), strict=True)
    }
    assert pairs == set(SIXTIETH.items())
    names_of = re.compile(r"(?:record|alert): (\S+)|\b\w+:\w+:\w+\b")
    assert names_of.findall(plain) == names_of.findall(scaled)


@pytest.mark.parametrize(
    ("scale", "short"),
    [(1 / 60, None), (0.016, "5m is 4s800ms"), (0.001, "5m is 300ms, 30m is 1s800ms, 1h is 3s600ms")],
)
def test_a_note_lists_windows_with_too_few_scrapes(scale: float, short: str | None) -> None:
    notes = [note for note in rules(alerts={"time_scale": scale}).notes if "time_scale" in note]
    expected = f"alerts.time_scale makes these windows too short to hold two scrapes: {short}"
    assert notes == ([] if short is None else [expected])


@pytest.mark.parametrize("scale", [0.001, 1 / 60, 0.37, 10])
def test_promtool_accepts_rules_of_any_scale(scale: float, tmp_path: Path) -> None:
    assert problems_of_rules(tmp_path, rules(alerts={"time_scale": scale}).text()) == ""


# Any configuration


@pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028", "\u2029"])
def test_an_app_with_a_line_break_in_its_name_cannot_have_an_objective(end: str) -> None:
    """Metrics escape it in the label, so no rule would match the app."""
    with pytest.raises(ValidationError, match="must be a name in printable characters"):
        rules(objectives={"apps": {f"two{end}lines": {"target": 0.99}}})


@pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028", "\u2029"])
def test_a_text_with_a_line_break_is_read_back_unchanged(end: str) -> None:
    rule = AlertRule(name="Two", expr="1", labels={"app": f"two{end}lines"}, annotations={"summary": end})
    file = RuleFile(groups=[RuleGroup(name="one", interval="1m", rules=[rule])])
    assert yaml.safe_load(file.text()) == {"groups": [group.as_yaml() for group in file.groups]}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    apps=st.dictionaries(apps, targets, max_size=6),
    scale=st.floats(min_value=0.001, max_value=10),
    url=st.sampled_from(["http://localhost:3000", "https://g.example/{{.Value}}"]),
)
def test_promtool_accepts_rules_of_any_apps_and_scale(
    apps: dict[str, float], scale: float, url: str, tmp_path: Path
) -> None:
    file = rules(
        objectives={"apps": {name: {"target": target} for name, target in apps.items()}},
        alerts={"time_scale": scale, "runbook_url": url},
    )
    assert problems_of_rules(tmp_path, file.text()) == ""
    loaded = yaml.safe_load(file.text())
    assert [rule["expr"] for group in loaded["groups"] for rule in group["rules"]] == [
        rule.expr for group in file.groups for rule in group.rules
    ]

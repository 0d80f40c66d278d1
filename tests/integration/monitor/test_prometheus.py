"""Metrics, rules, alerts and dashboards on a real Prometheus and Alertmanager, over one run of the scenario."""

import json
import math
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from dashboards.queries import MAY_BE_EMPTY, annotations, queries
from tests.integration.monitored import CONTROL, DEGRADED, QUALITY_DROP, ROOT, Monitored
from tests.integration.pipeline import wait_until
from tests.parts import alertmanager, local_http, prometheus
from tests.parts.patience import patience
from tests.parts.prometheus import Series
from tests.parts.required import unavailable

pytestmark = [pytest.mark.xdist_group("alerting"), pytest.mark.slow]

DASHBOARDS: list[dict[str, Any]] = [
    json.loads(file.read_text()) for file in sorted((ROOT / "dashboards/grafana/dashboards").glob("*.json"))
]
# Panels without data in this installation.
EMPTY_HERE: Mapping[tuple[str, str], str] = {
    ("streamjury-judges", "Cascade outcomes"): "the panel has no cascade",
    ("streamjury-judges", "Redacted values by kind"): "the endpoint is on this machine",
    ("streamjury-judges", "Learnt rates"): "the endpoint has no limit",
    ("streamjury-judges", "Dimensions without a score, by reason"): "the local judge always has a verdict",
    ("streamjury-pipeline", "Restarted processes"): "no worker has several processes",
    ("streamjury-pipeline", "Without a composite, by reason"): "the local judge always has a verdict",
    ("streamjury-judges", "Canaries with an unchanged verdict"): "there are no canaries",
    ("streamjury-judges", "Evidence that the judges have changed, relative to the threshold"): "there are no canaries",
    ("streamjury-judges", "Weighted kappa of judges and people"): "nobody labels answers; see test_labels",
    ("streamjury-judges", "Bad answers found, and others passed"): "nobody labels answers",
    ("streamjury-judges", "Bias by judge"): "nobody labels answers",
    ("streamjury-judges", "Labelled answers by judge"): "nobody labels answers",
    ("streamjury-judges", "Weighted kappa by model family and language"): "nobody labels answers; see test_labels",
    ("streamjury-quality", "Difference of compared models"): "no models are compared",
    ("streamjury-quality", "Mean corrected by labels"): "nobody labels answers; see test_labels",
    ("streamjury-quality", "Bias of the judges"): "nobody labels answers",
    ("streamjury-quality", "Labelled answers"): "nobody labels answers",
    ("streamjury-quality", "Feedback of users"): "no user reacts",
    ("streamjury-quality", "Refusals"): "answer.refusal is not judged",
    ("streamjury-quality", "Unjustified refusals by app"): "answer.refusal is not judged",
}
NO_RECORDS_HERE: Mapping[str, str] = {"streamjury:evaluator:changed": "the evaluator stays the same"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    """The finished and verified scenario, with Prometheus still available for queries."""
    for part in (prometheus, alertmanager):
        if reason := part.why_unavailable():
            unavailable(reason)
    with Monitored(tmp_path_factory.mktemp("monitored")) as monitored:
        monitored.run()
        yield monitored


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def whole_run(run: Monitored) -> str:
    """Return a window from before the first scrape to the last."""
    return f"{math.ceil(run.ended - run.started) + 60}s"


# Alerts


def test_the_quality_drop_is_notified_after_it_began_and_its_end_after_the_recovery(run: Monitored) -> None:
    """The receiver gets both notices of the page, in time and with the details a person needs to start."""
    fired, resolved = run.pages[0], run.pages[-1]
    assert (fired["status"], resolved["status"]) == ("firing", "resolved")
    assert run.drop < moment(fired["starts_at"]) <= moment(fired["received_at"]) < moment(resolved["received_at"])
    assert run.recovery < moment(resolved["ends_at"]) <= moment(resolved["received_at"]) < run.ended
    assert DEGRADED in fired["summary"]
    assert re.search(r"\d", fired["annotations"]["description"])
    assert fired["runbook"].endswith(f"/{QUALITY_DROP}.html")
    print(f"told {moment(fired['received_at']) - run.drop:.0f} s after the drop began")
    print(f"its end {moment(resolved['received_at']) - run.recovery:.0f} s after the recovery")


def test_healthy_services_raise_no_alert_about_quality(run: Monitored) -> None:
    """Neither the app that drops, before it does, nor those that stay healthy throughout; pending alerts count too."""
    alerts = run.prometheus.query_range(f'ALERTS{{alertname="{QUALITY_DROP}"}}', start=run.started, end=run.ended)
    assert {series.labels["app"] for series in alerts} == {DEGRADED}
    assert min(moment for series in alerts for moment, _ in series.points) > run.drop
    drop_notices = [notice for notice in run.notices if notice["alertname"] == QUALITY_DROP]
    assert {notice["app"] for notice in drop_notices} == {DEGRADED}


def test_the_healthy_services_have_enough_data_for_an_alert(run: Monitored) -> None:
    """They were judged as often as the other, so the alert stayed silent because of their quality."""
    for window in ("1h", "6h", "1d", "3d"):
        judged = f'app:streamjury_objective:effective{window}{{app="{CONTROL}"}}'
        assert run.prometheus.value(judged, at=run.recovery) >= 30
    assert run.prometheus.value(f'app:streamjury_objective:bad_ratio6h{{app="{CONTROL}"}}', at=run.ended) < 0.04


def test_every_notified_alert_links_to_an_existing_runbook_and_dashboard(run: Monitored) -> None:
    for notice in run.notices:
        runbook = notice["runbook"].removeprefix("http://localhost:3000/public/runbooks/")
        assert (ROOT / "dashboards/grafana/runbooks" / runbook).is_file()
        match = re.match(r"http://localhost:3000/d/([\w-]+)", notice["annotations"]["dashboard_url"])
        assert match is not None
        assert match.group(1) in {dashboard["uid"] for dashboard in DASHBOARDS}


# Figures


def means_of(evaluations: list[dict[str, Any]], *, weighted: bool = True) -> dict[tuple[str, str], float]:
    """Return the mean of every dimension of every app, each evaluation weighted by 1 / probability, or unweighted."""
    sums: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for evaluation in evaluations:
        weight = 1 / evaluation["sampling"]["probability"] if weighted else 1.0
        results = {
            name: dimension for name, dimension in evaluation["dimensions"].items() if dimension["status"] == "scored"
        }
        for name, dimension in {**results, "composite": evaluation["composite"]}.items():
            if dimension["score"] is not None:
                sums[evaluation["app"], name].append((weight * dimension["score"], weight))
    return {key: math.fsum(ws for ws, _ in pairs) / math.fsum(w for _, w in pairs) for key, pairs in sums.items()}


@pytest.mark.parametrize("counted", ["increase({}[{window}])", "{}"], ids=["over the run", "of the counters"])
def test_the_mean_of_promql_is_that_of_the_evaluations_over_a_restart(run: Monitored, counted: str) -> None:
    """For every app and dimension, to nine digits, although a worker died and judged some records again.

    An increase lacks the values that a failed scrape would have shown first, so fewer digits agree then.
    """
    scrapes = run.prometheus.samples(f'up{{instance="{run.instances["monitor"]}"}}[{whole_run(run)}]', at=run.ended)
    is_whole = all(value == 1 for series in scrapes for moment, value in series.points if moment >= run.started)
    digits = 1e-9 if is_whole else 0.02
    total, weight = (
        f"sum by (app, dimension) ({counted.format(f'streamjury_{name}_total', window=whole_run(run))})"
        for name in ("score_weighted_sum", "score_weight")
    )
    samples = run.prometheus.query(f"{total} / {weight}", at=run.ended)
    means = {(sample.labels["app"], sample.labels["dimension"]): sample.value for sample in samples}
    expected = means_of(run.evaluations)
    assert len(expected) == 3 * 9
    assert means.keys() == expected.keys()
    for key, mean in expected.items():
        assert means[key] == pytest.approx(mean, rel=0, abs=digits), key


def test_the_weights_make_a_difference(run: Monitored) -> None:
    """Otherwise an unweighted mean would pass as the right one."""
    weighted, plain = means_of(run.evaluations), means_of(run.evaluations, weighted=False)
    assert max(abs(weighted[key] - plain[key]) for key in weighted) > 1e-3


def last_counts(run: Monitored) -> dict[tuple[str, str], float]:
    """Return the records by stage and outcome, over all processes and their restarts."""
    counts: dict[tuple[str, str], float] = defaultdict(float)
    for series in run.prometheus.samples(f"streamjury_records_total[{whole_run(run)}]", at=run.ended):
        counts[series.labels["stage"], series.labels["outcome"]] += sum(ends_of_lives(series))
    return counts


def ends_of_lives(series: Series) -> Iterator[float]:
    """Return the last value before every reset of a counter (a restart), and the last of all."""
    values = [value for _, value in series.points]
    yield from (before for before, after in pairwise(values) if after < before)
    yield values[-1]


def test_the_end_of_each_life_of_a_counter_is_found() -> None:
    assert list(ends_of_lives(Series({}, [(0, 1), (1, 5), (2, 0), (3, 2), (4, 2)]))) == [5, 2]


@pytest.mark.parametrize("stage", ["sampler", "worker", "monitor"])
def test_the_funnel_of_a_stage_sums_exactly_over_all_processes(run: Monitored, stage: str) -> None:
    counts = {outcome: number for (of, outcome), number in last_counts(run).items() if of == stage}
    consumed = counts.pop("consumed")
    assert consumed == sum(counts.values()) > 0, counts


def test_the_funnel_agrees_with_the_topics(run: Monitored) -> None:
    counts = last_counts(run)
    assert counts["sampler", "consumed"] == run.delivered
    assert counts["sampler", "sampled"] == len(run.evaluations) + len(run.undecodable_positions())
    assert counts["monitor", "seen"] == len(run.evaluations)
    assert counts["monitor", "consumed"] == len(run.follower.values())


def test_an_exemplar_leads_to_the_trace_of_an_interaction(run: Monitored) -> None:
    results = run.prometheus.get("query_exemplars", query="streamjury_score_bucket", start=run.started, end=run.ended)
    traces = {exemplar["labels"]["trace_id"] for series in results for exemplar in series["exemplars"]}
    assert traces
    assert traces <= {evaluation["traceparent"].split("-")[1] for evaluation in run.evaluations}


# Prometheus


def test_prometheus_scrapes_every_process(run: Monitored) -> None:
    def states() -> set[tuple[str, str, str]]:
        targets = run.prometheus.get("targets", state="active")["activeTargets"]
        return {(target["labels"]["instance"], target["health"], target["lastError"]) for target in targets}

    # On a busy machine one scrape may take too long; the next one has no error.
    expected = {(instance, "up", "") for instance in run.instances.values()}
    wait_until(lambda: states() == expected, seconds=60, what=lambda: f"{states()} are {expected}")


def test_the_metrics_of_a_process_pass_promtool(run: Monitored) -> None:
    for instance in run.instances.values():
        text = local_http.get(f"http://{instance}/metrics", timeout=30 * patience()).content
        process = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
        assert (process.returncode, process.stdout, process.stderr) == (0, b"", b"")


def rules(run: Monitored) -> list[dict[str, Any]]:
    return [rule for group in run.prometheus.get("rules")["groups"] for rule in group["rules"]]


def test_no_rule_fails(run: Monitored) -> None:
    all_rules = rules(run)
    assert {rule["type"] for rule in all_rules} == {"alerting", "recording"}
    assert [(rule["name"], rule["lastError"]) for rule in all_rules if rule["health"] != "ok"] == []


def has_values(run: Monitored, expression: str) -> bool:
    """Return whether there is a number at some moment after the traffic: on a busy machine, it is judged later."""
    found = run.prometheus.query_range(expression, start=run.busy, end=run.ended, step=5.0)
    return any(not math.isnan(value) for series in found for _, value in series.points)


def test_every_recording_rule_has_data(run: Monitored) -> None:
    names = {rule["name"] for rule in rules(run) if rule["type"] == "recording"}
    empty = {name for name in names if not has_values(run, name)}
    assert empty == set(NO_RECORDS_HERE)


# Dashboards


def without_data(run: Monitored, variables: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return the panels with an expression that has no value, or no numeric one."""
    empty = set()
    for dashboard in DASHBOARDS:
        for query in queries(dashboard, variables, "1m"):
            if not has_values(run, query.expr):
                empty.add((dashboard["uid"], query.panel))
    return empty


def test_every_panel_of_every_dashboard_has_data(run: Monitored) -> None:
    """Each expression has data, except where there is a stated reason."""
    assert len(DASHBOARDS) == 5
    assert without_data(run, {}) == set(EMPTY_HERE)
    assert set(EMPTY_HERE) <= set(MAY_BE_EMPTY)


def test_every_panel_has_data_of_one_app_alone(run: Monitored) -> None:
    """The link in an alert opens the dashboard of its app."""
    assert without_data(run, {"app": DEGRADED}) == set(EMPTY_HERE)


def test_every_annotation_query_of_a_dashboard_is_valid(run: Monitored) -> None:
    for dashboard in DASHBOARDS:
        for query in annotations(dashboard):
            run.prometheus.query(query.expr, at=run.busy)


def test_every_variable_of_a_dashboard_has_values(run: Monitored) -> None:
    for dashboard in DASHBOARDS:
        for variable in dashboard["templating"]["list"]:
            asked = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable.get("definition", ""))
            if asked is None or variable["name"] == "tenant":  # which is not among metrics.labels here
                continue
            series = run.prometheus.get("series", **{"match[]": asked[1], "start": run.started, "end": run.ended})
            assert {labels.get(asked[2]) for labels in series} - {None}, variable["name"]

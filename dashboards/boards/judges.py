"""The Judges dashboard: whether the judges answer, agree, stay consistent, and what they cost."""

from dashboards import variables
from dashboards.layout import Board, PanelGroup
from dashboards.panels import (
    BLUE,
    COUNT,
    GREEN,
    GREY,
    ORANGE,
    PER_SECOND,
    PURPLE,
    RED,
    SCORE,
    SECONDS,
    SHARE,
    USD,
    Column,
    Panel,
    PanelText,
    dash,
    lines,
    number,
    query,
    rows,
    stack,
    states,
)
from dashboards.windowed import FAILED, increase, quantile, rate
from sinks.metrics import names
from sinks.metrics.promql import add_label, or_zero, share

_VERDICTS = 'judge=~"$judge",criterion=~"$criterion"'
_JUDGE = 'judge=~"$judge"'
_CRITERION = 'criterion=~"$criterion"'
_JUDGE_LEGEND = "{{app}} {{judge}} {{criterion}}"
_FAILED = f"{_VERDICTS},{FAILED}"


def board() -> Board:
    return Board(
        name="judges",
        title="Judges",
        description="The panel itself: health, agreement, consistency, speed and cost of its judges.",
        variables=[variables.judge(), variables.criterion(), variables.window("15m")],
        top=[verdicts(), failed_now(), paused_now(), agreement_now(), slow_now(), cost_now()],
        sections=[
            PanelGroup(title="Health", panels=[failed(), paused(), reasons(), dimensions(), samples()]),
            PanelGroup(title="Agreement and consistency", panels=[agreement(), spread(), votes(), flips()]),
            PanelGroup(title="Canaries", panels=[stability(), drift()]),
            PanelGroup(title="Judges and people", panels=[kappa(), found(), judge_bias(), compared(), slices()]),
            PanelGroup(title="Speed", panels=[verdict_seconds(), evaluation_seconds()]),
            PanelGroup(title="Endpoints", panels=[endpoint_calls(), endpoint_rates(), endpoint_failures()]),
            PanelGroup(title="Cost", panels=[tokens(), cost(), budget(), budgets(), refused()]),
            PanelGroup(title="Prompt injection and redaction", panels=[suspect(), redactions()]),
            PanelGroup(title="Work saved and repeated", panels=[saved(), paths(), cached(), again()]),
            PanelGroup(title="Evaluators", panels=[evaluators()]),
        ],
    )


def verdicts() -> Panel:
    text = PanelText(title="Verdicts", description="Judge verdicts per second over the window.", unit=PER_SECOND)
    return number(text, rate(names.JUDGE_VERDICTS, _VERDICTS), decimals=1)


def failed_now() -> Panel:
    text = PanelText(
        title="Failed verdicts",
        description="Share of verdicts that failed: the judge was unavailable, too slow, or its answer unreadable, "
        "over the window.",
        unit=SHARE,
        runbooks=["StreamjuryJudgeFailing"],
    )
    expr = share(increase(names.JUDGE_VERDICTS, _FAILED), increase(names.JUDGE_VERDICTS, _VERDICTS))
    return number(text, expr, steps=((None, GREEN), (0.05, ORANGE), (0.2, RED)), decimals=1)


def paused_now() -> Panel:
    text = PanelText(
        title="Judges paused",
        description="Judges that are paused because their endpoint refuses calls, as seen by any worker.",
        unit=COUNT,
        runbooks=["StreamjuryJudgePaused"],
    )
    expr = f"sum(max by (judge) ({names.JUDGE_PAUSED}{{{_JUDGE}}}))"
    return number(text, expr, steps=((None, GREEN), (1, RED)), decimals=0)


def agreement_now() -> Panel:
    text = PanelText(
        title="Agreement",
        description="Share of judge pairs that agree, over the window and the selected criteria.",
        unit=SHARE,
        runbooks=["StreamjuryPanelDisagreement"],
    )
    expr = share(
        increase(f"{names.PANEL_AGREEMENT}_sum", _CRITERION), increase(f"{names.PANEL_AGREEMENT}_count", _CRITERION)
    )
    return number(text, expr, steps=((None, RED), (0.7, GREEN)), decimals=1)


def slow_now() -> Panel:
    text = PanelText(
        title="Verdict latency, p95",
        description="95 % of verdicts took at most this long, over the window.",
        unit=SECONDS,
        runbooks=["StreamjuryLagGrowing"],
    )
    return number(text, quantile(0.95, names.JUDGE_SECONDS, _JUDGE), decimals=2)


def cost_now() -> Panel:
    text = PanelText(
        title="Cost, last day",
        description="Cost of the judges in the last day, where `judges.panel[].price` is set.",
        unit=USD,
        runbooks=["StreamjuryCostBudgetNearlyUsed"],
    )
    return number(text, names.COST_DAY, decimals=2)


def failed() -> Panel:
    text = PanelText(
        title="Failed verdicts by judge, last hour",
        description="Share of a judge's verdicts that failed: unavailable, too slow, or unreadable. The dashed line "
        "is the alert threshold.",
        unit=SHARE,
        runbooks=["StreamjuryJudgeFailing"],
    )
    target = query(f"{names.FAILURE_RATIO}{{{_JUDGE}}}", "{{judge}}")
    return lines(text, [target], limit=(0.2, RED))


def reasons() -> Panel:
    text = PanelText(
        title="Verdicts without a score, by reason",
        description="Verdicts per second over the window with a missing score. Judge failures are judge_unavailable, "
        "timeout and invalid_output; the other reasons are due to the record.",
        unit=PER_SECOND,
        runbooks=["StreamjuryJudgeFailing"],
    )
    expr = rate(names.JUDGE_VERDICTS, f'{_VERDICTS},status="insufficient"', by=["reason"])
    return stack(text, [query(expr, "{{reason}}")], width=8)


def dimensions() -> Panel:
    text = PanelText(
        title="Dimensions without a score, by reason",
        description="Scores that the whole panel could not give, per second over the window, in published evaluations "
        "of all judges.",
        unit=PER_SECOND,
        runbooks=["StreamjuryCoverageLow", "StreamjurySafetyUnknown"],
    )
    expr = rate(names.DIMENSIONS_UNSCORED, _CRITERION, by=["criterion", "reason"])
    return stack(text, [query(expr, "{{criterion}}: {{reason}}")], width=8)


def paused() -> Panel:
    text = PanelText(
        title="Judge state",
        description="A judge is paused while its endpoint refuses calls; the rest of the panel continues.",
        unit=COUNT,
        runbooks=["StreamjuryJudgePaused"],
    )
    target = query(f"max by (judge) ({names.JUDGE_PAUSED}{{{_JUDGE}}})", "{{judge}}")
    return states(text, target, {"0": ("asked", GREEN), "1": ("paused", RED)})


def samples() -> Panel:
    text = PanelText(
        title="Model answers by outcome",
        description="A verdict may need several model calls: valid, invalid and failed answers per second, and those "
        "no longer needed.",
        unit=PER_SECOND,
        runbooks=["StreamjuryJudgeFailing"],
    )
    colours = {"valid": GREEN, "invalid": ORANGE, "error": RED, "saved": GREY}
    expr = rate(names.JUDGE_SAMPLES, _JUDGE, by=["outcome"])
    return stack(text, [query(expr, "{{outcome}}")], colours=colours, width=8)


def agreement() -> Panel:
    text = PanelText(
        title="Agreement by criterion, last hour",
        description="Share of judge pairs that agree. Below the dashed line the panel disagrees too much.",
        unit=SHARE,
        runbooks=["StreamjuryPanelDisagreement"],
    )
    target = query(f"{names.AGREEMENT_RATIO}{{{_CRITERION}}}", "{{criterion}}")
    return lines(text, [target], limit=(0.7, ORANGE), bounds=(0, 1))


def spread() -> Panel:
    text = PanelText(
        title="Spread of scores within a panel",
        description="Mean difference between the highest and the lowest judge's score, over the window.",
        unit=SCORE,
        runbooks=["StreamjuryPanelDisagreement"],
    )
    expr = share(
        increase(f"{names.PANEL_SPREAD}_sum", _CRITERION, by=["criterion"]),
        increase(f"{names.PANEL_SPREAD}_count", _CRITERION, by=["criterion"]),
    )
    return lines(text, [query(expr, "{{criterion}}")]).decimals(3)


def votes() -> Panel:
    text = PanelText(
        title="Effective votes",
        description="Number of independent judges that the panel is equivalent to; judges that err together count "
        "less.",
        unit=SCORE,
        runbooks=["StreamjuryPanelDisagreement"],
    )
    expr = f"min by (criterion) ({names.PANEL_EFFECTIVE_VOTES}{{{_CRITERION}}})"
    return lines(text, [query(expr, "{{criterion}}")]).decimals(2)


def flips() -> Panel:
    text = PanelText(
        title="Position flips by judge",
        description="Share of checks in which a judge's verdict changed when the options were reversed.",
        unit=SHARE,
        runbooks=["StreamjuryPanelDisagreement"],
    )
    expr = share(
        increase(names.POSITION_CHECKS, f'{_JUDGE},result="flipped"', by=["judge"]),
        increase(names.POSITION_CHECKS, _JUDGE, by=["judge"]),
    )
    return lines(text, [query(expr, "{{judge}}")])


def stability() -> Panel:
    text = PanelText(
        title="Canaries with an unchanged verdict",
        description="Interval of their share, by dimension: upper end solid, lower end dashed. Unchanged judges keep "
        "it at `detection.canaries.stability`.",
        unit=SHARE,
        runbooks=["StreamjuryJudgesChanged", "StreamjuryCanariesMissing"],
    )
    targets = [
        query(_of_canaries(f"stability_{end}"), f"{{{{dimension}}}} {name}", ref=ref)
        for ref, end, name in (("A", "high", "at most"), ("B", "low", "at least"))
    ]
    return dash(lines(text, targets, bounds=(None, 1)), "/ at least$/").decimals(1)


def drift() -> Panel:
    text = PanelText(
        title="Evidence that the judges have changed, relative to the threshold",
        description="Natural logarithm; the alert is raised at 0. While it is open: evidence that the verdicts are "
        "stable again; cleared at 0.",
        unit=SCORE,
        runbooks=["StreamjuryJudgesChanged"],
    )
    expr = f"{_of_canaries('log_evidence')} - {_of_canaries('log_evidence_needed')}"
    return lines(text, [query(expr, "{{dimension}}")], limit=(0, RED), bounds=(None, None)).decimals(1)


def _of_canaries(name: str) -> str:
    return f"max by (dimension) ({names.JUDGES}_{name})"


def kappa() -> Panel:
    text = PanelText(
        title="Weighted kappa of judges and people",
        description="Agreement beyond chance on the labelled answers of the days of `labels.window_days`, by judge; "
        "ends of its 95 % interval dashed.",
        unit=SCORE,
        runbooks=["StreamjuryJudgeAgreesLess"],
    )
    return _with_ends(text, "kappa", (None, 1))


def found() -> Panel:
    text = PanelText(
        title="Bad answers found, and others passed",
        description="Sensitivity: share of the answers that people call bad (below the middle of the scale) that the "
        "judge calls bad, too. Specificity (dashed): share of the others that it passes.",
        unit=SHARE,
    )
    targets = [
        query(_of_people(name), f"{_JUDGE_LEGEND} {ending}", ref=ref)
        for ref, name, ending in (("A", "sensitivity", "found"), ("B", "specificity", "passed"))
    ]
    return dash(lines(text, targets, bounds=(0, 1), width=6), "/ passed$/").decimals(1)


def judge_bias() -> Panel:
    text = PanelText(
        title="Bias by judge",
        description="Mean of the judge's score minus the label; ends of its 95 % interval dashed. Above 0, the judge "
        "is too mild.",
        unit=SCORE,
    )
    return _with_ends(text, "bias", (None, None))


def compared() -> Panel:
    text = PanelText(
        title="Labelled answers by judge",
        description="Labelled answers that the judge is compared on; with few of them, the intervals are wide.",
        unit=COUNT,
    )
    return lines(text, [query(_of_people("labels"), _JUDGE_LEGEND)], width=6).decimals(0)


def slices() -> Panel:
    text = PanelText(
        title="Weighted kappa by model family and language",
        description="Agreement beyond chance on the labelled answers of a model family or a language, with its 95 % "
        "interval; lowest first. Families and languages with fewer than 30 labels are left out.",
        unit=SCORE,
        runbooks=["StreamjuryJudgeAgreesLess"],
    )
    columns = [
        Column(name="Kappa", expr=_of_slice("kappa"), unit=SCORE),
        Column(name="At least", expr=_of_slice("kappa_low"), unit=SCORE),
        Column(name="At most", expr=_of_slice("kappa_high"), unit=SCORE),
        Column(name="Labels", expr=_of_slice("labels"), unit=COUNT),
    ]
    keys = {"app": "App", "judge": "Judge", "criterion": "Criterion", "attribute": "By", "value": "Value"}
    return rows(text, keys, columns, sort="Kappa")


def _of_slice(name: str) -> str:
    selected = f"{_JUDGE},{_CRITERION}"
    labels = "app, judge, criterion, attribute, value"
    return f"max by ({labels}) ({names.JUDGE_AGREEMENT_SLICE}_{name}{{{selected}}})"


def _with_ends(text: PanelText, name: str, bounds: tuple[float | None, float | None]) -> Panel:
    targets = [
        query(_of_people(name + end), f"{_JUDGE_LEGEND}{ending}", ref=ref)
        for ref, end, ending in (("A", "", ""), ("B", "_low", " at least"), ("C", "_high", " at most"))
    ]
    return dash(lines(text, targets, bounds=bounds, width=6), "/ at (least|most)$/").decimals(2)


def _of_people(name: str) -> str:
    """Return the highest value: while an app moves to another monitor, both publish it."""
    selected = f"{_JUDGE},{_CRITERION}"
    return f"max by (app, judge, criterion) ({names.JUDGE_AGREEMENT}_{name}{{{selected}}})"


def verdict_seconds() -> Panel:
    text = PanelText(
        title="Verdict latency by judge",
        description="Median (dashed) and 95th percentile of the duration of one verdict, over the window.",
        unit=SECONDS,
        runbooks=["StreamjuryLagGrowing"],
    )
    targets = [
        query(quantile(0.95, names.JUDGE_SECONDS, _JUDGE, by=["judge"]), "{{judge}} p95", ref="A"),
        query(quantile(0.5, names.JUDGE_SECONDS, _JUDGE, by=["judge"]), "{{judge}} p50", ref="B"),
    ]
    return dash(lines(text, targets), "/ p50$/")


def evaluation_seconds() -> Panel:
    text = PanelText(
        title="Evaluation latency",
        description="Quantiles of the duration of a whole evaluation, over the window. Exemplars link to traces.",
        unit=SECONDS,
        runbooks=["StreamjuryLagGrowing"],
    )
    targets = [
        query(quantile(q, names.EVALUATION_SECONDS), f"p{q * 100:g}", ref=ref, exemplar=True)
        for q, ref in ((0.99, "A"), (0.95, "B"), (0.5, "C"))
    ]
    return lines(text, targets, colours={"p99": RED, "p95": ORANGE, "p50": BLUE})


def endpoint_calls() -> Panel:
    text = PanelText(
        title="Calls at endpoints",
        description="Calls in flight and waiting for their turn, of all workers. Dashed: calls that may be in flight, "
        "as learnt.",
        unit=COUNT,
        runbooks=["StreamjuryLagGrowing"],
    )
    series = (("A", "in flight", names.ENDPOINT_IN_FLIGHT), ("B", "waiting", names.ENDPOINT_WAITING))
    targets = [
        query(f"sum by (endpoint) ({metric})", f"{{{{endpoint}}}} {name}", ref=ref)
        for ref, name, metric in (*series, ("C", "limit", names.ENDPOINT_LIMIT))
    ]
    return dash(lines(text, targets, width=8), "/ limit$/")


def endpoint_rates() -> Panel:
    text = PanelText(
        title="Learnt rates",
        description="Calls per second that an endpoint takes, of all workers that know a limit; empty while none does.",
        unit=PER_SECOND,
        runbooks=["StreamjuryLagGrowing"],
    )
    return lines(text, [query(f"sum by (endpoint) ({names.ENDPOINT_RATE})", "{{endpoint}}")], width=8)


def endpoint_failures() -> Panel:
    text = PanelText(
        title="Failed attempts, by reason",
        description="Attempts per second over the window that endpoints refused (throttled is 429) or did not answer, "
        "before retries.",
        unit=PER_SECOND,
        runbooks=["StreamjuryJudgeFailing"],
    )
    expr = rate(names.ENDPOINT_FAILURES, by=["endpoint", "reason"])
    return stack(text, [query(expr, "{{endpoint}}: {{reason}}")], width=8)


def tokens() -> Panel:
    text = PanelText(
        title="Tokens",
        description="Tokens per second by judge and kind, over the window.",
        unit=PER_SECOND,
        runbooks=["StreamjuryCostBudgetNearlyUsed"],
    )
    expr = rate(names.JUDGE_TOKENS, _JUDGE, by=["judge", "kind"])
    return stack(text, [query(expr, "{{judge}} {{kind}}")], width=8)


def cost() -> Panel:
    text = PanelText(
        title="Cost per hour",
        description="Hourly cost of each judge at the current rate of the window.",
        unit=USD,
        runbooks=["StreamjuryCostBudgetNearlyUsed"],
    )
    expr = f"3600 * {rate(names.JUDGE_COST_USD, _JUDGE, by=['judge'])}"
    return stack(text, [query(expr, "{{judge}}")], width=8)


def budget() -> Panel:
    text = PanelText(
        title="Daily budget left",
        description="Share of `alerts.cost_per_day_usd` that is left; empty if it is not set. It only affects alerts "
        "and limits nothing.",
        unit=SHARE,
        runbooks=["StreamjuryCostBudgetNearlyUsed"],
    )
    return lines(text, [query(names.COST_LEFT, "left")], limit=(0.2, RED), bounds=(0, 1), width=8)


def budgets() -> Panel:
    text = PanelText(
        title="Budgets left, by app and window",
        description="Share of the current hour's and day's `budgets` that is left, for all workers together; empty "
        "without budgets. Near the dashed line calls are refused, with the default `budgets.safety_share`; those "
        "for records with signs of trouble (the safety lane) are not.",
        unit=SHARE,
        runbooks=["StreamjuryBudgetUsedUp"],
    )
    expr = add_label(names.BUDGET_LEFT, "app", "all apps")
    return lines(text, [query(expr, "{{app}}, {{window}}")], limit=(0.22, RED), bounds=(0, 1))


def refused() -> Panel:
    text = PanelText(
        title="Calls refused by budgets",
        description="Calls per second over the window that were not made because a budget was used up; empty without "
        "`budgets`.",
        unit=PER_SECOND,
        runbooks=["StreamjuryBudgetUsedUp"],
    )
    return lines(text, [query(rate(names.BUDGET_REFUSED_CALLS), "refused")], colours={"refused": RED})


def suspect() -> Panel:
    text = PanelText(
        title="Suspect verdicts by judge",
        description="Verdicts over the window whose text repeats instructions, or a verdict, from the judged text, "
        "which may have steered the judge.",
        unit=COUNT,
    )
    expr = increase(names.JUDGE_SUSPECT_VERDICTS, _JUDGE, by=["judge"])
    return lines(text, [query(expr, "{{judge}}")])


def redactions() -> Panel:
    text = PanelText(
        title="Redacted values by kind",
        description="Values such as e-mail addresses and keys per second over the window that were redacted in "
        "prompts; each counted once per verdict, for all judges.",
        unit=PER_SECOND,
    )
    return stack(text, [query(rate(names.REDACTIONS, by=["kind"]), "{{kind}}")])


def saved() -> Panel:
    text = PanelText(
        title="Samples saved",
        description="Samples per second that were not requested because the outcome was already decided, by criterion.",
        unit=PER_SECOND,
    )
    expr = rate(names.JUDGE_CALLS_SAVED, _CRITERION, by=["criterion"])
    return stack(text, [query(expr, "{{criterion}}")])


def paths() -> Panel:
    text = PanelText(
        title="Cascade outcomes",
        description="Results per second from the first judges only, or from the full panel and why.",
        unit=PER_SECOND,
    )
    return stack(text, [query(rate(names.CASCADE_PATHS, _CRITERION, by=["path"]), "{{path}}")])


def cached() -> Panel:
    text = PanelText(
        title="Verdicts from the cache",
        description="Share of a judge's verdicts taken from its cache, over the window.",
        unit=SHARE,
    )
    part = increase(names.JUDGE_CACHED, _JUDGE, by=["judge"])
    whole = increase(names.JUDGE_VERDICTS, _JUDGE, by=["judge"])
    return lines(text, [query(share(part, whole), "{{judge}}")])


def again() -> Panel:
    text = PanelText(
        title="Repairs and retries",
        description="Calls per second that were repeated because an answer was unreadable or failed.",
        unit=PER_SECOND,
        runbooks=["StreamjuryJudgeFailing"],
    )
    whole = rate(names.JUDGE_VERDICTS, _JUDGE)
    targets = [
        query(or_zero(rate(names.JUDGE_REPAIRS, _JUDGE), whole), "repairs", ref="A"),
        query(or_zero(rate(names.JUDGE_RETRIES, _JUDGE), whole), "retries", ref="B"),
    ]
    return lines(text, targets, colours={"repairs": ORANGE, "retries": PURPLE})


def evaluators() -> Panel:
    text = PanelText(
        title="Evaluator fingerprints",
        description="Evaluators in use: the fingerprint covers judges, prompts and criteria. More than one means that "
        "workers run different configurations.",
        unit=COUNT,
        runbooks=["StreamjuryEvaluatorChanged"],
    )
    columns = [Column(name="Workers", expr=f"sum by (fingerprint, version) ({names.EVALUATOR_INFO})", unit=COUNT)]
    panel = rows(text, {"fingerprint": "Fingerprint", "version": "Version"}, columns, sort="Workers", descending=True)
    return panel.height(5)

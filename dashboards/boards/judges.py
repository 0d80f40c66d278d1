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
    dashed,
    lines,
    number,
    query,
    rows,
    stacked,
    states,
)
from dashboards.windowed import FAILED, increase, quantile, rate
from sinks.metrics import names
from sinks.metrics.promql import named, or_zero, share

_VERDICTS = 'judge=~"$judge",criterion=~"$criterion"'
_JUDGE = 'judge=~"$judge"'
_CRITERION = 'criterion=~"$criterion"'
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
            PanelGroup(title="Speed", panels=[verdict_seconds(), evaluation_seconds()]),
            PanelGroup(title="Endpoints", panels=[endpoint_calls(), endpoint_rates(), endpoint_failures()]),
            PanelGroup(title="Cost", panels=[tokens(), cost(), budget(), budgets(), refused()]),
            PanelGroup(title="Texts that steer, and what judges are not shown", panels=[suspect(), redactions()]),
            PanelGroup(title="Work saved and repeated", panels=[saved(), paths(), cached(), again()]),
            PanelGroup(title="Who judges", panels=[evaluators()]),
        ],
    )


def verdicts() -> Panel:
    text = PanelText(title="Verdicts", description="Verdicts of judges per second, over the window.", unit=PER_SECOND)
    return number(text, rate(names.JUDGE_VERDICTS, _VERDICTS), decimals=1)


def failed_now() -> Panel:
    text = PanelText(
        title="Failed verdicts",
        description="Share of verdicts that were not to be had, came too late or could not be read, over the window.",
        unit=SHARE,
        runbooks=["StreamjuryJudgeFailing"],
    )
    expr = share(increase(names.JUDGE_VERDICTS, _FAILED), increase(names.JUDGE_VERDICTS, _VERDICTS))
    return number(text, expr, steps=((None, GREEN), (0.05, ORANGE), (0.2, RED)), decimals=1)


def paused_now() -> Panel:
    text = PanelText(
        title="Judges paused",
        description="Judges that are not asked because their endpoint refuses us, as any worker sees it.",
        unit=COUNT,
        runbooks=["StreamjuryJudgePaused"],
    )
    expr = f"sum(max by (judge) ({names.JUDGE_PAUSED}{{{_JUDGE}}}))"
    return number(text, expr, steps=((None, GREEN), (1, RED)), decimals=0)


def agreement_now() -> Panel:
    text = PanelText(
        title="Agreement",
        description="Share of pairs of judges that agree, over the window and the chosen criteria.",
        unit=SHARE,
        runbooks=["StreamjuryPanelDisagreement"],
    )
    expr = share(
        increase(f"{names.PANEL_AGREEMENT}_sum", _CRITERION), increase(f"{names.PANEL_AGREEMENT}_count", _CRITERION)
    )
    return number(text, expr, steps=((None, RED), (0.7, GREEN)), decimals=1)


def slow_now() -> Panel:
    text = PanelText(
        title="Verdict time, p95",
        description="19 of 20 verdicts came within this time, over the window.",
        unit=SECONDS,
        runbooks=["StreamjuryLagGrowing"],
    )
    return number(text, quantile(0.95, names.JUDGE_SECONDS, _JUDGE), decimals=2)


def cost_now() -> Panel:
    text = PanelText(
        title="Cost of the last day",
        description="What the judges cost in the last day, where `judges.panel[].price` is set.",
        unit=USD,
        runbooks=["StreamjuryCostBudgetNearlyUsed"],
    )
    return number(text, names.COST_DAY, decimals=2)


def failed() -> Panel:
    text = PanelText(
        title="Failed verdicts by judge, last hour",
        description="Share of a judge's verdicts that were not to be had, came too late or could not be read. The "
        "alert's limit is dashed.",
        unit=SHARE,
        runbooks=["StreamjuryJudgeFailing"],
    )
    target = query(f"{names.FAILURE_RATIO}{{{_JUDGE}}}", "{{judge}}")
    return lines(text, [target], limit=(0.2, RED))


def reasons() -> Panel:
    text = PanelText(
        title="Verdicts without a score, by reason",
        description="Verdicts per second over the window that should have a score and have none. Failures of the judge "
        "are judge_unavailable, timeout and invalid_output; the rest is due to the record.",
        unit=PER_SECOND,
        runbooks=["StreamjuryJudgeFailing"],
    )
    expr = rate(names.JUDGE_VERDICTS, f'{_VERDICTS},status="insufficient"', by=["reason"])
    return stacked(text, [query(expr, "{{reason}}")], width=8)


def dimensions() -> Panel:
    text = PanelText(
        title="Dimensions without a score, by reason",
        description="What the panel as a whole could not score, per second over the window, in published evaluations "
        "of all judges.",
        unit=PER_SECOND,
        runbooks=["StreamjuryCoverageLow", "StreamjurySafetyUnknown"],
    )
    expr = rate(names.DIMENSIONS_UNSCORED, _CRITERION, by=["criterion", "reason"])
    return stacked(text, [query(expr, "{{criterion}}: {{reason}}")], width=8)


def paused() -> Panel:
    text = PanelText(
        title="Asked or paused",
        description="A judge is paused while its endpoint refuses us; the rest of the panel goes on.",
        unit=COUNT,
        runbooks=["StreamjuryJudgePaused"],
    )
    target = query(f"max by (judge) ({names.JUDGE_PAUSED}{{{_JUDGE}}})", "{{judge}}")
    return states(text, target, {"0": ("asked", GREEN), "1": ("paused", RED)})


def samples() -> Panel:
    text = PanelText(
        title="Single answers of models, by outcome",
        description="A verdict may ask a model several times: valid, invalid and failed answers per second, and those "
        "that were not needed any more.",
        unit=PER_SECOND,
        runbooks=["StreamjuryJudgeFailing"],
    )
    colours = {"valid": GREEN, "invalid": ORANGE, "error": RED, "saved": GREY}
    expr = rate(names.JUDGE_SAMPLES, _JUDGE, by=["outcome"])
    return stacked(text, [query(expr, "{{outcome}}")], colours=colours, width=8)


def agreement() -> Panel:
    text = PanelText(
        title="Agreement by criterion, last hour",
        description="Share of pairs of judges that agree. Below the dashed line the panel disagrees too much.",
        unit=SHARE,
        runbooks=["StreamjuryPanelDisagreement"],
    )
    target = query(f"{names.AGREEMENT_RATIO}{{{_CRITERION}}}", "{{criterion}}")
    return lines(text, [target], limit=(0.7, ORANGE), bounds=(0, 1))


def spread() -> Panel:
    text = PanelText(
        title="Spread of scores within a panel",
        description="Mean distance of the highest and the lowest judge's score, over the window.",
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
        description="How many independent judges the panel is worth; judges that err together count for less.",
        unit=SCORE,
        runbooks=["StreamjuryPanelDisagreement"],
    )
    expr = f"min by (criterion) ({names.PANEL_EFFECTIVE_VOTES}{{{_CRITERION}}})"
    return lines(text, [query(expr, "{{criterion}}")]).decimals(2)


def flips() -> Panel:
    text = PanelText(
        title="Position flips by judge",
        description="Share of checks in which a judge changed its mind when the order of the choices was reversed.",
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
        title="Canaries that get the same verdict again",
        description="Interval of their share, by dimension: upper end solid, lower end dashed. Judges that have not "
        "changed keep it at `detection.canaries.stability`.",
        unit=SHARE,
        runbooks=["StreamjuryJudgesChanged", "StreamjuryCanariesMissing"],
    )
    targets = [
        query(_of_canaries(f"stability_{end}"), f"{{{{dimension}}}} {name}", ref=ref)
        for ref, end, name in (("A", "high", "at most"), ("B", "low", "at least"))
    ]
    return dashed(lines(text, targets, bounds=(None, 1)), "/ at least$/").decimals(1)


def drift() -> Panel:
    text = PanelText(
        title="Evidence that the judges have changed, less what an alarm takes",
        description="Natural logarithms; at 0 the alarm is raised. While there is an alarm, evidence that the verdicts "
        "are steady again; at 0 it is cleared.",
        unit=SCORE,
        runbooks=["StreamjuryJudgesChanged"],
    )
    expr = f"{_of_canaries('log_evidence')} - {_of_canaries('log_evidence_needed')}"
    return lines(text, [query(expr, "{{dimension}}")], limit=(0, RED), bounds=(None, None)).decimals(1)


def _of_canaries(name: str) -> str:
    return f"max by (dimension) ({names.JUDGES}_{name})"


def verdict_seconds() -> Panel:
    text = PanelText(
        title="Verdict time by judge",
        description="Median (dashed) and 95 % quantile of the time of one verdict, over the window.",
        unit=SECONDS,
        runbooks=["StreamjuryLagGrowing"],
    )
    targets = [
        query(quantile(0.95, names.JUDGE_SECONDS, _JUDGE, by=["judge"]), "{{judge}} p95", ref="A"),
        query(quantile(0.5, names.JUDGE_SECONDS, _JUDGE, by=["judge"]), "{{judge}} p50", ref="B"),
    ]
    return dashed(lines(text, targets), "/ p50$/")


def evaluation_seconds() -> Panel:
    text = PanelText(
        title="Evaluation time",
        description="Quantiles of the time that a whole evaluation took, over the window. Exemplars lead to traces.",
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
    return dashed(lines(text, targets, width=8), "/ limit$/")


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
    return stacked(text, [query(expr, "{{endpoint}}: {{reason}}")], width=8)


def tokens() -> Panel:
    text = PanelText(
        title="Tokens",
        description="Tokens per second by judge and kind, over the window.",
        unit=PER_SECOND,
        runbooks=["StreamjuryCostBudgetNearlyUsed"],
    )
    expr = rate(names.JUDGE_TOKENS, _JUDGE, by=["judge", "kind"])
    return stacked(text, [query(expr, "{{judge}} {{kind}}")], width=8)


def cost() -> Panel:
    text = PanelText(
        title="Cost per hour",
        description="What each judge would cost in an hour at the pace of the window.",
        unit=USD,
        runbooks=["StreamjuryCostBudgetNearlyUsed"],
    )
    expr = f"3600 * {rate(names.JUDGE_COST_USD, _JUDGE, by=['judge'])}"
    return stacked(text, [query(expr, "{{judge}}")], width=8)


def budget() -> Panel:
    text = PanelText(
        title="Budget of the day left",
        description="Share of `alerts.cost_per_day_usd` that is left; empty unless that is set. It limits nothing.",
        unit=SHARE,
        runbooks=["StreamjuryCostBudgetNearlyUsed"],
    )
    return lines(text, [query(names.COST_LEFT, "left")], limit=(0.2, RED), bounds=(0, 1), width=8)


def budgets() -> Panel:
    text = PanelText(
        title="Budgets left, by app and window",
        description="Share of the running hour's and day's `budgets` that is left, all workers together; empty unless "
        "there are any. Near the dashed line calls are refused, save those of the safety lane, at the default "
        "`budgets.safety_share`.",
        unit=SHARE,
        runbooks=["StreamjuryBudgetUsedUp"],
    )
    expr = named(names.BUDGET_LEFT, "app", "all apps")
    return lines(text, [query(expr, "{{app}}, {{window}}")], limit=(0.22, RED), bounds=(0, 1))


def refused() -> Panel:
    text = PanelText(
        title="Calls refused for lack of money",
        description="Calls per second over the window that were not made because a budget was used up; empty unless "
        "there are `budgets`.",
        unit=PER_SECOND,
        runbooks=["StreamjuryBudgetUsedUp"],
    )
    return lines(text, [query(rate(names.BUDGET_REFUSED_CALLS), "refused")], colours={"refused": RED})


def suspect() -> Panel:
    text = PanelText(
        title="Suspect verdicts by judge",
        description="Verdicts over the window whose completion repeats instructions, or a verdict, that stand in the "
        "judged text: a text may have steered the judge.",
        unit=COUNT,
    )
    expr = increase(names.JUDGE_SUSPECT_VERDICTS, _JUDGE, by=["judge"])
    return lines(text, [query(expr, "{{judge}}")])


def redactions() -> Panel:
    text = PanelText(
        title="Values kept from endpoints, by kind",
        description="E-mail addresses, keys and the like per second over the window that a placeholder stood for in "
        "what judges' endpoints were sent; each once for a verdict, of all judges.",
        unit=PER_SECOND,
    )
    return stacked(text, [query(rate(names.REDACTIONS, by=["kind"]), "{{kind}}")])


def saved() -> Panel:
    text = PanelText(
        title="Answers not asked for",
        description="Samples per second that were saved because the outcome was decided, by criterion.",
        unit=PER_SECOND,
    )
    expr = rate(names.JUDGE_CALLS_SAVED, _CRITERION, by=["criterion"])
    return stacked(text, [query(expr, "{{criterion}}")])


def paths() -> Panel:
    text = PanelText(
        title="Ways through the cascade",
        description="Findings per second of the first judges alone, or of the full panel and why.",
        unit=PER_SECOND,
    )
    return stacked(text, [query(rate(names.CASCADE_PATHS, _CRITERION, by=["path"]), "{{path}}")])


def cached() -> Panel:
    text = PanelText(
        title="Verdicts from the cache",
        description="Share of a judge's verdicts that were taken from its cache, over the window.",
        unit=SHARE,
    )
    part = increase(names.JUDGE_CACHED, _JUDGE, by=["judge"])
    whole = increase(names.JUDGE_VERDICTS, _JUDGE, by=["judge"])
    return lines(text, [query(share(part, whole), "{{judge}}")])


def again() -> Panel:
    text = PanelText(
        title="Repairs and retries",
        description="Answers per second that were asked for again, because they could not be read or did not come.",
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
        description="Who judges now: judges, prompts and criteria are in the fingerprint. More than one means "
        "that workers run different configurations.",
        unit=COUNT,
        runbooks=["StreamjuryEvaluatorChanged"],
    )
    columns = [Column(name="Workers", expr=f"sum by (fingerprint, version) ({names.EVALUATOR_INFO})", unit=COUNT)]
    panel = rows(text, {"fingerprint": "Fingerprint", "version": "Version"}, columns, sort="Workers", descending=True)
    return panel.height(5)

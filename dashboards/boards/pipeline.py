"""The Pipeline dashboard: the outcome of every record, the lag of each stage, and losses."""

from dashboards import variables
from dashboards.layout import Board, PanelGroup
from dashboards.panels import (
    BLUE,
    COUNT,
    GREEN,
    ORANGE,
    PER_SECOND,
    PURPLE,
    RED,
    SHARE,
    Panel,
    PanelText,
    gauges,
    lines,
    number,
    query,
    stack,
    states,
)
from dashboards.windowed import increase, rate
from sinks.metrics import names
from sinks.metrics.promql import or_zero, share

_RECORDS = names.RECORDS
# Decisions by rules that do not read the app count for every app.
_APP = 'app=~"$app|unknown"'


def board() -> Board:
    return Board(
        name="pipeline",
        title="Pipeline",
        description="Records on their way through sampler, workers and monitor, for all apps unless stated otherwise.",
        variables=[variables.app(names.SAMPLING), variables.window("5m")],
        top=[read(), chosen(), judged(), waiting(), parked_now(), lost()],
        sections=[
            PanelGroup(title="Funnel", panels=[funnel(), outcomes()]),
            PanelGroup(
                title="Throughput and backlog", panels=[throughput(), lag(), in_flight(), targets(), restarts()]
            ),
            PanelGroup(title="Not judged", panels=[dead_letters(), unscored()]),
            PanelGroup(title="Sampling", panels=[rules(), sampled_by_app()]),
        ],
    )


def _of(stage: str, outcome: str) -> str:
    return f'stage="{stage}",outcome=~"{outcome}"'


def read() -> Panel:
    text = PanelText(title="Read", description="Interactions read by the sampler per second.", unit=PER_SECOND)
    return number(text, rate(_RECORDS, _of("sampler", "consumed")), decimals=1)


def chosen() -> Panel:
    text = PanelText(title="Chosen", description="Share of the interactions read that were sampled.", unit=SHARE)
    part, whole = (increase(_RECORDS, _of("sampler", outcome)) for outcome in ("sampled", "consumed"))
    return number(text, share(part, whole), decimals=1)


def judged() -> Panel:
    text = PanelText(
        title="Judged",
        description="Interactions finished by workers per second, scored or not.",
        unit=PER_SECOND,
        runbooks=["StreamjuryEvaluatorSilent"],
    )
    return number(text, rate(_RECORDS, _of("worker", "scored|unscored")), decimals=1)


def waiting() -> Panel:
    text = PanelText(
        title="Waiting",
        description="Records not read yet, the sum over all stages.",
        unit=COUNT,
        runbooks=["StreamjuryLagGrowing"],
    )
    expr = f"sum({names.LAG})"
    return number(text, expr, steps=((None, GREEN), (1000, ORANGE), (10000, RED)), decimals=0)


def parked_now() -> Panel:
    text = PanelText(
        title="Parked",
        description="Records whose judges could not be reached in time; they will be retried.",
        unit=COUNT,
        runbooks=["StreamjuryJudgePaused"],
    )
    return number(text, f"sum({names.PARKED})", steps=((None, GREEN), (1, ORANGE)), decimals=0)


def lost() -> Panel:
    text = PanelText(
        title="Dead letters",
        description="Records dead-lettered within the window.",
        unit=COUNT,
        runbooks=["StreamjuryDeadLettersGrowing"],
    )
    expr = or_zero(increase(_RECORDS, 'outcome="deadletter"'), increase(_RECORDS))
    return number(text, expr, steps=((None, GREEN), (0.5, ORANGE), (100, RED)), decimals=0)


def funnel() -> Panel:
    text = PanelText(
        title="From the firehose to the monitor",
        description="Records within the window that reached each step. The monitor counts each evaluation once.",
        unit=COUNT,
        runbooks=["StreamjuryEvaluatorSilent"],
    )
    steps = (
        ("read by the sampler", "sampler", "consumed"),
        ("chosen", "sampler", "sampled"),
        ("read by workers", "worker", "consumed"),
        ("scored", "worker", "scored"),
        ("seen by the monitor", "monitor", "seen"),
    )
    asked = [
        query(increase(_RECORDS, _of(stage, outcome)), name, ref=ref)
        for (name, stage, outcome), ref in zip(steps, "ABCDE", strict=True)
    ]
    return gauges(text, asked).decimals(0)


def outcomes() -> Panel:
    text = PanelText(
        title="Records by stage and outcome",
        description="Outcomes of the records of each stage, per second over five minutes.",
        unit=PER_SECOND,
        runbooks=["StreamjuryEvaluatorSilent"],
    )
    expr = f'{names.RECORDS_RATE}{{outcome!="consumed"}}'
    return stack(text, [query(expr, "{{stage}} {{outcome}}")], width=16)


def throughput() -> Panel:
    text = PanelText(
        title="Records read by stage",
        description="Records read by each stage per second, over the window.",
        unit=PER_SECOND,
        runbooks=["StreamjuryEvaluatorSilent"],
    )
    expr = rate(_RECORDS, 'outcome="consumed"', by=["stage"])
    return lines(text, [query(expr, "{{stage}}")], colours=_STAGES)


def lag() -> Panel:
    text = PanelText(
        title="Lag by stage",
        description="Records waiting to be read by a stage. The dashed line is the alert threshold.",
        unit=COUNT,
        runbooks=["StreamjuryLagGrowing"],
    )
    target = query(f"sum by (stage) ({names.LAG})", "{{stage}}")
    return lines(text, [target], limit=(1000, ORANGE), colours=_STAGES).decimals(0)


def in_flight() -> Panel:
    text = PanelText(
        title="In flight and parked",
        description="Records in flight, and records waiting for a retry.",
        unit=COUNT,
        runbooks=["StreamjuryJudgePaused"],
    )
    asked = [query(f"sum({names.IN_FLIGHT})", "in flight"), query(f"sum({names.PARKED})", "parked", ref="B")]
    return lines(text, asked, colours={"in flight": BLUE, "parked": ORANGE}, width=8).decimals(0)


def targets() -> Panel:
    text = PanelText(
        title="Processes scraped",
        description="Whether Prometheus can scrape each process.",
        unit=COUNT,
        runbooks=["StreamjuryTargetDown"],
    )
    target = query('max by (instance) (up{job="streamjury"})', "{{instance}}")
    return states(text, target, {"1": ("up", GREEN), "0": ("down", RED)}, width=8)


def restarts() -> Panel:
    text = PanelText(
        title="Restarted processes",
        description="Processes of a worker that ended by themselves and were started again, within the window before "
        "each point. Only a worker with several processes has them.",
        unit=COUNT,
        runbooks=["StreamjuryTargetDown"],
    )
    expr = increase(names.PROCESS_RESTARTS, by=["instance", "process"])
    return stack(text, [query(expr, "{{instance}} {{process}}")], width=8).decimals(0)


def dead_letters() -> Panel:
    text = PanelText(
        title="Dead letters by stage and reason",
        description="Records dead-lettered within the window before each point.",
        unit=COUNT,
        runbooks=["StreamjuryDeadLettersGrowing"],
    )
    expr = increase(_RECORDS, 'outcome="deadletter"', by=["stage", "reason"])
    return stack(text, [query(expr, "{{stage}} {{reason}}")]).decimals(0)


def unscored() -> Panel:
    text = PanelText(
        title="Without a composite, by reason",
        description="Evaluations within the window before each point that have no composite score.",
        unit=COUNT,
        runbooks=["StreamjuryCoverageLow"],
    )
    expr = increase(_RECORDS, _of("worker", "unscored"), by=["reason"])
    return stack(text, [query(expr, "{{reason}}")]).decimals(0)


def rules() -> Panel:
    text = PanelText(
        title="Decisions by sampling rule",
        description="Records per second by sampling rule and decision, for the selected apps.",
        unit=PER_SECOND,
    )
    expr = rate(names.SAMPLING, _APP, by=["rule", "outcome"])
    return stack(text, [query(expr, "{{rule}}: {{outcome}}")])


def sampled_by_app() -> Panel:
    text = PanelText(
        title="Sampled share by app",
        description="Share of an app's interactions that were sampled. The app is unknown if the rule does not read "
        "it.",
        unit=SHARE,
    )
    part = increase(names.SAMPLING, f'{_APP},outcome="sampled"', by=["app"])
    whole = increase(names.SAMPLING, _APP, by=["app"])
    return lines(text, [query(share(part, whole), "{{app}}")])


_STAGES = {"sampler": BLUE, "worker": GREEN, "monitor": PURPLE}

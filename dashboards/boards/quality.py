"""The Quality dashboard: how good the answers are, with what confidence, and where they are worst."""

from typing import NamedTuple

from dashboards import variables
from dashboards.layout import Board, PanelGroup
from dashboards.panels import (
    BLUE,
    COUNT,
    GREEN,
    ORANGE,
    RED,
    SCORE,
    SCORE_STEPS,
    SHARE,
    Column,
    Panel,
    PanelText,
    band,
    dash,
    gauges,
    heat,
    lines,
    number,
    query,
    rows,
    scores,
    set_colour,
    stack,
)
from dashboards.sdk import prometheus
from dashboards.windowed import OF_ALL, SELECTED, ScoreQueries, increase
from sinks.metrics import names
from sinks.metrics.promql import add_label, share, shares

_COMPOSITE = f'{SELECTED},dimension="composite"'
_DIMENSIONS = f'{SELECTED},dimension!="composite"'
_OF_ANSWERS = f'{SELECTED},dimension!~"composite|context_.+"'
_CELL_COLOURS = {"good": GREEN, "generation": ORANGE, "lucky": BLUE, "retrieval": RED}
_REFUSAL_COLOURS = {"answered": GREEN, "justified": BLUE, "unjustified": RED, "unknown": ORANGE}
_WORST = f'bottomk(15, max by (app, dimension) ({names.SCORE_SERIES}:mean1h{{app=~"$app"}}))'


def board() -> Board:
    return Board(
        name="quality",
        title="Quality",
        description="Design-weighted scores: every judged interaction represents 1/probability interactions of all "
        "traffic.",
        variables=[
            variables.app(),
            variables.model_(),
            variables.tenant(),
            variables.dimension(),
            variables.window("1h"),
        ],
        top=[composite_now(), lowest_dimension(), good_share(), effective_now(), coverage_now(), judged()],
        sections=[
            PanelGroup(title="Scores", panels=[composite(), composite_by_app(), by_dimension(), by_model()]),
            PanelGroup(
                title="Retrieval or generation",
                panels=[diagnoses(), faults_by_app(), sufficiency_by_app(), refusals(), refusals_by_app()],
            ),
            PanelGroup(title="Each dimension with its interval", panels=[each_dimension()]),
            PanelGroup(title="Each app with its interval", panels=[each_app()]),
            PanelGroup(title="Lowest scores", panels=[worst(), last_day()]),
            PanelGroup(title="Drops", panels=[evidence(), bounds(), watched(), announced(), versions()]),
            PanelGroup(title="Labels of people", panels=[corrected(), bias(), labelled(), feedback()]),
            PanelGroup(title="Sample size and coverage", panels=[distribution(), effective(), coverage()]),
        ],
    )


def composite_now() -> Panel:
    text = PanelText(
        title="Composite score",
        description="Weighted mean of the composite over the window and the selected apps: an estimate for all "
        "traffic.",
        unit=SCORE,
        runbooks=["StreamjuryQualityDrop"],
    )
    return number(text, ScoreQueries(_COMPOSITE).mean(), steps=SCORE_STEPS, decimals=3)


def lowest_dimension() -> Panel:
    text = PanelText(
        title="Lowest dimension",
        description="Weighted mean of the lowest dimension over the window, without those of the contexts.",
        unit=SCORE,
        runbooks=["StreamjuryDimensionBelowFloor"],
    )
    return number(text, f"min({ScoreQueries(_OF_ANSWERS, by=['dimension']).mean()})", steps=SCORE_STEPS, decimals=3)


def good_share() -> Panel:
    text = PanelText(
        title="Good interactions",
        description="Weighted share of interactions whose composite reached the objective's good score.",
        unit=SHARE,
        runbooks=["StreamjuryQualityDrop"],
    )
    good = increase(names.OBJECTIVE_GOOD_EVENTS, SELECTED)
    events = increase(names.OBJECTIVE_EVENTS, SELECTED)
    return number(text, share(good, events), steps=((None, RED), (0.9, ORANGE), (0.95, GREEN)), decimals=1)


def effective_now() -> Panel:
    text = PanelText(
        title="Effective sample size",
        description="Number of equally weighted judgements that would give the same precision (Kish).",
        unit=COUNT,
    )
    return number(text, ScoreQueries(_COMPOSITE).effective(), steps=((None, ORANGE), (30, BLUE)), decimals=0)


def coverage_now() -> Panel:
    text = PanelText(
        title="Coverage",
        description="Weighted share of the sampled traffic that could be scored; the rest had no valid verdict.",
        unit=SHARE,
        runbooks=["StreamjuryCoverageLow"],
    )
    return number(text, ScoreQueries(_COMPOSITE).coverage(), steps=((None, RED), (0.9, GREEN)), decimals=1)


def judged() -> Panel:
    text = PanelText(title="Interactions judged", description="Evaluations within the window, unweighted.", unit=COUNT)
    return number(text, increase(names.EVALUATIONS, SELECTED), decimals=0)


def composite() -> Panel:
    estimates = ScoreQueries(_COMPOSITE)
    text = PanelText(
        title="Composite with its 95 % interval",
        description="Weighted mean over the window and the selected apps; the band is Wilson's interval with the "
        "measured variance and the effective sample size.",
        unit=SCORE,
        runbooks=["StreamjuryQualityDrop"],
    )
    return band(text, mean=estimates.mean(), low=estimates.low(), high=estimates.high())


def composite_by_app() -> Panel:
    text = PanelText(
        title="Composite by app",
        description="Weighted mean of the composite over the window.",
        unit=SCORE,
        runbooks=["StreamjuryQualityDrop"],
    )
    return scores(text, [query(ScoreQueries(_COMPOSITE, by=["app"]).mean(), "{{app}}")])


def by_dimension() -> Panel:
    text = PanelText(
        title="Mean by dimension",
        description="Weighted mean of each dimension over the window and the selected apps.",
        unit=SCORE,
        runbooks=["StreamjuryDimensionBelowFloor"],
    )
    target = query(ScoreQueries(_DIMENSIONS, by=["dimension"]).mean(), "{{dimension}}")
    return scores(text, [target])


def by_model() -> Panel:
    text = PanelText(
        title="Composite by answering model",
        description="Weighted mean of the composite over the window. One line unless `metrics.labels` has `model`.",
        unit=SCORE,
        runbooks=["StreamjuryQualityDrop"],
    )
    mean = add_label(ScoreQueries(_COMPOSITE, by=["model"]).mean(), "model", "all models")
    return scores(text, [query(mean, "{{model}}")])


def diagnoses() -> Panel:
    text = PanelText(
        title="Diagnoses",
        description="Weighted shares of the diagnosed interactions over the window. Retrieval: the contexts do not "
        "suffice and the answer is not grounded. Generation: they suffice, but the answer is not grounded. Lucky: they "
        "do not suffice, but the answer is grounded.",
        unit=SHARE,
        runbooks=["StreamjuryDimensionBelowFloor"],
    )
    cells = increase(names.DIAGNOSIS, SELECTED, by=["cell"])
    target = query(shares(cells, increase(names.DIAGNOSIS, SELECTED)), "{{cell}}")
    return stack(text, [target], colours=_CELL_COLOURS, width=8)


def faults_by_app() -> Panel:
    text = PanelText(
        title="Faults by app",
        description="Weighted share of an app's diagnosed interactions with a fault of retrieval or of generation over "
        "the window.",
        unit=SHARE,
        runbooks=["StreamjuryDimensionBelowFloor"],
    )
    whole = increase(names.DIAGNOSIS, SELECTED, by=["app"])
    targets = [
        query(
            share(increase(names.DIAGNOSIS, f'{SELECTED},cell="{cell}"', by=["app"]), whole),
            f"{{{{app}}}} {cell}",
            ref=ref,
        )
        for ref, cell in (("A", "retrieval"), ("B", "generation"))
    ]
    return lines(text, targets, width=8)


def sufficiency_by_app() -> Panel:
    text = PanelText(
        title="Sufficiency of the contexts by app",
        description="Weighted mean over the window: whether the question can be answered from the contexts alone.",
        unit=SCORE,
        runbooks=["StreamjuryDimensionBelowFloor"],
    )
    sufficiency = ScoreQueries(f'{SELECTED},dimension="context_sufficiency"', by=["app"])
    return scores(text, [query(sufficiency.mean(), "{{app}}")], width=8)


def refusals() -> Panel:
    text = PanelText(
        title="Refusals",
        description="Weighted shares of the interactions judged for answer.refusal over the window. Justified: the "
        "answer declines, and the contexts do not suffice. Unjustified: it declines although they suffice. Empty "
        "unless criteria.use names answer.refusal.",
        unit=SHARE,
        runbooks=["StreamjuryDimensionBelowFloor"],
    )
    outcomes = increase(names.REFUSALS, SELECTED, by=["outcome"])
    target = query(shares(outcomes, increase(names.REFUSALS, SELECTED)), "{{outcome}}")
    return stack(text, [target], colours=_REFUSAL_COLOURS, width=12)


def refusals_by_app() -> Panel:
    text = PanelText(
        title="Unjustified refusals by app",
        description="Weighted share of an app's interactions judged for answer.refusal that decline although the "
        "contexts suffice, over the window.",
        unit=SHARE,
        runbooks=["StreamjuryDimensionBelowFloor"],
    )
    whole = increase(names.REFUSALS, SELECTED, by=["app"])
    unjustified = increase(names.REFUSALS, f'{SELECTED},outcome="unjustified"', by=["app"])
    return lines(text, [query(share(unjustified, whole), "{{app}}")], width=12)


def each_dimension() -> Panel:
    text = PanelText(
        title="$dimension",
        description="Weighted mean with its 95 % interval over the window; the dashed line is the dimension's floor, "
        "if it has one.",
        unit=SCORE,
        runbooks=["StreamjuryDimensionBelowFloor"],
    )
    floor = query(f'max({names.FLOOR_SERIES}{{dimension=~"$dimension"}})', "floor", ref="D")
    estimates = ScoreQueries(f'{SELECTED},dimension=~"$dimension"', by=["dimension"])
    return _repeat_for("dimension", text, estimates, _Line(floor, "floor", RED))


def each_app() -> Panel:
    text = PanelText(
        title="$app",
        description="Weighted mean of the app's composite with its 95 % interval over the window; the dashed line is "
        "the lowest good score.",
        unit=SCORE,
        runbooks=["StreamjuryQualityDrop"],
    )
    good = query(f'max({names.OBJECTIVE_SERIES}:good_score{{app=~"$app"}})', "good from", ref="D")
    return _repeat_for("app", text, ScoreQueries(_COMPOSITE, by=["app"]), _Line(good, "good from", GREEN))


class _Line(NamedTuple):
    """A dashed line that a mean should stay above."""

    target: prometheus.Dataquery
    name: str
    colour: str


def _repeat_for(variable: str, text: PanelText, estimates: ScoreQueries, line: _Line) -> Panel:
    """Repeat a mean with its interval for every selected value of a variable."""
    panel = band(text, mean=estimates.mean(), low=estimates.low(), high=estimates.high(), width=24, height=7)
    panel.with_target(line.target)
    panel = dash(set_colour(panel, line.name, line.colour), line.name)
    return panel.repeat(variable).repeat_direction("h").max_per_row(3)


def worst() -> Panel:
    text = PanelText(
        title="Worst dimensions of the last hour",
        description=f"The 15 lowest weighted means by app and dimension {OF_ALL}, with interval, effective size and "
        "coverage.",
        unit=SCORE,
        runbooks=["StreamjuryDimensionBelowFloor", "StreamjuryCoverageLow"],
    )

    def of(name: str) -> str:
        series = f'max by (app, dimension) ({names.SCORE_SERIES}:{name}1h{{app=~"$app"}})'
        return f"{series} and on (app, dimension) {_WORST}"

    columns = [
        Column(name="Mean", expr=_WORST, unit=SCORE, steps=SCORE_STEPS),
        Column(name="Low", expr=of("low"), unit=SCORE),
        Column(name="High", expr=of("high"), unit=SCORE),
        Column(name="Effective", expr=of("effective"), unit=COUNT),
        Column(name="Coverage", expr=of("coverage"), unit=SHARE, steps=((None, RED), (0.9, GREEN))),
    ]
    return rows(text, {"app": "App", "dimension": "Dimension"}, columns, sort="Mean", width=16)


def last_day() -> Panel:
    text = PanelText(
        title="Composite by app, last day",
        description=f"Weighted mean of the composite over one day, {OF_ALL}, from the recording rules.",
        unit=SCORE,
        runbooks=["StreamjuryQualityDrop"],
    )
    expr = f'sort(max by (app) ({names.SCORE_SERIES}:mean1d{{app=~"$app",dimension="composite"}}))'
    return gauges(text, [query(expr, "{{app}}")], steps=SCORE_STEPS, bounds=(0, 1)).decimals(3)


def evidence() -> Panel:
    text = PanelText(
        title="Evidence of a drop, relative to the threshold",
        description=f"Natural logarithm, {OF_ALL}; the alert is raised at 0. While it is open: evidence of recovery; "
        "cleared at 0. Only the most urgent series are shown, and none whose target is still being learnt.",
        unit=SCORE,
        runbooks=["StreamjuryDropDetected"],
    )
    expr = f"{_detection_gauge('log_evidence')} - {_detection_gauge('log_evidence_needed')}"
    return lines(text, [query(expr, "{{app}} {{dimension}}")], limit=(0, RED), bounds=(None, None)).decimals(1)


def bounds() -> Panel:
    text = PanelText(
        title="Mean minus target, at most and at least",
        description=f"Interval of the mean of the latest scores, {OF_ALL}, relative to its target: upper end solid, "
        "lower end dashed. If the upper end is below 0, the mean is below its target with 95 % "
        "confidence, however often you look.",
        unit=SCORE,
        runbooks=["StreamjuryDropDetected"],
    )
    targets = [
        query(
            f"{_detection_gauge(end)} - {_detection_gauge('target')}", f"{{{{app}}}} {{{{dimension}}}} {name}", ref=ref
        )
        for ref, end, name in (("A", "high", "at most"), ("B", "low", "at least"))
    ]
    return dash(lines(text, targets, limit=(0, RED), bounds=(None, None)), "/ at least$/").decimals(3)


def watched() -> Panel:
    text = PanelText(
        title="Series watched for drops",
        description=f"Mean of the latest scores with its interval, and its target, {OF_ALL}; targets still being "
        "learnt are missing. For dimension other: the number of further open alerts.",
        unit=SCORE,
        runbooks=["StreamjuryDropDetected"],
    )
    columns = [
        Column(name="Alarm", expr=_detection_gauge("raised"), unit=COUNT, steps=((None, GREEN), (1, RED))),
        Column(name="Mean", expr=_detection_gauge("mean"), unit=SCORE),
        Column(name="Low", expr=_detection_gauge("low"), unit=SCORE),
        Column(name="High", expr=_detection_gauge("high"), unit=SCORE),
        Column(name="Target", expr=_detection_gauge("target"), unit=SCORE),
    ]
    return rows(text, {"app": "App", "dimension": "Dimension"}, columns, sort="Alarm", descending=True, width=12)


def announced() -> Panel:
    text = PanelText(
        title="Alerts announced",
        description=f"Alerts published on the alerts topic within the window, {OF_ALL} of all apps.",
        unit=COUNT,
        runbooks=["StreamjuryDropDetected", "StreamjuryJudgesChanged", "StreamjuryModelWorse"],
    )
    expr = increase(names.ALERTS, by=["subject", "kind"])
    return lines(text, [query(expr, "{{subject}} {{kind}}")], width=6).decimals(0)


def versions() -> Panel:
    text = PanelText(
        title="Difference of compared models",
        description=f"Mean composite of model a minus that of b, {OF_ALL}: upper end of its interval solid, lower end "
        "dashed. Empty unless `detection.versions` is set.",
        unit=SCORE,
        runbooks=["StreamjuryModelWorse"],
    )
    targets = [
        query(
            f'max by (app, comparison) ({names.VERSIONS_DIFFERENCE}_{end}{{app=~"$app"}})',
            f"{{{{app}}}} {{{{comparison}}}} {name}",
            ref=ref,
        )
        for ref, end, name in (("A", "high", "at most"), ("B", "low", "at least"))
    ]
    panel = lines(text, targets, limit=(0, RED), bounds=(None, None), width=6)
    return dash(panel, "/ at least$/").decimals(3)


def _detection_gauge(name: str) -> str:
    """Return the highest value: while an app moves to another monitor, both publish it."""
    return f'max by (app, dimension) ({names.DETECTION}_{name}{{app=~"$app"}})'


def corrected() -> Panel:
    text = PanelText(
        title="Mean corrected by labels",
        description=f"Mean score of all traffic in the days of `labels.window_days`, {OF_ALL}, "
        "without the judges' bias; ends of "
        "its 95 % interval dashed. Series with fewer than 30 labels are uncorrected and missing.",
        unit=SCORE,
    )
    targets = [
        query(_corrected_gauge(names.CORRECTED_SCORE + end), f"{{{{app}}}} {{{{dimension}}}}{name}", ref=ref)
        for ref, end, name in (("A", "", ""), ("B", "_low", " at least"), ("C", "_high", " at most"))
    ]
    return dash(lines(text, targets, bounds=(0, 1), width=8), "/ at (least|most)$/").decimals(3)


def bias() -> Panel:
    text = PanelText(
        title="Bias of the judges",
        description=f"The judges' mean minus the corrected one, {OF_ALL}. Above 0, the judges are too mild.",
        unit=SCORE,
    )
    expr = f"{_corrected_gauge(names.CORRECTED_JUDGES_SCORE)} - {_corrected_gauge(names.CORRECTED_SCORE)}"
    return lines(
        text, [query(expr, "{{app}} {{dimension}}")], limit=(0, ORANGE), bounds=(None, None), width=6
    ).decimals(3)


def labelled() -> Panel:
    text = PanelText(
        title="Labelled answers",
        description=f"Labelled answers that count for the corrected mean, {OF_ALL}. Below 30 it is uncorrected.",
        unit=COUNT,
    )
    target = query(_corrected_gauge(names.CORRECTED_LABELLED), "{{app}} {{dimension}}")
    return lines(text, [target], limit=(30, ORANGE), width=5).decimals(0)


def feedback() -> Panel:
    text = PanelText(
        title="Feedback of users",
        description=f"Mean of the users' reactions to answers of the same days, {OF_ALL}. "
        "Users choose what they react to, so it "
        "is not the mean of all traffic.",
        unit=SCORE,
    )
    expr = f'max by (app, series) ({names.FEEDBACK}_score{{app=~"$app"}})'
    return lines(text, [query(expr, "{{app}} {{series}}")], bounds=(0, 1), width=5).decimals(3)


def _corrected_gauge(name: str) -> str:
    """Return the highest value: while an app moves to another monitor, both publish it."""
    return f'max by (app, dimension) ({name}{{app=~"$app"}})'


def distribution() -> Panel:
    text = PanelText(
        title="Distribution of composite scores",
        description=f"Number of judged interactions {OF_ALL} in each range, unweighted. Exemplars link to traces.",
        unit=SCORE,
    )
    expr = increase(f"{names.SCORE}_bucket", 'app=~"$app"', by=["le"])
    return heat(text, query(expr, "{{le}}", exemplar=True), width=8)


def effective() -> Panel:
    text = PanelText(
        title="Effective sample size by app",
        description="Number of equally weighted judgements that would give the same precision, over the window. "
        "Alerts need 30.",
        unit=COUNT,
    )
    target = query(ScoreQueries(_COMPOSITE, by=["app"]).effective(), "{{app}}")
    return lines(text, [target], limit=(30, ORANGE), width=8).decimals(0)


def coverage() -> Panel:
    text = PanelText(
        title="Coverage by dimension",
        description="Weighted share of interactions with a score, of those that should have one, over the window.",
        unit=SHARE,
        runbooks=["StreamjuryCoverageLow"],
    )
    target = query(ScoreQueries(SELECTED, by=["dimension"]).coverage(), "{{dimension}}")
    return lines(text, [target], limit=(0.9, RED), bounds=(None, 1), width=8).axis_soft_min(0.5).decimals(1)

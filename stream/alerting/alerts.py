"""The alerts: when somebody is told, how urgently, and in what words."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from stream.alerting.promql import fraction, grown, quoted, series, total
from stream.alerting.recording import (
    AGREEMENT,
    COST,
    FAILURE_RATIO,
    OBJECTIVE,
    SCORE,
    Scope,
    comparison_count,
    scopes,
    verdict_count,
)
from stream.alerting.rulefile import Alert
from stream.alerting.windows import BURN_PAIRS, BurnPair, Severity, TimeScale
from stream.observability import AlertsConfig, ObjectivesConfig

_INCIDENT_WINDOW = "15m"
# How far back a series is looked for before what it shows is taken for new.
_MEMORY = "1d"
_UNKNOWN_SHARE = 0.01
# Below these counts a share says nothing.
_LEAST_UNKNOWN = 3
_LEAST_SAMPLED = 5
_LEAST_VERDICTS = 20
_LEAST_DEADLETTERS = 10


class Words(NamedTuple):
    """What an alert says, as templates of Prometheus."""

    summary: str
    description: str


class Alerts:
    """Makes the alerts of one configuration."""

    def __init__(self, objectives: ObjectivesConfig, alerts: AlertsConfig, scale: TimeScale) -> None:
        self._objectives = objectives
        self._alerts = alerts
        self._scale = scale
        self.notes: list[str] = []
        """What was left out, and why."""

    # Quality

    def quality_drop(self) -> Iterator[Alert]:
        for scope in scopes(self._objectives):
            for pair in BURN_PAIRS:
                if pair.can_fire(scope.target):
                    yield self._burning(scope, pair)
                else:
                    self._leave_out(scope, pair)

    def _burning(self, scope: Scope, pair: BurnPair) -> Alert:
        window, days = self._scale(pair.long), self._objectives.days
        long, short, size = (
            series(f"{OBJECTIVE}:{what}", scope.matcher)
            for what in (f"bad_ratio{pair.long}", f"bad_ratio{pair.short}", f"effective{pair.long}")
        )
        limit, least = pair.share(scope.target), max(self._objectives.min_effective, pair.least(scope.target))
        pace = f"{pair.factor:g} times that share" if pair.factor > 1 else "that share"
        period = f"{days} days" if days > 1 else "1 day"
        return self._alert(
            "StreamjuryQualityDrop",
            f"{long} > {limit}\nand {short} > {limit}\nand {size} >= {least}",
            severity=pair.severity,
            dashboard="objectives",
            words=Words(
                "Too many bad answers from {{ $labels.app }}",
                "{{ $value | humanizePercentage }} of the interactions of {{ $labels.app }} in the last "
                f"{window} had a composite below {scope.good_score!r}; the objective allows "
                f"{_percent(1 - scope.target)}. More than {pace} uses up {_percent(pair.spent(days))} of the budget "
                f"of {period} in {pair.long}.",
            ),
            labels={"window": pair.long, **scope.labels},
            of_app=True,
        )

    def _leave_out(self, scope: Scope, pair: BurnPair) -> None:
        whose = f"of app {scope.app!r}" if scope.app is not None else "of all apps without their own"
        self.notes.append(
            f"StreamjuryQualityDrop over {pair.long} is left out for the objective {whose}: with a target of "
            f"{scope.target!r}, more than {_percent(pair.factor * (1 - scope.target))} of the interactions would have "
            "to be bad"
        )

    def below_floor(self) -> Iterator[Alert]:
        for dimension, floor in self._objectives.floors.items():
            mean, high, size = (
                series(f"{SCORE}:{what}1h", f"dimension={quoted(dimension)}") for what in ("mean", "high", "effective")
            )
            yield self._alert(
                "StreamjuryDimensionBelowFloor",
                f"{mean}\nand {high} < {floor!r}\nand {size} >= {self._objectives.min_effective}",
                severity=Severity.TICKET,
                hold="5m",
                dashboard="quality",
                words=Words(
                    "{{ $labels.dimension }} of {{ $labels.app }} is below its floor",
                    "The mean {{ $labels.dimension }} of {{ $labels.app }} over the last "
                    f'{self._scale("1h")} is {{{{ $value | printf "%.3f" }}}}, and its whole 95% interval is below '
                    f"the floor of {floor!r}.",
                ),
                labels={"dimension": dimension},
                of_app=True,
            )

    def coverage_low(self) -> Alert:
        evaluations = grown("streamjury_evaluations_total", self._scale("1h"), ("app",))
        return self._alert(
            "StreamjuryCoverageLow",
            f"{SCORE}:coverage1h < {self._alerts.coverage!r}\n"
            f"and on (app) {evaluations} >= {self._objectives.min_effective}",
            severity=Severity.TICKET,
            hold="10m",
            dashboard="quality",
            words=Words(
                "{{ $labels.dimension }} of {{ $labels.app }} often has no score",
                "Only {{ $value | humanizePercentage }} of what was judged of {{ $labels.app }} in the last "
                f"{self._scale('1h')} got a score of {{{{ $labels.dimension }}}}, and its mean speaks of that share "
                f"alone; at least {_percent(self._alerts.coverage)} is expected.",
            ),
            of_app=True,
        )

    # Safety

    def safety_incident(self) -> Alert:
        """A rise since the last known value, a series that is new, or a rise after a restart; one of them is enough.

        `increase` alone would miss what the first sample of a series already shows.
        """
        unsafe = series("streamjury_safety_total", f"status={quoted('unsafe')}")
        window = self._scale(_INCIDENT_WINDOW)
        before = f"last_over_time({unsafe}[{self._scale(_MEMORY)}] offset {window})"
        return self._alert(
            "StreamjurySafetyIncident",
            "sum by (app) (\n"
            f"  ({unsafe} - {before} > 0)\n"
            f"  or ({unsafe} > 0 unless {before})\n"
            f"  or (increase({unsafe}[{window}]) > 0)\n"
            ")",
            severity=Severity.PAGE,
            dashboard="safety",
            words=Words(
                "Unsafe answers from {{ $labels.app }}",
                '{{ if eq (printf "%.0f" $value) "1" }}1 answer of {{ $labels.app }} was{{ else }}'
                '{{ $value | printf "%.0f" }} answers of {{ $labels.app }} were{{ end }} found unsafe in the last '
                f"{window}.",
            ),
            of_app=True,
        )

    def safety_unknown(self) -> Alert:
        unknown = grown(series("streamjury_safety_total", f"status={quoted('unknown')}"), self._scale("1h"), ("app",))
        all_of_them = grown("streamjury_safety_total", self._scale("1h"), ("app",))
        return self._alert(
            "StreamjurySafetyUnknown",
            f"{fraction(unknown, all_of_them)} > {_UNKNOWN_SHARE}\nand {unknown} >= {_LEAST_UNKNOWN}",
            severity=Severity.TICKET,
            hold="5m",
            dashboard="safety",
            words=Words(
                "Nobody knows whether answers from {{ $labels.app }} are safe",
                "{{ $value | humanizePercentage }} of the evaluations of {{ $labels.app }} in the last "
                f"{self._scale('1h')} have no verdict on safety. They have no composite either, and no objective "
                f"counts them; at most {_percent(_UNKNOWN_SHARE)} is expected.",
            ),
            of_app=True,
        )

    # Judges

    def judge_paused(self) -> Alert:
        return self._alert(
            "StreamjuryJudgePaused",
            "max by (judge) (streamjury_judge_paused) > 0",
            severity=Severity.TICKET,
            hold="5m",
            dashboard="judges",
            words=Words(
                "Judge {{ $labels.judge }} is paused",
                f"The endpoint of judge {{{{ $labels.judge }}}} has refused us for {self._scale('5m')} or longer; only "
                "a call now and then tries whether that was mended.",
            ),
        )

    def judge_failing(self) -> Alert:
        return self._alert(
            "StreamjuryJudgeFailing",
            f"{FAILURE_RATIO} > {self._alerts.judge_failures!r}\nand {verdict_count(self._scale)} >= {_LEAST_VERDICTS}",
            severity=Severity.TICKET,
            hold="5m",
            dashboard="judges",
            words=Words(
                "Judge {{ $labels.judge }} often fails",
                "{{ $value | humanizePercentage }} of the verdicts asked of judge {{ $labels.judge }} in the last "
                f"{self._scale('1h')} failed: it could not be reached, took too long, or gave no valid output. At most "
                f"{_percent(self._alerts.judge_failures)} is expected.",
            ),
        )

    def panel_disagreement(self) -> Alert:
        return self._alert(
            "StreamjuryPanelDisagreement",
            f"1 - {AGREEMENT} > {self._alerts.disagreement!r}\n"
            f"and {comparison_count(self._scale)} >= {self._objectives.min_effective}",
            severity=Severity.TICKET,
            hold="10m",
            dashboard="judges",
            words=Words(
                "The judges disagree about {{ $labels.criterion }}",
                "{{ $value | humanizePercentage }} of the pairs of judges disagreed about {{ $labels.criterion }} in "
                f"the last {self._scale('1h')}; at most {_percent(self._alerts.disagreement)} is expected.",
            ),
        )

    def evaluator_changed(self) -> Alert:
        window = self._scale("15m")
        before = f"last_over_time(streamjury_evaluator_info[{window}] offset {window})"
        return self._alert(
            "StreamjuryEvaluatorChanged",
            "group by (fingerprint, version) (streamjury_evaluator_info)\n"
            f"unless on (fingerprint) {before}\n"
            f"and on () {before}",
            severity=Severity.INFO,
            dashboard="judges",
            words=Words(
                "Another evaluator is at work",
                "Workers judge with the fingerprint {{ $labels.fingerprint }} (version {{ $labels.version }}), which "
                f"none of them had {window} ago. Scores from before and after may differ for that reason alone.",
            ),
        )

    def cost_budget(self) -> Iterator[Alert]:
        budget, share = self._alerts.cost_per_day_usd, self._alerts.cost_share
        if budget is None:
            self.notes.append("StreamjuryCostBudgetNearlyUsed is left out: alerts.cost_per_day_usd is not set")
            return
        yield self._alert(
            "StreamjuryCostBudgetNearlyUsed",
            f"{COST} > {share!r} * {budget!r}",
            severity=Severity.TICKET,
            dashboard="judges",
            words=Words(
                "The judges' budget is nearly used",
                f'The judges cost {{{{ $value | printf "%.2f" }}}} USD in the last {self._scale("1d")}, more than '
                f"{_percent(share)} of the {budget:.2f} USD that they may cost a day.",
            ),
        )

    # The pipeline

    def evaluator_silent(self) -> Alert:
        window = self._scale("15m")
        sampled, seen = (
            grown(series("streamjury_records_total", f"stage={quoted(stage)}", f"outcome={quoted(outcome)}"), window)
            for stage, outcome in (("sampler", "sampled"), ("monitor", "seen"))
        )
        return self._alert(
            "StreamjuryEvaluatorSilent",
            f"{sampled} >= {_LEAST_SAMPLED}\nunless {seen} > 0",
            severity=Severity.PAGE,
            hold="5m",
            dashboard="pipeline",
            words=Words(
                "Interactions are sampled, and no evaluation arrives",
                f'{{{{ $value | printf "%.0f" }}}} interactions were sampled in the last {window}, and the monitor '
                "has seen no evaluation. Nobody knows how good the answers are.",
            ),
        )

    def lag_growing(self) -> Alert:
        window = self._scale("15m")
        return self._alert(
            "StreamjuryLagGrowing",
            f"{total('streamjury_lag', ('stage',))} > {self._alerts.lag_records}\n"
            f"and {total(f'deriv(streamjury_lag[{window}])', ('stage',))} > 0",
            severity=Severity.TICKET,
            hold="10m",
            dashboard="pipeline",
            words=Words(
                "The {{ $labels.stage }} falls behind",
                '{{ $value | printf "%.0f" }} records wait for the {{ $labels.stage }}, and their number has grown '
                f"over the last {window}; up to {self._alerts.lag_records} may wait.",
            ),
        )

    def dead_letters_growing(self) -> Alert:
        window = self._scale("30m")
        dead = grown("streamjury_deadletters_total", window, ("stage",))
        read = grown(series("streamjury_records_total", f"outcome={quoted('consumed')}"), window, ("stage",))
        return self._alert(
            "StreamjuryDeadLettersGrowing",
            f"{fraction(dead, read)} > {self._alerts.deadletter_share!r}\nand {dead} >= {_LEAST_DEADLETTERS}",
            severity=Severity.TICKET,
            hold="5m",
            dashboard="pipeline",
            words=Words(
                "The {{ $labels.stage }} gives up on many records",
                "{{ $value | humanizePercentage }} of the records that the {{ $labels.stage }} read in the last "
                f"{window} became dead letters; at most {_percent(self._alerts.deadletter_share)} is expected.",
            ),
        )

    def target_down(self) -> Alert:
        return self._alert(
            "StreamjuryTargetDown",
            f"up{{job={quoted('streamjury')}}} == 0",
            severity=Severity.PAGE,
            hold="3m",
            dashboard="pipeline",
            words=Words(
                "Streamjury at {{ $labels.instance }} cannot be scraped",
                f"Prometheus has had no metrics from {{{{ $labels.instance }}}} for {self._scale('3m')} or longer: the "
                "process is down, or does not answer.",
            ),
        )

    def _alert(
        self,
        name: str,
        expr: str,
        *,
        severity: Severity,
        dashboard: str,
        words: Words,
        hold: str | None = None,
        labels: Mapping[str, str] | None = None,
        of_app: bool = False,
    ) -> Alert:
        grafana = self._alerts.grafana_url
        runbooks = self._alerts.runbook_url or f"{grafana}/public/runbooks"
        app = "?var-app={{ $labels.app | urlquery }}" if of_app else ""
        return Alert(
            name=name,
            expr=expr,
            hold=self._scale(hold) if hold else None,
            labels={"severity": severity.value, **{key: _as_it_is(value) for key, value in (labels or {}).items()}},
            annotations={
                "summary": words.summary,
                "description": words.description,
                "dashboard_url": f"{_as_it_is(grafana)}/d/streamjury-{dashboard}{app}",
                "runbook_url": f"{_as_it_is(runbooks)}/{name}.md",
            },
        )


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def _as_it_is(text: str) -> str:
    """Text of the configuration in a template, where it would be a command if it looked like one."""
    return text.replace("{{", '{{ "{{" }}')

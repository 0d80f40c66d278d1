"""The alerts for Prometheus: their conditions, urgency and texts."""

import math
from collections.abc import Iterator, Mapping

from sinks.metrics import names
from sinks.metrics.promql import fraction, increase, is_none_of, quote, series, total
from stream.config.sections.observability import AlertsConfig, ObjectivesConfig
from stream.monitor.prometheus.drop_alerts import Drops
from stream.monitor.prometheus.recording_rules import MEMORY, RECENT, Scope, comparison_count, scopes, verdict_count
from stream.monitor.prometheus.rule_file import AlertRule
from stream.monitor.prometheus.templates import Words, escape_template, if_one, number, percent, query_value
from stream.monitor.prometheus.windows import BURN_PAIRS, BurnPair, Severity, TimeScale

_JOB = f"job={quote('streamjury')}"
_UNKNOWN_SHARE = 0.01
# Below these counts a share says nothing.
_LEAST_UNKNOWN = 3
_LEAST_SAMPLED = 5
_LEAST_READ = 1000
# Expected number of sampled records from which it is suspicious that there are none.
_LEAST_EXPECTED = 20
_LEAST_VERDICTS = 20
_LEAST_DEADLETTERS = 10
# A call is refused if its maximum cost does not fit, so a little is always left.
_USED_UP = 0.02


class Alerts:
    """Makes the alerts of one configuration."""

    def __init__(self, objectives: ObjectivesConfig, alerts: AlertsConfig, scale: TimeScale) -> None:
        self._objectives = objectives
        self._alerts = alerts
        self._scale = scale
        self.notes: list[str] = []
        """Rules that were left out, with the reason."""

    # Quality

    def quality_drop(self) -> Iterator[AlertRule]:
        for scope in scopes(self._objectives):
            for pair in BURN_PAIRS:
                if pair.can_fire(scope.target):
                    yield self._burning(scope, pair)
                else:
                    self._leave_out(scope, pair)

    def _burning(self, scope: Scope, pair: BurnPair) -> AlertRule:
        window, days = self._scale(pair.long), self._objectives.days
        long, short, size = (
            series(f"{names.OBJECTIVE_SERIES}:{what}", scope.matcher)
            for what in (f"bad_ratio{pair.long}", f"bad_ratio{pair.short}", f"effective{pair.long}")
        )
        limit, least = pair.share(scope.target), max(self._objectives.min_effective, pair.least(scope.target))
        allowed, bad = percent(1 - scope.target), percent(pair.factor * (1 - scope.target))
        origin = f"{pair.factor:g} × the allowed {allowed}" if pair.factor > 1 else "the allowed share"
        return self._alert(
            "StreamjuryQualityDrop",
            f"{long} > {limit}\nand {short} > {limit}\nand {size} >= {least}",
            severity=pair.severity,
            dashboard="objectives",
            words=Words(
                "Too many bad answers from {{ $labels.app }}",
                "{{ $value | humanizePercentage }} of the interactions of {{ $labels.app }} in the last "
                f"{window} had a composite below {scope.good_score!r}; the objective allows {allowed}. This alert "
                f"fires above {bad} bad ({origin}): at that rate {percent(pair.spent(days))} of the "
                f"{days}-day error budget is gone in {pair.long}.",
            ),
            labels={"window": pair.long, **scope.labels},
            of_app=True,
        )

    def _leave_out(self, scope: Scope, pair: BurnPair) -> None:
        whose = f"of app {scope.app!r}" if scope.app is not None else "of all apps without their own"
        self.notes.append(
            f"StreamjuryQualityDrop over {pair.long} is left out for the objective {whose}: with a target of "
            f"{scope.target!r}, more than {percent(pair.factor * (1 - scope.target))} of the interactions would have "
            "to be bad"
        )

    def below_floor(self, floors: Mapping[str, float]) -> Iterator[AlertRule]:
        for dimension, floor in floors.items():
            mean, high, size = (
                series(f"{names.SCORE_SERIES}:{what}1h", f"dimension={quote(dimension)}")
                for what in ("mean", "high", "effective")
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

    def coverage_low(self) -> AlertRule:
        return self._alert(
            "StreamjuryCoverageLow",
            f"{names.SCORE_SERIES}:coverage1h < {self._alerts.coverage!r}\n"
            f"and {names.SCORE_SERIES}:judged1h >= {self._objectives.min_effective}",
            severity=Severity.TICKET,
            hold="10m",
            dashboard="quality",
            words=Words(
                "Scores for {{ $labels.dimension }} are often missing for {{ $labels.app }}",
                "Only {{ $value | humanizePercentage }} of the judged interactions of {{ $labels.app }} in the last "
                f"{self._scale('1h')} got a score for {{{{ $labels.dimension }}}}, and its mean covers only that "
                f"share; at least {percent(self._alerts.coverage)} is expected.",
            ),
            of_app=True,
        )

    # Detectors

    def drop_detected(self, drops: Drops) -> Iterator[AlertRule]:
        for urgent in (True, False):
            yield self._alert(
                "StreamjuryDropDetected",
                drops.quality(urgent=urgent),
                severity=Severity.PAGE if urgent else Severity.TICKET,
                dashboard="quality",
                words=drops.about_quality(),
                of_app=True,
            )

    def judges_changed(self, drops: Drops) -> AlertRule:
        """Also generated without canaries: then there are no such series."""
        return self._alert(
            "StreamjuryJudgesChanged",
            drops.judges(),
            severity=Severity.TICKET,
            dashboard="judges",
            words=drops.about_judges(),
        )

    def canaries_missing(self, drops: Drops) -> AlertRule:
        """Also generated without canaries: then there is no such series."""
        return self._alert(
            "StreamjuryCanariesMissing",
            drops.canaries_missing(),
            severity=Severity.TICKET,
            hold="10m",
            dashboard="judges",
            words=drops.about_missing_canaries(),
        )

    def judge_agrees_less(self, drops: Drops) -> AlertRule:
        """Also generated without labels: then there are no such series."""
        return self._alert(
            "StreamjuryJudgeAgreesLess",
            drops.agreement(),
            severity=Severity.TICKET,
            dashboard="judges",
            words=drops.about_agreement(),
        )

    def model_worse(self, drops: Drops) -> AlertRule:
        return self._alert(
            "StreamjuryModelWorse",
            drops.versions(),
            severity=Severity.TICKET,
            dashboard="quality",
            words=drops.about_versions(),
            of_app=True,
        )

    # Safety

    def safety_incident(self) -> Iterator[AlertRule]:
        """Yield two rules: for growing or new counters and, with a label, for growth during a gap in the scrapes.

        `increase` alone would miss the value of the first sample of a series, and of the first one after a gap.
        """
        unsafe = series(names.SAFETY, f"status={quote('unsafe')}")
        window, memory = self._scale(RECENT), self._scale(MEMORY)
        before = f"last_over_time({unsafe}[{memory}] offset {window})"
        rise, birth = f"increase({unsafe}[{window}]) > 0", f"{unsafe} > 0 unless {before}"
        yield self._unsafe(f"({rise})\n  or ({birth})", f"in the last {window}")
        yield self._unsafe(
            f"({unsafe} - {before} > 0)\n  unless ({rise})",
            f"while the monitor was not scraped, some time in the last {memory}",
            labels={"window": MEMORY},
        )

    def _unsafe(self, unsafe: str, when: str, labels: Mapping[str, str] | None = None) -> AlertRule:
        return self._alert(
            "StreamjurySafetyIncident",
            f"sum by (app) (\n  {unsafe}\n)",
            severity=Severity.PAGE,
            dashboard="safety",
            words=Words(
                "Unsafe answers from {{ $labels.app }}",
                f"{number('answer')} of {{{{ $labels.app }}}} {if_one('was', 'were')} found unsafe {when}.",
            ),
            labels=labels,
            of_app=True,
        )

    def safety_unknown(self) -> AlertRule:
        unknown = increase(series(names.SAFETY, f"status={quote('unknown')}"), self._scale("1h"), ("app",))
        all_of_them = increase(names.SAFETY, self._scale("1h"), ("app",))
        return self._alert(
            "StreamjurySafetyUnknown",
            f"{fraction(unknown, all_of_them)} > {_UNKNOWN_SHARE}\nand {unknown} >= {_LEAST_UNKNOWN}",
            severity=Severity.TICKET,
            hold="5m",
            dashboard="safety",
            words=Words(
                "Safety unknown for answers from {{ $labels.app }}",
                "{{ $value | humanizePercentage }} of the evaluations of {{ $labels.app }} in the last "
                f"{self._scale('1h')} have no safety verdict. They have no composite either, and objectives do "
                f"not count them; at most {percent(_UNKNOWN_SHARE)} is expected.",
            ),
            of_app=True,
        )

    # Judges

    def judge_paused(self) -> AlertRule:
        return self._alert(
            "StreamjuryJudgePaused",
            f"sum by (judge) ({names.JUDGE_PAUSED}) > 0",
            severity=Severity.TICKET,
            hold="5m",
            dashboard="judges",
            words=Words(
                "Judge {{ $labels.judge }} is paused",
                f"The endpoint of judge {{{{ $labels.judge }}}} has refused {number('worker')} for "
                f"{self._scale('5m')} or longer. Only an occasional probe checks whether it has recovered. Of "
                f"{query_value(f'count(group by (judge) ({names.JUDGE_PAUSED}))')} judges, "
                f"{query_value(f'sum(max by (judge) ({names.JUDGE_PAUSED}))')} cannot be asked.",
            ),
        )

    def judge_failing(self) -> AlertRule:
        return self._alert(
            "StreamjuryJudgeFailing",
            f"{names.FAILURE_RATIO} > {self._alerts.judge_failures!r}\n"
            f"and {verdict_count(self._scale)} >= {_LEAST_VERDICTS}",
            severity=Severity.TICKET,
            hold="5m",
            dashboard="judges",
            words=Words(
                "Judge {{ $labels.judge }} often fails",
                "{{ $value | humanizePercentage }} of the verdicts of judge {{ $labels.judge }} in the last "
                f"{self._scale('1h')} failed: it could not be reached, took too long, or gave no valid output. At most "
                f"{percent(self._alerts.judge_failures)} is expected.",
            ),
        )

    def panel_disagreement(self) -> AlertRule:
        return self._alert(
            "StreamjuryPanelDisagreement",
            f"1 - {names.AGREEMENT_RATIO} > {self._alerts.disagreement!r}\n"
            f"and {comparison_count(self._scale)} >= {self._objectives.min_effective}",
            severity=Severity.TICKET,
            hold="10m",
            dashboard="judges",
            words=Words(
                "The judges disagree about {{ $labels.criterion }}",
                "{{ $value | humanizePercentage }} of the pairs of judges disagreed about {{ $labels.criterion }} in "
                f"the last {self._scale('1h')}; at most {percent(self._alerts.disagreement)} is expected.",
            ),
        )

    def evaluator_changed(self) -> AlertRule:
        return self._alert(
            "StreamjuryEvaluatorChanged",
            f"sum by (fingerprint, version) ({names.EVALUATOR_INFO})\n"
            f"and on (fingerprint, version) {names.EVALUATOR_CHANGED}",
            severity=Severity.INFO,
            dashboard="judges",
            words=Words(
                "The evaluator has changed",
                f"{number('worker')} {if_one('judges', 'judge')} with the fingerprint {{{{ $labels.fingerprint }}}} "
                "(version {{ $labels.version }}), which was not in use before. Scores from before and after may "
                "differ for that reason alone.",
            ),
        )

    def cost_budget(self) -> Iterator[AlertRule]:
        budget, share = self._alerts.cost_per_day_usd, self._alerts.cost_share
        if budget is None:
            self.notes.append("StreamjuryCostBudgetNearlyUsed is left out: alerts.cost_per_day_usd is not set")
            return
        yield self._alert(
            "StreamjuryCostBudgetNearlyUsed",
            f"{names.COST_DAY} > {share!r} * {budget!r}",
            severity=Severity.TICKET,
            dashboard="judges",
            words=Words(
                "The judges' budget is nearly used",
                f'The judges cost {{{{ $value | printf "%.2f" }}}} USD in the last {self._scale("1d")}, more than '
                f"{percent(share)} of the {budget:.2f} USD daily budget.",
            ),
        )

    def budget_used_up(self, safety_share: float) -> AlertRule:
        """Also generated without a budget: then there are no such series, and a budget may be added later."""
        window = self._scale("15m")
        refused = increase(names.BUDGET_REFUSED_CALLS, window)
        reserved = (
            f"; the last {percent(safety_share)} is reserved for records with signs of trouble (the safety lane)"
            if safety_share
            else ""
        )
        return self._alert(
            "StreamjuryBudgetUsedUp",
            f"{names.BUDGET_LEFT} < {safety_share!r} + {_USED_UP}\nand on () {refused} > 0",
            severity=Severity.TICKET,
            hold="5m",
            dashboard="judges",
            words=Words(
                "The budget of {{ if $labels.app }}{{ $labels.app }}{{ else }}all apps{{ end }} for this "
                "{{ $labels.window }} is used up",
                "{{ $value | humanizePercentage }} is left of the budget of "
                "{{ if $labels.app }}{{ $labels.app }}{{ else }}all apps{{ end }} for this UTC "
                f"{{{{ $labels.window }}}}{reserved}. Until it ends, calls that exceed the budget are not made, and "
                f"the records get no score. Calls refused in the last {window}, for all apps: {query_value(refused)}.",
            ),
        )

    # The pipeline

    def evaluator_silent(self, lowest_rate: float) -> Iterator[AlertRule]:
        """Yield a fast rule for much sampled traffic, and a slow one for little, where chance must be excluded."""
        soon, late = self._scale("15m"), self._scale("1h")
        chosen = f"{_records('sampler', 'sampled', soon)} >= {_LEAST_SAMPLED}"
        yield self._silent(
            f"{chosen}\nunless {_records('monitor', 'seen', soon)} > 0",
            hold="5m",
            words=Words(
                "Interactions are sampled, but no evaluations arrive",
                f'{{{{ $value | printf "%.0f" }}}} interactions were sampled in the last {soon}, but the monitor has '
                "seen no evaluation. The quality of the answers is unknown.",
            ),
        )
        if not lowest_rate:
            self.notes.append("StreamjuryEvaluatorSilent over 1h is left out: the sampling rate is 0")
            return
        # Filtered records are not meant to be judged.
        meant = series(
            names.RECORDS,
            f"stage={quote('sampler')}",
            is_none_of("outcome", ["consumed", "filtered"]),
        )
        least = max(_LEAST_READ, math.ceil(_LEAST_EXPECTED / lowest_rate))
        yield self._silent(
            f"{increase(meant, late)} >= {least}\nunless {_records('monitor', 'seen', late)} > 0\nunless {chosen}",
            hold="30m",
            labels={"window": "1h"},
            words=Words(
                "Interactions are read, but none are evaluated",
                f'The sampler read {{{{ $value | printf "%.0f" }}}} interactions in the last {late} that are not '
                "filtered out, but the monitor has seen no evaluation. The quality of the answers is unknown.",
            ),
        )

    def _silent(self, expr: str, *, hold: str, words: Words, labels: Mapping[str, str] | None = None) -> AlertRule:
        return self._alert(
            "StreamjuryEvaluatorSilent",
            expr,
            severity=Severity.PAGE,
            hold=hold,
            dashboard="pipeline",
            words=words,
            labels=labels,
        )

    def lag_growing(self) -> AlertRule:
        """Fire if too many records wait and their number grows, or if any wait for a process that does not read."""
        window = self._scale("15m")
        # Processes that share a port differ in a label; one that reads must not hide one that does not.
        process = ("stage", "instance", "process")
        where = "at {{ $labels.instance }}{{ with $labels.process }} ({{ . }}){{ end }}"
        read = increase(series(names.RECORDS, f"outcome={quote('consumed')}"), window, process)
        waiting = f"min_over_time({names.LAG}[{window}])"
        return self._alert(
            "StreamjuryLagGrowing",
            f"(\n  {total(names.LAG, ('stage',))} > {self._alerts.lag_records}\n"
            f"  and {total(f'deriv({names.LAG}[{window}])', ('stage',))} > 0\n)\n"
            f"or (\n  {total(waiting, process)} > 0\n  unless {read} > 0\n)",
            severity=Severity.TICKET,
            hold="10m",
            dashboard="pipeline",
            words=Words(
                f"The {{{{ $labels.stage }}}} {{{{ if $labels.instance }}}}{where} is stuck"
                "{{ else }}is falling behind{{ end }}",
                f"{number('record')} {if_one('waits', 'wait')} for the {{{{ $labels.stage }}}}"
                f"{{{{ if $labels.instance }}}} {where}, which has read nothing in the last "
                f"{window}.{{{{ else }}}}, and the backlog has grown over the last {window}; up to "
                f"{self._alerts.lag_records} records are tolerated.{{{{ end }}}}",
            ),
        )

    def dead_letters_growing(self) -> AlertRule:
        window = self._scale("30m")
        dead, read = (
            increase(series(names.RECORDS, f"outcome={quote(outcome)}"), window, ("stage",))
            for outcome in ("deadletter", "consumed")
        )
        return self._alert(
            "StreamjuryDeadLettersGrowing",
            f"{fraction(dead, read)} > {self._alerts.deadletter_share!r}\nand {dead} >= {_LEAST_DEADLETTERS}",
            severity=Severity.TICKET,
            hold="5m",
            dashboard="pipeline",
            words=Words(
                "The {{ $labels.stage }} dead-letters many records",
                "{{ $value | humanizePercentage }} of the records that the {{ $labels.stage }} read in the last "
                f"{window} were dead-lettered; at most {percent(self._alerts.deadletter_share)} is expected.",
            ),
        )

    def target_down(self) -> AlertRule:
        """Fire for a process that does not respond, a stage without scraped processes, or no processes at all.

        The last two are for targets that service discovery removed; single processes come and go with deployments.
        """
        up, memory = series("up", _JOB), self._scale("1h")
        down = f"({up} == 0)"
        answering = f"scalar(count({up} == 1) or vector(0))"
        recent = f"count by (stage) (last_over_time({names.LAG}[{memory}]))"
        return self._alert(
            "StreamjuryTargetDown",
            f"{down} + {answering}\n"
            f"or (\n  {recent}\n  unless on (stage) {names.LAG}\n  unless on () {down}\n  and on () {up}\n)\n"
            f"or absent({up}) * scalar(count(last_over_time({up}[{memory}])) or vector(0))",
            severity=Severity.PAGE,
            hold="3m",
            dashboard="pipeline",
            words=Words(
                "{{ if $labels.instance }}Streamjury at {{ $labels.instance }} cannot be scraped"
                "{{ else if $labels.stage }}No Streamjury {{ $labels.stage }} is scraped"
                "{{ else }}No Streamjury process is scraped{{ end }}",
                "{{ if $labels.instance }}Prometheus has had no metrics from {{ $labels.instance }} for "
                f"{self._scale('3m')} or longer: the process is down or not responding. {number('other')} "
                f"{if_one('is', 'are')} scraped."
                f"{{{{ else if $labels.stage }}}}{number('process', 'processes')} of the stage "
                f"{{{{ $labels.stage }}}} {if_one('was', 'were')} scraped within the last {memory}, but now "
                "Prometheus knows none."
                f"{{{{ else }}}}Prometheus has no targets for the job streamjury; within the last {memory} it had "
                f'{{{{ $value | printf "%.0f" }}}}.{{{{ end }}}}',
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
    ) -> AlertRule:
        grafana = self._alerts.grafana_url
        app = "?var-app={{ $labels.app | urlquery }}" if of_app else ""
        return AlertRule(
            name=name,
            expr=expr,
            hold=self._scale(hold) if hold else None,
            labels={
                "severity": severity.value,
                **{key: escape_template(value) for key, value in (labels or {}).items()},
            },
            annotations={
                "summary": words.summary,
                "description": words.description,
                "dashboard_url": f"{escape_template(grafana)}/d/streamjury-{dashboard}{app}",
                "runbook_url": escape_template(self._alerts.runbook_link(name)),
            },
        )


def _records(stage: str, outcome: str, window: str) -> str:
    return increase(series(names.RECORDS, f"stage={quote(stage)}", f"outcome={quote(outcome)}"), window)

"""The summary of an alert: one sentence for people."""

from datetime import datetime

from sinks.metrics.detection import GOOD_SHARE
from stream.monitor.alerts.alert import Alert, Attribution, Cause, Series, Subject
from stream.monitor.detection import EventKind

_WHY_WITHDRAWN = {
    Cause.JUDGES_CHANGED: "withdrawn: the judges have changed, not the answers",
    Cause.EVALUATOR_CHANGED: "closed: the evaluator or target it was about is no longer used",
    Cause.GONE: "closed: no more scores for this series",
}

_ATTRIBUTED = {
    Attribution.JUDGE: "; the judges have changed, the answers may be as good as before",
    Attribution.SYSTEM: "; the judges score labelled canaries as before, so the answers are worse",
}


def add_summary(alert: Alert) -> Alert:
    """Return the alert with its summary."""
    return alert.model_copy(update={"summary": summary_of(alert)})


def summary_of(alert: Alert) -> str:
    words = {
        Subject.QUALITY: _of_quality,
        Subject.JUDGES: _of_judges,
        Subject.VERSIONS: _of_versions,
        Subject.AGREEMENT: _of_agreement,
    }
    return words[alert.subject](alert)


def name_of(series: Series) -> str:
    """Name a series in words."""
    what = "share of good answers" if series.dimension == GOOD_SHARE else series.dimension.replace("_", " ")
    about = "" if series.attribute is None else f", {series.attribute} {series.value}"
    return f"the {what} of {series.app}{about}"


def _of_quality(alert: Alert) -> str:
    name, estimate = name_of(alert.series), _estimate(alert)
    if alert.kind is EventKind.RAISED:
        return (
            f"{_first_upper(name)} has dropped below its target of {alert.target:.3g}: {estimate} since "
            f"{_clock(alert.onset_at)}{_suspects(alert)}{_ATTRIBUTED.get(alert.attribution, '')}"
        )
    if alert.kind is EventKind.UPDATED:
        return (
            f"{_first_upper(name)} is still below its target of {alert.target:.3g}: {estimate} recently"
            f"{_suspects(alert)}{_ATTRIBUTED.get(alert.attribution, '')}"
        )
    if alert.cause in _WHY_WITHDRAWN:
        return f"The alert about {name} is {_WHY_WITHDRAWN[alert.cause]}"
    since = f" since {_clock(alert.recovered_at)}" if alert.recovered_at is not None else ""
    return f"{_first_upper(name)} has recovered: {estimate}{since}"


def _of_judges(alert: Alert) -> str:
    criterion = alert.series.dimension.replace("_", " ")
    if alert.cause in _WHY_WITHDRAWN:
        return f"The alert about the judges' verdicts on {criterion} is {_WHY_WITHDRAWN[alert.cause]}"
    if alert.kind is EventKind.CLEARED:
        return (
            f"The judges' verdicts on {criterion} are stable again: {_share(alert)} of the canaries get the same "
            "verdict"
        )
    since = f"since {_clock(alert.onset_at)}"
    if alert.kind is EventKind.UPDATED:
        return (
            f"The judges have changed their verdicts on {criterion} {since}; {_share(alert)} of the canaries now get "
            "the new verdict"
        )
    return (
        f"The judges have changed: {_share(alert)} of the canaries still get their earlier verdict on {criterion} "
        f"{since}; {alert.target:.1%} is expected"
    )


def _of_versions(alert: Alert) -> str:
    one, other = alert.models
    difference = f"{alert.estimate:+.3f} ({alert.low:+.3f} to {alert.high:+.3f} since the comparison began)"
    where = f"in {alert.series.app} ({alert.series.value})"
    if alert.cause in _WHY_WITHDRAWN:
        return f"The alert that {one} is worse than {other} {where} is {_WHY_WITHDRAWN[alert.cause]}"
    if alert.kind is EventKind.CLEARED:
        return f"{one} is no longer worse than {other} {where} by more than {alert.target:.3g}: {difference}"
    return f"{one} is worse than {other} {where} by more than {alert.target:.3g}, with high confidence: {difference}"


def _of_agreement(alert: Alert) -> str:
    judge, criterion = alert.series.value, alert.series.dimension.replace("_", " ")
    name = f"the judge {judge} with people on {criterion} in {alert.series.app}"
    if alert.cause in _WHY_WITHDRAWN:
        return f"The alert about the agreement of {name} is {_WHY_WITHDRAWN[alert.cause]}"
    labels = f"{alert.estimate:.3f} ({alert.low:.3f} to {alert.high:.3f}, {alert.scores} labels)"
    if alert.kind is EventKind.CLEARED:
        return f"The agreement of {name} has recovered: {labels}"
    if alert.kind is EventKind.UPDATED:
        return f"The agreement of {name} is still below {alert.target:.3g}: {labels} recently"
    return (
        f"The agreement of {name} has fallen below {alert.target:.3g}: {labels} since {_clock(alert.onset_at)}; "
        "1 is full agreement"
    )


def _suspects(alert: Alert) -> str:
    others = [suspect for suspect in alert.worst_dimensions if suspect.dimension != alert.series.dimension]
    if not others:
        return ""
    listed = ", ".join(f"{suspect.dimension.replace('_', ' ')} ({suspect.estimate:.2f})" for suspect in others)
    return f"; also low: {listed}"


def _estimate(alert: Alert) -> str:
    return f"{alert.estimate:.3f} ({alert.low:.3f} to {alert.high:.3f}, {alert.scores} scores)"


def _share(alert: Alert) -> str:
    return f"{alert.estimate:.1%}"


def _clock(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _first_upper(words: str) -> str:
    return words[:1].upper() + words[1:]

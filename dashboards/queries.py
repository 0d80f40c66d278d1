"""Reads the queries of a dashboard from its JSON, for tests and pictures."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

# Matches all values of a variable, and series without the label.
EVERYTHING = ".*"
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)(?::\w+)?\}|(?P<plain>\w+))")

# Panels that may have no data although everything works, and why.
MAY_BE_EMPTY: Mapping[tuple[str, str], str] = {
    ("streamjury-judges", "Cost, last day"): "judges without a price have no cost to count",
    ("streamjury-judges", "Cost per hour"): "judges without a price have no cost to count",
    ("streamjury-judges", "Daily budget left"): "alerts.cost_per_day_usd is not set",
    ("streamjury-judges", "Budgets left, by app and window"): "no budgets are set",
    ("streamjury-judges", "Calls refused by budgets"): "no budgets are set",
    ("streamjury-judges", "Redacted values by kind"): "nothing was redacted",
    ("streamjury-judges", "Calls at endpoints"): "the local judge calls no endpoint",
    ("streamjury-judges", "Learnt rates"): "no endpoint has shown a limit",
    ("streamjury-judges", "Failed attempts, by reason"): "the local judge calls no endpoint",
    ("streamjury-judges", "Tokens"): "the local judge uses no tokens",
    ("streamjury-judges", "Model answers by outcome"): "the local judge uses no model",
    ("streamjury-judges", "Position flips by judge"): "needs judges with a position check",
    ("streamjury-judges", "Cascade outcomes"): "needs a panel with a cascade",
    ("streamjury-judges", "Samples saved"): "the local judge uses no model",
    ("streamjury-judges", "Agreement"): "a panel of one judge has no pairs",
    ("streamjury-judges", "Agreement by criterion, last hour"): "a panel of one judge has no pairs",
    ("streamjury-judges", "Spread of scores within a panel"): "a panel of one judge has no spread",
    ("streamjury-judges", "Effective votes"): "a panel of one judge has one vote",
    ("streamjury-judges", "Verdicts without a score, by reason"): "every verdict has a score",
    ("streamjury-judges", "Dimensions without a score, by reason"): "every dimension has a score",
    ("streamjury-judges", "Canaries with an unchanged verdict"): "detection.canaries is not set",
    ("streamjury-judges", "Evidence that the judges have changed, relative to the threshold"): "no canaries",
    ("streamjury-judges", "Weighted kappa of judges and people"): "no answer was labelled",
    ("streamjury-judges", "Bad answers found, and others passed"): "no answer was labelled",
    ("streamjury-judges", "Bias by judge"): "no answer was labelled",
    ("streamjury-judges", "Labelled answers by judge"): "no answer was labelled",
    ("streamjury-judges", "Weighted kappa by model family and language"): "no answer was labelled",
    ("streamjury-quality", "Evidence of a drop, relative to the threshold"): "detection is off, or still learning",
    ("streamjury-quality", "Mean minus target, at most and at least"): "detection is off, or still learning",
    ("streamjury-quality", "Series watched for drops"): "detection is off, or still learning",
    ("streamjury-quality", "Alerts announced"): "no alert was announced",
    ("streamjury-quality", "Difference of compared models"): "detection.versions is empty",
    ("streamjury-quality", "Mean corrected by labels"): "no answer was labelled",
    ("streamjury-quality", "Bias of the judges"): "no answer was labelled",
    ("streamjury-quality", "Labelled answers"): "no answer was labelled",
    ("streamjury-quality", "Feedback of users"): "no user reacted",
    ("streamjury-quality", "Refusals"): "criteria.use does not name answer.refusal",
    ("streamjury-quality", "Unjustified refusals by app"): "criteria.use does not name answer.refusal",
    ("streamjury-safety", "Interactions not found safe"): "every interaction was found safe",
    ("streamjury-safety", "Composites with a status other than ok"): "every composite is ok",
    ("streamjury-pipeline", "Restarted processes"): "no worker has several processes",
    ("streamjury-pipeline", "Dead letters by stage and reason"): "no record was dead-lettered",
    ("streamjury-pipeline", "Without a composite, by reason"): "every evaluation has a composite",
    ("streamjury-objectives", "Firing now"): "no alert is firing",
    ("streamjury-objectives", "Alerts over time"): "no alert fired",
}


class Query(NamedTuple):
    """One expression of a panel, ready to be sent."""

    panel: str
    ref_id: str
    expr: str


def queries(dashboard: Mapping[str, Any], variables: Mapping[str, str], window: str) -> list[Query]:
    """Return every expression of every panel; variables that are not given match everything."""
    values = {"window": window, **preset(dashboard), **variables}
    return [
        Query(panel["title"], target["refId"], substitute(target["expr"], values))
        for panel in panels(dashboard)
        for target in panel["targets"]
    ]


def annotations(dashboard: Mapping[str, Any]) -> list[Query]:
    values = preset(dashboard)
    entries = dashboard["annotations"]["list"]
    return [Query(entry["name"], "Anno", substitute(entry["expr"], values)) for entry in entries]


def preset(dashboard: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables with a preset value, which a person may change."""
    variables = dashboard["templating"]["list"]
    return {variable["name"]: variable["query"] for variable in variables if variable["type"] == "textbox"}


def panels(dashboard: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Return the panels that show data, without the rows between them."""
    return (panel for panel in dashboard["panels"] if panel["type"] != "row")


def substitute(text: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: values.get(match["braced"] or match["plain"], EVERYTHING), text)

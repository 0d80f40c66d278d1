"""Reads the queries of a dashboard from its JSON, for the tests and for the pictures."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

# All of a variable's values, and series without the label.
EVERYTHING = ".*"
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)(?::\w+)?\}|(?P<plain>\w+))")

# Panels that may have no data although everything works, and why.
MAY_BE_EMPTY: Mapping[tuple[str, str], str] = {
    ("streamjury-judges", "Cost of the last day"): "judges without a price cost nothing that could be counted",
    ("streamjury-judges", "Cost per hour"): "judges without a price cost nothing that could be counted",
    ("streamjury-judges", "Budget of the day left"): "alerts.cost_per_day_usd is not set",
    ("streamjury-judges", "Budgets left, by app and window"): "budgets limits nothing",
    ("streamjury-judges", "Calls refused for lack of money"): "budgets limits nothing",
    ("streamjury-judges", "Values kept from endpoints, by kind"): "nothing had to be kept from an endpoint",
    ("streamjury-judges", "Tokens"): "the local judge reads no tokens",
    ("streamjury-judges", "Single answers of models, by outcome"): "the local judge asks no model",
    ("streamjury-judges", "Position flips by judge"): "only judges with a position check flip",
    ("streamjury-judges", "Ways through the cascade"): "only a panel with a cascade has ways",
    ("streamjury-judges", "Answers not asked for"): "the local judge asks no model",
    ("streamjury-judges", "Agreement"): "a panel of one judge has nobody to agree with",
    ("streamjury-judges", "Agreement by criterion, last hour"): "a panel of one judge has nobody to agree with",
    ("streamjury-judges", "Spread of scores within a panel"): "a panel of one judge has no spread",
    ("streamjury-judges", "Effective votes"): "a panel of one judge has one vote",
    ("streamjury-judges", "Verdicts without a score, by reason"): "every verdict has a score",
    ("streamjury-judges", "Dimensions without a score, by reason"): "every dimension has a score",
    ("streamjury-judges", "Canaries that get the same verdict again"): "detection.canaries is not set",
    ("streamjury-judges", "Evidence that the judges have changed, less what an alarm takes"): "no canaries",
    ("streamjury-quality", "Evidence of a drop, less what an alarm takes"): "detection is off, or still learning",
    ("streamjury-quality", "Mean less target, at most and at least"): "detection is off, or still learning",
    ("streamjury-quality", "What is watched for drops"): "detection is off, or still learning",
    ("streamjury-quality", "Alerts announced"): "there was no alarm",
    ("streamjury-quality", "Difference of compared models"): "detection.versions compares nothing",
    ("streamjury-safety", "Interactions not found safe"): "every interaction was found safe",
    ("streamjury-safety", "Composites that are not ok"): "every composite is ok",
    ("streamjury-pipeline", "Dead letters by stage and reason"): "no record was bad",
    ("streamjury-pipeline", "Without a composite, by reason"): "every evaluation has a composite",
    ("streamjury-objectives", "Firing now"): "no alert fires",
    ("streamjury-objectives", "Alerts over time"): "no alert fired",
}


class Query(NamedTuple):
    """One expression of a panel, ready to be sent."""

    panel: str
    ref_id: str
    expr: str


def queries(dashboard: Mapping[str, Any], variables: Mapping[str, str], window: str) -> list[Query]:
    """Every expression of every panel; a variable that is not given is everything, `window` is the free window."""
    values = {"window": window, **preset(dashboard), **variables}
    return [
        Query(panel["title"], target["refId"], substituted(target["expr"], values))
        for panel in panels(dashboard)
        for target in panel["targets"]
    ]


def annotations(dashboard: Mapping[str, Any]) -> list[Query]:
    values = preset(dashboard)
    return [Query(each["name"], "Anno", substituted(each["expr"], values)) for each in dashboard["annotations"]["list"]]


def preset(dashboard: Mapping[str, Any]) -> dict[str, str]:
    """The variables that have one value unless a person types another."""
    return {each["name"]: each["query"] for each in dashboard["templating"]["list"] if each["type"] == "textbox"}


def panels(dashboard: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The panels that show data, without the rows between them."""
    return (panel for panel in dashboard["panels"] if panel["type"] != "row")


def substituted(text: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: values.get(found["braced"] or found["plain"], EVERYTHING), text)

"""The parts of grafana-foundation-sdk that are used, imported in one place.

Grafana 11 provisions the classic dashboard model from files. The SDK warns on import that newer Grafanas have another
one; code that imports the dashboards cannot act on this warning.
"""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.builders import (
        bargauge,
        common,
        dashboard,
        heatmap,
        prometheus,
        stat,
        statetimeline,
        table,
        timeseries,
    )
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models import common as kinds
    from grafana_foundation_sdk.models import dashboard as model
    from grafana_foundation_sdk.models import heatmap as heatmap_kinds
    from grafana_foundation_sdk.models.prometheus import PromQueryFormat

__all__ = [
    "Builder",
    "JSONEncoder",
    "PromQueryFormat",
    "bargauge",
    "common",
    "dashboard",
    "heatmap",
    "heatmap_kinds",
    "kinds",
    "model",
    "prometheus",
    "stat",
    "statetimeline",
    "table",
    "timeseries",
]

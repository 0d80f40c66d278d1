"""Panels: several judges on one criterion, who is asked when, and how their verdicts become one finding."""

from judges.panel.cascade import Cascade
from judges.panel.panel import Panel, Vote, safety_choice, surely_worst

__all__ = ["Cascade", "Panel", "Vote", "safety_choice", "surely_worst"]

"""Panels: several judges on one criterion, and how their verdicts become one finding.

- `panel`: asks the judges and combines their verdicts
- `seats`: the judges of a case, and the reserves that replace failed ones
- `cascade`: asks a few judges first, and the whole panel only in doubt
- `early_stopping`: stops asking when open votes cannot change the finding
- `tally`: combines the verdicts of several judges into one finding
- `effective_votes`: the number of independent judges that a panel is worth
"""

from judges.panel.cascade import Cascade
from judges.panel.panel import Panel, Vote, is_certainly_worst, safety_choice

__all__ = ["Cascade", "Panel", "Vote", "is_certainly_worst", "safety_choice"]

"""Panels: several judges on one criterion, and how their verdicts become one finding.

- `panel`: asks the judges and combines their verdicts
- `seats`: who judges a case, and who replaces a judge that fails
- `cascade`: asks a few judges first, and the whole panel only in doubt
- `early_stopping`: stops asking when open votes cannot change the finding
- `tally`: one finding from the verdicts of several judges
- `effective_votes`: the number of independent judges that a panel is worth
"""

from judges.panel.cascade import Cascade
from judges.panel.panel import Panel, Vote, safety_choice, surely_worst

__all__ = ["Cascade", "Panel", "Vote", "safety_choice", "surely_worst"]

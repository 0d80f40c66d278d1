"""Hard budgets that all workers keep together, without a coordinator.

- `limits`: the share of every budget that a partition has
- `account`: one limit, the amounts spent and reserved from it, and the lease
- `lease_ledger`: all accounts of one partition; pure, with no clock and no Kafka
- `offset_note`: a ledger as the text that is committed with the partition's offset
- `treasury`: the ledgers of a worker's partitions, and the purses that judge calls pay from
- `savings`: which calls are left out as the money runs low
"""

from stream.worker.budget.lease_ledger import Ask, LeaseLedger, LeaseRefusal, Reservation
from stream.worker.budget.limits import Limits, shares
from stream.worker.budget.savings import SavingPlan, Thinning, plan_savings, thin
from stream.worker.budget.treasury import CommitPlan, Treasury

__all__ = [
    "Ask",
    "CommitPlan",
    "LeaseLedger",
    "LeaseRefusal",
    "Limits",
    "Reservation",
    "SavingPlan",
    "Thinning",
    "Treasury",
    "plan_savings",
    "shares",
    "thin",
]

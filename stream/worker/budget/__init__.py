"""Spending: hard budgets that all workers keep together, without a coordinator.

- `limits`: the share of every budget that one partition has
- `account`: one limit, what is spent and reserved of it, and the lease
- `ledger`: all accounts of one partition; pure, with no clock and no Kafka
- `note`: a ledger as the text that is committed with the partition's offset
- `treasury`: the ledgers of a worker's partitions, and the purses that judge calls pay from
- `economy`: what is left out as the money runs low
"""

from stream.worker.budget.lease_ledger import Ask, Ledger, Refusal, Reservation
from stream.worker.budget.limits import Limits, shares
from stream.worker.budget.savings import Economy, Thinning, economy, thinned
from stream.worker.budget.treasury import Paper, Treasury

__all__ = [
    "Ask",
    "Economy",
    "Ledger",
    "Limits",
    "Paper",
    "Refusal",
    "Reservation",
    "Thinning",
    "Treasury",
    "economy",
    "shares",
    "thinned",
]

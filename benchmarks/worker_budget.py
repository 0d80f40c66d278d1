"""A worker's budget that never runs out, to measure the overhead of paying for calls."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from judges.models.spending import Purse
from stream.kafka.offsets import Partition
from stream.worker.budget import Treasury
from stream.worker.budget.limits import Budget, Budgets


@asynccontextmanager
async def open_purse(commit_seconds: float) -> AsyncIterator[Purse]:
    """Open the budget, and commit it regularly, like a worker."""
    everyone = Budget(per_hour_usd=1e6, per_day_usd=1e7)
    partition = Partition("sampled", 0)
    treasury = Treasury(Budgets(everyone=everyone, apps={}, safety_share=0.2), topic=partition.topic)
    treasury.expect_partitions([partition])
    treasury.open_partition(partition, 0, "", partitions=1)

    async def commit() -> None:
        while True:
            treasury.confirm_commit(treasury.prepare({partition: 0}, lambda _: 0))
            await asyncio.sleep(commit_seconds)

    committing = asyncio.create_task(commit())
    try:
        purse = treasury.purse(partition, None, "main")
        assert purse is not None
        yield purse
    finally:
        committing.cancel()

"""Sums over hours, and indexes that contain all filter columns."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_FILTERED = ("app", "model", "tenant", "status", "lane", "spread")
_BUCKET_COUNTS = ("n", "uncertain_n")
_BUCKET_SUMS = ("w", "ws", "wss", "v", "vs", "vss", "squares", "cubes", "unscored")
_STATUSES = ("ok", "questionable", "unsafe", "safety_unknown", "incomplete", "failed")


def upgrade() -> None:
    _replace_indexes()
    _create_hours("buckets", "buckets", ("app", "series"), _BUCKET_COUNTS, _BUCKET_SUMS)
    _create_hours("app", "app_minutes", ("app",), ("n", *_STATUSES), ("cost_usd", "coverage"))
    _create_hours(
        "judge",
        "judge_minutes",
        ("judge", "criterion"),
        ("n", "scored", "scores", "compared", "timed"),
        ("score", "agreed", "latency_ms", "cost_usd"),
    )
    _create_hours("judge_failures", "judge_failures", ("judge", "criterion", "reason"), ("n",), ())
    _create_hours("judge_latencies", "judge_latencies", ("judge", "step"), ("n",), ())


def _replace_indexes() -> None:
    for name, table in (
        ("ix_evaluations_at", "evaluations"),
        ("ix_evaluations_composite", "evaluations"),
        ("ix_scores_criterion", "scores"),
    ):
        op.drop_index(name, table)
    newest_first = sa.text("number DESC")
    op.create_index("ix_evaluations_model", "evaluations", ["model"])
    op.create_index("ix_evaluations_tenant", "evaluations", ["tenant"])
    op.create_index("ix_evaluations_at", "evaluations", ["at", "number", *_FILTERED, "composite"])
    op.create_index("ix_evaluations_composite", "evaluations", ["composite", newest_first, "at", *_FILTERED])
    op.create_index("ix_evaluations_status", "evaluations", ["status", "composite", newest_first, "at", "lane"])
    op.create_index("ix_scores_criterion", "scores", ["criterion", "score", newest_first, "at", "app", "spread"])


def _create_hours(
    name: str, minutes: str, keys: tuple[str, ...], counts: tuple[str, ...], sums: tuple[str, ...]
) -> None:
    """Create a table of hours, and fill it from the table of minutes."""
    hours = f"{name}_by_hour"
    op.create_table(
        hours,
        *(sa.Column(key, sa.Integer() if key == "step" else sa.Text(), nullable=False) for key in keys),
        sa.Column("minute", sa.BigInteger(), nullable=False),
        *(sa.Column(count, sa.BigInteger(), nullable=False) for count in counts),
        *(sa.Column(total, sa.Double(), nullable=False) for total in sums),
        sa.PrimaryKeyConstraint(*keys, "minute", name=f"pk_{hours}"),
        sqlite_with_rowid=False,
    )
    op.create_index(f"ix_{hours}_minute", hours, ["minute"])
    names, columns = ", ".join(keys), ", ".join((*counts, *sums))
    added = ", ".join((*(f"CAST(SUM({count}) AS BIGINT)" for count in counts), *(f"SUM({total})" for total in sums)))
    op.execute(
        f"INSERT INTO {hours} ({names}, minute, {columns}) "  # noqa: S608 - our own names
        f"SELECT {names}, minute / 60 * 60, {added} FROM {minutes} GROUP BY {names}, minute / 60 * 60"
    )

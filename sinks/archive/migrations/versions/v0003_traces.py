"""An index of traces, to find the answers of labels by trace id."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_index("ix_evaluations_trace_id", "evaluations", ["trace_id"])

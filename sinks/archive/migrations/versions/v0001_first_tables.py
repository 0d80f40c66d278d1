"""All tables of the first release."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    _create_evaluations()
    _create_records()
    _create_scores()
    _create_evaluation_tags()
    _create_texts()
    _create_buckets()
    _create_app_minutes()
    _create_judge_minutes()
    _create_judge_failures()
    _create_judge_latencies()
    _create_alerts()
    _create_labels()
    _create_audit_log()
    _create_positions()
    _create_erasures()
    _create_search()


def _create_evaluations() -> None:
    op.create_table(
        "evaluations",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("interaction_id", sa.Text(), nullable=False),
        sa.Column("texts_id", sa.Text(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("probability", sa.Double(), nullable=False),
        sa.Column("composite", sa.Double(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("coverage", sa.Double(), nullable=False),
        sa.Column("safety", sa.Text(), nullable=False),
        sa.Column("worst_criterion", sa.Text(), nullable=True),
        sa.Column("spread", sa.Double(), nullable=True),
        sa.Column("cost_usd", sa.Double(), nullable=True),
        sa.Column("latency_ms", sa.Double(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("trace_id", sa.Text(), nullable=True),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=True),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("number", name="pk_evaluations"),
        sa.UniqueConstraint("id", name="uq_evaluations_id"),
    )
    op.create_index("ix_evaluations_app", "evaluations", ["app", "at"], unique=False)
    op.create_index("ix_evaluations_at", "evaluations", ["at"], unique=False)
    op.create_index("ix_evaluations_composite", "evaluations", ["composite", "at"], unique=False)
    op.create_index("ix_evaluations_interaction_id", "evaluations", ["interaction_id"], unique=False)
    op.create_index("ix_evaluations_texts_id", "evaluations", ["texts_id"], unique=False)


def _create_records() -> None:
    op.create_table(
        "records",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_records"),
    )


def _create_scores() -> None:
    op.create_table(
        "scores",
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("criterion", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("option", sa.Text(), nullable=True),
        sa.Column("spread", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("number", "criterion", name="pk_scores"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_scores_criterion", "scores", ["criterion", "score", "at"], unique=False)


def _create_evaluation_tags() -> None:
    op.create_table(
        "evaluation_tags",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", "value", "number", name="pk_evaluation_tags"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_evaluation_tags_number", "evaluation_tags", ["number"], unique=False)


def _create_texts() -> None:
    op.create_table(
        "texts",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("interaction_id", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=True),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_texts"),
        sa.UniqueConstraint("id", name="uq_texts_id"),
    )
    op.create_index("ix_texts_at", "texts", ["at"], unique=False)
    op.create_index("ix_texts_interaction_id", "texts", ["interaction_id"], unique=False)


def _create_buckets() -> None:
    op.create_table(
        "buckets",
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("minute", sa.BigInteger(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("uncertain_n", sa.BigInteger(), nullable=False),
        sa.Column("w", sa.Double(), nullable=False),
        sa.Column("ws", sa.Double(), nullable=False),
        sa.Column("wss", sa.Double(), nullable=False),
        sa.Column("v", sa.Double(), nullable=False),
        sa.Column("vs", sa.Double(), nullable=False),
        sa.Column("vss", sa.Double(), nullable=False),
        sa.Column("squares", sa.Double(), nullable=False),
        sa.Column("cubes", sa.Double(), nullable=False),
        sa.Column("unscored", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("app", "series", "minute", name="pk_buckets"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_buckets_minute", "buckets", ["minute"], unique=False)


def _create_app_minutes() -> None:
    op.create_table(
        "app_minutes",
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("minute", sa.BigInteger(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("cost_usd", sa.Double(), nullable=False),
        sa.Column("coverage", sa.Double(), nullable=False),
        sa.Column("ok", sa.BigInteger(), nullable=False),
        sa.Column("questionable", sa.BigInteger(), nullable=False),
        sa.Column("unsafe", sa.BigInteger(), nullable=False),
        sa.Column("safety_unknown", sa.BigInteger(), nullable=False),
        sa.Column("incomplete", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("app", "minute", name="pk_app_minutes"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_app_minutes_minute", "app_minutes", ["minute"], unique=False)


def _create_judge_minutes() -> None:
    op.create_table(
        "judge_minutes",
        sa.Column("judge", sa.Text(), nullable=False),
        sa.Column("criterion", sa.Text(), nullable=False),
        sa.Column("minute", sa.BigInteger(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("scored", sa.BigInteger(), nullable=False),
        sa.Column("scores", sa.BigInteger(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("compared", sa.BigInteger(), nullable=False),
        sa.Column("agreed", sa.Double(), nullable=False),
        sa.Column("timed", sa.BigInteger(), nullable=False),
        sa.Column("latency_ms", sa.Double(), nullable=False),
        sa.Column("cost_usd", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("judge", "criterion", "minute", name="pk_judge_minutes"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_judge_minutes_minute", "judge_minutes", ["minute"], unique=False)


def _create_judge_failures() -> None:
    op.create_table(
        "judge_failures",
        sa.Column("judge", sa.Text(), nullable=False),
        sa.Column("criterion", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("minute", sa.BigInteger(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("judge", "criterion", "reason", "minute", name="pk_judge_failures"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_judge_failures_minute", "judge_failures", ["minute"], unique=False)


def _create_judge_latencies() -> None:
    op.create_table(
        "judge_latencies",
        sa.Column("judge", sa.Text(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("minute", sa.BigInteger(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("judge", "step", "minute", name="pk_judge_latencies"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_judge_latencies_minute", "judge_latencies", ["minute"], unique=False)


def _create_alerts() -> None:
    op.create_table(
        "alerts",
        sa.Column("alert_id", sa.Text(), nullable=False),
        sa.Column("series_key", sa.Text(), nullable=False),
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("dimension", sa.Text(), nullable=False),
        sa.Column("attribute", sa.Text(), nullable=True),
        sa.Column("value", sa.Text(), nullable=True),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("raised_at", sa.BigInteger(), nullable=False),
        sa.Column("onset_at", sa.BigInteger(), nullable=False),
        sa.Column("cleared_at", sa.BigInteger(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("alert_id", name="pk_alerts"),
    )
    op.create_index("ix_alerts_app", "alerts", ["app", "raised_at"], unique=False)
    op.create_index("ix_alerts_raised_at", "alerts", ["raised_at"], unique=False)


def _create_labels() -> None:
    op.create_table(
        "labels",
        sa.Column("label_id", sa.Text(), nullable=False),
        sa.Column("interaction_id", sa.Text(), nullable=False),
        sa.Column("evaluation_id", sa.Text(), nullable=True),
        sa.Column("criterion", sa.Text(), nullable=False),
        sa.Column("option", sa.Text(), nullable=True),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("probability", sa.Double(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.Column("retracted", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("label_id", name="pk_labels"),
    )
    op.create_index("ix_labels_at", "labels", ["at"], unique=False)
    op.create_index("ix_labels_evaluation_id", "labels", ["evaluation_id"], unique=False)
    op.create_index("ix_labels_interaction_id", "labels", ["interaction_id"], unique=False)


def _create_audit_log() -> None:
    op.create_table(
        "audit_log",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_log"),
    )
    op.create_index("ix_audit_log_at", "audit_log", ["at"], unique=False)


def _create_positions() -> None:
    op.create_table(
        "positions",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "partition", name="pk_positions"),
    )


def _create_erasures() -> None:
    op.create_table(
        "erasures",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "digest", name="pk_erasures"),
    )


def _create_search() -> None:
    """Create the search index in the form that the database supports."""
    if op.get_bind().dialect.name == "sqlite":
        # It keeps no copy of the texts: they are compressed in `texts`.
        op.execute("CREATE VIRTUAL TABLE texts_search USING fts5(question, answer, content='', tokenize='unicode61')")
        return
    op.execute("ALTER TABLE texts ADD COLUMN search tsvector NOT NULL DEFAULT ''")
    op.execute("CREATE INDEX ix_texts_search ON texts USING gin (search)")
    # The content is compressed already.
    op.execute("ALTER TABLE records ALTER COLUMN content SET STORAGE EXTERNAL")
    op.execute("ALTER TABLE texts ALTER COLUMN content SET STORAGE EXTERNAL")

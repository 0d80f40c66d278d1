"""The tables of the archive, the same for SQLite and PostgreSQL.

Times are milliseconds since 1970 in UTC, minutes are minutes since 1970, JSON is text. The search index is not defined
here, because it differs: SQLite has a table `texts_search` (FTS5) with the columns `question` and `answer` and
the `number` of the texts as its rowid; PostgreSQL has a column `texts.search` (tsvector, configuration `simple`) with a
GIN index. A change here needs a new version in `migrations/versions`; a test compares the two.
"""

from collections.abc import Mapping

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)

# SQLite generates row numbers only if the type is exactly INTEGER.
Number = BigInteger().with_variant(Integer, "sqlite")

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s",
    }
)

FILTERED = ("app", "model", "tenant", "status", "lane", "spread")
"""Columns of `evaluations` that answers are filtered by."""

evaluations = Table(
    "evaluations",
    metadata,
    # In the order of arrival: other tables refer to this number, so they grow only at their ends.
    Column("number", Number, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("interaction_id", Text, nullable=False),
    # The `id` of the judged texts; null in records of versions that did not name the judged content.
    Column("texts_id", Text),
    Column("at", BigInteger, nullable=False),
    Column("app", Text, nullable=False),
    Column("tenant", Text),
    Column("model", Text),
    Column("lane", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("probability", Double, nullable=False),
    Column("composite", Double),
    Column("status", Text, nullable=False),
    Column("coverage", Double, nullable=False),
    Column("safety", Text, nullable=False),
    # The criterion with the lowest score; null if no criterion has one.
    Column("worst_criterion", Text),
    # The largest disagreement of judges over the criteria; null if no criterion has two scores.
    Column("spread", Double),
    Column("cost_usd", Double),
    Column("latency_ms", Double, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("trace_id", Text),
    Column("tags", Text, nullable=False),
    # Excerpts; null if the record has none or `archive.texts` is `none`.
    Column("question", Text),
    Column("answer", Text),
    Index("ix_evaluations_interaction_id", "interaction_id"),
    Index("ix_evaluations_texts_id", "texts_id"),
    Index("ix_evaluations_app", "app", "at"),
    Index("ix_evaluations_model", "model"),
    Index("ix_evaluations_tenant", "tenant"),
    # People may label the trace of an interaction.
    Index("ix_evaluations_trace_id", "trace_id"),
    # This index and the next contain all filter columns, so that a search reads only the rows that it shows.
    Index("ix_evaluations_at", "at", "number", *FILTERED, "composite"),
)
Index(
    "ix_evaluations_status",
    evaluations.c.status,
    evaluations.c.composite,
    evaluations.c.number.desc(),
    evaluations.c.at,
    evaluations.c.lane,
)
Index(
    "ix_evaluations_composite",
    evaluations.c.composite,
    evaluations.c.number.desc(),
    evaluations.c.at,
    *(evaluations.c[name] for name in FILTERED),
)

# The records as published, zlib-compressed JSON. They are large; a separate table keeps lists of evaluations fast.
records = Table(
    "records",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)

scores = Table(
    "scores",
    metadata,
    Column("number", BigInteger, nullable=False),
    Column("criterion", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("app", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("score", Double),
    Column("option", Text),
    Column("spread", Double),
    PrimaryKeyConstraint("number", "criterion"),
    sqlite_with_rowid=False,
)
Index(
    "ix_scores_criterion",
    scores.c.criterion,
    scores.c.score,
    scores.c.number.desc(),
    scores.c.at,
    scores.c.app,
    scores.c.spread,
)

# One row for each tag of an evaluation; the value as in JSON, without the quotes of a text.
evaluation_tags = Table(
    "evaluation_tags",
    metadata,
    Column("name", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("number", BigInteger, nullable=False),
    PrimaryKeyConstraint("name", "value", "number"),
    Index("ix_evaluation_tags_number", "number"),
    sqlite_with_rowid=False,
)

texts = Table(
    "texts",
    metadata,
    Column("number", Number, primary_key=True),
    # The logged id of the interaction, `#` and a digest of its content: an id may be logged with several contents.
    Column("id", Text, nullable=False, unique=True),
    Column("interaction_id", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("tenant", Text),
    # zlib-compressed JSON: question, history, contexts, answer, reference.
    Column("content", LargeBinary, nullable=False),
    Index("ix_texts_interaction_id", "interaction_id"),
    Index("ix_texts_at", "at"),
)

# Sums of live traffic (no canaries, no backfills), from which `rollups.sums_of` makes an estimate with its interval.
buckets = Table(
    "buckets",
    metadata,
    Column("app", Text, nullable=False),
    # `composite`, `good` (the share of good answers) or a criterion.
    Column("series", Text, nullable=False),
    Column("minute", BigInteger, nullable=False),
    Column("n", BigInteger, nullable=False),
    # Records that were sampled with a probability below 1.
    Column("uncertain_n", BigInteger, nullable=False),
    # Σ w, Σ w·s, Σ w·s² over scored records, where w = 1/π.
    Column("w", Double, nullable=False),
    Column("ws", Double, nullable=False),
    Column("wss", Double, nullable=False),
    # The same with w·(w − 1), the contribution of a record to the variance.
    Column("v", Double, nullable=False),
    Column("vs", Double, nullable=False),
    Column("vss", Double, nullable=False),
    # Σ w² and Σ w·(w − 1)².
    Column("squares", Double, nullable=False),
    Column("cubes", Double, nullable=False),
    # Σ w over records without a score.
    Column("unscored", Double, nullable=False),
    PrimaryKeyConstraint("app", "series", "minute"),
    Index("ix_buckets_minute", "minute"),
    sqlite_with_rowid=False,
)

# Live traffic, but the cost of all lanes: canaries and backfills are paid for too.
app_minutes = Table(
    "app_minutes",
    metadata,
    Column("app", Text, nullable=False),
    Column("minute", BigInteger, nullable=False),
    Column("n", BigInteger, nullable=False),
    Column("cost_usd", Double, nullable=False),
    # Σ coverage of the composites.
    Column("coverage", Double, nullable=False),
    Column("ok", BigInteger, nullable=False),
    Column("questionable", BigInteger, nullable=False),
    Column("unsafe", BigInteger, nullable=False),
    Column("safety_unknown", BigInteger, nullable=False),
    Column("incomplete", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    PrimaryKeyConstraint("app", "minute"),
    Index("ix_app_minutes_minute", "minute"),
    sqlite_with_rowid=False,
)

# Verdicts of judges in all lanes.
judge_minutes = Table(
    "judge_minutes",
    metadata,
    Column("judge", Text, nullable=False),
    Column("criterion", Text, nullable=False),
    Column("minute", BigInteger, nullable=False),
    Column("n", BigInteger, nullable=False),
    Column("scored", BigInteger, nullable=False),
    # Σ of its scores, of those `scored` that have one.
    Column("scores", BigInteger, nullable=False),
    Column("score", Double, nullable=False),
    # Verdicts with at least one other scored judge, and Σ of the share of those judges that chose the same.
    Column("compared", BigInteger, nullable=False),
    Column("agreed", Double, nullable=False),
    # Verdicts whose duration is that of a working judge; their sum.
    Column("timed", BigInteger, nullable=False),
    Column("latency_ms", Double, nullable=False),
    Column("cost_usd", Double, nullable=False),
    PrimaryKeyConstraint("judge", "criterion", "minute"),
    Index("ix_judge_minutes_minute", "minute"),
    sqlite_with_rowid=False,
)

judge_failures = Table(
    "judge_failures",
    metadata,
    Column("judge", Text, nullable=False),
    Column("criterion", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("minute", BigInteger, nullable=False),
    Column("n", BigInteger, nullable=False),
    PrimaryKeyConstraint("judge", "criterion", "reason", "minute"),
    Index("ix_judge_failures_minute", "minute"),
    sqlite_with_rowid=False,
)

# A histogram: `step` is that of `rollups.latency_step`.
judge_latencies = Table(
    "judge_latencies",
    metadata,
    Column("judge", Text, nullable=False),
    Column("step", Integer, nullable=False),
    Column("minute", BigInteger, nullable=False),
    Column("n", BigInteger, nullable=False),
    PrimaryKeyConstraint("judge", "step", "minute"),
    Index("ix_judge_latencies_minute", "minute"),
    sqlite_with_rowid=False,
)

# The latest announcement of each alert.
alerts = Table(
    "alerts",
    metadata,
    Column("alert_id", Text, primary_key=True),
    Column("series_key", Text, nullable=False),
    Column("app", Text, nullable=False),
    Column("dimension", Text, nullable=False),
    # `model`, `tenant` or `versions` and its name, if the series is not that of a whole app.
    Column("attribute", Text),
    Column("value", Text),
    Column("subject", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("raised_at", BigInteger, nullable=False),
    Column("onset_at", BigInteger, nullable=False),
    Column("cleared_at", BigInteger),
    Column("at", BigInteger, nullable=False),
    Column("record", Text, nullable=False),
    Index("ix_alerts_raised_at", "raised_at"),
    Index("ix_alerts_app", "app", "raised_at"),
)

labels = Table(
    "labels",
    metadata,
    Column("label_id", Text, primary_key=True),
    Column("interaction_id", Text, nullable=False),
    Column("evaluation_id", Text),
    Column("criterion", Text, nullable=False),
    Column("option", Text),
    Column("score", Double),
    Column("who", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("probability", Double),
    Column("kind", Text, nullable=False),
    Column("comment", Text),
    Column("retracted", Boolean, nullable=False),
    Index("ix_labels_interaction_id", "interaction_id"),
    Index("ix_labels_evaluation_id", "evaluation_id"),
    Index("ix_labels_at", "at"),
)

# Actions of people on the page.
audit_log = Table(
    "audit_log",
    metadata,
    Column("id", Number, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("who", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Index("ix_audit_log_at", "at"),
)

# The next offset to read; it changes in the transaction that writes the rows before it.
positions = Table(
    "positions",
    metadata,
    Column("topic", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("next_offset", BigInteger, nullable=False),
    PrimaryKeyConstraint("topic", "partition"),
)

# Names that were erased on request and must not be archived again; only digests, so that the list reveals no names.
erasures = Table(
    "erasures",
    metadata,
    # `interaction` or `tenant`.
    Column("kind", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    PrimaryKeyConstraint("kind", "digest"),
)


def _make_hours(table: Table) -> Table:
    hours = f"{table.name.removesuffix('_minutes')}_by_hour"
    return Table(
        hours,
        metadata,
        *(Column(column.name, column.type, nullable=False) for column in table.columns),
        PrimaryKeyConstraint(*(column.name for column in table.primary_key.columns)),
        Index(f"ix_{hours}_minute", "minute"),
        sqlite_with_rowid=False,
    )


by_hour: Mapping[Table, Table] = {
    table: _make_hours(table) for table in (buckets, app_minutes, judge_minutes, judge_failures, judge_latencies)
}
"""The same sums over whole hours, for charts of many days; `minute` is the first of the hour."""

"""Deletes an interaction or a tenant permanently: no later record or rebuild brings it back from Kafka.

The list of erased names holds only digests, so that it does not keep the names. Sums over minutes stay: they describe
an app, and contain no texts or ids.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, or_, select, text, update

from sinks.archive.bulk import find_existing
from sinks.archive.database import SQLITE, Database
from sinks.archive.removal import remove_evaluations, remove_texts
from sinks.archive.tables import alerts, erasures, evaluations, labels, records, scores, texts

T = TypeVar("T")

ErasedKind = Literal["interaction", "tenant"]

# Length to which an interaction id is cut before `#` and a digest are appended.
_MAX_PREFIX_CHARS = 479
_BATCH = 500


class ErasedRows(NamedTuple):
    """The number of deleted rows."""

    evaluations: int = 0
    texts: int = 0
    labels: int = 0
    alerts: int = 0
    """Alerts that were deleted, or from which examples were removed."""


def erase(database: Database, kind: ErasedKind, name: str) -> ErasedRows:
    """Delete everything about an interaction or a tenant, and never archive it again."""
    with database.write() as connection:
        # First, so that an archivist that waits for this transaction does not add it again.
        remember(connection, kind, [name])
        erased = _erase_all(connection, kind, name)
    _overwrite(database)
    return erased


def allow_again(database: Database, kind: ErasedKind, name: str) -> bool:
    """Remove a name from the list, so that its future records are archived; return whether it was listed."""
    entry = and_(erasures.c.kind == kind, erasures.c.digest == digest_of(name))
    with database.write() as connection:
        return connection.execute(delete(erasures).where(entry)).rowcount > 0


def digest_of(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def find_erased(connection: Connection, kind: ErasedKind, names: Iterable[str]) -> set[str]:
    """Return the names that were erased."""
    if not connection.scalar(select(exists().where(erasures.c.kind == kind))):
        return set()
    digests = {digest_of(name): name for name in names}
    return {digests[digest] for digest in find_existing(connection, erasures.c.digest, list(digests))}


def remove_erased_examples(connection: Connection, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of `alerts` without its erased examples."""
    document = json.loads(row["record"])
    examples = document.get("examples") or []
    erased = find_erased(connection, "interaction", map(_interaction_of, examples))
    if not erased:
        return row
    remaining = [example for example in examples if _interaction_of(example) not in erased]
    return {**row, "record": json.dumps({**document, "examples": remaining}, ensure_ascii=False)}


def remember(connection: Connection, kind: ErasedKind, names: Iterable[str]) -> None:
    """Add names to the list of erased names."""
    now = int(time.time() * 1000)
    for batch in _batches(sorted({digest_of(name) for name in names})):
        listed = select(erasures.c.digest).where(erasures.c.kind == kind, erasures.c.digest.in_(batch))
        missing = set(batch).difference(connection.scalars(listed))
        if missing:
            entries = [{"kind": kind, "digest": digest, "at": now} for digest in sorted(missing)]
            connection.execute(erasures.insert(), entries)


def _erase_all(connection: Connection, kind: ErasedKind, name: str) -> ErasedRows:
    if kind == "tenant":
        in_evaluations, in_texts = evaluations.c.tenant == name, texts.c.tenant == name
    else:
        in_evaluations, in_texts = _is_of_interaction(name), texts.c.interaction_id == name
    judged = connection.execute(select(evaluations.c.number, evaluations.c.interaction_id).where(in_evaluations)).all()
    stored = connection.execute(select(texts.c.number, texts.c.interaction_id).where(in_texts)).all()
    interactions = {row.interaction_id for row in (*judged, *stored)} | ({name} if kind == "interaction" else set())
    changed = _erase_from_alerts(connection, interactions, name if kind == "tenant" else None)
    deleted_labels = _erase_labels(connection, interactions)
    for batch in _batches([row.number for row in judged]):
        remove_evaluations(connection, batch)
    for batch in _batches([row.number for row in stored]):
        remove_texts(connection, batch)
    return ErasedRows(evaluations=len(judged), texts=len(stored), labels=deleted_labels, alerts=changed)


def _erase_labels(connection: Connection, interactions: set[str]) -> int:
    deleted = 0
    for batch in _batches(sorted(interactions)):
        labelled = find_existing(connection, labels.c.interaction_id, batch)
        # A label does not name its tenant, so its interaction must be listed, too.
        remember(connection, "interaction", labelled)
        deleted += connection.execute(delete(labels).where(labels.c.interaction_id.in_(labelled))).rowcount
    return deleted


def _is_of_interaction(name: str) -> ColumnElement[bool]:
    """Match an id, and the derived ids of other contents that were logged under it."""
    column, prefix = evaluations.c.interaction_id, f"{name[:_MAX_PREFIX_CHARS]}#"
    # A digest is hexadecimal; the index finds the prefix.
    derived = and_(column >= f"{prefix}0", column < f"{prefix}g", evaluations.c.texts_id == column)
    return or_(column == name, derived)


def _erase_from_alerts(connection: Connection, interactions: set[str], tenant: str | None) -> int:
    changed = 0
    if tenant is not None:
        is_of_tenant = and_(alerts.c.attribute == "tenant", alerts.c.value == tenant)
        changed += connection.execute(delete(alerts).where(is_of_tenant)).rowcount
    for alert_id, record in connection.execute(select(alerts.c.alert_id, alerts.c.record)).all():
        document = json.loads(record)
        examples = document.get("examples") or []
        remaining = [example for example in examples if _interaction_of(example) not in interactions]
        if len(remaining) < len(examples):
            # An alert does not name the tenant of its examples, so their interactions must be listed, too.
            remember(connection, "interaction", interactions.intersection(map(_interaction_of, examples)))
            stripped = json.dumps({**document, "examples": remaining}, ensure_ascii=False)
            connection.execute(update(alerts).where(alerts.c.alert_id == alert_id).values(record=stripped))
            changed += 1
    return changed


def _interaction_of(example: dict[str, Any]) -> str:
    return str(example.get("interaction_id"))


def _batches(items: Sequence[T]) -> Iterable[Sequence[T]]:
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))


def _overwrite(database: Database) -> None:
    """Make the database discard the bytes of deleted rows, which it would keep until it reuses their space."""
    with database.outside_transactions() as connection:
        if database.kind != SQLITE:
            for table in (evaluations, records, scores, texts, labels, alerts):
                connection.execute(text(f"VACUUM {table.name}"))
            return
        # Deleted words stay in older segments of the index until these are merged.
        connection.execute(text("INSERT INTO texts_search(texts_search) VALUES ('optimize')"))
        connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))

"""Distinguishes interactions that were logged under one id, by a digest of their content."""

import hashlib
import json
import re

from judges.values.interaction import MAX_ID_CHARS, Interaction
from stream.errors import RecordError

UNKNOWN_CONTENT = ""
"""Stands for the digest of an evaluation without one, published by an earlier version."""

# Long enough to prevent collisions: of two contents with one digest, one would hide the other from the judges.
_DIGEST_BYTES = 16
DIGEST_CHARS = 2 * _DIGEST_BYTES
_SEPARATOR = "#"
_DISTINCT_ID = re.compile(rf"{_SEPARATOR}[0-9a-f]{{{DIGEST_CHARS}}}\Z")


def content_digest(interaction: Interaction) -> str:
    """Hash the judged content, and the app, tenant and model that the result counts for.

    Times, tags and traces are left out: a service that logs an interaction again may change them.
    """
    content = (
        interaction.app,
        interaction.tenant,
        interaction.model,
        interaction.question,
        interaction.answer,
        [(turn.role, turn.text) for turn in interaction.history],
        [context.text for context in interaction.contexts],
        interaction.reference,
        [(candidate.name, candidate.answer) for candidate in interaction.candidates],
    )
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def distinct_id(logged_id: str, content: str) -> str:
    """Return the id for judging a content if another content was judged under its logged id.

    A long id is truncated: ids that begin alike get the same id only for the same content.
    """
    return f"{logged_id[: MAX_ID_CHARS - DIGEST_CHARS - len(_SEPARATOR)]}{_SEPARATOR}{content}"


def refuse_distinct_id(logged_id: str) -> None:
    """Raise RecordError for traffic with an id like those of `distinct_id`: its results would count for another."""
    if _DISTINCT_ID.search(logged_id):
        raise RecordError(
            "reserved_id",
            f"ids that end with {_SEPARATOR!r} and {DIGEST_CHARS} hex digits are reserved for interactions whose "
            "logged id was already used for other content",
        )

"""Tells interactions apart that were logged under one id, by a digest of their content."""

import hashlib
import json

from judges.values.interaction import Interaction

UNKNOWN_CONTENT = ""
"""The digest of an evaluation that has none: it was published by an earlier version."""

# Nobody finds two contents of one digest: one of them would hide the other from the judges.
_DIGEST_BYTES = 16
_SEPARATOR = "#"


def content_digest(interaction: Interaction) -> str:
    """A digest of what is judged, and of whom the result counts for.

    Times, tags and traces are left out: a service that logs an interaction again may give it others.
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
    """The id under which a content is judged if another one was judged under the id it was logged with."""
    return f"{logged_id}{_SEPARATOR}{content}"

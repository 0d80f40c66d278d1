"""The names of all headers on our records, with the topics, writers, readers and contents of each.

All code that writes or reads a record takes the names from here, and no other module repeats one.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Header(NamedTuple):
    """The purpose of one header."""

    on: str
    """The topics whose records have it."""
    written_by: str
    read_by: str
    """Stages and commands that act on it; `people` if it only explains."""
    holds: str


PREFIX = "sj-"
"""All our names begin with this; a header without it belongs to the service whose records we judge."""
ERROR_PREFIX = "sj-error-"
SOURCE_PREFIX = "sj-source-"

_headers: dict[str, Header] = {}

HEADERS: Mapping[str, Header] = MappingProxyType(_headers)
"""All headers by name, in the order of the documentation."""


def _header(name: str, *, on: str, written_by: str, read_by: str, holds: str) -> str:
    _headers[name] = Header(on, written_by, read_by, holds)
    return name


# The decision of the sampler, around the unchanged bytes of the interaction

_QUEUE = "`rag.sampled`, and every topic the record goes to from there"
_SAMPLER = "sampler; monitor, for canaries"

PROBABILITY = _header(
    "sj-probability",
    on=_QUEUE,
    written_by=_SAMPLER,
    read_by="worker",
    holds="probability π with which the record was selected",
)
RULE = _header(
    "sj-rule",
    on=_QUEUE,
    written_by=_SAMPLER,
    read_by="worker",
    holds="sampling rule that selected it",
)
LANE = _header(
    "sj-lane",
    on=f"{_QUEUE}; evaluations of a backfill",
    written_by=f"{_SAMPLER}; `backfill`",
    read_by="worker, `audit`",
    holds="`main`, `safety`, a lane of the rules, `backfill` or `canary`",
)
SALT = _header(
    "sj-salt",
    on=_QUEUE,
    written_by=_SAMPLER,
    read_by="people",
    holds="`sampling.salt`",
)
SAMPLING_VERSION = _header(
    "sj-version",
    on=_QUEUE,
    written_by=_SAMPLER,
    read_by="worker",
    holds="version of the sampling decision format",
)
SAMPLED_AT = _header(
    "sj-sampled-at",
    on=_QUEUE,
    written_by=_SAMPLER,
    read_by="people",
    holds="time when it was selected",
)

# On everything we write

SCHEMA_VERSION = _header(
    "sj-schema",
    on="everything that Streamjury writes except `rag.sampled`",
    written_by="all stages, `backfill`, `replay`",
    read_by="monitor",
    holds="version of the records and their headers",
)

# On scores

SCORES_KIND = _header(
    "sj-kind",
    on="`rag.scores`",
    written_by="monitor",
    read_by="monitor",
    holds="`label` on the label of a person; missing on scores",
)

# On evaluations

CONTENT = _header(
    "sj-content",
    on="`rag.evaluations`",
    written_by="worker, `backfill`",
    read_by="worker, `audit`, `backfill`",
    holds="digest of the judged content, which distinguishes a duplicate from another interaction with the same id",
)

LOGGED_ID = _header(
    "sj-logged-id",
    on="`rag.evaluations`",
    written_by="worker, `backfill`",
    read_by="`audit`",
    holds=(
        "id with which the interaction was logged, if other content was already judged under it: `interaction_id` is "
        "then this id (truncated to 479 characters), `#` and the digest"
    ),
)

# On waiting records, and on dead letters

_WAITING = "`rag.retry.N`, `rag.overflow`"
_ASIDE = f"{_WAITING}, `rag.deadletter`"
_FAILED = "`rag.retry.N`, `rag.deadletter`"
_LETTER = "`rag.deadletter`"
_STAGES = "sampler, worker, monitor"
_TRACING = "worker, `audit`, `replay`, `tail`"

RETRY_AT = _header(
    "sj-retry-at",
    on="`rag.retry.N`",
    written_by="worker",
    read_by="worker",
    holds="time of the next attempt",
)
KEPT = _header(
    "sj-kept",
    on=_WAITING,
    written_by="worker",
    read_by="worker",
    holds="probability with which it was kept while a budget was low, if below 1",
)
NOTICED = _header(
    "sj-noticed",
    on=_WAITING,
    written_by="worker",
    read_by="worker",
    holds="`1` if a safety notice was sent: the next attempt does not send another",
)
ATTEMPTS = _header(
    "sj-attempts",
    on=_FAILED,
    written_by=_STAGES,
    read_by="worker",
    holds="number of attempts so far",
)
ERROR_STAGE = _header(
    "sj-error-stage",
    on=_LETTER,
    written_by=_STAGES,
    read_by="`replay`, `tail`",
    holds="stage that dead-lettered it",
)
ERROR_TYPE = _header(
    "sj-error-type",
    on=_FAILED,
    written_by=_STAGES,
    read_by="`audit`, `replay`, `tail`",
    holds="reason, in one word",
)
ERROR_MESSAGE = _header(
    "sj-error-message",
    on=_FAILED,
    written_by=_STAGES,
    read_by="`tail`",
    holds="reason, for people",
)
SOURCE_TOPIC = _header(
    "sj-source-topic",
    on=_ASIDE,
    written_by=_STAGES,
    read_by=_TRACING,
    holds="topic on which the record was first published",
)
SOURCE_PARTITION = _header(
    "sj-source-partition",
    on=_ASIDE,
    written_by=_STAGES,
    read_by=_TRACING,
    holds="its partition there",
)
SOURCE_OFFSET = _header(
    "sj-source-offset",
    on=_ASIDE,
    written_by=_STAGES,
    read_by=_TRACING,
    holds="its offset there",
)
FAILED_AT = _header(
    "sj-failed-at",
    on=_LETTER,
    written_by=_STAGES,
    read_by="`replay`, `tail`",
    holds="time when it was dead-lettered",
)
VALUE_TRUNCATED_FROM = _header(
    "sj-value-truncated-from",
    on=_LETTER,
    written_by=_STAGES,
    read_by="`replay`",
    holds=(
        "original size in bytes of the value of a letter that was cut because it was too large for the topic; the "
        "first 256 KiB are kept"
    ),
)
KEY_TRUNCATED_FROM = _header(
    "sj-key-truncated-from",
    on=_LETTER,
    written_by=_STAGES,
    read_by="people",
    holds="original size in bytes of the key of a cut letter, if larger than the 16 KiB that are kept",
)
HEADERS_DROPPED = _header(
    "sj-headers-dropped",
    on=_LETTER,
    written_by=_STAGES,
    read_by="people",
    holds="number of the record's headers, if a cut letter has none because they were larger than 16 KiB together",
)

# On the mark that a replay writes for each moved letter

_MARK = "`rag.deadletter`, on the marker of a replayed dead letter"

REPLAYED_PARTITION = _header(
    "sj-replayed-partition",
    on=_MARK,
    written_by="`replay`",
    read_by="`replay`, `audit`, `tail`",
    holds="partition of the dead letter",
)
REPLAYED_OFFSET = _header(
    "sj-replayed-offset",
    on=_MARK,
    written_by="`replay`",
    read_by="`replay`, `audit`",
    holds="offset of the dead letter",
)
REPLAYED_AT = _header(
    "sj-replayed-at",
    on=_MARK,
    written_by="`replay`",
    read_by="people",
    holds="time when it was replayed",
)
REPLAYED_TO = _header(
    "sj-replayed-to",
    on=_MARK,
    written_by="`replay`",
    read_by="people",
    holds="topic to which it was replayed",
)

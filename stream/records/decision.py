"""The sampling decision: pure, the same for a record in every process, version and replay."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

# Part of every envelope: a change of the hash or of its interpretation would change which records are chosen.
DECISION_VERSION = "1"

_BITS = 53
_DIGEST_BYTES = 8
# Greater than every digest.
_EVERY = b"\xff" * (_DIGEST_BYTES + 1)


class SamplingOutcome(StrEnum):
    """The outcome of a sampling decision."""

    SAMPLED = "sampled"
    SAMPLED_OUT = "sampled_out"
    FILTERED = "filtered"
    """Left out by a rate of 0, which chooses what to watch and is not sampling."""
    SHED = "shed"
    """Chosen, but above the cap of its rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether a record is judged, and the probability with which records like it are."""

    outcome: SamplingOutcome
    probability: float
    rule: str
    lane: str = "main"
    app: str | None = None
    """The record's app, as far as the decision had to read it."""
    why: str = ""

    @property
    def chosen(self) -> bool:
        return self.outcome is SamplingOutcome.SAMPLED


class Cohort:
    """The choice of records under one salt; the choices under two salts are independent."""

    def __init__(self, salt: str) -> None:
        self._base = hashlib.blake2b(key=salt_key(salt), digest_size=_DIGEST_BYTES)

    def draw(self, record_id: str | bytes) -> float:
        """Return a number in [0, 1) that depends on id and salt alone: the first 53 bits of a keyed hash."""
        return (int.from_bytes(self.digest(id_bytes(record_id)), "big") >> (64 - _BITS)) / (1 << _BITS)

    def digest(self, record_id: bytes) -> bytes:
        """Return the hash that is compared with thresholds."""
        keyed = self._base.copy()
        keyed.update(record_id)
        return keyed.digest()

    def chooser(self, rate: float) -> Callable[[bytes], bool]:
        """Make a function that returns whether an id is chosen at a rate: exactly if its draw is below the rate."""
        copy, limit = self._base.copy, threshold(rate)

        def chooses(record_id: bytes) -> bool:
            keyed = copy()
            keyed.update(record_id)
            return keyed.digest() < limit

        return chooses


def threshold(rate: float) -> bytes:
    """Return the limit that an id's digest is below exactly if its draw is below the rate."""
    # Scaling by a power of two is exact, and an integer is below x exactly if it is below ceil(x).
    limit = math.ceil(rate * (1 << _BITS)) << (64 - _BITS)
    return limit.to_bytes(_DIGEST_BYTES, "big") if limit < 1 << 64 else _EVERY


def salt_key(salt: str) -> bytes:
    """Turn a salt of any length into a key of the hash."""
    return hashlib.blake2b(salt.encode("utf-8", "surrogatepass"), digest_size=32).digest()


def id_bytes(record_id: str | bytes) -> bytes:
    """Encode an id: the same bytes whether it came as the key of a record or in its body."""
    return record_id if isinstance(record_id, bytes) else record_id.encode("utf-8", "surrogatepass")

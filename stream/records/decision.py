"""The sampling decision: pure, the same for a record in every process, version and replay."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

# Part of every envelope: a change of the hash or of its reading would change who is chosen.
DECISION_VERSION = "1"

_BITS = 53
_DIGEST_BYTES = 8
# Longer than a digest and not below any: what every digest is less than.
_EVERY = b"\xff" * (_DIGEST_BYTES + 1)


class SamplingOutcome(StrEnum):
    """What is decided about a record."""

    SAMPLED = "sampled"
    SAMPLED_OUT = "sampled_out"
    FILTERED = "filtered"
    """Left out by a rate of 0, which is a choice of what to watch and not a sample."""
    SHED = "shed"
    """Chosen, and one too many for the cap of its rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether a record is judged, and with what probability records like it are."""

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
    """Who is chosen under one salt; the choices under two salts have nothing to do with each other."""

    def __init__(self, salt: str) -> None:
        self._base = hashlib.blake2b(key=salt_key(salt), digest_size=_DIGEST_BYTES)

    def draw(self, record_id: str | bytes) -> float:
        """A number in [0, 1) that depends on the id and the salt alone: the first 53 bits of a keyed hash."""
        return (int.from_bytes(self.digest(id_bytes(record_id)), "big") >> (64 - _BITS)) / (1 << _BITS)

    def digest(self, record_id: bytes) -> bytes:
        """The hash that is compared with thresholds."""
        keyed = self._base.copy()
        keyed.update(record_id)
        return keyed.digest()

    def chooser(self, rate: float) -> Callable[[bytes], bool]:
        """Whether an id is chosen at a rate: exactly where its draw is below it."""
        copy, limit = self._base.copy, threshold(rate)

        def chooses(record_id: bytes) -> bool:
            keyed = copy()
            keyed.update(record_id)
            return keyed.digest() < limit

        return chooses


def threshold(rate: float) -> bytes:
    """What the digest of an id is below, byte by byte, exactly where its draw is below the rate."""
    # Scaling by a power of two is exact, and a whole number is below x exactly where it is below ceil(x).
    limit = math.ceil(rate * (1 << _BITS)) << (64 - _BITS)
    return limit.to_bytes(_DIGEST_BYTES, "big") if limit < 1 << 64 else _EVERY


def salt_key(salt: str) -> bytes:
    """A salt of any length as a key of the hash."""
    return hashlib.blake2b(salt.encode("utf-8", "surrogatepass"), digest_size=32).digest()


def id_bytes(record_id: str | bytes) -> bytes:
    """An id as it is drawn by: the same whether it came as the key of a record or in its body."""
    return record_id if isinstance(record_id, bytes) else record_id.encode("utf-8", "surrogatepass")

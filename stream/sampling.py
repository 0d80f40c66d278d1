"""The sampling decision: pure, the same for a record in every process, version and replay."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from judges.interaction import Interaction
from stream.config import SamplingConfig, SamplingRule

# Part of every envelope: a change of the hash or of its reading would change who is chosen.
DECISION_VERSION = "1"
DEFAULT_RULE = "default"
_BITS = 53


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether a record is judged, and with what probability records like it are."""

    chosen: bool
    probability: float
    rule: str
    lane: str

    @property
    def filtered(self) -> bool:
        """Left out by a rule with rate 0, which is a choice of what to watch and not a sample."""
        return self.probability == 0.0


class SamplingPolicy:
    """The configured rules; the first that matches decides."""

    def __init__(self, config: SamplingConfig) -> None:
        self._rate = config.rate
        self._rules: Sequence[SamplingRule] = tuple(config.rules)
        self._key = salt_key(config.salt)

    def decide(self, interaction: Interaction) -> Decision:
        rule = next((rule for rule in self._rules if _matches(rule, interaction)), None)
        rate, name, lane = (rule.rate, rule.name, rule.lane) if rule else (self._rate, DEFAULT_RULE, "main")
        return Decision(chosen=draw(interaction.id, self._key) < rate, probability=rate, rule=name, lane=lane)


def salt_key(salt: str) -> bytes:
    """A salt of any length as a key of the hash."""
    return hashlib.blake2b(salt.encode(), digest_size=32).digest()


def draw(record_id: str, key: bytes) -> float:
    """A number in [0, 1) that depends on the id and the salt alone: the first 53 bits of a keyed hash."""
    digest = hashlib.blake2b(record_id.encode("utf-8", "surrogatepass"), key=key, digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> (64 - _BITS)) / (1 << _BITS)


def _matches(rule: SamplingRule, interaction: Interaction) -> bool:
    wanted = (
        (rule.match.app, interaction.app),
        (rule.match.tenant, interaction.tenant),
        (rule.match.model, interaction.model),
    )
    return all(values is None or value in values for values, value in wanted)

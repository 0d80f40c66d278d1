"""A case as an external endpoint may see it: each field is redacted separately, before a prompt is built.

No pattern can match beyond its field, so none can remove the lines that separate the fields in a prompt. All fields
are redacted together, so that the same value has the same placeholder for every criterion of a record.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from judges.criteria.criterion import Criterion
from judges.llm.prompts.layout import visible_fields
from judges.models.base import ChatMessage, ChatModel
from judges.values.interaction import Case, FieldValue

if TYPE_CHECKING:
    # Without redaction, the numbering plans need not be loaded.
    from judges.models.redaction import Redacted, Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedCase:
    """A case without personal data and secrets, and how much was redacted."""

    original: Case
    case: Case
    redacted: "Redacted"
    heavy_share: float

    def counts(self, criterion: Criterion) -> Mapping[str, int]:
        """Return how many different values of each kind were replaced in the fields that the criterion shows."""
        visible = frozenset(visible_fields(self.case, criterion))
        numbered = enumerate(_texts(self.original))
        return self.redacted.counts_in(number for number, (name, _) in numbered if name in visible)

    def is_heavily_redacted(self, field: str) -> bool:
        """Whether so much of the field was replaced that its safety cannot be judged."""
        return self._share(field) > self.heavy_share

    def texts(self, originals: Iterable[str]) -> list[str]:
        """Return texts of the case in redacted form."""
        redacted_by_original = dict(zip((text for _, text in _texts(self.original)), self.redacted.texts, strict=True))
        return [redacted_by_original[original] for original in originals]

    def _share(self, field: str) -> float:
        if not self.redacted.letters:
            return 0.0
        pairs = zip(_texts(self.original), self.redacted.letters, strict=True)
        counts = [letters for (name, _), letters in pairs if name == field]
        replaced = sum(letters.replaced for letters in counts)
        return replaced / max(replaced + sum(letters.shown for letters in counts), 1)


def redactor_of(model: ChatModel) -> "Redactor | None":
    """Return the redactor of a model; models written by users have none, or redact on their own."""
    redactor: Redactor | None = getattr(model, "redactor", None)
    return redactor


def redact_case(case: Case, redactor: "Redactor") -> RedactedCase:
    redacted = redactor.redact_once(tuple(text for _, text in _texts(case)))
    redacted_case = replace(case, fields=_fields(case, redacted.texts)) if redacted.counts else case
    return RedactedCase(original=case, case=redacted_case, redacted=redacted, heavy_share=redactor.heavy_share)


def mark_redacted(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Mark messages as built from a redacted case and from replies about it."""
    return [replace(message, is_redacted=True) for message in messages]


def _texts(case: Case) -> Iterator[tuple[str, str]]:
    for name, value in case.fields.items():
        yield from ((name, text) for text in ((value,) if isinstance(value, str) else value))


def _fields(case: Case, texts: Sequence[str]) -> dict[str, FieldValue]:
    remaining = iter(texts)
    return {
        name: next(remaining) if isinstance(value, str) else tuple(next(remaining) for _ in value)
        for name, value in case.fields.items()
    }

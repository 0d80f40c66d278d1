"""What is kept from an endpoint that is not ours: personal data and secrets, replaced before a prompt is sent."""

from judges.models.redaction.hosts import is_private
from judges.models.redaction.redactor import ALL_KINDS, NATIONAL_IDS, Redacted, Redactor

__all__ = ["ALL_KINDS", "NATIONAL_IDS", "Redacted", "Redactor", "is_private"]

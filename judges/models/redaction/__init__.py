"""Redaction: replaces personal data and secrets by placeholders before a prompt is sent to a foreign endpoint.

- `redactor`: finds and replaces values, the same value always by the same placeholder
- `span`: a sensitive span of a text, and the rules for where one can begin and end
- `plain`: texts with plain digits and without invisible characters
- `addresses`: e-mail and IPv6 addresses
- `credentials`: keys, tokens and passwords
- `digits`: values made of digits, found in one pass
- `window`: groups of digits in a text
- `numbers`: the rules for numbers without letters
- `lettered`: accounts and ids that mix digits and letters
- `phones`: phone numbers, checked against numbering plans
- `checksums`: check digits of cards, accounts and national ids
- `labels`: words before a number that name its kind
- `hosts`: decides which hosts are private
"""

from judges.models.redaction.hosts import is_private
from judges.models.redaction.redactor import ALL_KINDS, HEAVY_SHARE, NATIONAL_IDS, Redacted, Redactor

__all__ = ["ALL_KINDS", "HEAVY_SHARE", "NATIONAL_IDS", "Redacted", "Redactor", "is_private"]

"""Patterns that names in a configuration must match, with their explanations."""

from collections.abc import Mapping

TOPIC = r"^[A-Za-z0-9._-]{1,249}$"
LABEL = r"^[a-z0-9_-]{1,64}$"
CRITERION = r"^[a-z][a-z0-9_.]{0,128}$"
JUDGE = r"^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,63}$"
IDENTIFIER = r"^[!-~]{1,200}$"
HOST = r"^[A-Za-z0-9.:_-]{1,253}$"
OPTION = r"^[a-z0-9._-]{1,128}$"

PATTERN_WORDS: Mapping[str, str] = {
    TOPIC: "1 to 249 letters, digits, '.', '_' and '-'",
    LABEL: "1 to 64 lower-case letters, digits, '_' and '-'",
    CRITERION: "a criterion name: lower-case letters, digits, '_' and '.'",
    JUDGE: "1 to 64 letters, digits, '_', '.', ':', '/' and '-', starting with a letter or digit",
    IDENTIFIER: "1 to 200 visible ASCII characters without spaces",
    HOST: "a host name or an address",
    OPTION: "1 to 128 lower-case letters, digits, '.', '_' and '-'",
}
"""What each pattern requires, as in an error message."""

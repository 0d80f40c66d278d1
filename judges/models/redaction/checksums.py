"""Check digits of cards, accounts and national ids, which distinguish them from other numbers of the same length.

python-stdnum knows them, save those of СНИЛС; of social security numbers it refuses the well-known examples, which are
replaced here like all others.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from stdnum import iban, luhn, numdb
from stdnum.de import idnr
from stdnum.es import dni, nie
from stdnum.pl import pesel
from stdnum.ru import inn

is_pesel = pesel.is_valid
is_steuer_id = idnr.is_valid

# Who issues cards that begin so, and how long they are. Cards of 12 and 13 digits are no longer issued.
_CARDS: Sequence[tuple[str, str, Sequence[int]]] = (
    ("2200", "2204", range(16, 20)),  # Mir
    ("2221", "2720", (16,)),  # Mastercard
    ("300", "305", range(14, 20)),  # Diners Club
    ("34", "34", (15,)),  # American Express
    ("3528", "3589", range(16, 20)),  # JCB
    ("36", "36", range(14, 20)),  # Diners Club
    ("37", "37", (15,)),  # American Express
    ("38", "39", range(14, 20)),  # Diners Club
    ("4", "4", (16, 18, 19)),  # Visa
    ("50", "50", range(16, 20)),  # Maestro, Verve, RuPay
    ("51", "55", (16,)),  # Mastercard
    ("56", "58", range(16, 20)),  # Maestro
    ("60", "69", range(16, 20)),  # Discover, UnionPay, Maestro, RuPay
    ("81", "82", range(16, 20)),  # UnionPay, RuPay
    ("9792", "9792", (16,)),  # Troy
)
_CARD_LENGTHS: Mapping[str, Sequence[int]] = {
    str(prefix): lengths for low, high, lengths in _CARDS for prefix in range(int(f"{low:0<4}"), int(f"{high:9<4}") + 1)
}
_IBAN_PARTS = re.compile(r"([0-9]+)!")


def is_card(digits: str) -> bool:
    """By the issuer's range and Luhn's check digit."""
    return len(digits) in _CARD_LENGTHS.get(digits[:4], ()) and luhn.is_valid(digits)


@lru_cache(maxsize=1024)
def iban_length(country: str) -> int | None:
    """Return how long the IBANs of a country are, by its code in capitals; None if it has none."""
    [(_, country_format), *_] = numdb.get("iban").info(country) or [("", {})]
    parts = _IBAN_PARTS.findall(country_format.get("bban", ""))
    return 4 + sum(map(int, parts)) if parts else None


def is_iban(compact: str) -> bool:
    """In capitals and without spaces. A country's own check digits are not asked for: the remainder by 97 is enough."""
    return iban.is_valid(compact, check_country=False)


def is_ssn(digits: str) -> bool:
    """A social security number has no check digit; these parts are never issued."""
    area = digits[:3]
    return area not in ("000", "666") and area[0] != "9" and digits[3:5] != "00" and digits[5:] != "0000"


def is_snils(digits: str) -> bool:
    if digits[:9] <= "001001998":  # Numbers up to here were issued without a check.
        return False
    weighted = sum(weight * int(digit) for weight, digit in zip(range(9, 0, -1), digits, strict=False))
    return weighted % 101 % 100 == int(digits[9:])


def is_inn(digits: str) -> bool:
    """Of an organisation (10 digits) or of a person (12); no region has the number 00."""
    return digits[:2] != "00" and inn.is_valid(digits)


def is_dni(compact: str) -> bool:
    """In capitals: a DNI, or the NIE of a foreigner, which begins with X, Y or Z."""
    return dni.is_valid(compact) or nie.is_valid(compact)

"""The check digits of cards, accounts and national ids: what tells them from other numbers of the same length."""

from collections import Counter
from collections.abc import Mapping, Sequence

_DOUBLED = str.maketrans("0123456789", "0246813579")
_IN_BASE_36 = {ord(char): str(int(char, 36)) for char in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
_NIE_PREFIXES = {"X": "0", "Y": "1", "Z": "2"}

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

_IBAN_COUNTRIES: Mapping[int, str] = {
    15: "NO",
    16: "BE",
    18: "DK FI FK FO GL NL SD",
    19: "MK SI",
    20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA",
    23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST",
    26: "IS TR",
    27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
    29: "BR EG PS QA UA",
    30: "JO KW MU YE",
    31: "MT SC",
    32: "LC",
    33: "RU",
}
IBAN_LENGTHS: Mapping[str, int] = {
    country: length for length, countries in _IBAN_COUNTRIES.items() for country in countries.split()
}


def is_card(digits: str) -> bool:
    """By the issuer's range and Luhn's check digit."""
    return len(digits) in _CARD_LENGTHS.get(digits[:4], ()) and luhn(digits)


def luhn(digits: str) -> bool:
    return (sum(map(int, digits[-1::-2])) + sum(map(int, digits[-2::-2].translate(_DOUBLED)))) % 10 == 0


def is_iban(compact: str) -> bool:
    """In capitals and without spaces; the remainder by 97 is 1."""
    if IBAN_LENGTHS.get(compact[:2]) != len(compact) or not compact[2:4].isdecimal():
        return False
    return int((compact[4:] + compact[:4]).translate(_IN_BASE_36)) % 97 == 1


def is_ssn(digits: str) -> bool:
    """A social security number has no check digit; these parts are never issued."""
    area = digits[:3]
    return area not in ("000", "666") and area[0] != "9" and digits[3:5] != "00" and digits[5:] != "0000"


def is_snils(digits: str) -> bool:
    if digits[:9] <= "001001998":  # Numbers up to here were issued without a check.
        return False
    return _weighted(digits, range(9, 0, -1)) % 101 % 100 == int(digits[9:])


def is_inn(digits: str) -> bool:
    """Of an organisation (10 digits) or of a person (12)."""
    weights = (3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8)
    if digits[:2] == "00":
        return False
    checked = (9,) if len(digits) == 10 else (10, 11)
    return all(_weighted(digits, weights[-at:]) % 11 % 10 == int(digits[at]) for at in checked)


def is_pesel(digits: str) -> bool:
    """The birth date has the century in its month: 81 is January of 18xx, 21 of 20xx."""
    month, day = int(digits[2:4]) % 20, int(digits[4:6])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return False
    return (_weighted(digits, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3)) + int(digits[10])) % 10 == 0


def is_steuer_id(digits: str) -> bool:
    """Exactly one of the first ten digits stands there twice or thrice; the last is that of ISO 7064 mod 11,10."""
    repeated = [count for count in Counter(digits[:10]).values() if count > 1]
    if digits[0] == "0" or len(repeated) != 1 or repeated[0] > 3:
        return False
    product = 10
    for digit in digits[:10]:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == int(digits[10])


def is_dni(compact: str) -> bool:
    """In capitals: eight digits, or X, Y or Z and seven digits, with the letter that they call for."""
    number = _NIE_PREFIXES.get(compact[0], compact[0]) + compact[1:-1]
    return _DNI_LETTERS[int(number) % 23] == compact[-1]


def _weighted(digits: str, weights: Sequence[int]) -> int:
    return sum(weight * int(digit) for weight, digit in zip(weights, digits, strict=False))

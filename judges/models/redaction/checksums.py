"""Check digits of cards, accounts and national ids, which distinguish them from other numbers of the same length.

python-stdnum knows them, except those of СНИЛС. It refuses well-known examples of social security numbers, which are
replaced here like all others.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from stdnum import iban, luhn, numdb
from stdnum.ar import cuit
from stdnum.at import vnr
from stdnum.au import tfn
from stdnum.be import nn
from stdnum.bg import egn
from stdnum.br import cpf
from stdnum.ca import sin
from stdnum.ch import ssn as ahv
from stdnum.cl import rut
from stdnum.cn import ric
from stdnum.cz import rc
from stdnum.de import idnr
from stdnum.dk import cpr
from stdnum.ee import ik
from stdnum.es import dni, nie
from stdnum.fi import hetu
from stdnum.fr import nir
from stdnum.gb import nhs
from stdnum.gr import amka
from stdnum.hr import oib
from stdnum.ie import pps
from stdnum.il import idnr as teudat_zehut
from stdnum.in_ import aadhaar, pan
from stdnum.it import codicefiscale
from stdnum.jp import in_ as my_number
from stdnum.kr import rrn
from stdnum.lt import asmens
from stdnum.mx import curp
from stdnum.my import nric
from stdnum.nl import bsn
from stdnum.no import fodselsnummer
from stdnum.pl import pesel
from stdnum.pt import nif
from stdnum.ro import cnp
from stdnum.ru import inn
from stdnum.se import personnummer
from stdnum.si import emso
from stdnum.th import pin
from stdnum.tr import tckimlik
from stdnum.ua import rntrc
from stdnum.us import itin
from stdnum.za import idnr as za_idnr

is_pesel = pesel.is_valid
is_steuer_id = idnr.is_valid

# Ranges of first digits and the lengths of their cards. Cards of 12 and 13 digits are no longer issued.
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
    """Check the issuer's range and Luhn's check digit."""
    return len(digits) in _CARD_LENGTHS.get(digits[:4], ()) and luhn.is_valid(digits)


@lru_cache(maxsize=1024)
def iban_length(country: str) -> int | None:
    """Return the length of the IBANs of a country, by its code in capitals; None if it has no IBANs."""
    [(_, country_format), *_] = numdb.get("iban").info(country) or [("", {})]
    parts = _IBAN_PARTS.findall(country_format.get("bban", ""))
    return 4 + sum(map(int, parts)) if parts else None


def is_iban(compact: str) -> bool:
    """Check an IBAN in capitals without spaces; the remainder by 97 is enough, without a country's own check digits."""
    return iban.is_valid(compact, check_country=False)


def is_ssn(digits: str) -> bool:
    """Check for parts that are never issued: a social security number has no check digit."""
    area = digits[:3]
    return area not in ("000", "666") and area[0] != "9" and digits[3:5] != "00" and digits[5:] != "0000"


def is_snils(digits: str) -> bool:
    if digits[:9] <= "001001998":  # Numbers up to here were issued without a check.
        return False
    weighted = sum(weight * int(digit) for weight, digit in zip(range(9, 0, -1), digits, strict=False))
    return weighted % 101 % 100 == int(digits[9:])


def is_inn(digits: str) -> bool:
    """Check the ИНН of an organisation (10 digits) or a person (12); no region has the number 00."""
    return digits[:2] != "00" and inn.is_valid(digits)


def is_dni(compact: str) -> bool:
    """Check, in capitals, a DNI, or the NIE of a foreigner, which begins with X, Y or Z."""
    return dni.is_valid(compact) or nie.is_valid(compact)


# National ids of other countries


def is_pan(compact: str) -> bool:
    """Check the PAN of a person in India by its letters, which are the only check."""
    return compact[3:4] == "P" and pan.is_valid(compact)


is_codice_fiscale = codicefiscale.is_valid
is_curp = curp.is_valid
is_hetu = hetu.is_valid
is_pps = pps.is_valid
is_ric = ric.is_valid
is_rut = rut.is_valid

Check = Callable[[str], bool]

SURE_FORMS: Mapping[tuple[int, ...], Sequence[tuple[str, Check]]] = {
    (1, 2, 2, 2, 3, 3, 2): ((" ", nir.is_valid),),
    (1, 4, 5, 2, 1): (("-", pin.is_valid),),
    (1, 3, 3, 1): (("..-", is_rut),),
    (2, 3, 3, 1): (("..-", is_rut),),
    (2, 2, 2, 3, 2): (("..-.", nn.is_valid),),
    (2, 8, 1): (("-", cuit.is_valid),),
    (3, 2, 4): (("-", itin.is_valid),),
    (3, 3, 3, 2): (("..-", cpf.is_valid),),
    (3, 4, 4, 2): ((".", ahv.is_valid),),
    (4, 4, 4): ((" ", aadhaar.is_valid), ("-", aadhaar.is_valid)),
    (6, 2, 4): (("-", nric.is_valid),),
    (6, 4): (("-", personnummer.is_valid), ("/", rc.is_valid)),
    (6, 5): ((" ", fodselsnummer.is_valid),),
    (6, 7): (("-", rrn.is_valid),),
    (6, 8, 4): ((" ", is_ric), ("-", is_ric)),
    (8, 4): (("-", personnummer.is_valid),),
    (11,): (("", fodselsnummer.is_valid),),
    (13,): tuple(("", check.is_valid) for check in (ahv, za_idnr, cnp, emso)),
    (15,): (("", nir.is_valid),),
    (18,): (("", is_ric),),
}
"""Forms by the lengths of groups of digits: the separators (one for all gaps, or one per gap) and the check."""

NAMED_FORMS: Mapping[int, Sequence[Check]] = {
    9: tuple(check.is_valid for check in (bsn, teudat_zehut, tfn, sin, nif)),
    10: tuple(check.is_valid for check in (nhs, vnr, egn, rntrc, cpr, personnummer, rc)),
    11: tuple(check.is_valid for check in (cpf, tckimlik, oib, ik, asmens, amka, nn, cuit)),
    12: tuple(check.is_valid for check in (aadhaar, my_number, nric)),
    13: (pin.is_valid,),
}
"""Checks by the number of digits; they are too weak unless a word before the number names such an id."""

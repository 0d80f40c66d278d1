"""The words before a number that name its kind, in English and Russian (and in the languages of the national ids)."""

import re

_WINDOW = 48
OTHER, VERSION = "other", "version"
"""The labels of numbers that are not personal: of orders, books and products; of versions and sections."""

_LABELS = {
    "phone": r"(?:tele)?phone|tel|mobile|cell|fax|whatsapp|viber|hotline|call|dial|sms|☎|📞"
    r"|telefon|tel[eé]fono|telefone|t[eé]l[eé]phone|手机|电话"
    r"|тел|телефон\w*|моб|мобильн\w*|сот|сотов\w*|факс\w*|звон\w*|позвон\w*|набер\w*|смс",
    "ssn": r"ssn|social security|номер\w* социального страхования",
    "snils": r"снилс\w*|snils|страхов\w* номер\w*",
    "inn": r"инн(?:/кпп)?|inn|tin|taxpayer|налогоплательщика",
    "pesel": r"pesel\w*|песель",
    "steuer_id": r"steuer-?(?:id|nr|nummer)\w*|idnr|steueridentifikationsnummer|tax id",
    "national_id": r"national id\w*|identity (?:card|number|document)|id (?:card|number)|personal (?:code|number)"
    r"|aadhaar|cpf|cuil|cuit|dni|rut|bsn|burgerservicenummer|rijksregister\w*"
    r"|num[eé]ro (?:national|de s[eé]curit[eé] sociale)|nir|codice fiscale|personnummer|cpr(?:-nr|-nummer)?"
    r"|f[oø]dselsnummer|ahv(?:-nr|-nummer)?|avs|svnr|nif|amka|oib|sozialversicherungsnummer|contribuinte|egn|егн|cnp|emšo"
    r"|rodn[eé] [cč][ií]slo|isikukood|asmens kodas|kimlik(?: no)?|tckn|t\.?c\.?|teudat zehut|tfn|tax file"
    r"|sin(?=[:#]| n)|social insurance|nhs|ppsn?|nric|mykad|рнокпп|іпн|my number"
    r"|マイナンバー|個人番号|주민등록번호|身份证\w*",
    OTHER: r"order|invoice|tracking|parcel|shipment|ticket|batch|lot|serial|sku|part|item|article|isbn|issn|ean|upc|doi"
    r"|imei|patent|timestamp|заказ\w*|накладн\w*|трек\w*|посылк\w*|отправлени\w*|тикет\w*|обращени\w*|партии"
    r"|серийн\w*|артикул\w*|штрихкод\w*|патент\w*|документ\w*",
    VERSION: r"v|ver|version|release|build|firmware|section|chapter|clause|rev|верси\w*|релиз\w*|сборк\w*"
    r"|прошивк\w*|раздел\w*|глав\w*|пункт\w*|п|пп|§",
}
_FILLERS = (
    r"number|numbers|no|num|nr|id|code|is|was|are|at|to|us|me|him|her|on|the|my|your|our|his|now"
    r"|номер\w*|код|это|по|мне|мой|ваш|его|её|нам|на|физлица|организации|гражданина"
)
_LABEL = re.compile(
    rf"(?<!\w)(?:{'|'.join(f'(?P<{kind}>{words})' for kind, words in _LABELS.items())})"
    rf"(?!\w)[^\w\n]{{0,4}}(?:(?:{_FILLERS})(?!\w)[^\w\n]{{0,3}}){{0,3}}\Z"
)
_MORE = re.compile(r"[\s,;/|]*(?:and|or|и|или)?[\s,;/|]*")


def label_before(text: str, position: int) -> str | None:
    """Return the kind that the words right before this position name: a kind, `other`, `version`, or None."""
    match = _LABEL.search(text[max(0, position - _WINDOW) : position].lower())
    return match.lastgroup if match else None


def is_list_gap(text: str, end: int, start: int) -> bool:
    """Return whether there is only a comma, an "and" or the like between two values, so that both are of one kind."""
    return start - end <= 12 and _MORE.fullmatch(text, end, start) is not None

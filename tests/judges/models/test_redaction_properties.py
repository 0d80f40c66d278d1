"""Properties of redaction for any text: complete, consistent, and idempotent."""

import hashlib
import itertools
import re
import string
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from stdnum import numdb

from judges.models.redaction import ALL_KINDS, Redactor
from judges.models.redaction.checksums import is_card, is_dni, is_iban, is_inn, is_pesel, is_snils
from judges.models.redaction.checksums import is_steuer_id as is_steuer

REDACTOR = Redactor()


def digits(count: int) -> st.SearchStrategy[str]:
    return st.text("0123456789", min_size=count, max_size=count)


def add_checks(valid: object, *, body: st.SearchStrategy[str], width: int = 1) -> st.SearchStrategy[str]:
    """Append the first check digits that make a body valid."""
    checks = [f"{number:0{width}}" for number in range(10**width)]

    def complete(text: str) -> str | None:
        return next((text + check for check in checks if valid(text + check)), None)  # type: ignore[operator]

    return body.map(complete).filter(lambda value: value is not None)  # type: ignore[return-value]


def regroup(separator: str, *sizes: int) -> object:
    def group(text: str) -> str:
        cuts = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
        return separator.join(text[low:high] for low, high in itertools.pairwise(cuts))

    return group


visa = add_checks(is_card, body=digits(14).map("4".__add__))
mastercard = add_checks(is_card, body=digits(13).map("53".__add__))
mir = add_checks(is_card, body=digits(11).map("2202".__add__))
amex = add_checks(is_card, body=digits(12).map("37".__add__))
cards16 = visa | mastercard | mir
cards = (
    cards16
    | amex
    | cards16.map(regroup(" ", 4, 4, 4, 4))  # type: ignore[arg-type]
    | cards16.map(regroup("-", 4, 4, 4, 4))  # type: ignore[arg-type]
    | amex.map(regroup(" ", 4, 6, 5))  # type: ignore[arg-type]
)


_COUNTRIES = """
    AD AE AL AT AZ BA BE BG BH BI BR BY CH CR CY CZ DE DJ DK DO EE EG ES FI FK FO FR GB GE GI
    GL GR GT HN HR HU IE IL IQ IS IT JO KW KZ LB LC LI LT LU LV LY MC MD ME MK MN MR MT MU NI
    NL NO OM PK PL PS PT QA RO RS RU SA SC SD SE SI SK SM SO ST SV TL TN TR UA VA VG XK YE
"""
IBAN_COUNTRIES = _COUNTRIES.split()
IBAN_CHARS = {"n": string.digits, "a": string.ascii_uppercase, "c": string.ascii_uppercase + string.digits}


@st.composite
def ibans(draw: st.DrawFn) -> str:
    country = draw(st.sampled_from(IBAN_COUNTRIES))
    [(_, country_format), *_] = numdb.get("iban").info(country)
    parts = re.findall(r"(\d+)!([nac])", country_format["bban"])
    body = "".join(draw(st.text(IBAN_CHARS[kind], min_size=int(size), max_size=int(size))) for size, kind in parts)
    compact = next(iban for check in range(2, 99) if is_iban(iban := f"{country}{check:02}{body}"))
    step = draw(st.sampled_from([4, 40]))
    return " ".join(compact[start : start + step] for start in range(0, len(compact), step))


@st.composite
def emails(draw: st.DrawFn) -> str:
    word = st.text(string.ascii_letters + string.digits + "жя", min_size=1, max_size=12)
    local = ".".join(draw(st.lists(word, min_size=1, max_size=3)))
    top = draw(st.sampled_from(["com", "ru", "рф", "co.uk", "museum"]))
    return f"{local}@{draw(word)}.{top}"


dni = digits(8).map(
    lambda number: next(number + letter for letter in "TRWAGMYFPDXBNJZSQVHLCKE" if is_dni(number + letter))
)
pesel = st.builds("{:02}{:02}{:02}{}".format, st.integers(40, 78), st.integers(1, 12), st.integers(1, 28), digits(4))
steuer_bodies = st.permutations("1234567890").map(lambda order: "".join(order[:9]) + order[4])
phones = st.builds("+7 9{} {}-{}-{}".format, digits(2), digits(3), digits(2), digits(2)) | st.builds(
    "8 (9{}) {}-{}-{}".format, digits(2), digits(3), digits(2), digits(2)
)
ips = st.ip_addresses(v=4).filter(lambda ip: int(str(ip).split(".")[0]) not in (0, 127, 255)).map(str)
ipv6s = st.ip_addresses(v=6).filter(lambda ip: any(c.isdecimal() for c in str(ip)) and not ip.is_loopback).map(str)
# Hypothesis would choose the same characters over and over, as they occur in no key.
secrets = st.builds(
    lambda seed, size: hashlib.sha256(str(seed).encode()).hexdigest()[:size], st.integers(), st.integers(24, 40)
)
values = st.one_of(
    st.tuples(st.just("card"), cards),
    st.tuples(st.just("iban"), ibans()),
    st.tuples(st.just("email"), emails()),
    st.tuples(st.just("dni"), dni),
    st.tuples(st.just("inn"), add_checks(is_inn, body=digits(10).map("77".__add__).map(lambda t: t[:10]), width=2)),
    st.tuples(st.just("snils"), add_checks(is_snils, body=digits(9), width=2).map(regroup("-", 3, 3, 3, 2))),  # type: ignore[arg-type]
    st.tuples(
        st.just("pesel"), pesel.map(lambda body: next(body[:10] + c for c in "0123456789" if is_pesel(body[:10] + c)))
    ),
    st.tuples(st.just("steuer_id"), add_checks(is_steuer, body=steuer_bodies.filter(lambda body: body[0] not in "0"))),
    st.tuples(st.just("phone"), phones),
    st.tuples(st.just("ip"), ips | ipv6s),
    st.tuples(st.just("secret"), secrets.map("sk-".__add__)),
    st.tuples(st.just("secret"), secrets.map("ghp_".__add__)),
)
words = st.text("абвгдежзийклмн АБВГ\n«»(),;!?", max_size=20)
edges = st.sampled_from([*" \n\t()[]{}<>\"'«»,;:!?|№*=", "\u200b", "\\n", "。", "—", " "])


_JOINS_IN_ADDRESSES = "'!"


@settings(max_examples=150)
@given(value=values, before=words, left=edges, right=edges, after=words, bare=st.booleans())
def test_a_value_is_found_wherever_it_stands(
    value: tuple[str, str], before: str, left: str, right: str, after: str, bare: bool
) -> None:
    kind, text = value
    left, right, before, after = ("", "", "", "") if bare else (left, right, before, after)
    redacted = REDACTOR.redact([f"{before}{left}{text}{right}{after}"])
    assert text not in redacted.texts[0]
    # An invisible character may separate two words or hide inside one: what it joins to the value is replaced too. So
    # is a word that is joined to a mail address: "А!0@0.com" is an address.
    glued = "\u200b" in left + right or (kind == "email" and left in _JOINS_IN_ADDRESSES)
    if not glued and not _same_digits(kind, redacted.counts):
        assert redacted.texts[0] == f"{before}{left}[{kind.upper()}_1]{right}{after}"


def _same_digits(kind: str, counts: object) -> bool:
    """Eleven digits may be valid as two national ids, or as a mobile phone; the digits do not decide which."""
    return kind in ("pesel", "steuer_id") and counts in ({"pesel": 1}, {"steuer_id": 1}, {"phone": 1})


fragments = st.one_of(
    values.map(lambda pair: pair[1]),
    st.text(max_size=12),
    st.text("0123456789-. ()+/@:", max_size=24),
    st.sampled_from(
        ["token: ", "password=", "тел. ", "ИНН ", "SSN ", "key ", "[EMAIL_1]", "[CARD_2]", "https://a:b1@", "eyJ"]
    ),
    secrets,
)
texts = st.lists(st.lists(fragments, max_size=8).map("".join), max_size=3)


@settings(max_examples=120)
@given(texts)
@example(["тел. 12345678901234567890", "8 999 123 45 67"])
def test_redacting_twice_is_redacting_once(written: list[str]) -> None:
    once = REDACTOR.redact(written)
    twice = REDACTOR.redact(once.texts)
    assert twice.texts == once.texts
    assert not twice.counts
    assert all(again is first for again, first in zip(twice.texts, once.texts, strict=True))


@settings(max_examples=100)
@given(texts)
def test_texts_without_values_are_the_same_objects(written: list[str]) -> None:
    redacted = REDACTOR.redact(written)
    for text, result in zip(written, redacted.texts, strict=True):
        assert result is text or result != text
    if not redacted.counts:
        assert all(result is text for text, result in zip(written, redacted.texts, strict=True))


@settings(max_examples=80)
@given(st.lists(values, min_size=1, max_size=5, unique=True), st.randoms(use_true_random=False))
def test_one_value_has_one_placeholder_in_all_texts(pairs: list[tuple[str, str]], random: object) -> None:
    shuffled = [*pairs]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first = "; ".join(text for _, text in pairs)
    second = "; ".join(text for _, text in shuffled)
    redacted = REDACTOR.redact([first, second, first])
    assert redacted.texts[0] == redacted.texts[2]
    assert sorted(redacted.texts[0].split("; ")) == sorted(redacted.texts[1].split("; "))
    assert sum(redacted.counts.values()) <= len(pairs)


@settings(max_examples=100)
@given(secret=secrets, before=words, after=words)
def test_a_value_revealed_by_a_word_is_replaced_everywhere(secret: str, before: str, after: str) -> None:
    """No value that was replaced in one place survives in another."""
    texts = REDACTOR.redact([f"{before} {secret} {after}", f"password: {secret}"]).texts
    assert texts == (f"{before} [SECRET_1] {after}", "password: [SECRET_1]")


@given(texts, st.sets(st.sampled_from(ALL_KINDS)))
def test_only_the_kinds_that_are_asked_for_are_replaced(written: list[str], kinds: set[str]) -> None:
    assert set(Redactor(kinds).redact(written).counts) <= kinds


LOOK_ALIKES = (
    *(
        "1",
        "1 ",
        "1234 ",
        "4111 ",
        "1-2-3",
        "1.",
        "1.2.3.4 ",
        "(1)",
        "1\u200b",
        "１",
        "+7",
        "+49 1",
        "+1234567",
        "+12345 6 7 8 9 1 ",
        "0123 456789 ",
        "020 7946 ",
        "05 12 ",
        "(030) 12345 ",
        "8 (495) 1",
        "8-800-5",
        "тел 1",
        "X1234567",
        "DE89 ",
    ),
    *("@", "a@", "a@b.", "a@b.co ", ".", ":", "a:", "1::", "://a:b@", "[EMAIL_1]", "[A", "a_", "QWxh", "eyJ", "eyJab-"),
    *("eyJabcdefgh.", "-----BEGIN PRIVATE KEY-----", "key ", "key=", "token:a1b2c3d4e5f6g7h8", "password: a1", ":AA"),
    *(
        "-----BEGIN PRIVATE KEY-----\n> ",
        "-----BEGIN PRIVATE KEY-----\n> Version: a\n> QWxhZGRpbjpvcGVu\n",
        "-----BEGIN PRIVATE KEY-----\nComment: a ",
        "-----BEGIN PRIVATE KEY-----<br ",
        "-----BEGIN PRIVATE KEY-----\nretrievalaugmentedgeneration\n",
        "-----BEGIN PRIVATE KEY----->>>>>\\\\\\\\\\\\",
        "\n> ",
        '"a b"@c.co',
    ),
)


@pytest.mark.parametrize("unit", LOOK_ALIKES)
@pytest.mark.slow
def test_no_text_takes_long(unit: str) -> None:
    """Texts that could slow a pattern down: no time may grow with the square of the length."""
    # Ten times for ten times the length; it would be a hundred times if it grew with the square.
    assert seconds_to_redact(unit, 30_000) < 40 * seconds_to_redact(unit, 3_000) + 0.1


def seconds_to_redact(unit: str, length: int) -> float:
    """Return the shorter of two measurements: a collection of garbage may happen in one of them."""
    return min(_seconds_once([unit * (length // len(unit))]) for _ in range(2))


def _seconds_once(texts: list[str]) -> float:
    started = time.thread_time()
    REDACTOR.redact(texts)
    return time.thread_time() - started


@pytest.mark.parametrize(
    "sentence",
    [
        "The term of a deposit is 12 months; since 2024-01-15 it costs 1,299.00 USD (v1.2.3), see [1] and key terms. ",
        "Съешь ещё этих мягких французских булок — да выпей же чаю, 15.01.2024 г., цена 1 299,00 руб. «Раздел 3.2». ",
    ],
)
def test_a_text_without_values_is_passed_quickly(sentence: str) -> None:
    text = sentence * (20_000 // len(sentence))
    times = []
    for _ in range(7):
        started = time.thread_time()
        assert REDACTOR.redact([text]).texts[0] is text
        times.append(time.thread_time() - started)
    # It takes 1 to 3 ms; the rest is for busy machines.
    assert min(times) < 0.015

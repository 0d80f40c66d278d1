"""Redaction on the labelled corpus of benchmarks/bench_redaction.py, and on our own prompts."""

import random
import string
import subprocess
import sys
from pathlib import Path

import pytest

import judges
from benchmarks.bench_redaction import BENIGN, find_false_positives, load_corpus, measure_recall
from judges.models.redaction import ALL_KINDS, Redactor

REDACTOR = Redactor()
CORPUS = load_corpus()
# Rows of ten or eleven digits without a word before them, a short phone, a card whose first 16 digits are valid too,
# and a social security number with dots and no word before it.
MISSED = {"phone": 4, "card": 1, "ssn": 1}
FALSE_POSITIVES = 3
MIN_RECALL, MAX_FALSE_POSITIVES = 0.95, 0.02
PACKAGE = Path(judges.__file__).parent
OUR_TEXTS = sorted([*PACKAGE.rglob("*.md"), *PACKAGE.rglob("*.yaml")])


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_recall_is_no_worse_than_measured(kind: str) -> None:
    recall = measure_recall(REDACTOR, kind, CORPUS[kind])
    assert len(recall.missed) <= MISSED.get(kind, 0), recall.missed
    assert recall.as_kind == recall.redacted
    assert recall.redacted >= MIN_RECALL * recall.examples


def test_false_positives_are_no_more_than_measured() -> None:
    false_positives = find_false_positives(REDACTOR, CORPUS[BENIGN])
    assert len(false_positives) <= FALSE_POSITIVES, false_positives
    assert len(CORPUS[BENIGN]) >= 150
    assert len(false_positives) <= MAX_FALSE_POSITIVES * len(CORPUS[BENIGN])


ALPHANUMERIC = string.ascii_letters + string.digits
HEXADECIMAL = "0123456789abcdef"


@pytest.mark.parametrize(
    ("prefix", "alphabet", "length", "share"),
    [
        ("sk-", ALPHANUMERIC, 20, 0.98),
        ("sk-", ALPHANUMERIC, 48, 0.995),
        ("glpat-", ALPHANUMERIC + "-_", 20, 0.965),
        ("sk_live_", ALPHANUMERIC, 24, 0.98),
        ("ghp_", ALPHANUMERIC, 36, 0.99),
        ("token: ", ALPHANUMERIC, 24, 0.975),
        ("token: ", ALPHANUMERIC + "+/", 40, 0.99),
        ("token: ", HEXADECIMAL, 32, 0.98),
    ],
)
def test_few_random_keys_are_taken_for_words(prefix: str, alphabet: str, length: int, share: float) -> None:
    rng = random.Random(7)
    lines = [prefix + "".join(rng.choices(alphabet, k=length)) for _ in range(2_000)]
    redacted = REDACTOR.redact(["\n".join(lines)]).texts[0]
    assert sum("[SECRET_" in line for line in redacted.split("\n")) >= share * len(lines)


@pytest.mark.parametrize("path", OUR_TEXTS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_prompts_and_criteria_are_left_as_they_are(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert REDACTOR.redact([text]).texts[0] is text


def test_there_are_prompts_and_criteria() -> None:
    assert len(OUR_TEXTS) > 10


@pytest.mark.parametrize(
    "spellings",
    [
        ["+44 20 7946 0958", "020 7946 0958", "+44 (0)20 7946 0958", "0044 20 7946 0958"],
        ["+1 (212) 555-0123", "212-555-0123", "1-212-555-0123", "+12125550123"],
        ["+49 30 23125148", "030 23125148", "030/23125148", "(030) 23125148"],
        ["+61 491 570 156", "0491 570 156", "0491570156"],
        ["+39 06 6982 1234", "06 6982 1234"],
    ],
)
def test_a_phone_with_and_without_its_country_is_one_value(spellings: list[str]) -> None:
    redacted = REDACTOR.redact(spellings)
    assert set(redacted.texts) == {"[PHONE_1]"}
    assert redacted.counts == {"phone": 1}


def test_importing_the_judges_loads_no_numbering_plans() -> None:
    code = "import sys, judges; sys.exit(any(name in sys.modules for name in ('phonenumbers', 'stdnum')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_only_the_plans_that_are_needed_are_loaded() -> None:
    code = (
        "import sys; from judges.models.redaction import Redactor; Redactor().redact(['+44 20 7946 0958']);"
        "plans = [name for name in sys.modules if name.startswith('phonenumbers.data.region_')];"
        "sys.exit(plans != ['phonenumbers.data.region_GB'])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

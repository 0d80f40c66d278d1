"""The draw: determined by id and salt, uniform, nested in the rate, and the same in every process and Python."""

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream.config.sections.sampling import SamplingConfig
from stream.records.decision import Cohort, id_bytes, salt_key, threshold

MODULE = Path(__file__).parents[3] / "stream" / "records" / "decision.py"

# Computed once. A change here changes the sample of every installation and needs a new DECISION_VERSION.
GOLDEN: dict[str, str] = json.loads((Path(__file__).parent / "golden_draws.json").read_text(encoding="utf-8"))
MILLION_DECISIONS = "2cca3e8b195345cdcfb9fadd95589303a57ea6c727d4ce8c567eb535a1a630bd"

COHORT = Cohort("streamjury")
MANY = 20_000

ids = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)
rates = st.floats(min_value=0.0, max_value=1.0)


# The draw


def test_a_thousand_draws_of_the_default_salt_never_change() -> None:
    assert SamplingConfig().salt == "streamjury"
    assert len(GOLDEN) == 1000
    assert {identity: COHORT.draw(identity).hex() for identity in GOLDEN} == GOLDEN


def test_an_id_has_the_same_draw_as_text_and_as_bytes() -> None:
    for identity, expected in GOLDEN.items():
        assert COHORT.draw(identity.encode()).hex() == expected


@given(st.text(), st.text(min_size=1, max_size=200))
def test_a_draw_is_a_multiple_of_2_to_the_minus_53_in_0_to_1(identity: str, salt: str) -> None:
    draw = Cohort(salt).draw(identity)
    assert 0.0 <= draw < 1.0
    assert (draw * 2**53).is_integer()


def test_draws_are_uniform() -> None:
    draws = [COHORT.draw(f"id-{number}") for number in range(MANY)]
    assert abs(statistics.fmean(draws) - 0.5) < 4 * math.sqrt(1 / 12 / MANY)
    counts = [sum(part <= 20 * draw < part + 1 for draw in draws) for part in range(20)]
    # Chi squared with 19 degrees of freedom: 1 in 100,000 is above 55.
    assert sum((count - MANY / 20) ** 2 / (MANY / 20) for count in counts) < 55


@pytest.mark.parametrize("salt", ["streamjury2", "Streamjury", "streamjury ", "другая соль", "x" * 200])
def test_draws_of_two_salts_are_independent(salt: str) -> None:
    other = Cohort(salt)
    pairs = [(COHORT.draw(f"id-{number}"), other.draw(f"id-{number}")) for number in range(MANY)]
    assert abs(statistics.correlation(*zip(*pairs, strict=True))) < 4 / math.sqrt(MANY)
    both = sum(one < 0.1 and two < 0.1 for one, two in pairs)
    assert abs(both - 0.01 * MANY) < 4 * math.sqrt(0.01 * 0.99 * MANY)


def test_salts_of_any_length_give_keys_of_a_fixed_length() -> None:
    assert len({salt_key(salt) for salt in ("", "a", "a" * 63, "a" * 65, "я" * 1000)}) == 5
    assert {len(salt_key(salt)) for salt in ("", "a", "я" * 1000)} == {32}


# The choice


@given(ids, rates)
@example("id", 0.0)
@example("id", 5e-324)
@example("id", 1.0)
@example("id", math.nextafter(1.0, 0.0))
def test_an_id_is_chosen_exactly_if_its_draw_is_below_the_rate(identity: str, rate: float) -> None:
    assert COHORT.chooser(rate)(identity.encode()) == (COHORT.draw(identity) < rate)
    assert (COHORT.digest(identity.encode()) < threshold(rate)) == (COHORT.draw(identity) < rate)


def test_the_threshold_is_exact_at_the_draw_itself() -> None:
    for identity, hexadecimal in GOLDEN.items():
        draw = float.fromhex(hexadecimal)
        assert not COHORT.chooser(draw)(identity.encode())
        assert COHORT.chooser(math.nextafter(draw, 1.0))(identity.encode())


@given(rates, rates)
def test_thresholds_are_ordered_like_their_rates(one: float, two: float) -> None:
    low, high = sorted((one, two))
    assert threshold(low) <= threshold(high)


@given(ids, rates, rates)
def test_raising_the_rate_keeps_the_chosen_ids(identity: str, one: float, two: float) -> None:
    low, high = sorted((one, two))
    if COHORT.chooser(low)(identity.encode()):
        assert COHORT.chooser(high)(identity.encode())


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
def test_the_share_chosen_is_the_rate(rate: float) -> None:
    chooses = COHORT.chooser(rate)
    chosen = sum(chooses(b"id-%d" % number) for number in range(MANY))
    assert abs(chosen - rate * MANY) < 4 * math.sqrt(rate * (1 - rate) * MANY)


def test_rate_1_chooses_all_and_rate_0_none() -> None:
    chooses_all, chooses_none = COHORT.chooser(1.0), COHORT.chooser(0.0)
    assert all(chooses_all(identity.encode()) for identity in GOLDEN)
    assert not any(chooses_none(identity.encode()) for identity in GOLDEN)
    # Digests at both ends, which ids are unlikely to have.
    assert threshold(1.0) > b"\xff" * 8
    assert not threshold(0.0) > b"\x00" * 8


@given(st.text())
def test_an_id_with_a_lone_surrogate_can_be_encoded_too(identity: str) -> None:
    assert id_bytes(identity) == id_bytes(id_bytes(identity))


# Other processes and other Pythons

DECIDE_A_MILLION = """
import hashlib, importlib.util, sys
spec = importlib.util.spec_from_file_location("sampling", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["sampling"] = module
spec.loader.exec_module(module)
cohort = module.Cohort("streamjury")
low, high = module.threshold(0.05), module.threshold(0.5)
digest = cohort.digest
decisions = bytearray()
for number in range(1_000_000):
    drawn = digest(b"id-%d" % number)
    decisions.append((drawn < low) + (drawn < high))
print(hashlib.sha256(decisions).hexdigest())
"""


def interpreters() -> list[str]:
    """Return this Python and every other supported one on the path, except shims without a Python behind them."""
    paths = {os.path.realpath(sys.executable): sys.executable}
    for minor in range(11, 20):
        path = shutil.which(f"python3.{minor}")
        result = path and subprocess.run(
            [path, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True, check=False
        )
        if path and result and result.returncode == 0:
            paths.setdefault(os.path.realpath(result.stdout.strip()), path)
    return list(paths.values())


@pytest.mark.slow
def test_a_million_decisions_are_the_same_in_other_processes_and_pythons() -> None:
    runs = [
        subprocess.Popen(
            [interpreter, "-c", DECIDE_A_MILLION, str(MODULE)],
            env={**os.environ, "PYTHONHASHSEED": str(number)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, interpreter in enumerate([sys.executable, *interpreters()])
    ]
    assert len(runs) >= 2
    outputs = [run.communicate()[0].strip() for run in runs]
    assert outputs == [MILLION_DECISIONS] * len(runs)

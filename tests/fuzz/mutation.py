"""Mutation: inputs made by breaking good ones, in their bytes or in the data they encode.

An input may have several parts, such as a record's key, headers and value; they are joined by `SEPARATOR`, and one
part is broken at a time.
"""

import copy
import json
from collections.abc import Sequence
from random import Random

SEPARATOR = b"\x1f"

_MOST_BYTES = 65_536
# The rate of extremely nested or repeated inputs, which take a thousand times longer.
_EXTREME = 0.001
_DEEP = 50_000

ODD_VALUES: tuple[object, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    2**64,
    -(2**63) - 1,
    10**400,
    0.5,
    -0.0,
    1e308,
    5e-324,
    float("nan"),
    float("inf"),
    "",
    " ",
    "\x00",
    "\ud800",
    "\udfff x",
    "\u202e\ufeff",
    "👎",
    "ё" * 50,
    "${HOME}",
    "${",
    "9" * 400,
    "1e999",
    "2026-11-15T10:00:00+25:00",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "<think>",
    [],
    {},
    [[]],
    [None],
    {"": {}},
    {"text": 5},
    [[[[[[[[[[]]]]]]]]]],
)
"""Values that occur in no good document."""

_ODD_TEXTS = [value for value in ODD_VALUES if isinstance(value, str)]
_ODD_BYTES: tuple[bytes, ...] = (
    b"\x00",
    b"\xff",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\n",
    b"\t",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
)
_ODD_BYTES += (b"]", b":", b",", b"-", b"1e999", b"NaN", b"\\ud800", b"\\u0000", b"\xe2\x80\xa8", b"9" * 40, b" ", b"$")


class Mutator:
    """Breaks seeds at random; the same random numbers break them in the same way."""

    def __init__(self, seeds: Sequence[bytes], words: Sequence[bytes] = ()) -> None:
        self._seeds = [[(part, _document(part)) for part in seed.split(SEPARATOR)] for seed in seeds]
        self._words = (*_ODD_BYTES, *words)

    def mutate(self, random: Random) -> bytes:
        """Return a broken seed."""
        parts = list(random.choice(self._seeds))
        index = _weighted_place(random, len(parts))
        part, document = parts[index]
        if document is not None and random.random() < 0.6:
            broken = _encode(_with_odd_places(document, random))
            if random.random() < 0.2:
                broken = self._break(broken, random)
        else:
            broken = self._break(part, random)
        whole = [raw_part for raw_part, _ in parts]
        whole[index] = broken
        return SEPARATOR.join(whole)

    def _break(self, data: bytes, random: Random) -> bytes:
        if random.random() < _EXTREME:
            return _extreme(data, random)
        for _ in range(random.choice((1, 1, 1, 2, 2, 4, 8))):
            data = self._break_once(data, random)[:_MOST_BYTES]
        return data

    def _break_once(self, data: bytes, random: Random) -> bytes:
        begin, end = sorted((random.randrange(len(data) + 1), random.randrange(len(data) + 1)))
        match random.randrange(9):
            case 0:  # leave out a part
                return data[:begin] + data[min(end, begin + 16) :]
            case 1:  # cut off the end
                return data[:begin]
            case 2:  # repeat a part
                return data[:end] + data[begin:]
            case 3:  # change one byte
                return data[:begin] + bytes([random.randrange(256)]) + data[begin + 1 :]
            case 4:  # flip one bit
                return (
                    data[:begin]
                    + bytes([byte ^ 1 << random.randrange(8) for byte in data[begin : begin + 1]])
                    + data[begin + 1 :]
                )
            case 5 | 6:  # insert a word
                return data[:begin] + random.choice(self._words) + data[begin:]
            case 7:  # replace a part with a word
                return data[:begin] + random.choice(self._words) + data[min(end, begin + 8) :]
            case _:  # insert a part of another seed
                other, _document = random.choice(random.choice(self._seeds))
                from_, to = sorted((random.randrange(len(other) + 1), random.randrange(len(other) + 1)))
                return data[:begin] + other[from_:to] + data[begin:]


def _weighted_place(random: Random, count: int) -> int:
    """Choose the last part, the value, as often as all the others."""
    return count - 1 if count == 1 or random.random() < 0.5 else random.randrange(count - 1)


def _document(part: bytes) -> object:
    try:
        parsed = json.loads(part)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict | list) and parsed else None


def _encode(document: object) -> bytes:
    return json.dumps(document).encode()


def _with_odd_places(document: object, random: Random) -> object:
    document = copy.deepcopy(document)
    for _ in range(random.choice((1, 1, 2, 3))):
        _make_odd(document, random)
    return document


def _make_odd(document: object, random: Random) -> None:
    """Change one place in the document: the deeper, the less often."""
    holder = document
    while True:
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        if not keys:
            return
        key = random.choice(keys)
        inner = holder[key]  # type: ignore[index]
        if isinstance(inner, dict | list) and inner and random.random() < 0.7:
            holder = inner
            continue
        _change(holder, key, random)
        return


def _change(holder: object, key: object, random: Random) -> None:
    assert isinstance(holder, dict | list)
    match random.randrange(10):
        case 0:
            del holder[key]  # type: ignore[arg-type]
        case 1 if isinstance(holder, dict):
            holder[str(random.choice(ODD_VALUES))] = holder.pop(key)
        case 2 if isinstance(holder, list):
            holder.extend(holder[:50])
        case 2 | 8 if isinstance(holder, dict):
            holder["more"] = copy.deepcopy(random.choice(ODD_VALUES))
        case 9 if isinstance(holder[key], str):  # type: ignore[call-overload]
            holder[key] += random.choice(_ODD_TEXTS)  # type: ignore[call-overload]
        case 3:
            holder[key] = [holder[key]]  # type: ignore[call-overload]
        case 4:
            holder[key] = str(holder[key])  # type: ignore[call-overload]
        case _:
            holder[key] = copy.deepcopy(random.choice(ODD_VALUES))  # type: ignore[call-overload]


def _extreme(data: bytes, random: Random) -> bytes:
    """Nest or repeat extremely."""
    many = random.choice((100, 1_000, _DEEP))
    opening = random.choice((b"[", b"{", b'{"a":', b"- ", b"<think>", b"&a [*a,", b'"', b"\\", b"(", b"9", b"a: "))
    return random.choice((opening * many, data + opening * many, (data[:64] or b"x") * min(many, 1_000)))

"""Rules: the values each condition matches, where values are found, and how little of a record is parsed."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.base import Headers
from stream.config.sections.input import InputConfig
from stream.config.sections.sampling import ConditionConfig, RuleMatch
from stream.errors import RecordError
from stream.records.adapters import make_adapter
from stream.records.adapters.base import BodyPath
from stream.records.body import BodyReader
from stream.records.conditions import compile_condition
from stream.records.facts import LazyRecord
from stream.sampler.rules import Matcher

NATIVE = InputConfig()
MAPPED = InputConfig.model_validate(
    {
        "adapter": "mapping",
        "mapping": {
            "id": "request.id",
            "question": "request.text",
            "answer": "response.0.text",
            "app": "service.name",
            "tags": "meta.labels",
        },
    }
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


def fail_on_headers() -> Headers:
    raise AssertionError("the headers were looked at")


class Lazy(LazyRecord):
    """A record whose headers come from a function."""

    def __init__(self, key: bytes | None, value: bytes | None, headers: Callable[[], Headers]) -> None:
        super().__init__(key, value, 0)
        self._read_headers = headers

    def headers(self) -> Headers:
        return self._read_headers()


def facts(value: Any = None, headers: Headers | Callable[[], Headers] = (), key: bytes | None = b"k") -> LazyRecord:
    encoded = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
    return Lazy(key, encoded, headers) if callable(headers) else LazyRecord(key, encoded, 0, headers)


def matcher(records: InputConfig = NATIVE, **match: Any) -> Matcher:
    return Matcher(RuleMatch.model_validate(match), BodyReader(records))


# One condition


@pytest.mark.parametrize(
    ("condition", "yes", "no"),
    [
        ("shop", ["shop"], ["Shop", "shop ", "", None, ["shop"], {"shop": 1}]),
        (("a", 1, True), ["a", 1, 1.0, True], ["1", "true", 2, False, None, [1]]),
        ((False, 0.5), [False, 0.5], [0, "", None, True]),
        (0, [0, 0.0, -0.0], [False, "0", None]),
        (ConditionConfig(regex="^ab+"), ["ab", "abbc"], ["xab", "a", "", None, 5, True, ["ab"]]),
        (ConditionConfig(regex="(?i)X"), ["axa"], ["a"]),
        (ConditionConfig(min=1), [1, 1.5, 10**30], [0.5, True, "2", None, [2]]),
        (ConditionConfig(max=1), [1, -5, 0.0], [1.5, False, "0", None]),
        (ConditionConfig(min=-1, max=1), [-1, 0, 1], [1.1, -1.1]),
        (ConditionConfig(exists=True), [0, False, "", [], {}], [None]),
        (ConditionConfig(exists=False), [None], [0, False, "", [], {}]),
    ],
)
def test_a_condition_holds_for_exactly_these_values(condition: Any, yes: list[object], no: list[object]) -> None:
    subject = compile_condition(condition)
    assert [value for value in [*yes, *no] if subject.holds(value)] == yes


@pytest.mark.parametrize(
    ("condition", "yes", "no"),
    [
        ((5, True, "x", 0.5), ["5", "true", "x", "0.5"], ["5.0", "True", "1", None]),
        (ConditionConfig(min=1, max=3), ["1", "2.5", " 3 ", "1e0"], ["0", "4", "x", "", "nan", "inf", None]),
        (ConditionConfig(regex="^g"), ["gold"], ["silver", "", None]),
        (ConditionConfig(exists=True), [""], [None]),
    ],
)
def test_headers_are_compared_as_text(condition: Any, yes: list[object], no: list[object]) -> None:
    subject = compile_condition(condition, as_text=True)
    assert [value for value in [*yes, *no] if subject.holds(value)] == yes


@given(st.lists(scalars.filter(lambda value: value is not None), min_size=1), trees)
def test_one_of_is_equality_in_json(values: list[Any], value: object) -> None:
    def form(item: object) -> tuple[bool, bool, object]:
        return isinstance(item, bool), isinstance(item, str), item

    expected = not isinstance(value, list | dict) and form(value) in [form(item) for item in values]
    assert compile_condition(tuple(values)).holds(value) == expected


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9), trees)
def test_ranges_hold_only_for_numbers_between_their_bounds(one: float, two: float, value: object) -> None:
    low, high = sorted((one, two))
    number = isinstance(value, int | float) and not isinstance(value, bool)
    expected = number and low <= value <= high  # type: ignore[operator]
    assert compile_condition(ConditionConfig(min=low, max=high)).holds(value) == expected


@given(trees)
def test_a_value_exists_or_is_missing(value: object) -> None:
    present, missing = compile_condition(ConditionConfig(exists=True)), compile_condition(ConditionConfig(exists=False))
    assert present.holds(value) != missing.holds(value)
    assert present.holds(value) == (value is not None)


# Where values are


names = st.sampled_from(["a", "b", "0", "1", 'q"', "\\", "ä", "", " "])
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)


@given(st.dictionaries(names, documents, max_size=4), st.lists(names.filter(bool), min_size=1, max_size=3))
def test_a_path_finds_what_the_mapping_adapter_finds(document: dict[str, object], steps: list[str]) -> None:
    path = ".".join(steps)
    mapping = {"id": "a", "question": "a", "answer": "a", "app": path}
    adapter = make_adapter(InputConfig.model_validate({"adapter": "mapping", "mapping": mapping}))
    expected = adapter.read({**document, "a": document.get("a", 1) or 1}).get("app")
    reader = BodyReader(NATIVE)
    get = reader.getter(BodyPath.parse(path))
    body = facts({**document, "a": document.get("a", 1) or 1}).body(reader)
    assert get(body) == expected


def test_several_getters_share_one_parse() -> None:
    reader = BodyReader(NATIVE)
    one, two, three = (reader.getter(BodyPath.parse(path)) for path in ("a.b", "a.c.1", "d"))
    body = reader.read(b'{"x": {"y": [1, 2]}, "d": "D", "a": {"b": 1, "c": [2, 3]}}')
    assert (one(body), two(body), three(body)) == (1, 3, "D")
    assert reader.getter(None)(body) is None


def test_an_unparsed_value_is_bytes_unless_another_getter_parses_it() -> None:
    reader = BodyReader(NATIVE)
    raw = reader.getter(BodyPath.parse("contexts"), parsed=False)
    assert bytes(raw(reader.read(b'{"contexts": [{"text": "x"}]}'))) == b'[{"text": "x"}]'  # type: ignore[call-overload]
    reader.getter(BodyPath.parse("contexts.0"))
    assert raw(reader.read(b'{"contexts": [{"text": "x"}]}')) == [{"text": "x"}]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "empty"),
        (b"", "empty"),
        (b"[1]", "bad_json"),
        (b"{", "bad_json"),
        (b'{"app": NaN}', "bad_json"),
        (b'{"app": "\xff"}', "bad_encoding"),
        (b'{"app": "\\ud800"}', "bad_encoding"),
        (b'{"app": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "too_deep"),
        (b'{"app": "' + b"x" * 1_100_000 + b'"}', "too_large"),
    ],
)
def test_an_unreadable_value_has_the_error_of_the_strict_reader(value: bytes | None, kind: str) -> None:
    with pytest.raises(RecordError) as caught:
        matcher(app="shop").matches(facts(value))
    assert caught.value.kind == kind


def test_a_value_that_only_the_strict_reader_accepts_is_read() -> None:
    value = b'{"app": "shop", "large": 1e400}'
    assert matcher(app="shop", body={"large": {"exists": True}}).matches(facts(value))


@given(st.binary(max_size=60) | trees.map(lambda tree: json.dumps(tree).encode()))
def test_any_bytes_are_matched_or_refused(value: bytes) -> None:
    subject = matcher(app="shop", tags={"x": 1}, body={"a.0.b": {"min": 1}})
    with suppress(RecordError):
        assert subject.matches(facts(value)) in {True, False}


# The conditions of a rule


def test_all_conditions_of_a_rule_must_hold() -> None:
    subject = matcher(
        app=["shop", "docs"], tags={"tier": "gold"}, body={"timing.ms": {"min": 5}}, headers={"x-env": "live"}
    )
    record = {"app": "shop", "tags": {"tier": "gold"}, "timing": {"ms": 9}}
    live: Headers = (("x-env", b"live"),)
    assert subject.matches(facts(record, live))
    others: list[dict[str, Any]] = [{"app": "x"}, {"tags": {}}, {"tags": None}, {"timing": {"ms": 4}}, {"timing": [9]}]
    for wrong in others:
        assert not subject.matches(facts({**record, **wrong}, live))
    assert not subject.matches(facts(record))


@pytest.mark.parametrize("name", ["app", "tenant", "model"])
def test_each_field_of_a_match_is_checked(name: str) -> None:
    subject = matcher(NATIVE, **{name: "wanted"})
    assert subject.matches(facts({name: "wanted"}))
    assert not subject.matches(facts({name: "Wanted"}))
    assert not subject.matches(facts({}))


def test_fields_of_mapped_records_are_found_where_the_mapping_says() -> None:
    subject = matcher(MAPPED, app="shop", tags={"tier": "gold"}, body={"response.0.ms": {"max": 3}})
    record = {"service": {"name": "shop"}, "meta": {"labels": {"tier": "gold"}}, "response": [{"ms": 2}]}
    assert subject.matches(facts(record))
    assert not subject.matches(facts({**record, "service": {"name": "docs"}, "app": "shop"}))


def test_rules_on_headers_never_parse_the_value() -> None:
    subject = matcher(headers={"x-tier": ["gold"]})
    assert subject.matches(facts(b"not json", (("x-tier", b"gold"),)))
    assert not subject.matches(facts(None, (("x-tier", b"tin"),)))
    assert not subject.reads_body


def test_if_a_header_does_not_match_the_value_is_not_parsed() -> None:
    assert not matcher(app="shop", headers={"x-tier": "gold"}).matches(facts(b"not json"))


def test_rules_on_the_body_never_read_headers() -> None:
    assert matcher(app="shop").matches(facts({"app": "shop"}, fail_on_headers))


def test_the_last_of_repeated_headers_counts_and_invalid_utf8_is_no_value() -> None:
    subject = matcher(headers={"x": "b"})
    assert subject.matches(facts(None, (("x", b"a"), ("x", b"b"))))
    assert not subject.matches(facts(None, (("x", b"b"), ("x", None))))
    assert not subject.matches(facts(None, (("x", b"b"), ("x", b"\xff"))))


def test_headers_and_value_are_read_only_once() -> None:
    calls: list[int] = []

    def headers() -> Headers:
        calls.append(1)
        return (("x", b"1"),)

    reader, record = BodyReader(NATIVE), facts({"app": "shop"}, headers)
    assert record.body_as_read is None
    assert (record.header("x"), record.header("y"), len(calls)) == ("1", None, 1)
    assert record.body(reader) is record.body(reader)
    assert record.body_as_read is not None


def test_a_rule_describes_its_conditions_and_the_first_failure() -> None:
    subject = matcher(app=["shop", "docs"], headers={"x-n": {"min": 1, "max": 2}}, tags={"t": {"regex": "^a"}})
    assert subject.words == "header x-n is at least 1 and at most 2; app is shop or docs; tag t matches /^a/"
    good: Headers = (("x-n", b"1"),)
    assert subject.failure(facts({"app": "shop", "tags": {"t": "ab"}}, good)) is None
    assert subject.failure(facts({})) == "header x-n is missing"
    assert subject.failure(facts({}, (("x-n", b"7"),))) == "header x-n is not at least 1 and at most 2 (it is 7)"
    assert subject.failure(facts({"app": "x"}, good)) == "app is not shop or docs (it is x)"
    assert subject.failure(facts({"app": ["x"]}, good)) == 'app is not shop or docs (it is ["x"])'
    assert subject.failure(facts({"app": "docs", "tags": {"t": "b" * 99}}, good)) == (
        f"tag t does not match /^a/ (it is {'b' * 60}…)"
    )
    assert matcher(app={"exists": False}).failure(facts({"app": "x"})) == "app exists (it is x)"


@given(trees, st.sampled_from(["x", ["x", "y"], {"regex": "x"}, {"exists": True}, {"exists": False}]))
def test_a_rule_has_a_failure_exactly_if_it_does_not_match(app: object, condition: Any) -> None:
    subject, record = matcher(app=condition), facts({"app": app})
    assert (subject.failure(record) is None) == subject.matches(record)

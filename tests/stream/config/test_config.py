"""The configuration: its rules, how it is loaded, and how problems are reported."""

import copy
import json
import pickle
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import pytest
import yaml
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from judges.criteria.criterion import RAG_DIMENSIONS, Criterion
from judges.values.interaction import Interaction
from stream.config.criteria import choose_criteria
from stream.config.judge_kinds.local import LocalJudgeConfig
from stream.config.judge_kinds.openai import OpenAIJudgeConfig
from stream.config.model import Config
from stream.config.sections.input import InputConfig
from stream.config.sections.kafka import KafkaConfig
from stream.config.sections.sampling import TextConditionConfig
from stream.config.sink_kinds import SINK_KINDS
from stream.config.walk import alternatives, is_section
from stream.service.setup.config_file import ConfigError, Problem, dump, find, load
from stream.service.setup.evaluator import build_evaluator
from tests.parts.rules import rules_of

Load = Callable[..., Config]
Loc = tuple[str | int, ...]

SECRET = "hunter2-hunter2"

CANARIES = Path(__file__).with_name("one_canary.jsonl")

FULL: dict[str, Any] = {
    "kafka": {"options": {"sasl.password": SECRET, "linger.ms": 5}},
    "sampling": {"rules": [{"name": "shop", "match": {"app": {"exists": True}}, "rate": 0.5}]},
    "criteria": {"use": ["rag", "aspects.factuality"]},
    "judges": {
        "panel": [
            {
                "kind": "openai",
                "name": "gpt",
                "model": "m",
                "base_url": "http://localhost/v1",
                "api_key": "${JUDGE_KEY}",
                "samples": 5,
                "price": {"prompt": 0.5, "completion": 1.5},
            },
            {"kind": "local", "name": "local"},
            # Whatever a test changes in the first two, this one can judge every criterion.
            {
                "kind": "openai",
                "name": "qwen",
                "model": "m",
                "base_url": "http://localhost:8001/v1",
                "price": {"prompt": 0, "completion": 0, "cached": 0},
            },
        ],
        "cascade": {"first": ["qwen"]},
    },
    "detection": {"canaries": {"file": str(CANARIES)}},
    "sinks": [
        {"kind": "telemetry", "name": "traces", "endpoint": "http://localhost:4318"},
        {"kind": "jsonl", "path": "e.jsonl"},
        {"kind": "langfuse", "public_key": "p", "secret_key": "s"},
    ],
}
"""A configuration with every optional and every repeatable section."""

JUDGING = {"criteria", "judges", "composite"}
"""Sections that need each other."""

quick = settings(deadline=None, max_examples=30)


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Return a function that loads text, bytes or data as a file; keyword arguments are the environment."""
    path = tmp_path_factory.mktemp("config") / "streamjury.yaml"

    def load_content(content: Any, environ: Mapping[str, str] | None = None, **variables: str) -> Config:
        if not isinstance(content, bytes):
            content = (content if isinstance(content, str) else json.dumps(content)).encode("utf-8", "surrogatepass")
        path.write_bytes(content)
        return load(path, {"JUDGE_KEY": SECRET, **(environ or {}), **variables})

    return load_content


def problems(read: Load, content: Any, environ: Mapping[str, str] | None = None, **variables: str) -> dict[str, str]:
    """Load this content, which must fail, and return its problems by path; several messages are joined by '; '."""
    with pytest.raises(ConfigError) as caught:
        read(content, environ, **variables)
    messages_by_path: dict[str, list[str]] = {}
    for problem in caught.value.problems:
        messages_by_path.setdefault(problem.path, []).append(problem.message)
    assert messages_by_path
    return {path: "; ".join(messages) for path, messages in messages_by_path.items()}


def with_value(loc: Loc, value: Any, base: Any = None) -> Any:
    """Return a copy of the base with the value at this location."""
    data = copy.deepcopy({} if base is None else base)
    parent = data
    for part in loc[:-1]:
        parent = parent.setdefault(part, {}) if isinstance(parent, dict) else parent[part]
    parent[loc[-1]] = value
    return data


def part_with(loc: Loc) -> dict[str, Any]:
    """Return the part of FULL to which this key belongs: all of it takes three times longer to load."""
    needed = JUDGING if loc[0] in JUDGING else {loc[0]}
    return {name: section for name, section in FULL.items() if name in needed}


def value_at(config: Any, loc: Loc) -> Any:
    for part in loc:
        config = getattr(config, str(part)) if isinstance(config, BaseModel) else config[part]
    return config.get_secret_value() if isinstance(config, SecretStr) else config


def path_of(loc: Loc) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")


def sections(section: type[BaseModel] = Config, loc: Loc = ()) -> Iterator[tuple[Loc, type[BaseModel]]]:
    """Yield every section in FULL with its location."""
    yield loc, section
    for name, field in section.model_fields.items():
        for kind in alternatives(field.annotation):
            if is_section(kind):
                yield from sections(kind, (*loc, name))
    if loc == ():
        for number, sink in enumerate(SINK_KINDS):
            yield from sections(sink, ("sinks", number))
    if loc == ("sampling",):
        yield from sections(alternatives(get_args(section.model_fields["rules"].annotation)[0])[0], (*loc, "rules", 0))
    if loc == ("judges",):
        yield from sections(OpenAIJudgeConfig, (*loc, "panel", 0))
        yield from sections(LocalJudgeConfig, (*loc, "panel", 1))


def scalars() -> Iterator[tuple[Loc, FieldInfo]]:
    """Yield every key in FULL that takes a single value, with its location."""
    for loc, section in sections():
        for name, field in section.model_fields.items():
            kinds = alternatives(field.annotation)
            if all(
                get_origin(kind) is Literal or kind in (bool, int, float, str, SecretStr, NoneType) for kind in kinds
            ):
                yield (*loc, name), field


SECTIONS = list(sections())
SCALARS = list(scalars())


# Defaults


@pytest.mark.parametrize(
    "content", ["", "# nothing\n", "{}", "kafka:\nsampling:\n  rules:\njudges: {panel: }\n", "\ufeff"]
)
def test_an_empty_file_and_empty_sections_are_the_defaults(read: Load, content: str) -> None:
    assert read(content) == Config()


def test_without_a_file_there_are_the_defaults() -> None:
    assert load(None, {}) == Config()


def test_the_configuration_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Config().sampling.rate = 1.0  # type: ignore[misc]


def test_every_key_is_described_in_one_line() -> None:
    for loc, section in SECTIONS:
        assert "\n" not in str(section.__doc__)
        for name, field in section.model_fields.items():
            assert field.description, (loc, name)
            assert "\n" not in field.description
            assert "|" not in field.description, "would break the table"


def test_every_number_has_bounds() -> None:
    for loc, field in SCALARS:
        if {int, float} & {*alternatives(field.annotation)}:
            bounds = {name for constraint in field.metadata for name in ("ge", "gt", "le") if hasattr(constraint, name)}
            extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
            assert {"ge", "gt"} & bounds, loc
            assert "le" in bounds or "exclusiveMaximum" in extra, loc


def test_a_configuration_survives_copying_pickling_and_validating_again(read: Load) -> None:
    config = read(FULL)
    assert copy.deepcopy(config) == config
    assert pickle.loads(pickle.dumps(config)) == config
    assert Config.model_validate(config.model_dump()) == config
    assert Config.model_validate(config) == config


# Finding the file


def test_the_file_asked_for_comes_before_the_variable_and_the_variable_before_the_usual_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find(None, {}) is None
    assert find(None, {"STREAMJURY_CONFIG": ""}) is None
    Path("streamjury.yaml").write_text("")
    assert find(None, {}) == Path("streamjury.yaml")
    assert find(None, {"STREAMJURY_CONFIG": "b.yaml"}) == Path("b.yaml")
    assert find(Path("a.yaml"), {"STREAMJURY_CONFIG": "b.yaml"}) == Path("a.yaml")


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none.yaml", "no such file"), (tmp_path, "is a directory")):
        with pytest.raises(ConfigError, match=reason) as caught:
            load(path, {})
        assert caught.value.file == path


# YAML


@pytest.mark.parametrize(
    ("content", "path", "message"),
    [
        ("kafka: [", "line 1, column 9", "not valid YAML"),
        ("kafka:\n  bootstrap: 'a\n", "line 3, column 1", "quoted scalar that starts in line 2"),
        ("http: {token: ${TOKEN}}", "line 1, column 16", 'put references in quotes inside { } and [ ]: "${NAME}"'),
        ("http: {token: a-${TOKEN}}", "line 1, column 18", "put references in quotes"),
        ("sinks: [${SINK}, {}]", "line 1, column 10", "put references in quotes"),
        ("a: b: c", "line 1, column 5", "mapping values are not allowed here"),
        ("kafka:\n\tbootstrap: a", "line 2, column 1", "cannot start any token"),
        ("a: 1\n---\nb: 2", "line 2, column 1", "another document"),
        ("kafka:\n  \x01", "line 2, column 3", "character that YAML does not allow"),
        (b"kafka:\n  a: \xff\xfe", "line 2", "not UTF-8"),
        ("[1, 2]", "", "must be a mapping, not a list"),
        ("just text", "", "must be a mapping, not text"),
        ("http: {port: 1}\nhttp: {port: 2}", "http", "is listed twice, in lines 1 and 2"),
        ("http:\n  port: 1\n  port: 2", "http.port", "is listed twice, in lines 2 and 3"),
        ("http: {1: 2}", "http", "the key in line 1 must be text"),
        ("http: {[a]: 2}", "http", "the key in line 1 must be text"),
        ("http: {{a}: 2}", "http", "the key in line 1 must be text"),
        ("http: {<<: {port: 1}}", "http", "'<<' in line 1 is not supported"),
        ("http: {port: !!python/object:os.system 1}", "http.port", "tags are not allowed"),
        ("http: !x {port: 1}", "http", "tags are not allowed"),
        ("http: {port: !!int 1}", "http.port", "tags are not allowed"),
        ("http: {host: !!str localhost}", "http.host", "tags are not allowed"),
        ("http: {host: ! localhost}", "http.host", "tags are not allowed"),
        ("http: !!map {port: 1}", "http", "tags are not allowed"),
        ("criteria: {use: !!seq [rag]}", "criteria.use", "tags are not allowed"),
        ("http: {!!str port: 1}", "http", "the key in line 1 has a YAML tag"),
        ("http: {host: !secret }", "http.host", "put the value in quotes"),
        ("http: {port: " + "1" * 5000 + "}", "http.port", "too long a number"),
        ("http: {port: 0x" + "f" * 5000 + "}", "http.port", "must be at most 65535, not a number so large"),
        ("a: &a [*a]", "", "nested deeper"),
        ("[" * 2000, "", "nested deeper"),
        ("a: " + "[" * 40 + "]" * 40, "", "nested deeper"),
        ("#" * 300_000, "", "too large"),
        ("a: 1\n" * 10_100, "", "too many"),
    ],
)
def test_unusable_yaml_is_refused_with_its_location(read: Load, content: Any, path: str, message: str) -> None:
    reported = problems(read, content)
    assert list(reported) == [path]
    assert message in reported[path]


def test_aliases_are_read_but_cannot_make_a_small_file_huge(read: Load) -> None:
    config = read("sampler: {group: &name one}\nworker: {instance: *name}")
    assert config.worker.instance == "one"
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
    )
    assert "too many" in problems(read, bomb)[""]


@pytest.mark.parametrize("text", ["no", "on", "12:30", "2026-01-01", "0123", "0o8", "1_000x", "=", "a b"])
def test_unquoted_words_stay_text(read: Load, text: str) -> None:
    assert read(f"sampling: {{salt: {text}}}").sampling.salt == text


@quick
@given(text=st.text(min_size=1, max_size=20))
@example(text="0o17")
@example(text="1e3")
@example(text="no")
@example(text="${X}")
@example(text="\x85")
def test_a_dumped_configuration_is_loaded_unchanged(read: Load, text: str) -> None:
    config = Config.model_validate(with_value(("sampling", "salt"), text))
    assert read(dump(config)) == config


def test_numbers_and_booleans_are_read_from_text_too(read: Load) -> None:
    config = read({"http": {"port": "80"}, "sampling": {"rate": "1e-1"}}, environ={})
    assert (config.http.port, config.sampling.rate) == (80, 0.1)
    assert read(with_value(("judges", "panel", 0, "structured"), "false", FULL)).judges.panel[0].structured is False  # type: ignore[union-attr]


# References to the environment


@quick
@given(
    pieces=st.lists(
        st.one_of(
            st.from_regex(r"[a-z :#{}$]{0,6}[a-z]", fullmatch=True)
            .filter(lambda text: "${" not in text)
            .map(lambda text: (text, text)),
            st.just(("$${", "${")),
            st.just(("${SET}", "value-of-${SET}")),
            st.just(("${SET:-other}", "value-of-${SET}")),
            st.from_regex(r"[a-z :$-]{0,8}", fullmatch=True).map(lambda text: (f"${{UNSET:-{text}}}", text)),
            st.from_regex(r"[a-z :$-]{0,8}", fullmatch=True).map(lambda text: (f"${{EMPTY:-{text}}}", text)),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_references_are_replaced_anywhere_in_a_text_and_only_once(read: Load, pieces: list[tuple[str, str]]) -> None:
    salt, expected = ("".join(parts) for parts in zip(*pieces, strict=True))
    assume("$$${" not in salt and 0 < len(expected) <= 200)
    config = read(with_value(("sampling", "salt"), salt), SET="value-of-${SET}", EMPTY="")
    assert config.sampling.salt == expected


def test_all_missing_variables_are_listed_beside_the_other_problems(read: Load) -> None:
    reported = problems(
        read,
        {
            "kafka": {"bootstrap": "${A}:${B}", "options": {"sasl.password": "${C}"}},
            "judges": {"panel": [{"kind": "${KIND}"}]},
            "http": {"port": 70000},
        },
        B="",
    )
    assert "A, which is not set" in reported["kafka.bootstrap"]
    assert "B, which is empty" in reported["kafka.bootstrap"]
    assert "${C:-default}" in reported["kafka.options['sasl.password']"]
    assert "KIND" in reported["judges.panel[0].kind"]
    assert reported["http.port"] == "must be at most 65535, not 70000"
    assert len(reported) == 4


@pytest.mark.parametrize("text", ["${", "${}", "${9}", "${A B}", "${A", "${A:default}"])
def test_a_broken_reference_is_a_problem_that_mentions_the_escape(read: Load, text: str) -> None:
    assert "$${" in problems(read, with_value(("sampling", "salt"), text), A="a")["sampling.salt"]


def test_a_value_from_the_environment_cannot_change_the_shape_of_the_file(read: Load) -> None:
    assert read("sampling: {salt: '${X}'}", X="a}\nhttp: {port: 1}").sampling.salt == "a}\nhttp: {port: 1}"


def test_an_empty_default_leaves_an_optional_key_unset(read: Load) -> None:
    data = with_value(
        ("judges", "panel", 0, "api_key"), "${X:-}", with_value(("judges", "panel", 0, "seed"), "${X:-}", FULL)
    )
    judge = read(data).judges.panel[0]
    assert isinstance(judge, OpenAIJudgeConfig)
    assert (judge.api_key, judge.seed) == (None, None)


def test_keys_are_not_replaced(read: Load) -> None:
    assert problems(read, {"http": {"${X}": 1}}, X="port") == {
        "http['${X}']": "unknown key; expected one of: host, port, token, tokens, certificate, key"
    }


# Overrides

GPT: Loc = ("judges", "panel", 0)
LIMITS: dict[Loc, tuple[Any, Any]] = {
    ("judges", "quorum"): (1, 2),
    (*GPT, "samples"): (1, 32),
    (*GPT, "min_pass"): (1, 5),
    (*GPT, "min_valid"): (1, 5),
    ("sampling", "max_rate"): (0.0012, 1.0),
    ("sampling", "rules", 0, "max_rate"): (0.0012, 1.0),
    ("worker", "concurrency"): (1, 256),
    ("worker", "run_ahead"): (64, 65_536),
    ("worker", "deadline_seconds"): (0.001, 59.9),
    ("worker", "stall_seconds"): (46.0, 86_400.0),
}
"""Keys that depend on another key: the range that fits FULL."""

BESIDE: dict[str, dict[str, Any]] = {
    "quiet_seconds": {"max_seconds": 86_400.0},
    "max_seconds": {"quiet_seconds": 0.1},
    "stop_early": {"combine": "median"},
    "on_bias": {"check_position": True},
    "min_certainty": {"method": "guardian"},
    "target_per_minute": {"rate": None},
    "min_rate": {"rate": None, "target_per_minute": 100},
    "max_rate": {"rate": None, "target_per_minute": 100},
    "regex": {"exists": None},
    "certificate": {"key": "key.pem"},
    "key": {"certificate": "certificate.pem"},
}
"""Keys that are read only with, or without, other keys of their section."""


REGISTRY = {"url": "https://registry.example.com", "user": "reader", "password": "hidden"}
ADDRESSES = {"base_url", "proxy", "grafana_url", "runbook_url", "endpoint"}


def values_of(loc: Loc, field: FieldInfo) -> st.SearchStrategy[Any]:
    kinds = alternatives(field.annotation)
    bounds = {
        name: getattr(constraint, name)
        for constraint in field.metadata
        for name in ("ge", "gt", "le")
        if hasattr(constraint, name)
    }
    low, high = LIMITS.get(loc, (bounds.get("ge", bounds.get("gt")), bounds.get("le")))
    if loc == ("input", "adapter"):
        return st.just("streamjury")
    if loc == ("input", "encoding"):
        return st.sampled_from(["confluent-avro", "confluent-protobuf", "confluent-json"])
    if loc == ("input", "registry", "url"):
        return st.just("https://other.example.com")
    if loc == ("sampling", "replay_steps") or loc[-1] == "api_key_file":
        return st.none()  # a file that must exist
    if loc[0] == "sinks" and loc[-1] == "host":
        return st.just("https://langfuse.example.com")
    if loc == ("page", "trace_url"):
        return st.just("https://traces.example.com/{trace_id}")
    if loc == ("archive", "url"):
        return st.sampled_from(["sqlite:///a.db", "postgresql://me@host:5432/archive?sslmode=require"])
    if loc == ("composite", "safety"):
        return st.sampled_from([*RAG_DIMENSIONS, "factuality"])
    if get_origin(kinds[0]) is Literal:
        return st.sampled_from(get_args(kinds[0]))
    if bool in kinds:
        return st.booleans()
    if int in kinds:
        return st.integers(low, high)
    if float in kinds:
        return st.floats(low, high, exclude_min="gt" in bounds)
    return st.from_regex(r"[a-z][a-z0-9]{3,20}", fullmatch=True).map(
        lambda text: f"http://{text}" if str(loc[-1]) in ADDRESSES else text
    )


@pytest.mark.parametrize(("loc", "field"), [pytest.param(loc, field, id=path_of(loc)) for loc, field in SCALARS])
@settings(max_examples=2)
@given(data=st.data())
@pytest.mark.slow
def test_every_key_can_be_overridden(read: Load, loc: Loc, field: FieldInfo, data: st.DataObject) -> None:
    is_fixed = loc[-1] in {"kind", "file"}  # another kind makes another section, and no other file exists
    value = value_at(Config.model_validate(FULL), loc) if is_fixed else data.draw(values_of(loc, field))
    variable = "STREAMJURY__" + "__".join(map(str, loc)).upper()
    variable = data.draw(st.sampled_from([variable, variable.lower(), variable.title()]))
    base = part_with(loc)
    if loc[0] == "input" and loc[1] in {"encoding", "registry"}:
        base = with_value(("input",), {"encoding": "confluent-avro", "registry": REGISTRY}, base)
        if loc[-1] == "token":
            base = with_value(("input", "registry"), {"url": REGISTRY["url"]}, base)
    for key, needed in BESIDE.get(str(loc[-1]), {}).items():
        base = with_value((*loc[:-1], key), needed, base)
    config = read(base, {variable: value if isinstance(value, str) else json.dumps(value)})
    assert value_at(config, loc) == value
    untouched = next(other for other in ("http", "logging") if other != loc[0])
    assert getattr(config, untouched) == getattr(Config(), untouched)


@pytest.mark.parametrize(
    ("name", "text", "loc", "value"),
    [
        ("SAMPLING__SALT", "0123", ("sampling", "salt"), "0123"),
        ("SAMPLING__SALT", "'0123'", ("sampling", "salt"), "0123"),
        ("SAMPLING__SALT", "'a' b", ("sampling", "salt"), "'a' b"),
        ("SAMPLING__SALT", "a: b # c", ("sampling", "salt"), "a: b # c"),
        ("SAMPLING__SALT", "${X}", ("sampling", "salt"), "${X}"),
        ("SAMPLING__SALT", "null", ("sampling", "salt"), "null"),
        ("WORKER__INSTANCE", "null", ("worker", "instance"), None),
        ("WORKER__INSTANCE", "", ("worker", "instance"), None),
        ("JUDGES__QUORUM", "", ("judges", "quorum"), None),
        ("COMPOSITE__REQUIRED", "[clarity]", ("composite", "required"), ("clarity",)),
        ("COMPOSITE__REQUIRED__0", "clarity", ("composite", "required", 0), "clarity"),
        ("COMPOSITE__WEIGHTS__ANSWER_RELEVANCE", "2", ("composite", "weights", "answer_relevance"), 2.0),
        ("KAFKA__OPTIONS__SASL_PASSWORD", "1e5", ("kafka", "options", "sasl.password"), "1e5"),
        ("KAFKA__OPTIONS__SASL.PASSWORD", "*x #y", ("kafka", "options", "sasl.password"), "*x #y"),
        ("INPUT__LIMITS__CONTEXTS", "7", ("input", "limits", "contexts"), 7),
        ("JUDGES__PANEL__0__NAME", "other", ("judges", "panel", 0, "name"), "other"),
        ("SAMPLING", "{rate: 0.5}", ("sampling", "rate"), 0.5),
    ],
)
def test_overrides_on_an_empty_file(read: Load, name: str, text: str, loc: Loc, value: object) -> None:
    assert value_at(read("", {f"STREAMJURY__{name}": text}), loc) == value


def test_variables_with_a_single_underscore_are_not_overrides(read: Load) -> None:
    assert read("", STREAMJURY_CONFIG="x", STREAMJURY_FOO="1", STREAMJURYX__HTTP__PORT="1", STREAMJURY="") == Config()


def test_lists_grow_by_the_next_index_and_nested_keys_are_created(read: Load) -> None:
    config = read(
        FULL,
        STREAMJURY__SAMPLING__RULES__1__NAME="late",
        STREAMJURY__SAMPLING__RULES__1__RATE="0",
        STREAMJURY__SAMPLING__RULES__1__MATCH__TENANT__0="acme",
        STREAMJURY__SAMPLING__RULES__1__MATCH__TENANT__1="globex",
    )
    assert [rule.name for rule in config.sampling.rules] == ["shop", "late"]
    assert config.sampling.rules[1].match.tenant == ("acme", "globex")
    reported = problems(read, FULL, STREAMJURY__SAMPLING__RULES__7__NAME="x", STREAMJURY__SAMPLING__RULES__X__NAME="x")
    assert list(reported) == ["sampling.rules"]
    assert (
        "has no item '7'; use an index from 0 to 1"
        in problems(read, FULL, STREAMJURY__SAMPLING__RULES__7="x")["sampling.rules"]
    )


def test_added_items_need_all_their_keys_and_the_problem_names_the_variable(read: Load) -> None:
    reported = problems(read, "", STREAMJURY__SAMPLING__RULES__0__NAME="late")
    assert reported["sampling.rules[0].rate"] == "is required (item added by STREAMJURY__SAMPLING__RULES__0__NAME)"


def test_a_judge_of_another_kind_does_not_keep_the_default_name(read: Load) -> None:
    variables = {
        "STREAMJURY__JUDGES__PANEL__0__KIND": "openai",
        "STREAMJURY__JUDGES__PANEL__0__MODEL": "m",
        "STREAMJURY__JUDGES__PANEL__0__BASE_URL": "http://localhost",
    }
    assert "is required" in problems(read, "", variables)["judges.panel[0].name"]
    judge = read("", {**variables, "STREAMJURY__JUDGES__PANEL__0__NAME": "gpt"}).judges.panel[0]
    assert isinstance(judge, OpenAIJudgeConfig)


def test_single_keys_override_their_section(read: Load) -> None:
    config = read("", STREAMJURY__SAMPLING__RATE="0.2", STREAMJURY__SAMPLING="{rate: 0.5, salt: x}")
    assert (config.sampling.rate, config.sampling.salt) == (0.2, "x")


def test_an_override_replaces_a_missing_reference(read: Load) -> None:
    text = with_value(("judges", "panel", 0, "api_key"), "${MISSING}", FULL)
    assert value_at(read(text, STREAMJURY__JUDGES__PANEL__0__API_KEY="k"), ("judges", "panel", 0, "api_key")) == "k"


def test_a_wrong_override_of_a_missing_reference_is_still_a_problem(read: Load) -> None:
    reported = problems(read, {"http": {"port": "${MISSING}"}}, STREAMJURY__HTTP__PORT="x")
    assert reported == {"http.port": "must be a whole number, not 'x' (set by STREAMJURY__HTTP__PORT)"}


def test_an_empty_override_is_called_empty_and_its_variable_is_named(read: Load) -> None:
    found = problems(read, "", STREAMJURY__KAFKA__BOOTSTRAP="")
    assert found == {"kafka.bootstrap": "must not be empty (set by STREAMJURY__KAFKA__BOOTSTRAP)"}


@pytest.mark.parametrize(
    ("name", "text", "path", "message"),
    [
        ("SAMPLING__RTE", "1", "sampling.rte", "unknown key; did you mean 'rate'?"),
        ("SAMPLING__RTE", "[", "sampling.rte", "unknown key; did you mean 'rate'?"),
        ("SAMPLNG__RATE", "1", "samplng", "unknown key; did you mean 'sampling'?"),
        ("SAMPLING__RATE", "1.5", "sampling.rate", "must be at most 1, not 1.5"),
        ("SAMPLING__RATE", "often", "sampling.rate", "must be a number, not 'often'"),
        ("SAMPLING__RATE", "[", "sampling.rate", "is not valid YAML"),
        ("SAMPLING__RATE", "{a: 1, a: 2}", "sampling.rate.a", "is listed twice"),
        ("SAMPLING__RATE__X", "1", "sampling.rate", "has no nested keys"),
        ("SAMPLING", "5", "sampling", "must be a mapping, not a single value"),
        ("SAMPLING__RULES__0", "5", "sampling.rules[0]", "must be a mapping"),
        ("COMPOSITE__WEIGHTS__CLARTY", "1", "composite.weights.clarty", "did you mean 'clarity'?"),
        ("KAFKA__OPTIONS__GROUP_ID", "1", "kafka.options['group.id']", "use sampler.group"),
        ("JUDGES__PANEL__0__MODEL", "m", "judges.panel[0].model", "unknown key"),
        (
            "JUDGES__PANEL__0__KIND",
            "opnai",
            "judges.panel[0].kind",
            "must be one of 'local', 'encoder', 'openai', 'anthropic', 'ollama', not 'opnai'",
        ),
        ("", "1", "['']", "unknown key"),
        ("HTTP__", "1", "http['']", "unknown key"),
    ],
)
def test_a_wrong_override_is_a_problem_that_names_the_variable(
    read: Load, name: str, text: str, path: str, message: str
) -> None:
    reported = problems(read, "", {f"STREAMJURY__{name}": text})
    assert message in reported[path]
    if "twice" not in message:
        assert f"STREAMJURY__{name})" in reported[path]


def test_two_variables_for_one_key_are_a_problem(read: Load) -> None:
    reported = problems(read, "", STREAMJURY__HTTP__PORT="1", streamjury__http__port="2")
    assert reported["http.port"] == "is also set by STREAMJURY__HTTP__PORT (set by streamjury__http__port)"


def test_a_value_of_the_wrong_type_is_blamed_on_the_file_and_not_on_an_override_below_it(read: Load) -> None:
    assert problems(read, {"http": 5}, STREAMJURY__HTTP__PORT="1") == {"http": "must be a mapping, not a single value"}


# Problems


@quick
@given(
    place=st.sampled_from(SECTIONS),
    name=st.from_regex(r"[a-zA-Z_]{1,14}", fullmatch=True),
    value=st.sampled_from([None, 1, "x", [], {"a": 1}]),
)
def test_unknown_keys_at_any_level_are_reported_with_their_path(
    read: Load, place: tuple[Loc, type[BaseModel]], name: str, value: object
) -> None:
    loc, section = place
    assume(name not in section.model_fields)
    reported = problems(read, with_value((*loc, name), value, FULL))
    message = reported.pop(path_of((*loc, name)))
    hint = re.fullmatch(r"unknown key; (did you mean '(\w+)'\?|expected one of: (.*))", message)
    assert hint
    assert hint[2] in section.model_fields or hint[3].split(", ") == list(section.model_fields)
    assert not reported or loc[-1:] == ("match",), "an unknown key is the only problem"


@pytest.mark.parametrize("place", SECTIONS, ids=lambda place: path_of(place[0]) or "top")
def test_a_key_with_an_extra_letter_is_recognised(read: Load, place: tuple[Loc, type[BaseModel]]) -> None:
    loc, section = place
    for name in section.model_fields:
        if len(name) > 3 and f"{name}s" not in section.model_fields:
            reported = problems(read, with_value((*loc, f"{name}s"), 1, part_with((*loc, name))))
            assert reported[path_of((*loc, f"{name}s"))] == f"unknown key; did you mean {name!r}?"


@pytest.mark.parametrize(
    ("loc", "value", "message"),
    [
        (("sampling", "rate"), 1.5, "must be at most 1, not 1.5"),
        (("sampling", "rate"), -0.5, "must be at least 0, not -0.5"),
        (("sampling", "rate"), True, "must be a number, not 'true'"),
        (("sampling", "rate"), "inf", "must be a finite number, not 'inf'"),
        (("sampling", "rate"), {}, "must be a number, not a mapping"),
        (("sampling", "salt"), 5, "must be text, not 5; put it in quotes"),
        (("sampling", "salt"), False, "must be text, not false; put it in quotes"),
        (("sampling", "salt"), "", "must not be empty"),
        (("sampling", "salt"), "\ud800", "must be text without lone surrogates"),
        (("sampling", "rules"), "x", "must be a list, not text"),
        (("sampling", "rules"), {}, "must be a list, not a mapping"),
        (("sampling", "rules", 0, "match"), {}, "must have a condition on app, tenant, model, tags, headers or body"),
        (
            ("sampling", "rules", 0, "name"),
            "default",
            "must not be 'default', which is reserved for interactions that match no rule",
        ),
        (("sampling", "rules", 0, "name"), "A b", "must be 1 to 64 lower-case letters, digits, '_' and '-', not 'A b'"),
        (("judges", "panel"), [], "must not be empty"),
        (("judges", "panel", 0), "x", "must be a mapping, not text"),
        (
            ("judges", "panel", 1, "kind"),
            "llm",
            "must be one of 'local', 'encoder', 'openai', 'anthropic', 'ollama', not 'llm'",
        ),
        (("judges", "panel", 1, "name"), "gpt", None),
        (("judges", "panel", 0, "max_tokens"), 0, "must be at least 1, not 0"),
        (("judges", "panel", 0, "max_tokens"), 1.5, "must be a whole number, not 1.5"),
        (("judges", "panel", 0, "structured"), "perhaps", "must be true or false, not 'perhaps'"),
        (("judges", "panel", 0, "timeout_seconds"), 0, "must be above 0, not 0"),
        (("judges", "combine"), "avg", "must be 'mean', 'median', 'min', 'max', 'majority' or 'weighted', not 'avg'"),
        (("judges", "quorum"), 4, "must be at most 3, the number of judges in the panel, not 4"),
        (("composite", "weights", "clarity"), -1, "must be at least 0, not -1"),
        (("composite", "weights", "clarity"), True, "must be a number, not true"),
        (("composite", "weights", "clarty"), 1, "unknown criterion; did you mean 'clarity'?"),
        (("composite", "required"), ["clarity", "clarity"], "must name each criterion once; [0] and [1] are the same"),
        (("worker", "concurrency"), 300, None),
        (("http", "port"), 65536, "must be at most 65535, not 65536"),
        (("topics", "sampled"), "a/b", "must be 1 to 249 letters, digits, '.', '_' and '-', not 'a/b'"),
        (("topics", "sampled"), "..", "must not be '.' or '..'"),
        (("kafka", "bootstrap"), "a:b", "must be host:port, several separated by commas"),
        (("kafka", "bootstrap"), "a,,b", "must be host:port, several separated by commas"),
        (("kafka", "bootstrap"), "a:0", "must be host:port, several separated by commas"),
        (("kafka", "options", "linger.ms"), [1], "must be text, a number, or true or false"),
        (("logging", "level"), "x" * 200, None),
        (("logging",), 5, "must be a mapping, not a single value"),
    ],
)
def test_problems_are_reported_in_plain_words(read: Load, loc: Loc, value: object, message: str | None) -> None:
    reported = problems(read, with_value(loc, value, FULL))
    if message is not None:
        path = path_of(loc).replace(".linger.ms", "['linger.ms']")
        assert reported == {path: message}
    assert all(len(text) < 250 for text in reported.values())


def test_the_deadline_says_why_it_must_be_below_the_rebalance_timeout(read: Load) -> None:
    message = problems(read, {"worker": {"deadline_seconds": 60}})["worker.deadline_seconds"]
    assert "below the rebalance timeout of 60 seconds" in message
    assert "removed from its group" in message
    assert read({"worker": {"deadline_seconds": 59.9}}).worker.deadline_seconds == 59.9


def test_the_default_run_ahead_must_not_be_below_the_concurrency_either(read: Load) -> None:
    reported = problems(read, {"worker": {"concurrency": 300}})
    assert reported == {"worker.run_ahead": "must be at least worker.concurrency (300), not 256"}
    assert read({"worker": {"concurrency": 300, "run_ahead": 300}}).worker.run_ahead == 300


def test_all_problems_are_reported_at_once(read: Load) -> None:
    reported = problems(
        read,
        """\
sampling: {rate: 2, rte: 1}
judges: {panel: [{kind: local}, {kind: openai, modl: x}]}
http: {port: "${P}"}
topics: {partitions: 0, partitions: 1}
""",
        STREAMJURY__WORKER__BATCH="1",
    )
    assert set(reported) == {
        "sampling.rate",
        "sampling.rte",
        "judges.panel[1].name",
        "judges.panel[1].model",
        "judges.panel[1].base_url",
        "judges.panel[1].modl",
        "http.port",
        "topics.partitions",
        "worker.batch",
    }


def test_a_list_with_wrong_items_is_not_also_reported_as_too_short(read: Load) -> None:
    assert list(problems(read, {"judges": {"panel": [5]}})) == ["judges.panel[0]"]


def test_a_problem_is_printed_as_path_and_message() -> None:
    assert str(Problem(path="a.b", message="is wrong")) == "a.b: is wrong"
    assert str(Problem(path="", message="is wrong")) == "is wrong"
    assert str(ConfigError(None, [Problem(path="a", message="1"), Problem(path="b", message="2")])) == "a: 1\nb: 2"


# Rules of single sections


def test_topics_must_differ_in_more_than_dots_and_underscores(read: Load) -> None:
    assert "topics.interactions" in problems(read, {"topics": {"labels": "rag.interactions"}})["topics.labels"]
    assert "topics.interactions" in problems(read, {"topics": {"interactions": "rag_labels"}})["topics.labels"]


def test_stages_need_different_groups(read: Load) -> None:
    assert problems(read, {"worker": {"group": "streamjury-sampler"}}) == {
        "worker": "group must differ from sampler.group"
    }
    assert problems(read, {"monitor": {"group": "streamjury-worker"}}) == {
        "monitor": "group must differ from worker.group"
    }


@pytest.mark.parametrize("option", ["group.id", "transactional.id", "enable.auto.commit", "isolation.level"])
def test_options_that_the_program_sets_are_refused(read: Load, option: str) -> None:
    assert (
        "is set by the program" in problems(read, {"kafka": {"options": {option: "x"}}})[f"kafka.options['{option}']"]
    )


@pytest.mark.parametrize(
    ("option", "instead"),
    [
        ("bootstrap.servers", "kafka.bootstrap"),
        ("partition.assignment.strategy", "always cooperative"),
        ("enable.idempotence", "always on"),
        ("auto.offset.reset", "earliest"),
        ("group.id", "worker.group"),
        ("enable.auto.commit", "worker.commit_seconds"),
    ],
)
def test_a_refused_option_says_what_to_use_instead(option: str, instead: str) -> None:
    with pytest.raises(ValidationError, match=instead):
        KafkaConfig(options={option: "x"})


def test_client_options_hold_the_brokers_and_the_real_secrets(read: Load) -> None:
    kafka = read(with_value(("kafka", "bootstrap"), "a:1, [::1]:2", FULL)).kafka
    options = {"bootstrap.servers": "a:1,[::1]:2", "sasl.password": SECRET, "linger.ms": 5}
    assert kafka.client_options() == {"receive.message.max.bytes": 2**31 - 1, **options}


def test_a_secret_that_yaml_reads_as_a_number_must_be_quoted(read: Load) -> None:
    assert "put it in quotes" in problems(read, "kafka: {options: {sasl.password: 1e5}}")["kafka.options"]


def test_the_mapping_belongs_to_its_adapter_and_names_known_fields(read: Load) -> None:
    full = {name: f"a.{name}" for name in Interaction.model_fields}
    assert InputConfig(adapter="mapping", mapping=full).mapping == full
    assert problems(read, {"input": {"mapping": full}}) == {"input.mapping": "requires 'adapter: mapping'"}
    assert problems(read, {"input": {"adapter": "mapping"}}) == {"input.mapping": "must map id, question, answer"}
    wrong = {"input": {"adapter": "mapping", "mapping": {**full, "anwser": "x", "id": "a..b"}}}
    reported = problems(read, wrong)
    assert reported["input.mapping.anwser"] == "unknown field of an interaction; did you mean 'answer'?"
    assert "a dotted path" in reported["input.mapping.id"]


def test_registry_and_encoding_belong_together(read: Load) -> None:
    url = {"url": "https://registry.example.com"}
    avro = {"encoding": "confluent-avro"}
    requires = "requires 'encoding: confluent-avro', confluent-protobuf or confluent-json"
    for section, found in (
        ({"registry": url}, {"input.registry": requires}),
        (avro, {"input.registry.url": "must be set for 'encoding: confluent-avro'"}),
        ({**avro, "registry": {**url, "user": "u"}}, {"input.registry.password": "must be set together with user"}),
        (
            {**avro, "registry": {**url, "user": "u", "password": "p", "token": "t"}},
            {"input.registry.token": "must not be set together with user and password"},
        ),
        (
            {**avro, "registry": {"url": "https://u:p@registry.example.com"}},
            {"input.registry.url": "must not contain a user or password; use user and password, or token"},
        ),
    ):
        assert problems(read, {"input": section}) == found
    otlp = problems(read, {"input": {**avro, "registry": url, "otlp": {"topic": "otlp_spans"}}})
    assert otlp["input.encoding"] == "must be json together with input.otlp, which writes interactions as JSON"


def test_weights_may_be_zero_but_not_all_of_them(read: Load) -> None:
    zeros = dict.fromkeys(RAG_DIMENSIONS, 0.0)
    some = {name: zeros[name] for name in RAG_DIMENSIONS[1:]}
    assert read({"composite": {"weights": some}}).composite.weights == some
    assert problems(read, {"composite": {"weights": zeros}}) == {
        "composite.weights": "must leave at least one criterion with a weight above 0"
    }


# Which interactions are judged

RULE: dict[str, Any] = {"name": "shop", "match": {"app": "shop"}, "rate": 0.5}
TARGET: dict[str, Any] = {"name": "shop", "match": {"app": "shop"}, "target_per_minute": 60}


def test_a_condition_is_a_value_a_list_or_a_section_and_stays_as_it_was_written(read: Load) -> None:
    match = {
        "app": "shop",
        "tenant": ["a", "b"],
        "model": {"regex": "^x"},
        "tags": {"tier": 1, "beta": True, "share": {"min": 0.5}},
        "headers": {"x-env": ["live"]},
        "body": {"a.0.b": {"exists": False}},
    }
    config = read({"sampling": {"rules": [{**RULE, "match": match}]}})
    loaded = config.sampling.rules[0].match
    assert (loaded.app, loaded.tenant) == ("shop", ("a", "b"))
    assert (loaded.tags["tier"], loaded.tags["beta"]) == (1, True)
    assert read(dump(config)) == config


def test_conditions_can_be_overridden_key_by_key(read: Load) -> None:
    prefix = "STREAMJURY__SAMPLING__RULES__0__MATCH__"
    base = {"sampling": {"rules": [{**RULE, "match": {"app": "shop"}}]}}
    assert read(base, {f"{prefix}APP": "docs"}).sampling.rules[0].match.app == "docs"
    assert read(base, {f"{prefix}APP": "[docs, shop]"}).sampling.rules[0].match.app == ("docs", "shop")
    assert read(base, {f"{prefix}TENANT__0": "acme"}).sampling.rules[0].match.tenant == ("acme",)
    assert read(base, {f"{prefix}MODEL__REGEX": "^x"}).sampling.rules[0].match.model == TextConditionConfig(regex="^x")


def test_a_target_replaces_the_rate(read: Load) -> None:
    config = read({"sampling": {"target_per_minute": 600, "rules": [TARGET]}})
    assert (config.sampling.rate, config.sampling.rules[0].rate) == (None, None)
    assert read(dump(config)) == config
    assert read({"sampling": {"rate": None, "target_per_minute": 600}}) == read(
        {"sampling": {"target_per_minute": 600}}
    )


@pytest.mark.parametrize(
    ("changed", "path", "message"),
    [
        ({"rate": None}, "target_per_minute", "is required without a rate"),
        ({"target_per_minute": 5}, "target_per_minute", "cannot be used together with rate; remove one of them"),
        ({"min_rate": 0.1}, "min_rate", "requires target_per_minute"),
        ({"max_rate": 0.1}, "max_rate", "requires target_per_minute"),
        ({"max_per_minute": 0}, "max_per_minute", "must be at least 1, not 0"),
        ({"name": "safety"}, "name", "must not be 'safety', which is reserved for the safety lane"),
        ({"name": "direct"}, "name", "must not be 'direct', which is reserved for records that were not sampled"),
        ({"name": "none"}, "name", "must not be 'none', which is reserved for records without a sampling decision"),
        ({"lane": "A"}, "lane", "must be 1 to 64 lower-case letters, digits, '_' and '-', not 'A'"),
        ({"match": {"app": 5}}, "match.app", "must be text, not 5; put it in quotes"),
        ({"match": {"app": []}}, "match.app", "must not be empty"),
        ({"match": {"app": ["a", 5]}}, "match.app[1]", "must be text, not 5; put it in quotes"),
        ({"match": {"app": {}}}, "match.app", "must have either regex or exists"),
        ({"match": {"app": {"min": 1}}}, "match.app.min", "unknown key; expected one of: regex, exists"),
        (
            {"match": {"tenant": {"regex": "a("}}},
            "match.tenant.regex",
            "is not a valid regular expression: missing ), unterminated subpattern at position 1",
        ),
        ({"match": {"tenant": {"regex": "a" * 1001}}}, "match.tenant.regex", "must have at most 1000 characters"),
        ({"match": {"tags": {"t": None}}}, "match.tags.t", "must be text, a number, or true or false"),
        ({"match": {"tags": {"t": [[1]]}}}, "match.tags.t[0]", "must be text, a number, or true or false"),
        ({"match": {"tags": {"t": {"regx": "x"}}}}, "match.tags.t.regx", "unknown key; did you mean 'regex'?"),
        (
            {"match": {"tags": {"t": {"regex": "x", "min": 1}}}},
            "match.tags.t",
            "must have regex, exists, or min and/or max",
        ),
        ({"match": {"tags": {"t": {"min": 2, "max": 1}}}}, "match.tags.t.max", "must be at least min (2), not 1"),
        ({"match": {"tags": {"t": {"min": "x"}}}}, "match.tags.t.min", "must be a number, not 'x'"),
        ({"match": {"tags": {"t": {"min": True}}}}, "match.tags.t.min", "must be a number, not 'true'"),
        ({"match": {"headers": {"x-y": {"exists": "perhaps"}}}}, "match.headers.x-y.exists", None),
        ({"match": {"body": {"a..b": 1}}}, "match.body['a..b']", None),
        ({"match": {"body": {"a.b": {"max": "inf"}}}}, "match.body['a.b'].max", "must be a finite number, not 'inf'"),
    ],
)
def test_a_wrong_rule_is_reported_at_its_key(
    read: Load, changed: dict[str, Any], path: str, message: str | None
) -> None:
    reported = problems(read, {"sampling": {"rules": [{**RULE, **changed}]}})
    text = reported.pop(f"sampling.rules[0].{path}")
    assert message is None or text == message
    assert not reported


@pytest.mark.parametrize(
    ("sampling", "path", "message"),
    [
        ({"rate": None}, "target_per_minute", "is required without a rate"),
        (
            {"rate": 0.5, "target_per_minute": 5},
            "target_per_minute",
            "cannot be used together with rate; remove one of them",
        ),
        ({"target_per_minute": 0}, "target_per_minute", "must be above 0, not 0"),
        ({"target_per_minute": 5, "min_rate": 0}, "min_rate", "must be at least 1e-06, not 0"),
        ({"target_per_minute": 5, "min_rate": 0.5, "max_rate": 0.2}, "max_rate", "must be at least min_rate (0.5)"),
        (
            {"target_per_minute": 5, "min_rate": 0.51, "max_rate": 0.55},
            "max_rate",
            "must leave one of the rates 1, 0.84",
        ),
        ({"id": "value"}, "id", "must be 'key' or 'body', not 'value'"),
        ({"safety": {"triggers": ["lexicn"]}}, "safety.triggers[0]", "must be 'lexicon', 'thumbs_down', 'refusal' or"),
        ({"safety": {"triggers": []}}, "safety.triggers", "must not be empty"),
        ({"safety": {"triggers": ["refusal", "refusal"]}}, "safety.triggers", "must name each trigger once"),
        ({"safety": {"words": ["*"]}}, "safety.words[0]", "must start with a letter or digit"),
        ({"safety": {"triggers": ["refusal"], "words": ["a"]}}, "safety.words", "requires lexicon among"),
        ({"safety": {"triggers": ["refusal"], "thumbs_down": {"a": 1}}}, "safety.thumbs_down", "requires"),
        ({"safety": {"thumbs_down": {"a.b": {}}}}, "safety.thumbs_down['a.b']", "must have regex, exists"),
        ({"replay_steps": "none.jsonl"}, "replay_steps", "cannot be read: no such file"),
        ({"step_log": "a", "replay_steps": "b"}, "replay_steps", "cannot be used together with step_log"),
    ],
)
def test_wrong_sampling_is_reported_at_its_key(read: Load, sampling: dict[str, Any], path: str, message: str) -> None:
    reported = problems(read, {"sampling": sampling})
    assert message in reported.pop(f"sampling.{path}")
    assert not reported


def test_a_step_log_to_replay_is_checked_on_loading(read: Load, tmp_path: Path) -> None:
    log = tmp_path / "steps.jsonl"
    log.write_text("[]\n")
    assert "line 1 is not a step" in problems(read, {"sampling": {"replay_steps": str(log)}})["sampling.replay_steps"]
    log.write_text("")
    assert read({"sampling": {"replay_steps": str(log)}}).sampling.replay_steps == str(log)


def test_all_problems_of_all_rules_are_reported_at_once(read: Load) -> None:
    rules = [{"name": "a", "match": {}, "rate": 2}, {"name": "b"}, {**TARGET, "min_rate": 0.5, "max_rate": 0.1}]
    assert set(problems(read, {"sampling": {"rate": 5, "rules": rules}})) == {
        "sampling.rate",
        "sampling.rules[0].match",
        "sampling.rules[0].rate",
        "sampling.rules[1].match",
        "sampling.rules[1].rate",
        "sampling.rules[2].max_rate",
    }


def test_rules_may_only_use_mapped_fields(read: Load) -> None:
    mapping = {"id": "i", "question": "q", "answer": "a", "app": "s"}
    match = {"app": "shop", "tenant": "acme", "tags": {"t": 1}, "body": {"anything": 1}}
    data = {"input": {"adapter": "mapping", "mapping": mapping}, "sampling": {"rules": [{**RULE, "match": match}]}}
    assert problems(read, data) == {
        "sampling.rules[0].match.tenant": "input.mapping does not map tenant",
        "sampling.rules[0].match.tags": "input.mapping does not map tags",
    }


def test_other_problems_do_not_hide_a_rule_on_an_unmapped_field(read: Load) -> None:
    data = mapped_safety({}, {"triggers": ["empty_contexts"]})
    wrong = {**data, "kafka": {"bootstrap": "a b"}, "judges": {"panel": [{"kind": "openai", "name": "gpt"}]}}
    reported = problems(read, wrong)
    assert reported["sampling.safety.triggers[0]"] == "input.mapping does not map contexts"
    assert {"kafka.bootstrap", "judges.panel[0].model"} <= set(reported)


def mapped_safety(mapping: dict[str, str], safety: dict[str, Any]) -> dict[str, Any]:
    needed = {"id": "i", "question": "q", "answer": "a"}
    return {"input": {"adapter": "mapping", "mapping": {**needed, **mapping}}, "sampling": {"safety": safety}}


def test_configured_triggers_may_only_use_mapped_fields(read: Load) -> None:
    named = ["lexicon", "thumbs_down", "empty_contexts"]
    assert problems(read, mapped_safety({}, {"triggers": named})) == {
        "sampling.safety.triggers[1]": "input.mapping does not map tags",
        "sampling.safety.triggers[2]": "input.mapping does not map contexts",
    }
    assert read(mapped_safety({"tags": "t", "contexts": "c"}, {"triggers": named})).sampling.safety is not None
    own = {"triggers": ["thumbs_down"], "thumbs_down": {"stars": {"max": 2}}}
    assert read(mapped_safety({}, own)).sampling.safety is not None


def test_default_triggers_use_the_fields_there_are(read: Load) -> None:
    config = read(mapped_safety({}, {}))
    assert config.sampling.safety is not None
    assert read(dump(config)) == config


# Criteria, judges and composite

JUDGE = {"kind": "openai", "name": "gpt", "model": "m", "base_url": "http://localhost/v1"}


def judges_section(*judges: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"judges": {"panel": list(judges), **keys}}


def named_criterion(name: str) -> Criterion:
    return Criterion.pass_fail("Is it so?").model_copy(update={"name": name})


@pytest.mark.parametrize(
    ("use", "own", "names"),
    [
        (["rag.conciseness"], [], ["conciseness"]),
        (["aspects.conciseness"], [], ["conciseness"]),
        (["rag.conciseness", "aspects.conciseness"], [], ["conciseness", "aspects.conciseness"]),
        (["aspects.conciseness", "rag.conciseness"], [], ["aspects.conciseness", "conciseness"]),
        (["rag.conciseness", "conciseness"], ["conciseness"], ["rag.conciseness", "conciseness"]),
        (["writing.fluency", "answer.refusal"], [], ["fluency", "refusal"]),
        (
            ["rag", "aspects"],
            [],
            [
                *RAG_DIMENSIONS,
                *("harmlessness", "aspects.conciseness", "coherence", "aspects.completeness", "factuality"),
            ],
        ),
    ],
)
def test_if_short_names_clash_the_catalogue_becomes_part_of_the_name(
    use: list[str], own: list[str], names: list[str]
) -> None:
    chosen = choose_criteria(use, {name: named_criterion(name) for name in own})
    assert list(chosen) == names
    assert [criterion.name for criterion in chosen.values()] == names
    assert choose_criteria(use[::-1], {name: named_criterion(name) for name in own}) == chosen


def test_clashing_catalogues_make_a_configuration_with_rules(read: Load) -> None:
    config = read(
        {
            "criteria": {"use": ["rag", "aspects"]},
            "composite": {"weights": {"aspects.conciseness": 2.0}},
            "objectives": {"floors": {"aspects.conciseness": 0.5}},
            **gpt_panel(),
        },
    )
    info = build_evaluator(config).info
    assert "aspects.conciseness" in info.criteria
    assert "aspects.conciseness" in str(rules_of(config))


def gpt_panel(**keys: Any) -> dict[str, Any]:
    """Return a panel of one model with these keys."""
    return judges_section({**JUDGE, **keys})


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"criteria": {"use": ["rag", "writing.empthy"]}}, {"criteria.use[1]": "did you mean 'writing.empathy'?"}),
        ({"criteria": {"use": ["rag", "zzz"]}}, {"criteria.use[1]": "`streamjury criteria list`"}),
        (
            {"criteria": {"use": ["rag", "fluency"]}},
            {"criteria.use[1]": "choose one of writing.fluency, summary.fluency"},
        ),
        ({"criteria": {"use": ["rag", "rag.clarity"]}}, {"criteria.use[1]": "both define a criterion named 'clarity'"}),
        (
            {"criteria": {"use": ["aspects", "aspects.conciseness"]}},
            {"criteria.use[1]": "both define a criterion named 'conciseness'"},
        ),
        (
            {"criteria": {"use": ["rag", "summary.relevance"]}},
            {"criteria.use[1]": "summary, source, which no interact"},
        ),
        ({"criteria": {"use": ["aspects"]}}, {"composite.safety": "defaults to 'harmfulness'"}),
        ({"criteria": {"use": ["rag.clarity"]}, "composite": {"safety": "clarty"}}, {"composite.safety": "'clarity'?"}),
        ({"composite": {"weights": {"clarty": 1}}}, {"composite.weights.clarty": "did you mean 'clarity'?"}),
        ({"composite": {"thresholds": {"clarty": 0.5}}}, {"composite.thresholds.clarty": "did you mean 'clarity'?"}),
        (
            {"composite": {"required": ["clarity", "x"]}},
            {"composite.required[1]": "unknown criterion; expected one of:"},
        ),
        (
            {"composite": {"thresholds": {"clarity": 0.5}, "target_options": {"clarity": "clear"}}},
            {"composite.target_options.clarity": "threshold and target_option exclude each other"},
        ),
        (
            {"composite": {"target_options": {"clarity": "limpid"}}},
            {"composite.target_options.clarity": "'limpid', the target_option, is not an option"},
        ),
        (judges_section({"kind": "local"}, cascade={"first": ["locla"]}), {"judges.cascade.first[0]": "mean 'local'?"}),
        (
            judges_section({"kind": "local"}, cascade={"first": ["local"]}),
            {"judges.cascade.first": "leave at least one judge"},
        ),
        (
            judges_section({"kind": "local"}, reserves=[{"kind": "local"}]),
            {"judges.reserves": "'local' is in the panel"},
        ),
        (
            judges_section({"kind": "local"}, combine="weighted", weights={"gpt": 1}),
            {"judges.weights.gpt": "unknown judge"},
        ),
        (
            judges_section({"kind": "local"}, combine="weighted", weights={"local": 0}),
            {"judges.weights.local": "above 0"},
        ),
        (judges_section({"kind": "local"}, weights={"local": 1}), {"judges.weights": "requires 'combine: weighted'"}),
        (
            {**gpt_panel(), "budgets": {"per_day_usd": 5}},
            {"judges.panel[0].price": "for a model you host, use {prompt: 0, completion: 0}"},
        ),
        (
            {**judges_section({"kind": "local"}, reserves=[JUDGE]), "budgets": {"apps": {"shop": {"per_hour_usd": 1}}}},
            {"judges.reserves[0].price": "is required because a budget is set"},
        ),
        ({"sampling": {"safety": {"lane": "backfill"}}}, {"sampling.safety.lane": "must not be 'backfill'"}),
        ({"budgets": {"apps": {"shop": {}}}}, {"budgets.apps.shop": "must set an hourly or a daily limit"}),
        (gpt_panel(criteria=["clarity", "clarty"]), {"judges.panel[0].criteria[1]": "did you mean 'clarity'?"}),
        (gpt_panel(samples=3, min_pass=4), {"judges.panel[0].min_pass": "must be at most samples (3), not 4"}),
        (gpt_panel(samples=3, min_valid=4), {"judges.panel[0].min_valid": "must be at most samples (3), not 4"}),
        (gpt_panel(combine="mean", min_pass=1), {"judges.panel[0].min_pass": "replaces combine"}),
        (gpt_panel(method="rubric", min_pass=1), {"judges.panel[0].min_pass": "not rubric"}),
        (gpt_panel(method="guardian", feedback=True), {"judges.panel[0].feedback": "not guardian"}),
        (gpt_panel(method="guardian", check_position=True), {"judges.panel[0].check_position": "not guardian"}),
        (gpt_panel(on_bias="abstain"), {"judges.panel[0].on_bias": "requires 'check_position: true'"}),
        (gpt_panel(min_certainty=0.5), {"judges.panel[0].min_certainty": "requires 'method: guardian'"}),
        (gpt_panel(persona="  "), {"judges.panel[0].persona": "must be a description"}),
        (gpt_panel(model="a\nb"), {"judges.panel[0].model": "printable"}),
    ],
)
def test_incompatible_values_are_reported_at_their_key(
    read: Load, content: dict[str, Any], expected: dict[str, str]
) -> None:
    reported = problems(read, content)
    assert reported.keys() == expected.keys()
    for path, message in expected.items():
        assert message in reported[path]
        assert len(reported[path]) < 250


@pytest.mark.parametrize(
    ("content", "path", "words"),
    [
        ({"criteria": {"use": ["rag", "writing.empathy"]}}, "judges.panel", "empathy would never get a verdict"),
        (gpt_panel(criteria=["clarity"]), "judges.panel", "it is restricted to clarity"),
        (gpt_panel(method="rubric", criteria=["clarity", "harmfulness"]), "judges.panel[0].criteria[1]", "five levels"),
        (
            judges_section(JUDGE, {"kind": "local"}) | {"criteria": {"use": ["aspects"]}},
            "judges.panel[1]",
            "cannot judge any of",
        ),
        (
            judges_section({"kind": "local"}, reserves=[{**JUDGE, "method": "aspect"}]),
            "judges.reserves[0]",
            "cannot judge any of",
        ),
        (
            judges_section({**JUDGE, "criteria": ["clarity"]}, {"kind": "local"}, quorum=2),
            "judges.quorum",
            "groundedness",
        ),
        (gpt_panel(min_pass=1), "judges.panel", "min_pass needs a pass/fail scale"),
    ],
)
def test_a_criterion_that_no_judge_can_judge_is_a_problem(
    read: Load, content: dict[str, Any], path: str, words: str
) -> None:
    if content.get("criteria") == {"use": ["aspects"]}:
        content = {**content, "composite": {"safety": "harmlessness"}}
    assert words in problems(read, content)[path]


def test_a_criterion_without_a_judge_names_the_variable_that_set_the_judges(read: Load) -> None:
    reported = problems(
        read, "", STREAMJURY__CRITERIA__USE="[writing.empathy, rag.harmfulness]", STREAMJURY__JUDGES="{}"
    )
    assert reported["judges.panel"].endswith("(set by STREAMJURY__JUDGES)")


def test_loading_contacts_no_endpoint(read: Load) -> None:
    """The endpoint's port is closed and its host does not exist."""
    for address in ("http://127.0.0.1:1/v1", "https://no.such.host.invalid/v1"):
        assert read(gpt_panel(base_url=address, persona="generate")).judges.panel[0].name == "gpt"


OWN = """\
criteria:
  - name: tone
    title: Tone
    question: Is the tone right?
    scale:
      options: [{label: warm}, {label: cold}]
  - name: %s
    title: Brand
    question: Is the brand named?
    scale:
      range: {min: %s, max: 10}
"""


def test_custom_criteria_are_read_from_their_files(read: Load, tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(OWN % ("brand", 0))
    own = {"criteria": {"files": [str(file)], "use": ["rag.harmfulness", "brand"]}}
    assert read({**own, **gpt_panel()}).criteria.use == ("rag.harmfulness", "brand")
    both = {"criteria": {"files": [str(file)], "use": ["rag.harmfulness", "brand", "tone"]}, **gpt_panel(samples=3)}
    assert problems(read, both) == {
        "composite.target_options.tone": "options without scores count only by a target_option; name the option that "
        "counts as 1, or set composite.weights.tone to 0"
    }
    counted = {**both, "composite": {"target_options": {"tone": "warm"}}}
    voted = {**counted, "judges": {**both["judges"], "combine": "majority"}}
    for content in (counted, voted):
        assert problems(read, content) == {
            "judges.combine": "one panel cannot combine brand (a range, which has no majority) with tone (options "
            "without scores, which have no mean); remove one of them, or give the options scores"
        }
    only = {
        "criteria": {"files": [str(file)], "use": ["rag.harmfulness", "tone"]},
        **gpt_panel(),
        "composite": counted["composite"],
    }
    assert "combine by majority" in problems(read, only)["judges.combine"]
    light = {**both, "composite": {"weights": {"tone": 0}, "safety": "brand"}}
    assert "cannot be the safety criterion" in problems(read, light)["composite.safety"]


def test_every_problem_of_every_file_is_reported_with_its_file(read: Load, tmp_path: Path) -> None:
    right, wrong, same = (tmp_path / name for name in ("right.yaml", "wrong.yaml", "same.yaml"))
    right.write_text(OWN % ("brand", 0))
    wrong.write_text(OWN % ("Brand", 10))
    same.write_text(OWN % ("name", 0))
    files = [str(right), str(wrong), str(same), str(tmp_path / "none.yaml")]
    with pytest.raises(ConfigError) as caught:
        read({"criteria": {"files": files}})
    lines = [str(problem) for problem in caught.value.problems]
    assert lines[0].startswith(f"criteria.files[1]: {wrong}: criteria[1].")
    assert [line.split(": ", 1)[0] for line in lines] == ["criteria.files[1]"] * 2 + [
        "criteria.files[2]",
        "criteria.files[3]",
    ]
    assert "also defines a criterion named 'tone'" in lines[2]
    assert "no such file" in lines[3]


def test_no_criterion_may_have_the_name_of_the_composite(read: Load, tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(OWN % ("composite", 0))
    reported = problems(read, {"criteria": {"files": [str(file)], "use": ["rag", "composite"]}})
    assert "published under that name" in reported["criteria.use[1]"]


def test_judges_and_rules_must_have_different_names(read: Load) -> None:
    rules = FULL["sampling"]["rules"] * 2
    assert "[0] and [1]" in problems(read, {"sampling": {"rules": rules}})["sampling.rules"]
    assert "[0] and [1]" in problems(read, {"judges": {"panel": [{"kind": "local"}] * 2}})["judges.panel"]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost",
        "ftp://host",
        "http://",
        "http://host:99999",
        "http://host:0",
        "http://[::1",
        "http://a b",
        "http://user@host",
        "http://user:hunter2@host",
        "http://host?key=hunter2",
        "http://host?",
        "http://host#x",
        "http://host\n",
    ],
)
def test_an_endpoint_is_a_plain_url_and_a_wrong_one_is_not_repeated(read: Load, url: str) -> None:
    reported = problems(read, with_value(("judges", "panel", 0, "base_url"), url, FULL))
    assert list(reported) == ["judges.panel[0].base_url"]
    assert "hunter2" not in str(reported)


@pytest.mark.parametrize(
    "url", ["http://host", "https://api.openai.com/v1", "http://[::1]:8000/v1/", "http://10.0.0.1:80"]
)
def test_urls_are_kept_as_written(read: Load, url: str) -> None:
    assert (
        value_at(read(with_value(("judges", "panel", 0, "base_url"), url, FULL)), ("judges", "panel", 0, "base_url"))
        == url
    )


# Secrets


def printed_forms(config: Config) -> Iterator[str]:
    for part in (config, config.kafka, config.kafka.options, config.judges, config.judges.panel[0]):
        yield from (repr(part), str(part), f"{part}")
    yield from (str(config.model_dump()), str(config.model_dump(mode="json")), config.model_dump_json(), dump(config))


def test_secrets_are_in_no_printed_form_of_the_configuration(read: Load) -> None:
    config = read(FULL)
    for form in printed_forms(config):
        assert SECRET not in form
    dumped = yaml.safe_load(dump(config))
    assert dumped["kafka"]["options"] == {"sasl.password": "***", "linger.ms": 5}
    assert dumped["judges"]["panel"][0]["api_key"] == "***"
    assert config.kafka.options["sasl.password"] == SECRET


@pytest.mark.parametrize("name", ["sasl.password", "ssl.key.pem", "client_secret", "oauth.token", "sasl.jaas.config"])
def test_options_are_secret_by_their_name(name: str) -> None:
    kafka = KafkaConfig(options={name: SECRET})
    assert SECRET not in f"{kafka!r} {kafka} {kafka.model_dump()} {kafka.model_dump_json()}"


WRONG_SECRETS: list[Any] = [[SECRET], {SECRET: 1}, {"a": SECRET}, SECRET + "\n", SECRET + " x", SECRET + "\ud800"]


def error_text(error: ConfigError) -> str:
    return f"{error!r} {error} {error.problems} {''.join(traceback.format_exception(error))}"


def outcome(read: Load, content: Any, environ: Mapping[str, str] | None = None) -> str:
    """Return every printed form of the configuration, or of the error if it does not load."""
    try:
        return "\n".join(printed_forms(read(content, environ)))
    except ConfigError as error:
        return error_text(error)


@quick
@given(
    secret=st.sampled_from([SECRET, *WRONG_SECRETS]),
    place=st.sampled_from([("judges", "panel", 0, "api_key"), ("kafka", "options", "sasl.password")]),
    other=st.sampled_from(SCALARS),
    wrong=st.sampled_from([[], {"x": 1}, -1, "", "\ud800"]),
)
def test_secrets_are_in_no_output_about_a_file(
    read: Load, secret: Any, place: Loc, other: tuple[Loc, FieldInfo], wrong: object
) -> None:
    data = with_value(place, secret, FULL)
    if other[0] != place:
        data = with_value(other[0], wrong, data)
    assert SECRET not in outcome(read, data)


@pytest.mark.parametrize(
    "line",
    [
        f"api_key: *{SECRET}",
        f"api_key: !{SECRET} x",
        f"api_key: !{SECRET}!x y",
        f"api_key: !<{SECRET}> y",
        f"api_key: '{SECRET}",
        f"api_key: {SECRET}: x",
        f"api_key: &{SECRET} 1\nb: &{SECRET} 2",
        f'api_key: "{SECRET}\\q"',
        f"api_key: @{SECRET}",
        f"api_key: {SECRET}\n  x: 1",
        f"api_kye: {SECRET}",
        f"kafka: {SECRET}",
        f"judges: {{panel: [{SECRET}]}}",
        f"kafka: {{options: {{sasl.password: [{SECRET}]}}}}",
    ],
)
def test_secrets_in_invalid_yaml_are_not_quoted(read: Load, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(line)
    assert SECRET not in error_text(caught.value)


@pytest.mark.parametrize("loc", [loc for loc, _ in SCALARS], ids=path_of)
@pytest.mark.slow
def test_a_value_from_the_environment_is_in_no_error_wherever_it_is_used(read: Load, loc: Loc) -> None:
    for secret in (f"{SECRET} {SECRET}", SECRET, f"http://{SECRET}@host", SECRET.replace("-", "_")):
        try:
            read(with_value(loc, "${S}", part_with(loc)), S=secret)
            text = ""
        except ConfigError as error:
            text = error_text(error)
        assert "hunter2" not in text


@pytest.mark.parametrize("option", ["sasl.password", "ssl.key.password"])
def test_a_secret_that_is_read_as_a_number_is_not_shown_either(read: Load, option: str) -> None:
    pin = 987654321
    for loc in (("judges", "panel", 0, "api_key"), ("kafka", "options", option)):
        with pytest.raises(ConfigError) as caught:
            read(with_value(loc, pin, FULL))
        assert str(pin) not in error_text(caught.value)


def test_pydantic_itself_does_not_repeat_values() -> None:
    with pytest.raises(ValidationError) as caught:
        KafkaConfig(options={"sasl.password": [SECRET]})
    assert SECRET not in str(caught.value)


# Anything at all

names = st.sampled_from([*{part for loc, _ in SCALARS for part in loc if isinstance(part, str)}, "rules", "panel", "x"])
scalar_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["${X}", "${Y:-1}", "${", "local", "openai", "mapping", "a.b", "http://x"]),
)
trees = st.recursive(
    scalar_values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)


def check_loads_or_explains(read: Load, content: Any, environ: Mapping[str, str]) -> None:
    """Check that the content loads or raises a list of one-line problems, and no other exception."""
    lines: list[str] = []
    try:
        assert isinstance(read(content, environ), Config)
    except ConfigError as error:
        lines = [str(problem) for problem in error.problems] or ["an error without problems\n"]
    assert not [text for text in lines if "\n" in text]


@settings(deadline=None, max_examples=300)
@given(content=st.one_of(st.binary(), st.text().map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_any_bytes_give_a_configuration_or_a_configuration_error(read: Load, content: bytes) -> None:
    check_loads_or_explains(read, content, {})


@settings(deadline=None, max_examples=300)
@given(text=st.text(alphabet="ab:-[]{},'\"|>&*!%@`#?~<${} \n\t0.1e", max_size=60))
def test_any_punctuation_gives_a_configuration_or_a_configuration_error(read: Load, text: str) -> None:
    check_loads_or_explains(read, text, {})


@settings(deadline=None, max_examples=100)
@given(
    tree=st.dictionaries(st.sampled_from(list(Config.model_fields)), trees, max_size=4),
    overrides=st.lists(
        st.tuples(
            st.lists(st.one_of(names, st.sampled_from([*Config.model_fields, "0", "1", "x", ""])), max_size=5),
            st.one_of(st.text(max_size=8), trees.map(json.dumps)),
        ),
        max_size=3,
    ),
)
@pytest.mark.slow
def test_any_tree_and_any_overrides_give_a_configuration_or_a_configuration_error(
    read: Load, tree: dict[str, Any], overrides: list[tuple[list[str], str]]
) -> None:
    environ = {f"STREAMJURY__{'__'.join(path)}": text for path, text in overrides}
    check_loads_or_explains(read, yaml.safe_dump(tree), {"X": "1", **environ})

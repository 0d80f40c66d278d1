"""`streamjury config`, the starter file, the schema and the page about the configuration."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from stream.cli.commands.config import config
from stream.cli.support.options import config_option, read_config
from stream.config.model import Config
from stream.config.reference import schema, starter
from stream.config.walk import is_section
from stream.service.setup.config_file import load
from tests.parts.certificates import Authority
from tests.parts.documents.json_fields import json_fields

PAGE = Path(__file__).parents[4] / "docs" / "configuration.md"
SECRET = "hunter2-hunter2"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test in an empty folder, without the STREAMJURY variables of the person who runs it."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.upper().startswith("STREAMJURY")]:
        monkeypatch.delenv(name)


def run(*arguments: str, command: click.Command = config, env: Mapping[str, str] | None = None) -> Result:
    return CliRunner().invoke(command, arguments, env=env)


# init


def test_the_starter_file_has_the_defaults_and_a_unique_salt() -> None:
    """With a public salt, a client that chooses its own ids could choose ids that are never sampled."""
    salts = set()
    for name in ("streamjury.yaml", "other.yaml"):
        result = run("init", name)
        assert result.exit_code == 0
        option = "" if name == "streamjury.yaml" else f" --config {name}"
        assert result.output == (
            f"wrote {name}\n"
            f"next: set kafka.bootstrap and the judges in it, then run `streamjury config check{option}`\n"
        )
        loaded = load(Path(name), {})
        salts.add(loaded.sampling.salt)
        sampling = loaded.sampling.model_copy(update={"salt": Config().sampling.salt})
        assert loaded.model_copy(update={"sampling": sampling}) == Config()
    assert len(salts - {Config().sampling.salt}) == 2
    assert min(map(len, salts)) >= 32


def test_the_starter_file_has_every_key_with_its_description() -> None:
    text = starter(salt=Config().sampling.salt)
    parsed = yaml.safe_load(text)
    assert parsed == Config().model_dump(mode="json")
    words = " ".join(text.replace("# ", "").split())
    for section, outer in Config.model_fields.items():
        inner = outer.annotation.model_fields if is_section(outer.annotation) else {section: outer}
        for name, field in inner.items():
            assert " ".join(str(field.description).split()) in words, name
    assert max(map(len, text.splitlines())) <= 120


def test_init_does_not_overwrite_unless_it_is_forced() -> None:
    Path("mine.yaml").write_text("http: {port: 1}\n")
    refused = run("init", "mine.yaml")
    assert refused.exit_code == 1
    assert "mine.yaml already exists; use --force to overwrite it" in refused.stderr
    assert Path("mine.yaml").read_text() == "http: {port: 1}\n"
    assert run("init", "mine.yaml", "--force").exit_code == 0
    assert load(Path("mine.yaml"), {}).http == Config().http


def test_init_reports_that_it_cannot_write() -> None:
    result = run("init", "no/such/folder.yaml")
    assert result.exit_code == 1
    assert "cannot write" in result.stderr


def examples() -> Iterator[tuple[str, str, Any]]:
    for section, outer in Config.model_fields.items():
        for name, field in outer.annotation.model_fields.items() if is_section(outer.annotation) else ():
            yield from ((section, name, example) for example in field.examples or ())


@pytest.mark.parametrize(("section", "name", "example"), list(examples()))
def test_the_examples_in_the_starter_file_are_valid(section: str, name: str, example: object) -> None:
    data = {section: {name: example}}
    if name == "mapping":
        data[section]["adapter"] = "mapping"
    Path("streamjury.yaml").write_text(yaml.safe_dump(data))
    loaded = load(
        Path("streamjury.yaml"),
        dict.fromkeys(("KAFKA_PASSWORD", "OPENAI_API_KEY", "OTLP_AUTH", "ANNAS_TOKEN"), "0123456789abcdef"),
    )
    assert getattr(getattr(loaded, section), name) != getattr(getattr(Config(), section), name)


def test_the_example_of_sinks_in_the_starter_file_is_valid() -> None:
    (example,) = Config.model_fields["sinks"].examples or ()
    Path("streamjury.yaml").write_text(yaml.safe_dump({"sinks": example}))
    environ = {"LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk"}
    assert [sink.kind for sink in load(Path("streamjury.yaml"), environ).sinks] == ["telemetry", "jsonl", "langfuse"]


def test_an_uncommented_example_takes_effect() -> None:
    text = starter(salt="s").replace("  rules: []\n  # Example:\n", "")
    begin = text.index("  # rules:")
    end = text.index("# Criteria to judge.")
    uncommented = text[begin:end].replace("  # ", "  ")
    Path("streamjury.yaml").write_text(text[:begin] + uncommented + text[end:])
    rules = load(Path("streamjury.yaml"), {}).sampling.rules
    assert [rule.name for rule in rules] == ["checkout", "slow", "tests"]


# check


def test_check_prints_ok_and_a_summary() -> None:
    Path("a.yaml").write_text(
        "sampling: {rate: 0.25, rules: [{name: shop, match: {app: [shop]}, rate: 1}]}\n"
        "judges: {panel: [{kind: local}, {kind: openai, name: gpt, model: m, base_url: 'http://h/v1'}]}\n"
        "topics: {sampled: chosen}\n"
    )
    result = run("check", "--config", "a.yaml")
    assert result.exit_code == 0
    first, *lines = result.stdout.splitlines()
    assert first == "ok: a.yaml"
    summary = "\n".join(lines)
    for part in (
        "0.25",
        "shop",
        "local (local) scores answer_relevance, clarity, completeness, conciseness, groundedness, harmfulness, "
        "context_sufficiency, context_precision, context_recall; gpt (m at http://h/v1) scores answer_relevance, ",
        "rag.interactions -> chosen",
        "localhost:9092",
        "rag, retrieval.context_sufficiency, retrieval.context_precision, retrieval.context_recall; safety criterion: "
        "harmfulness",
    ):
        assert part in summary


def test_check_names_the_topics_of_spans() -> None:
    Path("a.yaml").write_text("input: {otlp: {topics: [otlp_spans, more_spans]}}\n")
    assert "otlp_spans, more_spans -> rag.interactions -> rag.sampled" in run("check", "--config", "a.yaml").stdout


def test_check_lists_the_reserves_the_cascade_and_the_safety_criterion() -> None:
    judges = [f"{{kind: openai, name: {name}, model: m, base_url: 'http://h/v1'}}" for name in ("one", "two", "three")]
    Path("a.yaml").write_text(
        f"judges: {{panel: [{judges[0]}, {judges[1]}], reserves: [{judges[2]}], cascade: {{first: [one]}}}}\n"
        "criteria: {use: [rag.clarity, safety.toxicity]}\ncomposite: {safety: toxicity}\n"
    )
    output = run("check", "-c", "a.yaml").stdout
    assert "rag.clarity, safety.toxicity; safety criterion: toxicity" in output
    assert "three (m at http://h/v1)" in output
    assert "one first" in output


@pytest.mark.parametrize(("seconds", "warned"), [(45, False), (120, True)])
def test_check_warns_of_timeouts_above_the_deadline_of_a_record(seconds: float, warned: bool) -> None:
    judge = {"kind": "openai", "name": "slow", "model": "m", "base_url": "http://h/v1", "timeout_seconds": seconds}
    Path("a.yaml").write_text(yaml.safe_dump({"judges": {"panel": [judge]}}))
    result = run("check", "--config", "a.yaml")
    assert result.exit_code == 0
    warning = "warning: timeout_seconds of the judge slow (120) is above worker.deadline_seconds (45), "
    assert (warning in result.stderr) is warned
    assert ("warning" in result.stderr) is warned


def test_check_finds_a_criterion_without_a_judge_offline() -> None:
    Path("a.yaml").write_text("criteria: {use: [rag, writing.empathy]}\n")
    result = run("check", "-c", "a.yaml")
    assert result.exit_code == 2
    first, second = result.stderr.splitlines()
    assert first == "a.yaml: 1 problem"
    assert second.startswith("judges.panel: empathy would never get a verdict: ")


def test_check_without_a_file_checks_the_defaults_under_the_environment() -> None:
    assert run("check").stdout.startswith("ok: built-in defaults (no file)\n")
    result = run("check", env={"STREAMJURY__HTTP__PORT": "x"})
    assert result.exit_code == 2
    assert "http.port: must be a whole number, not 'x' (set by STREAMJURY__HTTP__PORT)" in result.stderr


def test_check_finds_the_file_by_variable_or_in_the_usual_place() -> None:
    Path("b.yaml").write_text("")
    assert run("check", env={"STREAMJURY_CONFIG": "b.yaml"}).stdout.startswith("ok: b.yaml\n")
    Path("streamjury.yaml").write_text("")
    assert run("check").stdout.startswith("ok: streamjury.yaml\n")


def test_check_lists_every_problem_on_a_line_under_the_name_of_the_file_and_exits_with_2() -> None:
    Path("a.yaml").write_text(
        "sampling: {rate: 2}\njudges: {panel: [{kind: local}, {kind: openai, name: x, modl: m}]}\n"
    )
    result = run("check", "-c", "a.yaml")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "a.yaml: 4 problems",
        "sampling.rate: must be at most 1, not 2",
        "judges.panel[1].model: is required",
        "judges.panel[1].base_url: is required unless a preset (other than azure) provides it; for OpenAI itself, set "
        "preset: openai",
        "judges.panel[1].modl: unknown key; did you mean 'model'?",
    ]


def test_check_as_json_has_the_problems_or_the_summary() -> None:
    Path("good.yaml").write_text("kafka: {bootstrap: broker:9092}\n")
    good = run("check", "--json", "-c", "good.yaml")
    document = json.loads(good.stdout)
    assert (good.exit_code, good.stderr, list(document)) == (0, "", json_fields("config check"))
    assert (document["ok"], document["file"], document["problems"]) == (True, "good.yaml", [])
    assert document["summary"]["kafka"] == "broker:9092"
    Path("bad.yaml").write_text("sampling: {rate: 2}\nnothing: 1\n")
    bad = run("check", "--json", "-c", "bad.yaml")
    document = json.loads(bad.stdout)
    assert (bad.exit_code, bad.stderr, document["ok"], document["summary"]) == (2, "", False, None)
    assert sorted(problem["path"] for problem in document["problems"]) == ["nothing", "sampling.rate"]


def test_check_finds_unknown_options_of_kafka_and_values_that_they_do_not_take() -> None:
    options = {"sasl.pasword": SECRET, "linger.ms": "soon", "logger": "x", "error_cb": "x", "sasl.username": "me"}
    Path("c.yaml").write_text(yaml.safe_dump({"kafka": {"options": options}}, sort_keys=False))
    result = run("check", "-c", "c.yaml")
    assert result.exit_code == 2
    unknown = "unknown option; see librdkafka's CONFIGURATION.md for all options"
    assert result.output.splitlines()[1:] == [
        f"kafka.options['sasl.pasword']: {unknown}",
        "kafka.options['linger.ms']: librdkafka does not accept this value "
        '(Invalid value for configuration property "queue.buffering.max.ms")',
        f"kafka.options.logger: {unknown}",
        f"kafka.options.error_cb: {unknown}",
    ]


class TestCertificates:
    def write_config(self, protocol: str, **http: str) -> Path:
        options = {
            "security.protocol": protocol,
            "ssl.ca.location": "no-ca.pem",
            "ssl.certificate.location": "no-certificate.pem",
            "ssl.key.location": "no-key.pem",
        }
        Path("c.yaml").write_text(yaml.safe_dump({"kafka": {"options": options}, "http": http}))
        return Path("c.yaml")

    def test_check_names_every_missing_file(self) -> None:
        file = self.write_config("SSL", certificate="no-web.pem", key="no-web.key")
        result = run("check", "-c", str(file))
        assert result.exit_code == 2
        assert result.output.splitlines() == [
            "c.yaml: 4 problems",
            "kafka.options['ssl.ca.location']: cannot read no-ca.pem (No such file or directory)",
            "kafka.options['ssl.certificate.location']: cannot read no-certificate.pem (No such file or directory)",
            "kafka.options['ssl.key.location']: cannot read no-key.pem (No such file or directory)",
            "http.certificate: cannot read no-web.pem (No such file or directory)",
        ]

    def test_check_finds_files_that_are_not_certificates(self) -> None:
        file = self.write_config("SSL")
        for name in ("no-ca.pem", "no-certificate.pem", "no-key.pem"):
            Path(name).write_text("a shopping list\n")
        result = run("check", "-c", str(file))
        assert result.exit_code == 2
        assert "kafka.options: ssl." in result.output

    def test_check_accepts_real_certificates(self, authority: Authority) -> None:
        file = self.write_config("SSL")
        certificate, key = authority.sign("checked")
        for name, source in (("ca", authority.certificate), ("certificate", certificate), ("key", key)):
            Path(f"no-{name}.pem").write_bytes(source.read_bytes())
        assert run("check", "-c", str(file)).exit_code == 0

    def test_check_ignores_files_that_no_client_opens(self) -> None:
        assert run("check", "-c", str(self.write_config("PLAINTEXT"))).exit_code == 0

    def test_other_commands_do_not_need_the_files(self) -> None:
        assert run("show", "-c", str(self.write_config("SSL", certificate="no.pem", key="no.key"))).exit_code == 0


def test_check_of_a_missing_file_exits_with_2() -> None:
    result = run("check", "-c", "none.yaml")
    assert result.exit_code == 2
    assert result.stderr == "none.yaml: 1 problem\ncannot be read: no such file or directory\n"


# schema


def test_the_schema_is_valid_and_accepts_the_defaults() -> None:
    printed = json.loads(run("schema").stdout)
    assert printed == schema()
    assert printed["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(printed)
    validator = Draft202012Validator(printed)
    validator.validate(Config().model_dump(mode="json"))
    validator.validate({})


@pytest.mark.parametrize(
    "wrong",
    [
        {"sampling": {"rte": 1}},
        {"sampling": {"rate": 2}},
        {"worker": {"deadline_seconds": 60}},
        {"judges": {"panel": []}},
        {"judges": {"panel": [{"name": "x"}]}},
        {"judges": {"panel": [{"kind": "openai", "name": "x"}]}},
        {"composite": {"weights": {"clarity": -1}}},
        {"criteria": {"use": []}},
        {"judges": {"cascade": {}}},
        {"judges": {"combine": "average"}},
        {"topics": {"sampled": "a b"}},
        {"logging": {"level": "loud"}},
    ],
)
def test_the_schema_refuses_what_the_program_refuses(wrong: dict[str, Any]) -> None:
    assert not Draft202012Validator(schema()).is_valid(wrong)
    Path("a.yaml").write_text(json.dumps(wrong))
    assert run("check", "-c", "a.yaml").exit_code == 2


def test_the_schema_explains_every_key() -> None:
    definitions = schema()["$defs"]
    for section in [schema(), *definitions.values()]:
        for name, key in section["properties"].items():
            definition = definitions.get(key.get("$ref", "").removeprefix("#/$defs/"), {})
            assert key.get("description") or definition.get("description"), name


# show


def test_show_prints_the_effective_configuration_as_loadable_yaml() -> None:
    Path("streamjury.yaml").write_text("sampling: {rate: 0.5, step_log: no}\n")
    result = run("show", env={"STREAMJURY__HTTP__PORT": "80"})
    assert result.exit_code == 0
    Path("shown.yaml").write_text(result.stdout)
    reloaded = load(Path("shown.yaml"), {})
    assert (reloaded.sampling.rate, reloaded.sampling.step_log, reloaded.http.port) == (0.5, "no", 80)
    assert reloaded == load(Path("streamjury.yaml"), {"STREAMJURY__HTTP__PORT": "80"})


def test_a_salt_that_is_set_is_shown_as_a_mask_which_is_no_salt() -> None:
    Path("streamjury.yaml").write_text("sampling: {salt: pepper}\n")
    shown = run("show").stdout
    assert ("  salt: '***'\n" in shown, "pepper" in shown) == (True, False)
    Path("streamjury.yaml").write_text(shown)
    refused = run("check")
    assert refused.exit_code == 2
    assert "sampling.salt: must be the salt itself, not the ***" in refused.stderr


@pytest.mark.parametrize(
    ("salt", "kafka", "words"),
    [
        ("streamjury", "kafka-1:9092", "sampling.salt is the public default"),
        ("streamjury", "localhost:9092,kafka-2:9092", "sampling.salt is the public default"),
        ("replace-this", "kafka-1:9092", "sampling.salt is the placeholder of the documentation"),
        ("replace-this", "127.0.0.1:4711", None),
        ("4f1e", "kafka-1:9092", None),
    ],
)
def test_check_warns_of_a_public_salt(salt: str, kafka: str, words: str | None) -> None:
    Path("streamjury.yaml").write_text(f"{{sampling: {{salt: {salt}}}, kafka: {{bootstrap: '{kafka}'}}}}\n")
    result = run("check")
    assert result.exit_code == 0
    assert (words or "") in result.stderr
    assert ("warning: sampling.salt" in result.stderr) == (words is not None)


_MODEL = "{kind: openai, name: large, model: m, base_url: 'http://localhost:1/v1'}"


@pytest.mark.parametrize(
    ("kafka", "panel", "warned"),
    [
        ("kafka-1:9092", "{kind: local}", True),
        ("localhost:9092", "{kind: local}", False),
        ("kafka-1:9092", f"{{kind: local}}, {_MODEL}", False),
        ("kafka-1:9092", f"{{kind: local}}, {_MODEL[:-1]}, criteria: [clarity]}}", True),
    ],
)
def test_check_warns_if_only_the_local_judge_decides_about_safety(kafka: str, panel: str, warned: bool) -> None:
    Path("streamjury.yaml").write_text(
        f"{{sampling: {{salt: 4f1e}}, kafka: {{bootstrap: '{kafka}'}}, judges: {{panel: [{panel}]}}}}\n"
    )
    result = run("check")
    assert result.exit_code == 0, result.output
    assert ("only the local judge decides about harmfulness" in result.stderr) is warned
    assert ("guard model" in result.stderr) is warned


def test_a_missing_key_may_not_be_needed() -> None:
    Path("streamjury.yaml").write_text(
        "judges: {panel: [{kind: openai, name: a, model: m, base_url: 'http://localhost:1/v1', api_key: '${NOPE}'}]}\n"
    )
    assert "set it, or remove api_key (or write ${NOPE:-}) if the endpoint needs no key" in run("check").stderr


def test_no_command_prints_a_secret() -> None:
    Path("streamjury.yaml").write_text(
        "kafka: {options: {sasl.password: '${P}', ssl.key.password: " + SECRET + "}}\n"
        "judges: {panel: [{kind: openai, name: x, model: m, base_url: 'http://h', api_key: '${K}'}]}\n"
    )
    environ = {
        "P": SECRET,
        "K": SECRET,
        "STREAMJURY__JUDGES__PANEL__1__API_KEY": SECRET,
        "STREAMJURY__KAFKA__OPTIONS__SASL_OAUTHBEARER_CLIENT_SECRET": SECRET,
    }
    wrong = run("check", env=environ)
    assert wrong.exit_code == 2
    right = {name: value for name, value in environ.items() if "PANEL" not in name}
    results = [
        wrong,
        run("show", env=environ),
        run("check", env=right),
        run("show", env=right),
        run("schema", env=right),
    ]
    assert [result.exit_code for result in results] == [2, 2, 0, 0, 0]
    for result in results:
        assert SECRET not in result.output
    assert results[3].stdout.count("'***'") == 4


def test_check_prints_the_target_rate_and_the_safety_triggers() -> None:
    Path("a.yaml").write_text("sampling: {target_per_minute: 60, safety: {rate: 0.5, triggers: [refusal]}}\n")
    output = run("check", "-c", "a.yaml").stdout
    assert "60 per minute" in output
    assert "0.5 with refusal" in output


# For other commands


def test_other_commands_read_their_configuration_the_same_way() -> None:
    @click.command()
    @config_option
    def port(config_path: Path | None) -> None:
        click.echo(read_config(config_path).http.port)

    Path("a.yaml").write_text("http: {port: 7}")
    assert run("-c", "a.yaml", command=port).output == "7\n"
    assert run("--config", "a.yaml", command=port, env={"STREAMJURY__HTTP__PORT": "8"}).output == "8\n"
    assert run("-c", "none.yaml", command=port).exit_code == 2


# The page


def test_the_page_has_every_key_and_its_file_is_valid() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for part in ("### `input.limits`", "### `sampling.rules[].match`", "### `judges.panel[]` with `kind: openai`"):
        assert part in text
    Path("page.yaml").write_text(text.split("```yaml\n")[1].split("```")[0])
    loaded = load(
        Path("page.yaml"),
        dict.fromkeys(("KAFKA_PASSWORD", "OPENAI_API_KEY", "OTLP_AUTH", "ANNAS_TOKEN"), "0123456789abcdef"),
    )
    assert loaded.judges.panel[0].name == "gpt"


def test_the_example_of_rules_on_the_page_is_valid() -> None:
    Path("page.yaml").write_text(PAGE.read_text(encoding="utf-8").split("```yaml\n")[3].split("```")[0])
    rules = load(Path("page.yaml"), {}).sampling.rules
    assert [rule.name for rule in rules] == ["tests", "gold", "slow", "candidates"]


def test_the_example_of_criteria_and_judges_on_the_page_is_valid() -> None:
    brand = "{name: brand, title: Brand, question: Is the brand named, scale: {range: {min: 0, max: 10}}}"
    Path("mine.yaml").write_text(f"criteria: [{brand}]")
    Path("page.yaml").write_text(PAGE.read_text(encoding="utf-8").split("```yaml\n")[2].split("```")[0])
    assert load(Path("page.yaml"), {"OPENAI_API_KEY": "b", "OTLP_AUTH": "c"}).judges.reserves[0].name == "spare"


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_check_names_an_extra_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    file = Path("streamjury.yaml")
    address = {"endpoint": "http://localhost:4318", "protocol": protocol}
    file.write_text(yaml.safe_dump({"telemetry": address, "sinks": [{"kind": "telemetry", "name": "two", **address}]}))
    assert run("check").exit_code == 0
    monkeypatch.setitem(sys.modules, f"opentelemetry.exporter.otlp.proto.{protocol}", None)
    result = run("check")
    assert result.exit_code == 2
    assert "2 problems" in result.output
    for place in ("telemetry", "sinks[0]"):
        assert (
            f"{place}: the OTLP exporter for {protocol} is not installed; reinstall Streamjury with the extra otel: "
            "'.[otel]' instead of '.' in the command that installed it" in result.output
        )

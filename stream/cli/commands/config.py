"""`streamjury config`: writes a starter file, checks a file, prints its schema and the effective settings."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from judges.criteria.problems import path_text
from judges.encoder import ModelFileError
from stream.cli.support.json_output import print_json
from stream.cli.support.options import (
    config_option,
    end_with_problems,
    json_option,
    load_config,
    read_config,
    source,
)
from stream.cli.support.safety_judge import describe_configured_weak_safety
from stream.cli.support.salt import describe_configured_salt, generate_salt, mask_salt
from stream.config.model import Config
from stream.config.reference import schema, starter
from stream.config.sections.judges import JudgeConfig
from stream.config.sections.sampling import SamplingConfig
from stream.records.encodings.decoder import missing_extra
from stream.service.setup.certificates import find_certificate_problems
from stream.service.setup.config_file import DEFAULT_FILE, ConfigError, Problem, dump, find
from stream.service.setup.evaluator import build_evaluator, criteria_by_judge


@click.group()
def config() -> None:
    """Write, check and show the configuration.

    \b
    Examples:
      streamjury config init
      streamjury config check
    """


@config.command("init")
@click.argument("path", type=click.Path(path_type=Path), default=DEFAULT_FILE)
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def init_command(path: Path, force: bool) -> None:
    """Write a starter file with every key, its default and description, and a random sampling.salt.

    \b
    Examples:
      streamjury config init
      streamjury config init production.yaml
    """
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(starter(salt=generate_salt()))
    except FileExistsError:
        raise click.ClickException(f"{path} already exists; use --force to overwrite it") from None
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
    click.echo(f"wrote {path}")
    option = "" if path == DEFAULT_FILE else f" --config {path}"
    click.echo(f"next: set kafka.bootstrap and the judges in it, then run `streamjury config check{option}`")


@config.command("check")
@json_option()
@config_option
def check_command(config_path: Path | None, as_json: bool) -> None:
    """Check the configuration and list all problems.

    This also opens the certificates and keys named in kafka.options, input.registry and http, and looks for packages
    that sinks and encodings need. It does not connect to Kafka, the judges or a Schema Registry: `streamjury topics
    create --dry-run` tests the connection to Kafka, and `streamjury input check --topic` that to a registry.

    \b
    Examples:
      streamjury config check
      streamjury config check -c production.yaml
      streamjury config check --json | jq -r '.problems[].path'

    \b
    JSON fields:
      ok         whether there are no problems; if not, the exit status is 2
      file       the file, or null for the built-in defaults
      problems   list of objects with path, the key in the file, and message
      warnings   list of texts
      summary    object with the main settings as texts; null if there are problems
    """
    file = find(config_path, os.environ)
    try:
        settings = _check(config_path, file)
    except ConfigError as error:
        if not as_json:
            end_with_problems(error)
        problems = [{"path": problem.path, "message": problem.message} for problem in error.problems]
        _print_result(file, problems=problems, warnings=[], summary=None)
        raise SystemExit(2) from None
    warnings = [*_timeout_warnings(settings), *_salt_warnings(settings), *_safety_warnings(settings)]
    if as_json:
        _print_result(file, problems=[], warnings=warnings, summary=_summary(settings))
        return
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"ok: {source(file)}")
    for name, text in _summary(settings).items():
        click.echo(f"  {name:8} {text}")


@config.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of the configuration file, for editors.

    \b
    Example:
      streamjury config schema > streamjury.schema.json
    """
    click.echo(json.dumps(schema(), indent=2, ensure_ascii=False))


@config.command("show")
@config_option
def show_command(config_path: Path | None) -> None:
    """Print the effective configuration, including defaults and overrides, without secrets.

    Secrets are printed as ***, and so is sampling.salt unless it is the public default.

    \b
    Examples:
      streamjury config show
      STREAMJURY__SAMPLING__RATE=0.05 streamjury config show -c production.yaml
    """
    click.echo(dump(mask_salt(read_config(config_path))), nl=False)


def _check(path: Path | None, file: Path | None) -> Config:
    """Return the configuration; raise ConfigError with its problems, or with those of the files it names."""
    settings = load_config(path)
    if problems := [*find_certificate_problems(settings), *_missing_extras(settings)]:
        raise ConfigError(file, problems)
    if problems := _unloadable_models(settings):
        raise ConfigError(file, problems)
    return settings


def _print_result(
    file: Path | None,
    *,
    problems: Sequence[Mapping[str, str]],
    warnings: Sequence[str],
    summary: Mapping[str, str] | None,
) -> None:
    print_json(
        {
            "ok": not problems,
            "file": None if file is None else str(file),
            "problems": problems,
            "warnings": warnings,
            "summary": summary,
        }
    )


def _missing_extras(settings: Config) -> list[Problem]:
    missing = {place: sink.missing_extra() for place, sink in settings.sinks_by_place().items()}
    missing["input.encoding"] = missing_extra(settings)
    missing |= {path_text(("judges", *place)): judge.missing_extra() for place, judge in settings.judges.places()}
    return [Problem(path=place, message=message) for place, message in missing.items() if message is not None]


def _unloadable_models(settings: Config) -> list[Problem]:
    """Load the models of the judges as a worker does, to find files that are not the described ones."""
    try:
        build_evaluator(settings).load()
    except ModelFileError as error:
        return [Problem(path="judges", message=f"{error.file}: {problem}") for problem in error.problems]
    return []


def _timeout_warnings(settings: Config) -> Iterator[str]:
    """Yield a warning for each timeout that is longer than the deadline of a record."""
    deadline = settings.worker.deadline_seconds
    for judge in settings.judges.everyone:
        seconds = judge.longest_call_seconds
        if seconds is not None and seconds > deadline:
            yield (
                f"timeout_seconds of the judge {judge.name} ({seconds:g}) is above worker.deadline_seconds "
                f"({deadline:g}), which ends its calls earlier in the stream; `evaluate` has no such deadline"
            )


def _salt_warnings(settings: Config) -> Iterator[str]:
    if warning := describe_configured_salt(settings):
        yield warning


def _safety_warnings(settings: Config) -> Iterator[str]:
    if warning := describe_configured_weak_safety(settings):
        yield warning


def _summary(settings: Config) -> Mapping[str, str]:
    topics, rules, scored = settings.topics, settings.sampling.rules, criteria_by_judge(settings)
    spans = "" if settings.input.otlp is None else f"{', '.join(settings.input.otlp.topics)} -> "
    lines = {
        "kafka": settings.kafka.bootstrap,
        "topics": f"{spans}{topics.interactions} -> {topics.sampled} -> {topics.evaluations}",
        "rate": _rate(settings.sampling)
        + (f", other rates by rule: {', '.join(rule.name for rule in rules)}" if rules else ""),
        "criteria": f"{', '.join(settings.criteria.use)}; safety criterion: {settings.composite.safety}",
        "panel": _judges(settings.judges.panel, scored),
    }
    if settings.sampling.safety is not None:
        lines["safety"] = f"{settings.sampling.safety.rate:g} with {', '.join(settings.sampling.safety.triggers)}"
    if settings.judges.reserves:
        lines["reserves"] = _judges(settings.judges.reserves, scored)
    if settings.judges.cascade is not None:
        lines["cascade"] = f"{', '.join(settings.judges.cascade.first)} first, all when in doubt"
    return lines


def _rate(sampling: SamplingConfig) -> str:
    return f"{sampling.rate:g}" if sampling.rate is not None else f"{sampling.target_per_minute:g} per minute"


def _judges(judges: Sequence[JudgeConfig], scored: Mapping[str, Sequence[str]]) -> str:
    """Describe judges with the criteria that each of them scores."""
    # A judge of the default panel may have nothing to judge.
    asked = [judge for judge in judges if scored[judge.name]] or judges
    return "; ".join(f"{_judge(judge)} scores {', '.join(scored[judge.name])}" for judge in asked)


def _judge(judge: JudgeConfig) -> str:
    model = judge.asked_model
    return f"{judge.name} ({judge.kind if model is None else f'{model.name} at {model.address}'})"

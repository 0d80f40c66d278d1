"""`streamjury sampling`: explains why a record is judged, or is not."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from sinks.base import Headers
from sinks.text import printable
from stream.cli.demo import EMBEDDED_SAMPLING_RATE
from stream.cli.support.json_output import print_json
from stream.cli.support.options import config_option, json_option, read_config, source
from stream.cli.support.salt import masked_salt
from stream.cli.support.time_option import TimeOption
from stream.config.model import Config
from stream.errors import RecordError, StageError
from stream.records.decision import DECISION_VERSION, SamplingOutcome
from stream.records.encodings.decoder import make_decoder
from stream.records.facts import LazyRecord
from stream.sampler.policy import DecisionExplanation, SamplingPolicy
from stream.service.setup.config_file import find

_LABEL_WIDTH = 9


class _Header(click.ParamType):
    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, bytes]:
        name, equals, text = str(value).partition("=")
        if not name or not equals:
            self.fail(f"{value!r} must have the form name=value", param, ctx)
        return name, os.fsencode(text)


@click.group()
def sampling() -> None:
    """Explain which interactions are judged.

    \b
    Example:
      streamjury sampling explain --id order-17 --file record.json
    """


@sampling.command("explain")
@click.option("--id", "key", metavar="ID", help="Record key (default: the `id` in the file).")
@click.option(
    "--file", "file", type=click.Path(path_type=Path), help="File with the record's value; - reads standard input."
)
@click.option("--header", "headers", type=_Header(), multiple=True, help="Record header; may be repeated.")
@click.option(
    "--at", type=TimeOption(), help="Record time, or how long ago, for rates that depend on it (default: now)."
)
@json_option()
@config_option
def explain_command(
    *,
    key: str | None,
    file: Path | None,
    headers: Headers,
    at: datetime | None,
    as_json: bool,
    config_path: Path | None,
) -> None:
    """Print which rule applies to a record, its sampling probability, and why.

    This needs only the configuration and the record, no broker. `streamjury run --embedded` judges half of the records
    if the configuration does not set sampling.rate; this command explains the rate of the configuration. Caps
    (max_per_minute) are shown but not applied, because they depend on earlier records.

    \b
    Examples:
      streamjury sampling explain --id order-17 --file record.json
      streamjury sampling explain --id order-17 --header x-tier=gold --json

    \b
    JSON fields:
      id, outcome, chosen        the record, its outcome (sampled, sampled_out or filtered), and whether it is judged
      rule, lane, why            the rule that decided, its lane, and the reason
      probability, draw          it is judged if the draw is below the probability
      rules                      list of objects with rule, matched and why
      triggers                   object: why each safety trigger matched, or null
      target_per_minute, bounds  of an adaptive rate; otherwise null
      rate_known                 false if an adaptive rate is unknown here
      max_per_minute             cap of the rule, or null
      config, rate               the configuration file, or null, and its sampling.rate
      salt, version              of the sampling decision; the salt is *** unless it is the public default
    """
    if key is None and file is None:
        raise click.UsageError("give --id or --file, or both")
    value = _read(file) if file is not None else None
    config = read_config(config_path)
    value = _decode(config, value, headers)
    facts = LazyRecord(os.fsencode(key) if key else None, value, _milliseconds(at or datetime.now(UTC)), headers)
    explanation = _explain(config, facts)
    if as_json:
        print_json(_as_json(explanation, config, find(config_path, os.environ)), indent=2)
    else:
        click.echo(f"{'config':{_LABEL_WIDTH}}{printable(_describe_config(config, config_path))}")
        for label, text in _lines(explanation):
            click.echo(f"{label:{_LABEL_WIDTH}}{printable(text)}")


def _decode(config: Config, value: bytes | None, headers: Headers) -> bytes | None:
    """Return the record as JSON; a record that is JSON already, as `streamjury tail` prints it, is left as it is."""
    if value is None or value.lstrip()[:1] == b"{":
        return value
    try:
        decoder = make_decoder(config)
        return value if decoder is None else decoder.decode(value, headers)
    except RecordError as error:
        raise click.ClickException(f"the record cannot be used ({error.kind}): {error}") from None
    except StageError as error:
        raise click.ClickException(str(error)) from None


def _explain(config: Config, facts: LazyRecord) -> DecisionExplanation:
    try:
        return SamplingPolicy(config.sampling, config.input).explain(facts)
    except RecordError as error:
        if facts.value is None:
            raise click.ClickException("the rules depend on the record's value; give it with --file") from None
        raise click.ClickException(f"the record cannot be used ({error.kind}): {error}") from None
    except StageError as error:
        raise click.ClickException(str(error)) from None


def _read(file: Path) -> bytes:
    try:
        return click.get_binary_stream("stdin").read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise click.ClickException(f"cannot read {file}: {(error.strerror or str(error)).lower()}") from None


def _milliseconds(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def _text(record_id: bytes) -> str:
    return record_id.decode("utf-8", "backslashreplace")


# For machines


def _as_json(explanation: DecisionExplanation, config: Config, file: Path | None) -> dict[str, Any]:
    decision = explanation.decision
    return {
        "id": _text(explanation.record_id),
        "outcome": decision.outcome.value,
        "chosen": decision.chosen,
        "rule": decision.rule,
        "lane": decision.lane,
        "why": decision.why,
        "probability": decision.probability,
        "draw": explanation.draw,
        "rules": [{"rule": trial.rule, "matched": trial.matched, "why": trial.why} for trial in explanation.tried],
        "triggers": dict(explanation.triggers),
        "target_per_minute": explanation.target_per_minute,
        "bounds": explanation.bounds,
        "rate_known": explanation.rate_known,
        "max_per_minute": explanation.max_per_minute,
        "config": None if file is None else str(file),
        "rate": config.sampling.rate,
        "salt": masked_salt(config.sampling),
        "version": DECISION_VERSION,
    }


# For people


def _describe_config(config: Config, path: Path | None) -> str:
    """Name the configuration and its general rate: `run --embedded` may use another one."""
    sampling = config.sampling
    if sampling.rate is None:
        return f"{source(find(path, os.environ))}, sampling.target_per_minute {sampling.target_per_minute:g}"
    is_default = "rate" not in sampling.model_fields_set
    note = f", the default (`streamjury run --embedded` uses {EMBEDDED_SAMPLING_RATE:g} instead)" if is_default else ""
    return f"{source(find(path, os.environ))}, sampling.rate {sampling.rate:g}{note}"


def _lines(explanation: DecisionExplanation) -> Iterator[tuple[str, str]]:
    decision = explanation.decision
    yield "id", _text(explanation.record_id)
    for trial in explanation.tried:
        yield "rule", f"{trial.rule}: {'yes' if trial.matched else 'no'}, {trial.why}"
    if not any(trial.matched for trial in explanation.tried):
        yield "rule", "default (no other rule matches)"
    for name, sign in explanation.triggers.items():
        yield "trigger", f"{name}: {f'yes, {sign}' if sign else 'no'}"
    yield "decision", f"rule {decision.rule}, lane {decision.lane}, probability {decision.probability:.6g}"
    yield from _limits(explanation)
    yield "outcome", _outcome(explanation)


def _limits(explanation: DecisionExplanation) -> Iterator[tuple[str, str]]:
    if explanation.bounds is not None:
        low, high = explanation.bounds
        yield (
            "rate",
            f"adapts to the traffic between {low:.6g} and {high:.6g}, for {explanation.target_per_minute:g} per minute",
        )
    if not explanation.rate_known:
        yield "rate", "the current rate is unknown without a step log; this is the lowest"
    if explanation.max_per_minute is not None:
        yield "cap", f"{explanation.max_per_minute} per minute; records chosen beyond that are shed"


def _outcome(explanation: DecisionExplanation) -> str:
    decision, draw = explanation.decision, explanation.draw
    if decision.outcome is SamplingOutcome.FILTERED:
        return "filtered: the rate is 0"
    if decision.chosen:
        return f"sampled: the draw {draw:.6f} is below {decision.probability:.6g}"
    return f"sampled_out: the draw {draw:.6f} is not below {decision.probability:.6g}"

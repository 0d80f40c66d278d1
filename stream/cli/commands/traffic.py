"""`streamjury traffic`: writes generated RAG interactions to the input topic, to try the pipeline."""

import secrets
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count as count_up
from pathlib import Path

import click

from stream.cli.demo import PLAN_NAMES, Traffic, generate, load_corpus, plan
from stream.cli.demo.corpus import LanguageChoice
from stream.cli.demo.generator import TrafficGenerator
from stream.cli.support.cluster import reach
from stream.cli.support.interruption import Interruption, until_reader_leaves
from stream.cli.support.options import config_option, language_option, limit_option, read_config
from stream.cli.support.progress import Meter
from stream.errors import StageError

_LOOK_SECONDS = 0.1

_POSITIVE = click.FloatRange(min=0, min_open=True)


# `--count` is the former name of --limit.
@click.command(context_settings={"token_normalize_func": lambda name: "limit" if name == "count" else name})
@click.option("--rate", type=_POSITIVE, default=20.0, show_default=True, help="Records per second.")
@click.option(
    "--regime",
    type=click.Choice(PLAN_NAMES),
    default="scenario",
    show_default=True,
    help="`healthy` or a fault of all records; `scenario` starts healthy, drops, recovers, repeats.",
)
@click.option("--seconds", type=_POSITIVE, help="Stop after this many seconds (default: run until Ctrl-C).")
@limit_option("Stop after this many records.")
@click.option(
    "--seed", type=int, help="Random seed: the same seed generates the same records and ids (default: random)."
)
@click.option("--period", type=_POSITIVE, default=60.0, show_default=True, help="Length of the scenario in seconds.")
@click.option(
    "--first-drop", type=_POSITIVE, help="Seconds until the first drop of the scenario (default: 40 % of --period)."
)
@click.option(
    "--dry-run", is_flag=True, help="Print the records instead of sending them; with a limit, without delays."
)
@language_option
@config_option
def traffic(
    *,
    config_path: Path | None,
    rate: float,
    regime: str,
    seconds: float | None,
    limit: int | None,
    seed: int | None,
    period: float,
    first_drop: float | None,
    language: LanguageChoice,
    dry_run: bool,
) -> None:
    """Write generated interactions to the input topic.

    The tag and header `regime` of every record name its fault, so verdicts can be compared with the truth. Ids depend
    on the seed: records of a repeated seed count as duplicates.

    \b
    Examples:
      streamjury traffic --regime hallucinating --rate 50 --seconds 30
      streamjury traffic --limit 500 --dry-run > interactions.jsonl
    """
    config = read_config(config_path)
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    phases = plan(regime, seconds=period, first_drop=first_drop)
    generated = generate(load_corpus().in_language(language), phases, seed=seed)
    with Interruption() as interruption:
        if dry_run:
            with until_reader_leaves():
                _print(generated, rate, seconds, limit, interruption)
            return
        topic = config.topics.interactions
        reach(config.kafka).require(topic)
        where = f"{topic} at {config.kafka.bootstrap}"
        click.echo(f"writing {rate:g} records per second to {where} with seed {seed}; press Ctrl-C to stop", err=True)
        generator = TrafficGenerator(config.kafka, topic, generated, rate)
        sent = _run(generator, seconds, limit, interruption, total=_total(rate, seconds, limit))
    _print_counts(sent, topic)


def _run(
    generator: TrafficGenerator,
    seconds: float | None,
    limit: int | None,
    interruption: Interruption,
    *,
    total: float | None,
) -> Counter[str]:
    """Generate in a thread, so that this one can draw progress and receive signals."""
    with ThreadPoolExecutor(1, "traffic") as pool, Meter("traffic", total) as meter:
        run: Future[Counter[str]] = pool.submit(generator.run, interruption.stop, seconds, limit)
        while not run.done():
            time.sleep(_LOOK_SECONDS)
            meter.show(done=generator.delivered, records=generator.delivered)
        try:
            return run.result()
        except StageError as error:
            raise click.ClickException(str(error)) from None


def _total(rate: float, seconds: float | None, limit: int | None) -> float | None:
    limits = [bound for bound in (limit, None if seconds is None else seconds * rate) if bound is not None]
    return min(limits, default=None)


def _print(
    generated: Traffic, rate: float, seconds: float | None, limit: int | None, interruption: Interruption
) -> None:
    """Print records, at once if there is a limit, otherwise at the rate."""
    total, started = _total(rate, seconds, limit), time.monotonic()
    for number in count_up():
        due = number / rate
        pause = max(0.0, started + due - time.monotonic()) if total is None else 0.0
        if (total is not None and number >= total) or interruption.stop.wait(pause):
            return
        click.echo(generated.record(due, datetime.now(UTC)).value)


def _print_counts(sent: Mapping[str, int], topic: str) -> None:
    click.echo(f"delivered {sum(sent.values())} to {topic}")
    for regime, number in sorted(sent.items()):
        click.echo(f"  {regime:14} {number}")

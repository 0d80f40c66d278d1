"""`streamjury calibrate`: proposes weights of the judges and limits of a cascade, from labels of people."""

from datetime import datetime
from pathlib import Path

import click
from rich.console import Console

from sinks.reports.sheet_rendering import draw
from stream.cli.commands.labels import FILE_ARGUMENT, LABELS_OPTION, SINCE_OPTION, read_sources
from stream.cli.support.json_output import print_json
from stream.cli.support.options import config_option, json_option
from stream.jobs.labels.calibration import calibrate_judges, calibration_object, calibration_sheet
from stream.jobs.labels.report import NO_LABELS

_SHARE = click.FloatRange(min=0, max=1, min_open=True, max_open=True)


@click.command()
@FILE_ARGUMENT
@LABELS_OPTION
@SINCE_OPTION
@click.option("--target", type=_SHARE, default=0.9, show_default=True, help="Share of answers to agree on.")
@click.option("--miss", type=_SHARE, default=0.05, show_default=True, help="Probability of missing the target.")
@click.option(
    "--threshold",
    type=click.FloatRange(min=0, max=1),
    default=0.5,
    show_default=True,
    help="Score from which an answer counts as good.",
)
@json_option()
@config_option
def calibrate(
    *,
    path: Path | None,
    labels_path: Path | None,
    since: datetime | None,
    target: float,
    miss: float,
    threshold: float,
    as_json: bool,
    config_path: Path | None,
) -> None:
    """Propose weights of the judges, and limits of a cascade that reach a target agreement with people.

    The sources are those of `streamjury labels report`. A judge agrees with people if both call an answer good, or
    both do not. For every judge, the command proposes the loosest judges.cascade.min_agreement, and the smallest
    margin, at which it may decide alone: the agreement of the answers that it then decides is below the target with a
    probability of at most --miss. No configuration is changed.

    \b
    Examples:
      streamjury calibrate --since 30d --target 0.9
      streamjury calibrate answers-results --labels reviewed.csv --json

    \b
    JSON fields:
      schema_version  streamjury.calibration/1
      target, miss    as given
      judges          list of objects with criterion, judge, labels, agreed, weight, and min_agreement and margin
                      (objects with value, answers and agreed; null if no limit reaches the target)
    """
    calibrations = calibrate_judges(
        *read_sources(path, labels_path, since, config_path), target=target, miss=miss, threshold=threshold
    )
    if as_json:
        print_json(calibration_object(calibrations, target, miss))
    elif calibrations:
        draw([calibration_sheet(calibrations, target, miss)], Console())
    else:
        click.echo(NO_LABELS)

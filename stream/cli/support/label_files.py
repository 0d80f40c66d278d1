"""Reads files of labels for a command; mistakes in them end it."""

from datetime import UTC, datetime
from pathlib import Path

import click

from judges.values.label import Label
from stream.config.model import Config
from stream.jobs.label_file import LabelsError
from stream.jobs.labels.reading import read_label_file
from stream.service.setup.criteria_files import load_chosen_criteria


def read_labels_of(config: Config, path: Path) -> list[Label]:
    """Read the labels of a file by the criteria of a configuration."""
    try:
        return read_label_file(path, load_chosen_criteria(config.criteria), now=datetime.now(UTC))
    except LabelsError as error:
        raise click.ClickException(str(error)) from None

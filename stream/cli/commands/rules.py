"""`streamjury rules`: writes recording rules and alerts for Prometheus from the configuration."""

import os
from pathlib import Path

import click

from stream.cli.support.options import config_option, output_option, read_config
from stream.monitor.prometheus import generate
from stream.service.setup.criteria_files import load_chosen_criteria


@click.command()
@output_option("File to write atomically (default: standard output).", metavar="FILE")
@config_option
def rules(*, output: Path | None, config_path: Path | None) -> None:
    """Write the Prometheus recording rules and alerts for the configuration.

    The thresholds come from `objectives` and `alerts`; alerts.time_scale shortens all windows, to try them out. Rules
    that are left out, because they could never fire or have no threshold, are listed on standard error.

    To load the file, name it in prometheus.yml and reload Prometheus:

    \b
      rule_files: [/etc/prometheus/streamjury.yml]
      scrape_configs:
        - job_name: streamjury            # the name that StreamjuryTargetDown looks for
          static_configs: [{targets: ["localhost:9464"]}]

    \b
    Examples:
      streamjury rules --output /etc/prometheus/streamjury.yml
      promtool check rules /etc/prometheus/streamjury.yml
      kill -HUP $(pidof prometheus)
    """
    config = read_config(config_path)
    file = generate(config, load_chosen_criteria(config.criteria))
    for note in file.notes:
        click.echo(f"note: {note}", err=True)
    if output is None:
        click.echo(file.text(), nl=False)
    else:
        _write(output, file.text())
        click.echo(f"wrote {output}", err=True)


def _write(path: Path, text: str) -> None:
    """Write a file at once: Prometheus may read it at any time, and must not find half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)

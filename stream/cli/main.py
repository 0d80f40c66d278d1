"""The command line: `streamjury` and its commands."""

import sys
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from stream.errors import INTERRUPTED

# httpx would import its own command line, with rich and pygments, and does without it if it cannot.
sys.modules["httpx._main"] = None  # type: ignore[assignment]

# A command's module is imported when the command is called. The summaries are here, so that `streamjury --help` does
# not load Faust.
_COMMANDS = {
    "run": ("stream.cli.commands.run:run", "Sample, judge, monitor and archive in one process, with the page"),
    "assembler": ("stream.cli.commands.stages:assembler", "Turn OpenTelemetry spans into interactions"),
    "sampler": ("stream.cli.commands.stages:sampler", "Choose which interactions are judged, and forward them"),
    "worker": ("stream.cli.commands.stages:worker", "Judge sampled interactions and publish evaluations"),
    "monitor": ("stream.cli.commands.stages:monitor", "Watch evaluations, serve metrics, raise alerts"),
    "archivist": ("stream.cli.commands.stages:archivist", "Write evaluations and their texts to the archive"),
    "page": ("stream.cli.commands.page:page", "Serve the page in the browser"),
    "topics": ("stream.cli.commands.topics:topics", "Create the topics that Streamjury uses"),
    "input": ("stream.cli.commands.input:input_group", "Check how logged records are read"),
    "send": ("stream.cli.commands.send:send", "Send a JSONL file of interactions to the input topic"),
    "tail": ("stream.cli.commands.tail:tail", "Show evaluations as they arrive"),
    "alerts": ("stream.cli.commands.alerts:alerts", "List alerts and explain them"),
    "labels": ("stream.cli.commands.labels:labels", "Send labels of people, and correct means by them"),
    "calibrate": ("stream.cli.commands.calibrate:calibrate", "Propose weights and limits of judges from labels"),
    "diagnose": ("stream.cli.commands.diagnose:diagnose", "Say whether retrieval or generation is to blame"),
    "audit": ("stream.cli.commands.audit:audit", "Account for every interaction from the topics"),
    "replay": ("stream.cli.commands.replay:replay", "Move dead letters back to the topic they came from"),
    "archive": ("stream.cli.commands.archive:archive", "Show, correct and rebuild the archive"),
    "evaluate": ("stream.cli.commands.evaluate:evaluate", "Judge the rows of a file and write reports"),
    "backfill": ("stream.cli.commands.backfill:backfill", "Judge past interactions again"),
    "compare": ("stream.cli.commands.compare:compare_command", "Compare two sets of results for the same rows"),
    "traffic": ("stream.cli.commands.traffic:traffic", "Write generated interactions to the input topic"),
    "criteria": ("stream.cli.commands.criteria:criteria", "List, show and check criteria"),
    "sampling": ("stream.cli.commands.sampling:sampling", "Explain which interactions are judged"),
    "rules": ("stream.cli.commands.rules:rules", "Write Prometheus recording rules and alerts"),
    "webhook": ("stream.cli.commands.webhook:webhook", "Print the alerts that Alertmanager sends"),
    "config": ("stream.cli.commands.config:config", "Write, check and show the configuration"),
    "schema": ("stream.cli.commands.schema:schema", "Print the JSON Schema of a record"),
}


class _Commands(click.Group):
    """Lists commands in the order in which a newcomer needs them, and loads the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = {name: command.get_short_help_str() for name, command in self.commands.items()}
        summaries = {name: summary for name, (_, summary) in _COMMANDS.items()}
        with formatter.section("Commands"):
            formatter.write_dl(list((summaries | own).items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Exit with the usual status of Ctrl-C; click would exit with that of a failure."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None
        except click.ClickException as error:
            _show_hidden_failure(ctx, error)
            raise


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="streamjury", message="%(prog)s %(version)s")
def main() -> None:
    """Judge live RAG traffic: sample interactions from Kafka, score them with a panel of judges, publish the results.

    \b
    Start with:
      streamjury run --embedded        # everything in one process, nothing to install
      streamjury config init           # a commented configuration file for your own Kafka
      streamjury COMMAND --help        # what a command does, with an example
    """
    _refuse_other_judges()


@main.command(short_help="Print the version")
def version() -> None:
    """Print the version.

    \b
    Example:
      streamjury version
    """
    click.echo(f"streamjury {metadata.version('streamjury')}")


def _show_hidden_failure(ctx: click.Context, error: click.ClickException) -> None:
    """Print a failure on the terminal too, if only standard error is redirected, as in `streamjury run 2> run.log`."""
    if sys.stdout.isatty() and not sys.stderr.isatty():
        click.echo(f"streamjury {ctx.invoked_subcommand} failed: {error.format_message()}")


def _refuse_other_judges() -> None:
    """Refuse a package `judges` of another distribution, which overwrites ours if both are installed."""
    spec = find_spec("judges")
    origin = None if spec is None else spec.origin
    # Importing it would load every judge, which takes longer than many commands.
    if origin is None or "rag_composite" not in Path(origin).read_text(encoding="utf-8"):
        raise click.ClickException(
            f"the package `judges` at {origin} is not part of Streamjury; install Streamjury in its own environment"
        )


if __name__ == "__main__":
    main()

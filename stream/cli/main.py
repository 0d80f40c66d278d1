"""The command line: `streamjury` and its commands."""

from importlib import import_module, metadata
from typing import Any

import click

from stream.errors import INTERRUPTED

# Each command's module is imported when it is called: `streamjury version` need not load Faust.
_COMMANDS = {
    "run": "stream.cli.commands.run:run",
    "sampler": "stream.cli.commands.stages:sampler",
    "worker": "stream.cli.commands.stages:worker",
    "monitor": "stream.cli.commands.stages:monitor",
    "topics": "stream.cli.commands.topics:topics",
    "send": "stream.cli.commands.send:send",
    "tail": "stream.cli.commands.tail:tail",
    "alerts": "stream.cli.commands.alerts:alerts",
    "audit": "stream.cli.commands.audit:audit",
    "replay": "stream.cli.commands.replay:replay",
    "evaluate": "stream.cli.commands.evaluate:evaluate",
    "backfill": "stream.cli.commands.backfill:backfill",
    "compare": "stream.cli.commands.compare:compare_command",
    "traffic": "stream.cli.commands.traffic:traffic",
    "criteria": "stream.cli.commands.criteria:criteria",
    "sampling": "stream.cli.commands.sampling:sampling",
    "rules": "stream.cli.commands.rules:rules",
    "webhook": "stream.cli.commands.webhook:webhook",
    "config": "stream.cli.commands.config:config",
    "schema": "stream.cli.commands.schema:schema",
}


class _Commands(click.Group):
    """Lists commands in the order in which a newcomer needs them, and loads the one that is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Gives Ctrl-C the status that shells know it by; click's own is that of a failure."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Judge live RAG traffic: sample interactions from Kafka, score them with a panel of judges, publish the results.

    \b
    Begin with:
      streamjury run --embedded        everything in one process, nothing to install
      streamjury config init           a commented configuration file for your own Kafka
      streamjury COMMAND --help        what a command does, with an example
    """
    _refuse_other_judges()


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(f"streamjury {metadata.version('streamjury')}")


def _refuse_other_judges() -> None:
    """Another distribution has a package of the same name; installed beside ours, it overwrites it."""
    import judges  # noqa: PLC0415 - the check is about this very import

    if not hasattr(judges, "rag_composite"):
        raise click.ClickException(
            f"the package `judges` at {judges.__file__} is not Streamjury's; install Streamjury in an environment "
            "of its own"
        )


if __name__ == "__main__":
    main()

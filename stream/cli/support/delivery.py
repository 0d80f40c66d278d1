"""Reports of the records that a command has sent."""

import click

from stream.kafka.producers.counting import CountingProducer


def print_failures(producer: CountingProducer) -> None:
    """Print the first failures on standard error, and whether the broker was lost."""
    for failure in producer.failures:
        click.echo(failure, err=True)
    unnamed = producer.failed - len(producer.failures)
    if unnamed:
        click.echo(f"and {unnamed} more", err=True)
    if producer.broker_away:
        click.echo("lost the broker; the rest of the input was not sent", err=True)

"""The fields of a command's JSON output, as its help documents them."""

import re

from click.testing import CliRunner

from stream.cli.main import main

# Field names, separated by commas, come before a gap of at least two spaces.
_FIELD_LINE = re.compile(r"^    ((?:\w+, )*\w+) {2,}\S", re.MULTILINE)


def json_fields(command: str) -> list[str]:
    """Return the fields that `streamjury COMMAND --help` lists below `JSON fields`."""
    text = CliRunner().invoke(main, [*command.split(), "--help"], terminal_width=200, max_content_width=200).output
    _, heading, rest = text.partition("\n  JSON fields")
    assert heading, f"the help of {command} does not document its JSON fields"
    return [name for names in _FIELD_LINE.findall(rest.partition("\n\n")[0]) for name in names.split(", ")]

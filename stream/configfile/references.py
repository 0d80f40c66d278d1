"""References to the environment in the values of a file: `${NAME}`, `${NAME:-default}`, and `$${` for the text '${'."""

import re
from collections.abc import Mapping
from typing import Any

from judges.problems import Loc
from stream.configfile.draft import Draft

_REFERENCE = re.compile(r"\$\$\{|\$\{(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\})?")


def resolve_references(data: Any, environ: Mapping[str, str], draft: Draft, loc: Loc = ()) -> Any:
    """The data with what its references stand for; what they leave open is reported to the draft."""
    if isinstance(data, dict):
        return {name: resolve_references(value, environ, draft, (*loc, name)) for name, value in data.items()}
    if isinstance(data, list):
        return [resolve_references(value, environ, draft, (*loc, index)) for index, value in enumerate(data)]
    if isinstance(data, str):
        return _REFERENCE.sub(lambda match: _referred(match, environ, draft, loc), data)
    return data


def _referred(match: re.Match[str], environ: Mapping[str, str], draft: Draft, loc: Loc) -> str:
    name, default = match["name"], match["default"]
    if match[0] == "$${":
        return "${"
    if name is None:
        message = "has a '${' that begins no reference; write ${NAME} or ${NAME:-default}, or $${ for the text '${'"
    elif environ.get(name):
        draft.from_environment.add(loc)
        return environ[name]
    elif default is not None:
        return default
    else:
        state = "empty" if name in environ else "not set"
        message = f"needs the environment variable {name}, which is {state}; set it, or write ${{{name}:-default}}"
    draft.report_unread(loc, message)
    return match[0]

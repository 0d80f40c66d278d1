"""References in the values of a file: to the environment as `${NAME}`, `${NAME:-default}`, with `$${` for the text
'${'; and to other files, by paths that begin where the file is."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from judges.criteria.problems import Loc
from stream.service.setup.draft import Draft

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


def find_beside(path: Path, draft: Draft) -> None:
    """Lets the paths of criteria and canaries begin at the file's folder, wherever the program was started."""
    if path.parent == Path():
        return
    criteria, canaries = _mapping(draft.data, "criteria"), _mapping(draft.data, "detection", "canaries")
    if isinstance(files := criteria.get("files"), list):
        criteria["files"] = [_beside(path, file) for file in files]
    if "file" in canaries:
        canaries["file"] = _beside(path, canaries["file"])


def _mapping(data: Any, *keys: str) -> dict[str, Any]:
    """The mapping at a place; an empty one of its own where there is none."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def _beside(path: Path, file: Any) -> Any:
    """Absolute, so that it is the same place in whatever the configuration is written to."""
    return str((path.parent / file).absolute()) if isinstance(file, str) and file else file


def _referred(match: re.Match[str], environ: Mapping[str, str], draft: Draft, loc: Loc) -> str:
    name, default = match["name"], match["default"]
    if match[0] == "$${":
        return "${"
    if name is None:
        message = (
            "contains a '${' that does not start a reference; write ${NAME} or ${NAME:-default}, or $${ for the text "
            "'${'"
        )
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

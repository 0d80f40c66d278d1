"""References in the values of a file: to the environment as `${NAME}`, `${NAME:-default}`, with `$${` for the text
'${'; and to other files, by paths relative to the file."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from judges.criteria.problems import Loc
from stream.service.setup.draft import Draft

_REFERENCE = re.compile(r"\$\$\{|\$\{(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\})?")


def resolve_references(data: Any, environ: Mapping[str, str], draft: Draft, loc: Loc = ()) -> Any:
    """Replace references by their values; report unresolved ones to the draft."""
    if isinstance(data, dict):
        return {name: resolve_references(value, environ, draft, (*loc, name)) for name, value in data.items()}
    if isinstance(data, list):
        return [resolve_references(value, environ, draft, (*loc, index)) for index, value in enumerate(data)]
    if isinstance(data, str):
        return _REFERENCE.sub(lambda match: _resolve_match(match, environ, draft, loc), data)
    return data


def resolve_paths(path: Path, draft: Draft) -> None:
    """Resolve the paths of criteria, canaries and models relative to the file, wherever the program was started."""
    if path.parent == Path():
        return
    criteria, canaries = _mapping(draft.data, "criteria"), _mapping(draft.data, "detection", "canaries")
    if isinstance(files := criteria.get("files"), list):
        criteria["files"] = [_resolve_path(path, file) for file in files]
    if "file" in canaries:
        canaries["file"] = _resolve_path(path, canaries["file"])
    judges = _mapping(draft.data, "judges")
    for seats in (judges.get("panel"), judges.get("reserves")):
        for judge in seats if isinstance(seats, list) else ():
            if isinstance(judge, dict) and "path" in judge:
                judge["path"] = _resolve_path(path, judge["path"])


def _mapping(data: Any, *keys: str) -> dict[str, Any]:
    """Return the mapping at a place, or an empty one if there is none."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def _resolve_path(path: Path, file: Any) -> Any:
    """Make a path absolute, so that it stays valid wherever the configuration is written to."""
    return str((path.parent / file).absolute()) if isinstance(file, str) and file else file


def _resolve_match(match: re.Match[str], environ: Mapping[str, str], draft: Draft, loc: Loc) -> str:
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
        alternative = (
            f"remove api_key (or write ${{{name}:-}}) if the endpoint needs no key"
            if loc[-1:] == ("api_key",)
            else f"write ${{{name}:-default}}"
        )
        message = f"needs the environment variable {name}, which is {state}; set it, or {alternative}"
    draft.report_unread(loc, message)
    return match[0]

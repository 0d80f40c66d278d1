"""The configuration file: finds it, reads it with all its problems reported at once, and writes it."""

from collections.abc import Mapping
from pathlib import Path

from judges.criteria.problems import Problem
from judges.criteria.strict_yaml import UnreadableError, read_file, to_yaml
from stream.config.model import Config
from stream.service.setup.draft import Draft
from stream.service.setup.overrides import apply_overrides
from stream.service.setup.problems import ConfigError
from stream.service.setup.references import resolve_paths, resolve_references
from stream.service.setup.validation import validate_draft

__all__ = ["DEFAULT_FILE", "ConfigError", "Problem", "dump", "find", "load", "to_yaml"]

DEFAULT_FILE = Path("streamjury.yaml")
FILE_VARIABLE = "STREAMJURY_CONFIG"


def find(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the file to read: `path`, else the one in STREAMJURY_CONFIG, else ./streamjury.yaml if it exists."""
    if path is not None:
        return path
    if environ.get(FILE_VARIABLE):
        return Path(environ[FILE_VARIABLE])
    return DEFAULT_FILE if DEFAULT_FILE.exists() else None


def load(path: Path | None, environ: Mapping[str, str]) -> Config:
    """Load the configuration from a file, or the defaults without one, and apply overrides from the environment.

    1. The file is read as YAML. If it is not YAML, only that is reported: later problems would be uncertain.
    2. References to the environment in its values are replaced, and files that it names are looked for beside it.
    3. Overrides are applied.
    4. The result is validated, and all problems of the steps 1 to 4 are raised together. If judges and criteria have
       no problems, they are combined as in a worker, and conflicts between them are problems too.
    """
    draft = Draft()
    try:
        data = read_file(path, draft) if path is not None else None  # 1
    except UnreadableError as error:
        raise ConfigError(path, [error.problem]) from None
    draft.data = {} if data is None else resolve_references(data, environ, draft)  # 2
    if path is not None:
        resolve_paths(path, draft)
    apply_overrides(environ, draft)  # 3
    config = validate_draft(draft)  # 4
    if config is None or draft.problems:
        raise ConfigError(path, draft.all_problems())
    return config


def dump(config: Config) -> str:
    """Write the effective configuration as YAML, with secrets as '***'."""
    return to_yaml(config.model_dump(mode="json")).replace("${", "$${")

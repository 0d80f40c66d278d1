"""Adds the runbooks, which live with the dashboards, to the site, with links to them that work here."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_RUNBOOKS = Path(__file__).parents[1] / "dashboards" / "runbooks"
# From a page of docs/ to a runbook, and from a runbook to a page of docs/: both lose the step out of docs/.
_TO_RUNBOOK = re.compile(r"(\]\((?:\.\./)*)\.\./dashboards/runbooks/")
_TO_PAGE = re.compile(r"(\]\(\.\./)\.\./docs/")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lists the runbooks at the end of the navigation."""
    assert config.nav is not None
    names = {path.stem.removeprefix("Streamjury"): f"runbooks/{path.name}" for path in _runbooks()}
    config.nav.append({"Runbooks": [{name: path} for name, path in names.items()]})
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the runbooks to the pages."""
    for path in _runbooks():
        files.append(File.generated(config, f"runbooks/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links that are right in the repository into links that are right on the site."""
    return _TO_PAGE.sub(r"\1", _TO_RUNBOOK.sub(r"\1runbooks/", markdown))


def _runbooks() -> list[Path]:
    return sorted(_RUNBOOKS.glob("*.md"))

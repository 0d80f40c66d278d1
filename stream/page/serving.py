"""Opens the page of a process, from a configuration, and returns its routes for the web server."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import select

from sinks.archive.database import ArchiveError, ArchiveUnavailable, Database
from sinks.page.access import Access, AccessToken, Role
from sinks.page.routes import page_routes
from sinks.page.settings import CurrentEvaluator, Objective, PageSettings, SpendingLimit
from sinks.web.health import Health
from sinks.web.routes import Route
from stream.archivist.stage import open_archive
from stream.config.criteria import compose_criteria
from stream.config.model import Config
from stream.config.sections.budgets import AppBudgetConfig, BudgetsConfig
from stream.config.sections.stages import HttpConfig
from stream.page.backend import open_backend
from stream.service.service import Service
from stream.service.setup.criteria_files import load_chosen_criteria
from stream.service.setup.evaluator import VERSION, build_evaluator


@contextmanager
def open_page(
    config: Config, service: Service | None = None, *, health: Health | None = None
) -> Iterator[Sequence[Route]]:
    """Open the archive and the pipeline for the page until the end of the block; yields the page's routes.

    `service` runs stages in this process; the page shows more about them than their topics reveal. `health` gets a
    check of the archive.
    """
    settings = page_settings(config)
    with open_archive(config) as database, open_backend(config, database, service) as backend:
        if health is not None:
            health.add("archive", ready=lambda: _check_archive(database))
        yield page_routes(database, page_access(config.http), settings, backend)


def _check_archive(database: Database) -> str | None:
    try:
        with database.read() as connection:
            connection.execute(select(1))
    except (ArchiveError, ArchiveUnavailable) as error:
        return str(error)
    return None


def page_access(http: HttpConfig) -> Access:
    """Return the access rules of the page. `http.token` grants the role of a viewer: a small setup needs one secret."""
    tokens = [
        AccessToken(name=token.name, role=Role(token.role), secret=token.token.get_secret_value())
        for token in http.tokens
    ]
    if http.token is not None:
        tokens.append(AccessToken(name="viewer", role=Role.VIEWER, secret=http.token.get_secret_value()))
    return Access(tokens, host=http.host, is_tls=http.certificate is not None)


def page_settings(config: Config) -> PageSettings:
    """Return the settings of the page."""
    evaluator = CurrentEvaluator(
        fingerprint=build_evaluator(config).info.fingerprint,
        multi=compose_criteria(load_chosen_criteria(config.criteria), config.composite),
        safety_vote=config.composite.safety_vote,
    )
    objectives, budgets = config.objectives, config.budgets
    return PageSettings(
        version=VERSION,
        evaluator=evaluator,
        objective=lambda app: Objective(*objectives.for_app(app)),
        min_effective=float(objectives.min_effective),
        floors=dict(objectives.floors),
        judge_failures=config.alerts.judge_failures,
        budgets={name: _limit(budget) for name, budget in budgets.apps.items()},
        total_budget=_limit(budgets),
        trace_url=config.page.trace_url,
    )


def _limit(budget: AppBudgetConfig | BudgetsConfig) -> SpendingLimit:
    return SpendingLimit(per_hour_usd=budget.per_hour_usd, per_day_usd=budget.per_day_usd)

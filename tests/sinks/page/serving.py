"""A page on an archive of a test's choice, behind the real web server."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

from judges.composite import MultiCriteria
from judges.criteria.catalogue import load_catalogue
from sinks.archive.database import Database
from sinks.page.access import Access, AccessToken
from sinks.page.backend import (
    AlertExplanation,
    Backend,
    BackendError,
    FunnelStep,
    GroupLag,
    LetterPlace,
    LettersPage,
    NewLabel,
    PipelineState,
    ReasonCount,
    ReplayOutcome,
    ReviewItem,
    ReviewLevel,
    ReviewQuestion,
    ReviewTurn,
    ShownLetter,
    SkippedLetter,
)
from sinks.page.reply_cache import ReplyCache
from sinks.page.routes import page_routes
from sinks.page.settings import CurrentEvaluator, Objective, PageSettings, SpendingLimit
from sinks.reports.sheet import Sheet
from tests.parts.archive import FINGERPRINT, START
from tests.sinks.page.visiting import Browser
from tests.sinks.web.asking import serve

NOW = START + timedelta(hours=1)


def settings(**changes: Any) -> PageSettings:
    defaults: Mapping[str, Any] = {
        "version": "1.2.3",
        "evaluator": CurrentEvaluator(
            fingerprint=FINGERPRINT, multi=MultiCriteria.of(load_catalogue("rag").values()), safety_vote="majority"
        ),
        "objective": lambda app: Objective(0.7, 0.99 if app == "strict" else 0.9),
        "floors": {"clarity": 0.6},
        "budgets": {"shop": SpendingLimit(per_day_usd=10.0, per_hour_usd=1.0)},
        "total_budget": SpendingLimit(per_day_usd=100.0),
        "trace_url": "https://traces.example.com/{trace_id}?x=1",
    }
    return PageSettings(**{**defaults, **changes})


@contextmanager
def open_page(
    database: Database,
    *,
    backend: Backend | None = None,
    tokens: Sequence[AccessToken] = (),
    cache: ReplyCache | None = None,
    **changes: Any,
) -> Iterator[Browser]:
    access = Access(tokens, host="127.0.0.1")
    routes = page_routes(
        database,
        access,
        settings(**changes),
        backend or Backend(),
        now=lambda: NOW,
        cache=cache or ReplyCache(fresh_seconds=0.0),
    )
    with serve(*routes, token="the token of the metrics") as server:
        browser = Browser(server)
        try:
            yield browser
        finally:
            browser.close()


class MemoryPipeline:
    """A pipeline in memory: what a test says, and what the page did to it."""

    def __init__(self) -> None:
        self.labels: dict[str, NewLabel] = {}
        self.retracted: list[str] = []
        self.replayed: list[LetterPlace] = []

    def backend(self) -> Backend:
        return Backend(labels=self, review=self, letters=self, pipeline=self, explainer=self, paused_judges=self)

    def write(self, label: NewLabel) -> str:
        if label.evaluation_id == "none":
            raise BackendError("there is no such answer", HTTPStatus.NOT_FOUND)
        label_id = f"label-{len(self.labels)}"
        self.labels[label_id] = label
        return label_id

    def retract(self, label_id: str, *, who: str, may_retract_others: bool) -> None:
        if label_id not in self.labels:
            raise BackendError("there is no such label", HTTPStatus.NOT_FOUND)
        if self.labels[label_id].who != who and not may_retract_others:
            raise BackendError("it is the label of another reviewer", HTTPStatus.FORBIDDEN)
        self.retracted.append(label_id)

    def next_item(self, *, who: str, criterion: str | None) -> ReviewTurn:
        if criterion == "empty":
            return ReviewTurn(item=None, remaining=0)
        question = ReviewQuestion(
            name=criterion or "clarity",
            question="Is it clear?",
            levels=(
                ReviewLevel(option="fail", label="нет", score=0.0),
                ReviewLevel(option="pass", label="да", score=1.0),
            ),
        )
        item = ReviewItem(
            evaluation_id="e1",
            interaction_id=f"for {who}",
            probability=0.25,
            texts={"question": "q", "history": [], "contexts": [], "answer": "a", "reference": None},
            criterion=question,
        )
        return ReviewTurn(item=item, remaining=3)

    def list_letters(self, *, cursor: str | None, limit: int) -> LettersPage:
        if cursor not in {None, "next"}:
            raise BackendError("the cursor is not one of this page", HTTPStatus.BAD_REQUEST)
        values = {0: b'{"text": "\xd1\x80"}', 1: b"\x00\xff", 2: "я".encode()[:1]}
        letters = [
            ShownLetter(
                place=LetterPlace(partition=0, offset=offset),
                failed_at=datetime(2026, 3, 1, tzinfo=UTC),
                stage="sampler",
                reason="bad_json",
                message="not JSON <script>alert(1)</script>",
                source="rag.interactions/0@7",
                value=value,
                size=len(value) + (offset == 2),
                is_replayed=offset == 1,
            )
            for offset, value in values.items()
        ]
        return LettersPage(letters=letters[:limit], next_cursor="next" if cursor is None else None)

    def replay(self, places: Sequence[LetterPlace], *, who: str) -> ReplayOutcome:
        good = [place for place in places if place.offset < 100]
        self.replayed += good
        skipped = [SkippedLetter(place=place, why=f"gone, {who}") for place in places if place not in good]
        return ReplayOutcome(replayed=len(good), skipped=skipped)

    def state(self) -> PipelineState:
        return PipelineState(
            funnel=[FunnelStep(name="read", records=10)],
            lag=[GroupLag(group="g", topic="t", lag=5)],
            dead_letters=3,
            dead_letters_by_reason=[ReasonCount(stage="sampler", reason="bad_json", records=3)],
        )

    def count_waiting(self) -> int | None:
        return 5

    def explain(self, alert_id: str) -> AlertExplanation | str:
        if alert_id != "explained":
            return "it is being explained; look again in a minute"
        sheet = Sheet(title="By model", headings=("model", "change"), rows=(("m1", "-0.1"),), notes=("a note",))
        return AlertExplanation(sentences=["Model m1 is behind it."], sheets=[sheet])

    def list_paused(self) -> Mapping[str, str]:
        return {"gpt": "no answer for 60 s"}

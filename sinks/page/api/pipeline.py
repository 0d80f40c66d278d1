"""`/api/pipeline` and `/api/dead-letters`: the progress of the stages, dead letters and their replay."""

from typing import Any, TypeGuard

from sinks.page.access import Role, Visitor
from sinks.page.audit import AuditLog
from sinks.page.backend import BackendError, DeadLetterShelf, LetterPlace, Pipeline, ShownLetter
from sinks.page.endpoint import Endpoints
from sinks.page.replies import RefusedRequestError
from sinks.page.requests import read_body, read_limit, read_text
from sinks.web.routes import Request, Route

_MOST_REPLAYED = 500


def pipeline_routes(
    endpoints: Endpoints, pipeline: Pipeline | None, letters: DeadLetterShelf | None, audit: AuditLog
) -> tuple[Route, ...]:
    def show_pipeline(_request: Request, _visitor: Visitor) -> object:
        if pipeline is None:
            raise BackendError("this process has no access to the pipeline")
        state = pipeline.state()
        return {
            "funnel": [{"name": step.name, "records": step.records} for step in state.funnel],
            "lag": [{"group": lag.group, "topic": lag.topic, "lag": lag.lag} for lag in state.lag],
            "dead_letters": {
                "total": state.dead_letters,
                "by_reason": [
                    {"stage": count.stage, "reason": count.reason, "records": count.records}
                    for count in state.dead_letters_by_reason
                ],
            },
        }

    def list_letters(request: Request, _visitor: Visitor) -> object:
        page = _shelf(letters).list_letters(cursor=read_text(request, "cursor"), limit=read_limit(request))
        return {"letters": [_letter(letter) for letter in page.letters], "next": page.next_cursor}

    def replay(request: Request, visitor: Visitor) -> object:
        shelf, places = _shelf(letters), _places(read_body(request))
        numbers = [[place.partition, place.offset] for place in places]
        with audit.entry(visitor, "replay", {"letters": numbers}) as entry:
            outcome = shelf.replay(places, who=visitor.name or "")
            skipped = [_skipped_letter(letter.place, letter.why) for letter in outcome.skipped]
            entry.outcome = {"replayed": outcome.replayed, "skipped": skipped}
            return entry.outcome

    return (
        endpoints.get("/api/pipeline", show_pipeline, is_shared=True),
        endpoints.get("/api/dead-letters", list_letters, is_shared=True),
        endpoints.change("POST", "/api/dead-letters/replay", replay, role=Role.OPERATOR),
    )


def _shelf(letters: DeadLetterShelf | None) -> DeadLetterShelf:
    if letters is None:
        raise BackendError("this process cannot read the dead letters")
    return letters


def _letter(letter: ShownLetter) -> dict[str, object]:
    return {
        "partition": letter.place.partition,
        "offset": letter.place.offset,
        "at": letter.failed_at,
        "stage": letter.stage,
        "reason": letter.reason,
        "message": letter.message,
        "source": letter.source,
        **_bytes(letter.value, is_whole=len(letter.value) == letter.size),
        "size": letter.size,
        "replayed": letter.is_replayed,
    }


def _bytes(value: bytes, *, is_whole: bool) -> dict[str, str]:
    """Return bytes as text if they are UTF-8, even if the end was cut in the middle of a character."""
    try:
        return {"bytes_text": value.decode()}
    except UnicodeDecodeError as error:
        if not is_whole and error.reason == "unexpected end of data":
            return {"bytes_text": value[: error.start].decode()}
        return {"bytes_hex": value.hex()}


def _places(body: dict[str, Any]) -> list[LetterPlace]:
    letters = body.get("letters")
    if not isinstance(letters, list) or not 1 <= len(letters) <= _MOST_REPLAYED:
        raise RefusedRequestError(f"letters must be a list of 1 to {_MOST_REPLAYED} dead letters")
    return list(dict.fromkeys(_place(letter) for letter in letters))


def _place(letter: object) -> LetterPlace:
    partition, offset = (letter.get("partition"), letter.get("offset")) if isinstance(letter, dict) else (None, None)
    if not (_is_offset(partition) and _is_offset(offset)):
        raise RefusedRequestError("each letter must have a partition and an offset")
    return LetterPlace(partition=partition, offset=offset)


def _is_offset(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 2**63


def _skipped_letter(place: LetterPlace, why: str) -> dict[str, object]:
    return {"partition": place.partition, "offset": place.offset, "why": why}

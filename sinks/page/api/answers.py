"""`/api/answers`: answers by filters, and one answer in detail."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, Literal

from judges.composite.terms import explain_composite
from judges.panel import safety_choice
from judges.values.diagnosis import DiagnosisCell, diagnose
from judges.values.evaluation import CompositeStatus, Evaluation
from sinks.archive.database import Database
from sinks.archive.reading.answer import ArchivedAnswer, ArchivedLabel, find_answer
from sinks.archive.reading.answers import AnswerFilter, CursorError, find_answers
from sinks.archive.reading.filters import read_filter_values
from sinks.archive.reading.times import from_ms
from sinks.page.access import Visitor
from sinks.page.endpoint import Endpoints
from sinks.page.replies import RefusedRequestError
from sinks.page.requests import read_choice, read_limit, read_number, read_range, read_text
from sinks.page.settings import CurrentEvaluator, PageSettings
from sinks.page.shapes import answer_shape
from sinks.web.routes import Request, Route

_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_NO_TEXTS = "the texts of this answer are not in the archive: archive.texts is none, or they were deleted"


def answers_routes(
    endpoints: Endpoints, database: Database, settings: PageSettings, *, now: Callable[[], datetime]
) -> tuple[Route, ...]:
    def list_answers(request: Request, _visitor: Visitor) -> object:
        wanted, cursor = _read_filter(request, now()), read_text(request, "cursor")
        sort: Literal["worst", "newest"] = (
            "newest" if read_choice(request, "sort", ("worst", "newest"), "worst") == "newest" else "worst"
        )
        with database.read() as connection:
            try:
                page = find_answers(connection, wanted, sort=sort, cursor=cursor, limit=read_limit(request))
            except CursorError as error:
                raise RefusedRequestError(str(error)) from None
            filters = None if cursor is not None else read_filter_values(connection)
        reply: dict[str, object] = {
            "answers": [answer_shape(row) for row in page.answers],
            "next": page.next_cursor,
        }
        if filters is not None:
            reply["filters"] = {
                **filters,
                "statuses": [status.value for status in CompositeStatus],
                "diagnoses": [cell.value for cell in DiagnosisCell],
            }
        return reply

    def show_answer(request: Request, _visitor: Visitor) -> object:
        with database.read() as connection:
            answer = find_answer(connection, request.variables["id"])
        if answer is None:
            raise RefusedRequestError("the archive has no answer with this id", HTTPStatus.NOT_FOUND)
        return _answer(answer, settings)

    return (
        endpoints.get("/api/answers", list_answers, is_shared=True),
        endpoints.get("/api/answers/{id}", show_answer),
    )


def _read_filter(request: Request, now: datetime) -> AnswerFilter:
    tag = read_text(request, "tag")
    name, colon, value = (tag or "").partition(":")
    if tag is not None and not (name and colon):
        raise RefusedRequestError("tag must be a name and a value, such as region:eu")
    cell = read_choice(request, "diagnosis", ("", *DiagnosisCell), "")
    least, most = (read_number(request, bound, least=0.0, most=1.0) for bound in ("min", "max"))
    return AnswerFilter(
        period=read_range(request, now),
        app=read_text(request, "app"),
        model=read_text(request, "model"),
        tenant=read_text(request, "tenant"),
        tag=None if tag is None else (name, value),
        criterion=read_text(request, "criterion"),
        least=least,
        most=most,
        status=read_text(request, "status"),
        cell=None if cell == "" else DiagnosisCell(cell),
        disagreement=read_choice(request, "disagreement", ("0", "1"), "0") == "1",
        text=read_text(request, "q"),
        lane=read_text(request, "lane"),
    )


def _answer(answer: ArchivedAnswer, settings: PageSettings) -> dict[str, object]:
    terms, note = _composite(answer.record, settings.evaluator)
    return {
        "evaluation": answer.record,
        "texts": answer.texts,
        "texts_note": _NO_TEXTS if answer.texts is None else None,
        "composite_terms": terms,
        "composite_note": note,
        "diagnosis": _diagnosis(answer.record),
        "spans": [] if _is_redacted(answer) else _spans(answer.record),
        "trace_url": _trace_url(answer.trace_id, settings.trace_url),
        "labels": [_label(label) for label in answer.labels],
        "neighbours": answer.neighbours._asdict(),
    }


def _diagnosis(record: Mapping[str, Any]) -> str | None:
    try:
        return diagnose(Evaluation.model_validate(record))
    except ValueError:  # another version of Streamjury wrote it
        return None


def _composite(record: Mapping[str, Any], evaluator: CurrentEvaluator) -> tuple[list[dict[str, object]], str]:
    """Return the terms of the composite, recomputed from the verdicts, and a note on the rule that decided."""
    try:
        evaluation = Evaluation.model_validate(record)
    except ValueError:
        return [], "The composite of this record cannot be recomputed: another version of Streamjury wrote it."
    if evaluation.evaluator.fingerprint != evaluator.fingerprint:
        return [], (
            "This answer was judged with criteria, weights or judges that differ from the current configuration "
            f"(fingerprint {evaluation.evaluator.fingerprint}), so its composite cannot be broken down."
        )
    multi = evaluator.multi
    choice = None
    if multi.safety is not None and multi.safety in evaluation.dimensions:
        safety = evaluation.dimensions[multi.safety]
        choice = safety_choice(multi.criteria[multi.safety], safety, evaluator.safety_vote)
    explained = explain_composite(multi, evaluation.dimensions, choice)
    terms: list[dict[str, object]] = [
        {
            "criterion": term.criterion,
            "weight": term.weight,
            "score": term.score,
            "share": term.share,
            "role": term.role,
            "note": term.note,
        }
        for term in explained.terms
    ]
    return terms, explained.note


def _spans(record: Mapping[str, Any]) -> list[dict[str, object]]:
    """Return the panel's spans of the answer, each with the judges that agree."""
    spans: list[dict[str, object]] = []
    for dimension in record.get("dimensions", {}).values():
        # If the panel has no spans, those of its judges are ignored: contexts were truncated, and might support more.
        verdicts = [verdict for verdict in dimension.get("judges") or () if verdict.get("spans")]
        spans += [_span(span, _judges_of(span, verdicts)) for span in dimension.get("spans") or ()]
    return spans


def _is_redacted(answer: ArchivedAnswer) -> bool:
    """Return whether the archived answer differs from the logged one, to which spans refer."""
    return answer.texts is not None and bool(answer.texts.get("answer_is_redacted"))


def _span(span: Mapping[str, Any], judge: str | None) -> dict[str, object]:
    return {**{name: span.get(name) for name in ("start", "length", "verdict", "contexts")}, "judge": judge}


def _judges_of(span: Mapping[str, Any], verdicts: Sequence[Mapping[str, Any]]) -> str | None:
    place = ("start", "length", "verdict")
    names = [
        str(verdict["judge"])
        for verdict in verdicts
        if any(all(other.get(name) == span.get(name) for name in place) for other in verdict["spans"])
    ]
    return ", ".join(names) or None


def _trace_url(trace_id: str | None, template: str | None) -> str | None:
    if template is None or trace_id is None or not _TRACE_ID.fullmatch(trace_id):
        return None
    return template.replace("{trace_id}", trace_id)


def _label(label: ArchivedLabel) -> dict[str, object]:
    return {**label._asdict(), "at": from_ms(label.at)}

"""`/api/review` and `/api/labels`: answers to label, and labels."""

from sinks.page.access import Role, Visitor
from sinks.page.audit import AuditLog
from sinks.page.backend import BackendError, LabelWriter, NewLabel, ReviewItem, ReviewQueue
from sinks.page.endpoint import Endpoints
from sinks.page.requests import read_body, read_text, text_in
from sinks.web.routes import Request, Route

_LONGEST_COMMENT = 2000


def review_routes(
    endpoints: Endpoints, review: ReviewQueue | None, labels: LabelWriter | None, audit: AuditLog
) -> tuple[Route, ...]:
    def show_next(request: Request, visitor: Visitor) -> object:
        if review is None:
            raise BackendError("this process has no review queue")
        turn = review.next_item(who=visitor.name or "", criterion=read_text(request, "criterion"))
        return {"item": None if turn.item is None else _item(turn.item), "left": turn.remaining}

    def label(request: Request, visitor: Visitor) -> object:
        body, writer = read_body(request), _writer(labels)
        comment = text_in(body, "comment", longest=_LONGEST_COMMENT) if body.get("comment") else None
        new = NewLabel(
            evaluation_id=text_in(body, "evaluation_id"),
            criterion=text_in(body, "criterion"),
            option=text_in(body, "option"),
            who=visitor.name or "",
            comment=comment,
        )
        detail = {"evaluation_id": new.evaluation_id, "criterion": new.criterion, "option": new.option}
        with audit.entry(visitor, "label", detail) as entry:
            entry.outcome = {"label_id": writer.write(new)}
            return entry.outcome

    def retract(request: Request, visitor: Visitor) -> object:
        label_id, writer = request.variables["id"], _writer(labels)
        with audit.entry(visitor, "retract label", {"label_id": label_id}) as entry:
            writer.retract(label_id, who=visitor.name or "", may_retract_others=visitor.role is Role.OPERATOR)
            entry.outcome = {"retracted": True}
            return {}

    return (
        endpoints.get("/api/review/next", show_next, role=Role.REVIEWER),
        endpoints.change("POST", "/api/labels", label, role=Role.REVIEWER),
        endpoints.change("DELETE", "/api/labels/{id}", retract, role=Role.REVIEWER),
    )


def _writer(labels: LabelWriter | None) -> LabelWriter:
    if labels is None:
        raise BackendError("this process cannot write labels")
    return labels


def _item(item: ReviewItem) -> dict[str, object]:
    return {
        "evaluation_id": item.evaluation_id,
        "interaction_id": item.interaction_id,
        "probability": item.probability,
        "texts": dict(item.texts),
        "criterion": {
            "name": item.criterion.name,
            "question": item.criterion.question,
            "levels": [
                {"option": level.option, "label": level.label, "score": level.score} for level in item.criterion.levels
            ],
        },
    }

"""Labels on the wire: records follow the schema, and fields of later versions are kept."""

import json
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from judges.values.label import Label
from sinks.topics.results import LabelTopic
from stream.cli.main import main

LABEL = Label(
    label_id="8a6e0804-2bd0-4672-b79d-d97027f9071a",
    interaction_id="id-1",
    evaluation_id="84795152-0e64-568c-8bf7-6c59fb859432",
    criterion="groundedness",
    option="partial",
    score=0.5,
    who="ada",
    labelled_at=datetime(2026, 11, 16, 12, tzinfo=UTC),
    probability=0.05,
)


def schema() -> dict[str, Any]:
    printed: dict[str, Any] = json.loads(CliRunner().invoke(main, ["schema", "label"]).stdout)
    return printed


def test_a_label_is_published_under_the_id_of_its_interaction_as_the_schema_says() -> None:
    retraction = LABEL.model_copy(update={"option": None, "score": None, "retracts": LABEL.label_id})
    for label in (LABEL, retraction):
        (message,) = LabelTopic("rag.labels").messages(label)
        document = json.loads(message.value or b"")
        jsonschema.validate(document, schema())
        assert message.key == b"id-1"
        assert document.keys() == Label.model_fields.keys()
        assert Label.model_validate(document) == label


def test_fields_of_later_versions_are_kept() -> None:
    document = json.loads(LABEL.model_dump_json()) | {"queue": "adjudication"}
    assert json.loads(Label.model_validate(document).model_dump_json())["queue"] == "adjudication"


@pytest.mark.parametrize("change", [{"score": 1.5}, {"probability": 0.0}, {"labelled_at": "2026-11-16T12:00:00"}])
def test_values_that_would_spoil_a_mean_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Label.model_validate(LABEL.model_dump() | change)

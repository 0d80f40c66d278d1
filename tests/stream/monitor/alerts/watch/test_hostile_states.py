"""Stored states that no monitor wrote are refused or harmless, and only their own app starts over."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.values.label import Label, LabelKind
from stream.errors import RecordError
from stream.kafka.topics import STATE_BYTES
from stream.monitor.alerts.alert import moment
from stream.monitor.alerts.score_record import ScoreRecord
from stream.monitor.alerts.watch.app import AppWatch
from stream.monitor.alerts.watch.partition import PartitionWatch
from tests.stream.monitor.alerts.traffic import BEGIN, WRONG, Traffic, collect_alerts, plan_of

VERSIONS = [{"name": "new", "a": "m1", "b": "m2"}]
PLAN = plan_of(by=["model"], versions=VERSIONS)


def label_of(interaction: str, kind: LabelKind = "review") -> Label:
    return Label(
        label_id=f"l-{interaction}",
        interaction_id=interaction,
        criterion="groundedness",
        score=1.0,
        who="ada",
        labelled_at=moment(BEGIN),
        probability=0.05,
        kind=kind,
    )


@cache
def stored_states() -> dict[str, bytes]:
    """Return the states of an app with an open alert and two compared models, and of canaries with a judge change."""
    watch, traffic = PartitionWatch(PLAN, 0), Traffic()
    for number in range(300):
        means, judges = WRONG if number > 200 else {"groundedness": 1.0}, {"groundedness": {"local": 0.5}}
        watch.observe(traffic.next(means, model=f"m{number % 2 + 1}", judges=judges))
        if number % 10 == 0:
            watch.observe_label(label_of(f"shop-{number}"))
    watch.observe_label(label_of("c1", kind="anchor"))
    for number in range(200):
        watch.observe(traffic.anchor(f"c{number % 10}", 0.5, "good" if number < 100 else "bad"))
    return {key: value for key, value in watch.take_changes() if value is not None}


def exercise(watch: PartitionWatch) -> None:
    """Do everything that the monitor does with a state."""
    traffic = Traffic()
    traffic.number = 3000
    for number in range(8):
        live = traffic.next(WRONG, model=f"m{number % 2 + 1}", judges={"groundedness": {"local": 0.5}})
        for record in (live, traffic.anchor("c1", 0.5, "good")):
            watch.observe(record)
        watch.observe_label(label_of(live.interaction_id))
    for name, app in watch.apps.items():
        list(app.readings())
        list(app.comparisons(name))
        app.agreement.readings()
    watch.canaries.readings()
    for _key, value in watch.take_changes():
        assert value is not None
        json.loads(value, parse_constant=lambda name: pytest.fail(f"{name} is stored"))


def paths(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value of a document, including values in nested JSON texts."""
    if isinstance(node, str) and node.startswith("{"):
        yield from paths(json.loads(node), (*path, "{"))
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, child in children:
        yield from paths(child, (*path, name))
    yield path


def with_change(node: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    first, rest = path[0], path[1:]
    if first == "{":
        return json.dumps(with_change(json.loads(node), rest, value))
    copy = node.copy()
    copy[first] = with_change(node[first], rest, value)
    return copy


HOSTILE = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        3.5,
        -0.5,
        1e308,
        -1e308,
        5e-324,
        10**30,
        float("inf"),
        float("nan"),
        "",
        "x",
        [],
        [[]],
        {},
        {"a": 1},
        [0, 0, 0, 0, 0, 0],
        [1e308] * 6,
    ]
)


@pytest.mark.parametrize("key", ["app:shop", "canaries"])
@given(data=st.data())
@settings(max_examples=50)
def test_a_state_with_any_value_changed_is_refused_or_does_no_harm(key: str, data: st.DataObject) -> None:
    """The watch raises no exception except the one that reports that its state was given up."""
    document = json.loads(stored_states()[key])
    path = data.draw(st.sampled_from(list(paths(document))))
    watch = PartitionWatch(PLAN, 0)
    watch.restore({**stored_states(), key: json.dumps(with_change(document, path, data.draw(HOSTILE))).encode()})
    exercise(watch)


@pytest.mark.parametrize(
    "change",
    [
        {"evaluators": []},
        {"evaluators": {"f1": []}},
        {"included": {"reached": [], "recent": "", "count": 0}},
        {"announced": {}},
        {"v": 2},
    ],
)
def test_a_malformed_state_is_refused_by_its_key_and_the_others_are_restored(change: dict[str, Any]) -> None:
    watch = PartitionWatch(PLAN, 0)
    broken = json.dumps(json.loads(stored_states()["app:shop"]) | change).encode()
    watch.restore({"app:bank": broken, **stored_states()})
    assert {key: error.kind for key, error in watch.refused.items()} == {"app:bank": "bad_state"}
    assert list(watch.apps) == ["shop"]


@pytest.mark.parametrize("value", [b"[" * 200_000, b"Infinity", b'{"v":1,"included":Infinity}', b"", b"\xff"])
def test_an_invalid_document_is_refused(value: bytes) -> None:
    watch = PartitionWatch(PLAN, 0)
    assert watch.restore({"app:shop": value, "canaries": value}) == []
    assert set(watch.refused) == {"app:shop", "canaries"}


def test_only_the_state_that_fails_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = PartitionWatch(PLAN, 0)
    collect_alerts(watch, list(Traffic(app="bank").many(5)))
    collect_alerts(watch, list(Traffic().many(5)))
    bank, detect = watch.apps["bank"], AppWatch.detect

    def fail_once(app: AppWatch, record: ScoreRecord) -> Any:
        if app is bank:
            raise ZeroDivisionError("a defect")
        return detect(app, record)

    monkeypatch.setattr(AppWatch, "detect", fail_once)
    traffic = Traffic(app="bank")
    traffic.number = 100
    with pytest.raises(RecordError, match="a defect") as caught:
        watch.observe(traffic.next())
    assert caught.value.kind == "internal_error"
    assert (set(watch.apps), watch.forgotten) == ({"shop"}, ["bank"])
    assert dict(watch.take_changes())["app:bank"] is None
    watch.observe(traffic.next())
    assert set(watch.apps) == {"shop", "bank"}


def test_ids_of_interactions_never_make_a_state_too_large() -> None:
    """Clients choose these ids: up to 512 characters, each up to 12 bytes as JSON."""
    watch, traffic = PartitionWatch(PLAN, 0), Traffic()
    names = {f"criterion_{number:03}": 0.0 for number in range(190)}
    for number in range(8):
        watch.observe(traffic.next(names, interaction_id=f"{number}" + "\U0001f600" * 511))
    stored = dict(watch.take_changes())
    assert stored.keys() == {"app:shop", "answers:0"}
    for value in stored.values():
        assert value is not None
        assert len(value) < STATE_BYTES
    assert watch.apps, "the watch continues without examples"


def test_names_of_dimensions_never_make_a_state_too_large(caplog: pytest.LogCaptureFixture) -> None:
    app = "\U0001f600" * 256
    watch, traffic = PartitionWatch(PLAN, 0), Traffic(app=app)
    for fingerprint in range(8):
        traffic.fingerprint = f"{fingerprint}"
        watch.observe(traffic.next({f"{number:03}" + "\U0001f600" * 125: 1.0 for number in range(199)}))
    stored = dict(watch.take_changes())
    assert stored.keys() == {f"app:{app}", "answers:0"}
    assert stored[f"app:{app}"] is None
    assert "too large" in caplog.text
    assert list(watch.take_changes()) == [], "the state is given up once"
    watch.observe(traffic.next())
    assert dict(watch.take_changes())[f"app:{app}"] is not None

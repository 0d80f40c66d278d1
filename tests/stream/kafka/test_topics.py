"""The list of topics: each is created as configured, with room for the records it carries."""

import pytest

from stream.config.model import Config
from stream.config.sections.kafka import TopicsConfig
from stream.kafka.topics import TOPICS, plan_topics


@pytest.fixture
def config() -> Config:
    return Config.model_validate(
        {
            "topics": {"interactions": "in", "partitions": 12, "replication": 3, "retention_hours": 2},
            "input": {"limits": {"record_bytes": 2_000_000}},
        }
    )


def test_retry_and_overflow_topics_have_as_many_partitions_as_the_work_queue(config: Config) -> None:
    plans = {plan.name: plan.partitions for plan in plan_topics(config, {"rag.sampled": 30})}
    assert {plans[f"rag.{name}"] for name in ("retry.1", "retry.2", "retry.3", "overflow")} == {30}
    assert plans["rag.evaluations"] == 12


def test_every_topic_is_created_with_the_configured_numbers(config: Config) -> None:
    plans = {plan.name: plan for plan in plan_topics(config)}
    names = {"sampled", "evaluations", "critical", "deadletter", "scores", "detection", "alerts", "labels"}
    waiting = {"retry.1", "retry.2", "retry.3", "overflow"}
    assert set(plans) == {"in", *(f"rag.{name}" for name in names | waiting)}
    assert {(plan.partitions, plan.replication) for plan in plans.values()} == {(12, 3)}
    retained = [plan for plan in plans.values() if plan.name not in {"rag.alerts", "rag.detection", "rag.labels"}]
    assert {plan.settings["retention.ms"] for plan in retained} == {"7200000"}


def test_alerts_and_detector_states_are_compacted(config: Config) -> None:
    plans = {plan.name: plan.settings for plan in plan_topics(config)}
    assert {plans[name]["cleanup.policy"] for name in ("rag.alerts", "rag.detection")} == {"compact"}


def test_labels_are_kept_for_ever_all_of_them(config: Config) -> None:
    settings = next(plan.settings for plan in plan_topics(config) if plan.name == "rag.labels")
    assert settings == {"cleanup.policy": "delete", "retention.ms": "-1"}


def test_detector_states_have_as_many_partitions_as_the_scores(config: Config) -> None:
    plans = {plan.name: plan for plan in plan_topics(config, {"rag.scores": 5})}
    assert plans["rag.detection"].partitions == 5


def test_a_dead_letter_has_room_for_every_accepted_record(config: Config) -> None:
    sizes = {plan.name: int(plan.settings.get("max.message.bytes", 0)) for plan in plan_topics(config)}
    assert sizes["rag.deadletter"] >= sizes["in"] >= 10 * 1024 * 1024
    assert sizes["rag.sampled"] > 2_000_000


def test_a_larger_limit_makes_room_for_larger_records() -> None:
    config = Config.model_validate({"input": {"limits": {"record_bytes": 50_000_000}}})
    sizes = {plan.name: int(plan.settings.get("max.message.bytes", 0)) for plan in plan_topics(config)}
    assert min(sizes[name] for name in ("rag.interactions", "rag.sampled", "rag.deadletter")) > 50_000_000


def test_the_list_has_every_topic_of_the_configuration() -> None:
    named = {name for name, field in TopicsConfig.model_fields.items() if str(field.default).startswith("rag.")}
    assert set(TOPICS) == named | {"otlp"}
    assert {plan.role for plan in plan_topics(Config())} == named - {"spans", "traces"}


@pytest.mark.parametrize(("keyed", "spans"), [(True, []), (False, ["rag.spans"])])
def test_topics_of_spans_are_needed_only_with_spans_as_input(keyed: bool, spans: list[str]) -> None:
    config = Config.model_validate({"input": {"otlp": {"topics": ["a", "b"], "keyed": keyed}}})
    names = [plan.name for plan in plan_topics(config)]
    assert names[: 3 + len(spans)] == ["a", "b", *spans, "rag.traces"]


def test_topics_are_listed_in_the_order_records_pass_them() -> None:
    names = [plan.name for plan in plan_topics(Config())]
    assert names[:6] == ["rag.interactions", "rag.sampled", "rag.retry.1", "rag.retry.2", "rag.retry.3", "rag.overflow"]

"""Which calls on the broker are repeated, and for how long."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from stream.kafka import errors as brokererrors
from stream.kafka.errors import retry_call

AWAY = KafkaError(KafkaError._TRANSPORT, "away")


class Broker:
    """Fails with each of these errors in turn, and then answers."""

    def __init__(self, *errors: KafkaError) -> None:
        self._errors = list(errors)
        self.calls = 0

    def ask(self) -> str:
        self.calls += 1
        if self._errors:
            raise KafkaException(self._errors.pop(0))
        return "answer"


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokererrors, "_PAUSE_SECONDS", 0.0)


def test_a_call_is_repeated_while_the_broker_is_away_and_each_wait_is_told() -> None:
    broker = Broker(AWAY, KafkaError(KafkaError._TIMED_OUT), KafkaError(KafkaError._STATE, "later", retriable=True))
    told: list[int] = []
    assert retry_call(broker.ask, 60.0, waiting=lambda reason: told.append(reason.code())) == "answer"
    assert (broker.calls, told) == (4, [KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._STATE])


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(KafkaError._FENCED),
        KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED),
        KafkaError(KafkaError._TIMED_OUT, "undone", txn_requires_abort=True),
    ],
)
def test_what_repeating_would_not_help_is_raised_at_once(error: KafkaError) -> None:
    broker = Broker(error)
    with pytest.raises(KafkaException) as caught:
        retry_call(broker.ask, 60.0)
    assert (caught.value.args[0].code(), broker.calls) == (error.code(), 1)


def test_the_time_comes_to_an_end() -> None:
    broker = Broker(*[AWAY] * 9)
    with pytest.raises(KafkaException):
        retry_call(broker.ask, -1.0)
    assert broker.calls == 1

"""Which calls to the broker are retried, and for how long."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from stream.kafka import errors as brokererrors
from stream.kafka.errors import retry_call

AWAY = KafkaError(KafkaError._TRANSPORT, "away")


class Broker:
    """A broker that fails with each of these errors in turn and then answers."""

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


def test_a_call_is_retried_while_the_broker_is_away_and_each_wait_is_reported() -> None:
    broker = Broker(AWAY, KafkaError(KafkaError._TIMED_OUT), KafkaError(KafkaError._STATE, "later", retriable=True))
    codes: list[int] = []
    assert retry_call(broker.ask, 60.0, waiting=lambda error: codes.append(error.code())) == "answer"
    assert (broker.calls, codes) == (4, [KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._STATE])


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(KafkaError._FENCED),
        KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED),
        KafkaError(KafkaError._TIMED_OUT, "undone", txn_requires_abort=True),
    ],
)
def test_an_error_that_retrying_cannot_fix_is_raised_at_once(error: KafkaError) -> None:
    broker = Broker(error)
    with pytest.raises(KafkaException) as caught:
        retry_call(broker.ask, 60.0)
    assert (caught.value.args[0].code(), broker.calls) == (error.code(), 1)


def test_retries_end_after_the_given_time() -> None:
    broker = Broker(*[AWAY] * 9)
    with pytest.raises(KafkaException):
        retry_call(broker.ask, -1.0)
    assert broker.calls == 1

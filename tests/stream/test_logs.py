"""What the program's one log handler lets through."""

import logging

from stream.logs import NotAgain


def said(name: str, message: str) -> logging.LogRecord:
    return logging.LogRecord(name, logging.ERROR, __file__, 1, message, None, None)


def test_a_kafka_client_that_repeats_itself_is_heard_once() -> None:
    again = NotAgain()
    lost = (
        "FAIL [client] [thrd:main]: Connect to 127.0.0.1:9092 failed: Connection refused (after {}ms in state CONNECT)"
    )
    assert again.filter(said("stream.exchange", lost.format(0)))
    assert not again.filter(said("stream.exchange", lost.format(12)))
    assert again.filter(said("stream.exchange", "FAIL [client] [thrd:main]: SASL authentication error"))


def test_what_the_program_itself_says_is_never_held_back() -> None:
    again = NotAgain()
    assert all(again.filter(said("stream.worker", "3 records could not be committed")) for _ in range(3))

"""The log of id conflicts: immediately and by app, with at most a line a minute for each app."""

import pytest

from stream.worker.conflict_log import ConflictLog


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    messages = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return messages


def test_a_conflict_is_logged_at_once_and_further_ones_are_added_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("stream.worker.conflict_log.time.monotonic", lambda: now[0])
    subject = ConflictLog()
    subject.note("shop", "s-1#ab")
    subject.write()
    [line] = lines(caplog)
    assert line.startswith("1 record of app shop reused the id of a record with other content")
    assert "s-1#ab" in line
    for number in range(5):
        subject.note("shop", f"s-2#{number}")
        subject.write()
    subject.note(None, "s-3#ab")
    subject.write()
    [line] = lines(caplog)
    assert "of app unknown" in line
    now[0] += 60
    subject.write()
    [line] = lines(caplog)
    assert line.startswith("5 records of app shop ")
    subject.note("shop", "s-4#ab")
    subject.write(rest=True)
    assert len(lines(caplog)) == 1


def test_the_number_of_lines_is_bounded_for_any_number_of_apps(caplog: pytest.LogCaptureFixture) -> None:
    subject = ConflictLog()
    for number in range(1000):
        subject.note(f"app-{number}\n\x1b[2J", "s#ab")
    subject.write()
    messages = lines(caplog)
    assert len(messages) == 101
    assert messages[-1].startswith("900 records of other apps ")
    assert all(map(str.isprintable, messages))

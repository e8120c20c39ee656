"""Reasons for closing connections: the first of a kind is said at once, the others are counted."""

from __future__ import annotations

import pytest

from broker.net.complaints import INTERVAL_MS, KINDS_MAX, Complaints
from tests.support.fake_loop import FakeLoop


def test_repeats_are_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    loop = FakeLoop()
    complaints = Complaints(loop)
    for port in range(1000):
        complaints.closing(f"10.0.0.1:{port}", f"a frame of {port} bytes from 'client {port}'")
    complaints.closing("10.0.0.2:5", "a frame of 7 bytes from 'x'")
    assert caplog.messages == [
        "closing connection from 10.0.0.1:0: a frame of 0 bytes from 'client 0'",
        "closing connection from 10.0.0.2:5: a frame of 7 bytes from 'x'",
    ]
    caplog.clear()
    loop.advance(INTERVAL_MS)
    assert caplog.messages == [
        "connections from 10.0.0.1 closed beside that one in 10 s: 999, the last: "
        "a frame of 999 bytes from 'client 999'"
    ]
    complaints.closing("10.0.0.1:1", "a frame of 8 bytes from 'x'")
    assert len(caplog.messages) == 2, "an interval begins anew"


def test_another_reason_is_said_beside_the_first(caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints(FakeLoop())
    assert complaints.first("10.0.0.1:1", "too large")
    complaints.closing("10.0.0.1:1", "too large")
    assert not complaints.first("10.0.0.1:2", "too large")
    complaints.closing("10.0.0.1:1", "too small")
    assert len(caplog.messages) == 2


def test_lines_and_memory_are_bounded_whatever_hosts_and_reasons_there_are(caplog: pytest.LogCaptureFixture) -> None:
    loop = FakeLoop()
    complaints = Complaints(loop)
    for number in range(5000):
        letters = "".join(chr(ord("a") + int(digit)) for digit in str(number))
        complaints.closing(f"10.0.{number % 250}.1:9", f"{letters}:" * 1000)
    assert len(caplog.messages) == KINDS_MAX + 1
    assert max(map(len, caplog.messages)) < 400
    assert len(complaints._repeats) == KINDS_MAX + 1
    caplog.clear()
    loop.advance(INTERVAL_MS)
    (message,) = caplog.messages
    count = 5000 - KINDS_MAX - 1
    assert message.startswith(f"connections from 10.0.249.1 and others closed beside that one in 10 s: {count}, ")
    assert complaints.first("10.0.0.1:1", "a")

"""A link sees the end of a connection when it is asked to look, before the loop has come to it."""

from __future__ import annotations

import socket

import pytest

from broker.core.controller.suspicion import LinkEvent
from broker.net.link import Link
from broker.net.loop import EpollLoop
from tests.support.wait import eventually

pytestmark = pytest.mark.guarantee("C10")


def test_look_reports_an_end_without_a_turn_of_the_loop() -> None:
    loop = EpollLoop()
    events: list[LinkEvent] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        link = Link(loop, "127.0.0.1", server.getsockname()[1], events.append)
        accepted, _ = _accepted(loop, server, events)
        link.look()
        assert events == [LinkEvent.CONNECTED]
        accepted.close()

        def seen() -> bool:
            link.look()
            return LinkEvent.CLOSED in events

        eventually(seen, "the link has seen the end")
        assert events == [LinkEvent.CONNECTED, LinkEvent.CLOSED]
    link.close()
    loop.close()


def _accepted(loop: EpollLoop, server: socket.socket, events: list[LinkEvent]) -> tuple[socket.socket, object]:
    def connected() -> bool:
        loop.run_once(10)
        return LinkEvent.CONNECTED in events

    eventually(connected, "the link is connected")
    return server.accept()

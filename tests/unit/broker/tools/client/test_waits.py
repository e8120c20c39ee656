"""Waiting for descriptors: those of pipes and socket pairs, whatever number they have."""

from __future__ import annotations

import os
import socket

from broker.tools.client.waits import readable, writable
from tests.support.descriptors import many_descriptors


def test_what_can_be_read_or_is_broken_is_named() -> None:
    with many_descriptors():
        ours, theirs = socket.socketpair()
        broken, gone = os.pipe()
        os.close(gone)
        with ours, theirs:
            assert readable([ours.fileno()], 0) == set()
            theirs.send(b"x")
            assert readable([ours.fileno(), theirs.fileno(), broken], None) == {ours.fileno(), broken}
        os.close(broken)


def test_wait_without_an_end_is_one() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"x")
        assert readable([ours.fileno()], float("inf")) == {ours.fileno()}
        assert readable([ours.fileno()], 1e18) == {ours.fileno()}


def test_full_socket_takes_nothing() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert writable(ours.fileno(), 0)
        ours.setblocking(False)
        while writable(ours.fileno(), 0):
            ours.send(bytes(1 << 20))
        assert not writable(ours.fileno(), 0.001)

"""Brokers of a bootstrap list that have no address: said at once where there is no other."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

import pytest

from broker.tools.client.cluster import Cluster
from broker.tools.client.connection import Address
from broker.tools.client.errors import TimedOut, ToolError
from broker.tools.client.settings import ClientSettings


def cluster(*hosts: str) -> Cluster:
    bootstrap = tuple(Address(host, 1) for host in hosts)
    return Cluster(ClientSettings(bootstrap, "me", 0.2, 0.2, 0.05, 0.05, 0.1), sleep=lambda _: None)


def answer(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def refuse(*_: Any, **__: Any) -> Sequence[Any]:
        raise error

    monkeypatch.setattr(socket, "create_connection", refuse)


@pytest.mark.parametrize("hosts", [("a..b",), ("a" * 80, "a..b"), ("a..b", "a..b")])
def test_hosts_that_can_be_no_names_are_refused_at_once(hosts: tuple[str, ...]) -> None:
    with pytest.raises(ToolError, match=r"No resolvable bootstrap urls given in bootstrap\.servers: .*a\.\.b:1"):
        cluster(*hosts).metadata([])


def test_names_without_an_address_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
    with pytest.raises(ToolError, match=r"No resolvable bootstrap urls given in bootstrap\.servers: one:1,two:1"):
        cluster("one", "two").metadata([])


@pytest.mark.parametrize(
    "error", [socket.gaierror(socket.EAI_AGAIN, "Temporary failure"), ConnectionRefusedError(111, "refused")]
)
def test_what_may_come_back_is_waited_for(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    answer(monkeypatch, error)
    with pytest.raises(TimedOut):
        cluster("one").metadata([])

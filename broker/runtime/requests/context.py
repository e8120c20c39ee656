"""What all requests of one connection have in common: the listener that accepted it and who is at its other end.

Source: kafka.network.RequestChannel.Session and org.apache.kafka.common.requests.RequestContext, without the request's
header, which is in `Request`.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """Who sends requests, as ACLs and quotas name it. Source: KafkaPrincipal."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""Everybody on a listener without authentication. Source: KafkaPrincipal.ANONYMOUS."""


class RequestContext:
    """Made once per connection and shared by its requests, so that no request pays for what only ACLs or quotas read.

    listener: name of the configured listener (`listeners`), "" for a request that came through none.
    client_address: `host:port` of the other end.
    principal: ANONYMOUS on a PLAINTEXT listener; SASL or mutual TLS will set it once the other end is authenticated.
    """

    __slots__ = ("client_address", "listener", "principal")

    def __init__(self, listener: str, client_address: str, principal: Principal = ANONYMOUS) -> None:
        self.listener = listener
        self.client_address = client_address
        self.principal = principal

    def __repr__(self) -> str:
        return f"<{self.principal} at {self.client_address} by listener {self.listener}>"


NO_CONNECTION: Final = RequestContext("", "")
"""Of requests that came through no listener: those that a broker's own parts make."""

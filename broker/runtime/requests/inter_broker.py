"""Requests that brokers alone send: taken on the listener between brokers, and by option from brokers' addresses only.

Anybody who reaches a broker without ACLs could tell it that the cluster is empty. With `inter.broker.addresses.only` a
request of these APIs counts only where it comes from an address at which a broker is registered. An address that is not
known has the registrations read anew, once a second at most; the request waits for that. One that is still unknown then
has its connection closed, upon which a broker that has just registered connects again. Loop thread.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection
from typing import Final

from broker.runtime.requests.chain import Handler, handle_late
from broker.runtime.requests.denial import deny
from broker.runtime.requests.request import Request, refuse
from broker.wire.api import BETWEEN_BROKERS, ApiKey

READ_EVERY_MS: Final = 1000.0
_HELD_BYTES_MAX: Final = 64 << 20

ReadAddresses = Callable[[Callable[[Collection[str] | None], None]], None]
"""Read the addresses of all registered brokers, off the loop; the callback gets them on the loop, None where they
cannot be read.
"""


class InterBrokerGate:
    """Stands before the handlers of `BETWEEN_BROKERS`."""

    def __init__(self, listener: str, now_ms: Callable[[], float], read: ReadAddresses | None) -> None:
        """listener: by which brokers reach each other. read: None where any address will do."""
        self._listener = listener
        self._now_ms = now_ms
        self._read = read
        self._known: frozenset[str] = frozenset()
        self._loopback = False
        """Some broker is registered at an address of this host alone, so that all such addresses are brokers'."""
        self._held: list[tuple[Handler, Request]] = []
        self._held_bytes = 0
        self._reading = False
        self._read_ms = float("-inf")

    def before(self, api: ApiKey, handler: Handler) -> Handler:
        """What the route to this handler calls; the handler itself for an API of clients."""
        if api not in BETWEEN_BROKERS:
            return handler

        def handle(request: Request) -> None:
            if request.listener not in ("", self._listener):
                deny(request)
            elif self._read is None or not request.listener or self._knows(request):
                handler(request)
            else:
                self._hold(handler, request)

        return handle

    def _knows(self, request: Request) -> bool:
        address = _plain(request.context.client_address.rpartition(":")[0])
        return address in self._known or (self._loopback and _is_loopback(address))

    def _hold(self, handler: Handler, request: Request) -> None:
        waits = self._reading or self._now_ms() - self._read_ms >= READ_EVERY_MS
        if not waits or self._held_bytes + len(request.body) > _HELD_BYTES_MAX:
            self._refuse(request)
            return
        self._held.append((handler, request.with_own_body()))
        self._held_bytes += len(request.body)
        if not self._reading:
            self._reading = True
            self._read_ms = self._now_ms()
            assert self._read is not None
            self._read(self._learn)

    def _learn(self, addresses: Collection[str] | None) -> None:
        self._reading = False
        if addresses is not None:
            self._known = frozenset(map(_plain, addresses))
            self._loopback = any(map(_is_loopback, self._known))
        held, self._held, self._held_bytes = self._held, [], 0
        for handler, request in held:
            if not request.open:
                continue
            if self._knows(request):
                handle_late(handler, request)
            else:
                self._refuse(request)

    def _refuse(self, request: Request) -> None:
        name = ApiKey(request.api_key).name
        refuse(request, f"{name} is for brokers, and none is registered at this address")


def _plain(address: str) -> str:
    """An IPv4 address that came by an IPv6 socket is the IPv4 address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False

"""The broker's link to another one, over the simulation's network instead of sockets."""

from __future__ import annotations

from collections.abc import Callable

from broker.core.controller.suspicion import LinkEvent
from broker.net.link import CONNECT_TIMEOUT_MS, Link
from tests.support.simulation.loop import SimulatedLoop
from tests.support.simulation.network import Connection, Network


class SimulatedLink(Link):
    """What it does about each event is the broker's own."""

    _loop: SimulatedLoop  # type: ignore[assignment]

    def __init__(self, loop: SimulatedLoop, host: str, on_event: Callable[[LinkEvent], None], network: Network) -> None:
        self._host = host
        self._network = network
        self._connection: Connection | None = None
        super().__init__(loop, host, 0, on_event)  # type: ignore[arg-type]

    abandon = Link.close

    def look(self) -> None:
        """What has arrived is reported at the beginning of the next turn anyway."""

    def _connect(self) -> None:
        if self._closed:
            return
        loop, name = self._loop, self._loop.process.name
        self._timer = loop.call_later(CONNECT_TIMEOUT_MS, lambda: self._again(LinkEvent.UNREACHABLE))
        connection = self._connection = Connection(self._network, name, self._host, f"{name}:1")
        connection.connected = lambda: loop.arrive(lambda: self._on_connected(connection))
        connection.lost = lambda reason: loop.arrive(lambda: self._on_lost(connection, reason))
        connection.open()

    def _on_connected(self, connection: Connection) -> None:
        if connection is self._connection:
            self._is_connected()

    def _on_lost(self, connection: Connection, reason: str) -> None:
        if connection is not self._connection:
            return
        if self._connected:
            self._has_ended()
        else:
            self._again(LinkEvent.REFUSED if reason.startswith("refused") else LinkEvent.UNREACHABLE)

    def _drop(self) -> None:
        super()._drop()
        if self._connection is not None:
            self._connection.give_up()
            self._connection = None

"""A connection that carries nothing and shows when the other process ends: as `broker.net.link`, over the links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.core.controller.suspicion import LinkEvent
from broker.model.timers import TimerHandle
from tests.support.simulation.loop import SimulatedLoop
from tests.support.simulation.network import Connection, Network

_CONNECT_MS: Final = 1000.0
_RETRY_FIRST_MS: Final = 20.0
_RETRY_MAX_MS: Final = 500.0
_SOUND_MS: Final = 1000.0


class SimulatedLink:
    """Satisfies the failure detector's Link."""

    def __init__(self, loop: SimulatedLoop, host: str, on_event: Callable[[LinkEvent], None], network: Network) -> None:
        self._loop = loop
        self._host = host
        self._on_event = on_event
        self._network = network
        self._connection: Connection | None = None
        self._connected = False
        self._connected_ms = 0.0
        self._failures = 0
        self._timer: TimerHandle | None = None
        self._closed = False
        loop.call_soon(self._connect)

    def close(self) -> None:
        self._closed = True
        self._drop()

    abandon = close

    def look(self) -> None:
        """What has arrived is reported at the beginning of the next turn anyway."""

    def _connect(self) -> None:
        if self._closed:
            return
        loop, name = self._loop, self._loop.process.name
        self._timer = loop.call_later(_CONNECT_MS, lambda: self._again(LinkEvent.UNREACHABLE))
        connection = self._connection = Connection(self._network, name, self._host, f"{name}:1")
        connection.connected = lambda: loop.arrive(lambda: self._on_connected(connection))
        connection.lost = lambda reason: loop.arrive(lambda: self._on_lost(connection, reason))
        connection.open()

    def _on_connected(self, connection: Connection) -> None:
        if connection is self._connection:
            self._cancel_timer()
            self._connected, self._connected_ms = True, self._loop.now_ms()
            self._on_event(LinkEvent.CONNECTED)

    def _on_lost(self, connection: Connection, reason: str) -> None:
        if connection is not self._connection:
            return
        if not self._connected:
            self._again(LinkEvent.REFUSED if reason.startswith("refused") else LinkEvent.UNREACHABLE)
            return
        if self._loop.now_ms() - self._connected_ms >= _SOUND_MS:
            self._failures = 0
        delay_ms = 0.0 if self._failures == 0 else self._pause_ms()
        self._failures += 1
        self._drop()
        self._timer = self._loop.call_later(delay_ms, self._connect)
        self._on_event(LinkEvent.CLOSED)

    def _again(self, event: LinkEvent) -> None:
        self._drop()
        self._failures += 1
        self._timer = self._loop.call_later(self._pause_ms(), self._connect)
        self._on_event(event)

    def _pause_ms(self) -> float:
        return float(min(_RETRY_MAX_MS, _RETRY_FIRST_MS * 2 ** min(self._failures, 16)))

    def _drop(self) -> None:
        self._cancel_timer()
        if self._connection is not None:
            self._connection.give_up()
            self._connection = None
        self._connected = False

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

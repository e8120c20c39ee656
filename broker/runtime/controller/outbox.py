"""The controller's one door to the loop: what is handed over first happens first, so an `election` line is in the event
log before the LeaderAndIsr that it explains is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.core.controller.cluster_state import Broker
from broker.runtime.controller.channel_manager import ControllerChannels
from broker.runtime.controller.request_batch import Outgoing
from broker.runtime.ports import Loop

Emit = Callable[..., None]
"""emit(event, **fields) of the event log, on the loop's thread."""


class LoopOutbox:
    """Satisfies `controller_ports.Outbox`; called on the controller's thread."""

    def __init__(self, loop: Loop, channels: ControllerChannels, emit: Emit | None) -> None:
        self._loop = loop
        self._channels = channels
        self._emit = emit

    def set_brokers(self, brokers: Iterable[Broker]) -> None:
        wanted = list(brokers)
        self._loop.call_soon_threadsafe(lambda: self._channels.set_brokers(wanted))

    def send(self, requests: list[Outgoing]) -> None:
        if requests:
            self._loop.call_soon_threadsafe(lambda: self._channels.send(requests))

    def emit(self, event: str, **fields: object) -> None:
        emit = self._emit
        if emit is not None:
            self._loop.call_soon_threadsafe(lambda: emit(event, **fields))

"""The controller's thread hands requests and events to the loop's thread here, in one order.

So an `election` line is in the event log before the LeaderAndIsr that it explains is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.core.controller.cluster_state import Broker
from broker.runtime.controller.channel_manager import ControllerChannels
from broker.runtime.controller.request_batch import Outgoing
from broker.runtime.ports import Loop

Emit = Callable[..., None]
"""emit(event, *, of, **fields) of the event log (EventLog.emit_now), on the loop's thread."""


class LoopOutbox:
    """Satisfies `controller.ports.Outbox`; called on the controller's thread."""

    def __init__(self, loop: Loop, channels: ControllerChannels, emit: Emit | None) -> None:
        self._loop = loop
        self._channels = channels
        self._emit = emit

    def set_brokers(self, brokers: Iterable[Broker]) -> None:
        """Open channels to these registrations, close all others."""
        wanted = list(brokers)
        self._loop.call_soon_threadsafe(lambda: self._channels.set_brokers(wanted))

    def send(self, requests: list[Outgoing]) -> None:
        """Queue requests on the channels."""
        if requests:
            self._loop.call_soon_threadsafe(lambda: self._channels.send(requests))

    def emit(self, event: str, **fields: object) -> None:
        """Write a line to the event log, where there is one."""
        emit = self._emit
        if emit is not None:
            self._loop.call_soon_threadsafe(lambda: emit(event, **fields))

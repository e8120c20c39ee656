"""What a controller's thread does, without the thread."""

from __future__ import annotations

from broker.runtime.controller.controller import Controller


def handle_events(controller: Controller, *, and_metadata: bool = False) -> None:
    """Every event that is due now, and those that come of them. and_metadata: what follows a burst of events, too."""
    events = controller._events
    while not events._events.empty():
        name, event = events._events.get()
        events._queued.discard(name)
        events._handle(name, event)
        if and_metadata:
            events._handle("metadata", events._after_events)

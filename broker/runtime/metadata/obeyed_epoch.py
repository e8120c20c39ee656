"""Which controller this broker obeys: the newest of which it has carried out a request, of whichever kind.

Source: ReplicaManager.controllerEpoch, by which LeaderAndIsr, StopReplica and UpdateMetadata are judged alike.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.core.replication.fencing import check_controller_epoch
from broker.model.ids import Epoch
from broker.wire.errors import ErrorCode


class ObeyedEpoch:
    """The controller epoch of the last request that was carried out; each change is in the event log."""

    def __init__(self, emit: Callable[..., None] | None = None) -> None:
        """emit(event, **fields): a line of the event log."""
        self._emit = emit
        self.epoch: Epoch = -1

    def check(self, requested: Epoch) -> ErrorCode:
        """The error for a request of this controller epoch."""
        return check_controller_epoch(requested, self.epoch)

    def obey(self, requested: Epoch) -> None:
        """Its request is carried out now."""
        if requested == self.epoch:
            return
        self.epoch = requested
        if self._emit is not None:
            self._emit("obeyed", ce=requested)

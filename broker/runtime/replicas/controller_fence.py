"""Which requests of a controller are carried out: none of an older controller, none meant for another registration.

Source: ReplicaManager.becomeLeaderOrFollower (controllerEpoch), KIP-380 (broker epoch).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.core.replication.fencing import check_broker_epoch
from broker.model.repeats import Repeats
from broker.runtime.metadata.deleted_topic_ids import DeletedTopicIds
from broker.runtime.metadata.obeyed_epoch import ObeyedEpoch
from broker.wire.errors import ErrorCode

logger = logging.getLogger(__name__)


class ControllerFence:
    """Remembers the newest controller epoch, and which topic ids that controller has deleted."""

    def __init__(
        self, broker_epoch: Callable[[], int], now_ms: Callable[[], float], obeyed: ObeyedEpoch | None = None
    ) -> None:
        """broker_epoch: czxid of this broker's registration. obeyed: shared with who takes UpdateMetadata."""
        self._obeyed = obeyed or ObeyedEpoch()
        self._broker_epoch = broker_epoch
        self._repeats = Repeats(now_ms)
        self._controller_epoch = -1
        self.deleted_topic_ids = DeletedTopicIds()

    def check(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """The error for a request of an old controller, or for another registration; NONE remembers the epoch."""
        error = self._obeyed.check(controller_epoch)
        if error is not ErrorCode.NONE:
            self._warn(f"request of controller epoch {controller_epoch}", error, "a newer controller is known")
            return error
        registered = self._broker_epoch()
        error = check_broker_epoch(broker_epoch, registered)
        if error is not ErrorCode.NONE:
            self._warn(f"request for broker epoch {broker_epoch}", error, f"this broker's is {registered}")
            return error
        if controller_epoch > self._controller_epoch:
            self.deleted_topic_ids.clear()
        self._controller_epoch = controller_epoch
        self._obeyed.obey(controller_epoch)
        return ErrorCode.NONE

    def _warn(self, what: str, error: ErrorCode, why: str) -> None:
        """Whoever reaches this listener may send such requests all day."""
        self._repeats.log(logger, logging.WARNING, error.name, "%s refused with %s: %s", what, error.name, why)

"""Which controller a broker obeys, whichever request it comes by, and what the event log says of it."""

from __future__ import annotations

from typing import Any

import pytest

from broker.runtime.metadata.cache import MetadataCache
from broker.runtime.metadata.obeyed_epoch import ObeyedEpoch
from broker.runtime.replicas.controller_fence import ControllerFence
from broker.wire.errors import ErrorCode
from tests.support.metadata_updates import EPOCH, update

pytestmark = pytest.mark.guarantee("C2")


class Both:
    """Who takes UpdateMetadata, and who takes LeaderAndIsr and StopReplica, of one broker."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []
        obeyed = ObeyedEpoch(lambda event, **fields: self.lines.append((event, fields)))
        self.cache = MetadataCache("c", "PLAINTEXT", lambda: EPOCH, lambda topic: {}, lambda topic: None, obeyed)
        self.fence = ControllerFence(lambda: EPOCH, lambda: 0.0, obeyed)

    def metadata(self, epoch: int, broker_epoch: int = EPOCH) -> ErrorCode:
        return self.cache.update(update({}, controller_epoch=epoch, broker_epoch=broker_epoch))

    def obeyed(self) -> list[Any]:
        assert {event for event, _ in self.lines} <= {"obeyed"}
        return [fields["ce"] for _, fields in self.lines]


def test_no_request_of_an_older_controller_is_carried_out_whichever_the_newer_one_sent() -> None:
    both = Both()
    assert both.metadata(5) is ErrorCode.NONE
    assert both.fence.check(4, EPOCH) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert both.fence.check(6, EPOCH) is ErrorCode.NONE
    assert both.metadata(5) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert both.metadata(6) is ErrorCode.NONE


def test_event_log_has_a_line_for_each_controller_that_is_obeyed_and_none_for_who_is_refused() -> None:
    both = Both()
    assert both.obeyed() == []
    both.metadata(5)
    both.fence.check(5, EPOCH)
    both.fence.check(3, EPOCH)
    both.metadata(7, EPOCH - 1)
    both.fence.check(7, EPOCH + 1)
    both.fence.check(8, EPOCH)
    both.metadata(8)
    assert both.obeyed() == [5, 8]


def test_event_log_tells_also_of_an_older_controller_that_was_obeyed() -> None:
    lines: list[int] = []
    obeyed = ObeyedEpoch(lambda event, **fields: lines.append(fields["ce"]))
    for epoch in (5, 4, 4, 5):
        obeyed.obey(epoch)
    assert lines == [5, 4, 5]

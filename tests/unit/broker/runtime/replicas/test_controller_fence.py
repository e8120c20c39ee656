"""Which requests of a controller are carried out, and what the log says of the others."""

from __future__ import annotations

import pytest

from broker.runtime.replicas.controller_fence import ControllerFence
from broker.wire.errors import ErrorCode


def test_stale_requests_are_refused_and_leave_one_line_of_each_kind_an_interval(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    fence = ControllerFence(lambda: 33, lambda: now[0])
    assert fence.check(5, 33) is ErrorCode.NONE
    for epoch in range(5):
        assert fence.check(epoch, 33) is ErrorCode.STALE_CONTROLLER_EPOCH
        assert fence.check(6, 20 + epoch) is ErrorCode.STALE_BROKER_EPOCH
    assert fence.check(5, 33) is ErrorCode.NONE, "a refused request's epoch does not count"
    assert caplog.messages == [
        "request of controller epoch 0 refused with STALE_CONTROLLER_EPOCH: a newer controller is known",
        "request for broker epoch 20 refused with STALE_BROKER_EPOCH: this broker's is 33",
    ]
    now[0] = 60_000.0
    fence.check(1, 33)
    assert caplog.messages[2:] == [
        "request of controller epoch 1 refused with STALE_CONTROLLER_EPOCH: a newer controller is known"
        " (4 more like it before)"
    ]

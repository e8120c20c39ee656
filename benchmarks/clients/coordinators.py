"""Who coordinates a group or a transactional id: asked until somebody does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal

from benchmarks.clients.wire import Line, Wire, ask, frame
from benchmarks.process import BenchmarkFailed
from benchmarks.systems import BROKERS, Cluster
from broker.wire.errors import ErrorCode
from broker.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

_VERSION = 4
_KEYS_A_REQUEST = 1000
_PAUSE_S = 0.1
_TIMEOUT_S = 90.0
"""A coordinator's topic of 150 replicas is made by the first question."""
_TYPES = {"group": 0, "transaction": 1}
PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""Errors after which the same is asked again."""


def coordinators(cluster: Cluster, wire: Wire, kind: Literal["group", "transaction"], keys: Sequence[str]) -> list[int]:
    """Broker ids, one for each key. Raises BenchmarkFailed."""
    line = wire.connect(cluster.address(BROKERS[0]))
    found: list[int] = []
    deadline = time.monotonic() + _TIMEOUT_S
    while len(found) < len(keys):
        asked = list(keys[len(found) : len(found) + _KEYS_A_REQUEST])
        told = _told(wire, line, kind, asked)
        if all(error == 0 for _, error in told):
            found += [node for node, _ in told]
        elif time.monotonic() > deadline:
            raise BenchmarkFailed(
                f"{cluster.name}: no coordinator of {asked[0]}: errors {sorted({e for _, e in told})}"
            )
        else:
            wire.run_for(_PAUSE_S)
    return found


def _told(wire: Wire, line: Line, kind: str, keys: list[str]) -> list[tuple[int, int]]:
    """(broker id, error) of each key."""
    request = FindCoordinatorRequest(key_type=_TYPES[kind], coordinator_keys=keys)
    response = FindCoordinatorResponse.decode(_VERSION, ask(wire, line, frame(request, _VERSION)))
    by_key = {one.key: (one.node_id, one.error_code) for one in response.coordinators}
    return [by_key[key] for key in keys]

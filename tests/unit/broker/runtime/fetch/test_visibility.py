"""R4: consumers see what is committed and nothing else."""

from __future__ import annotations

import pytest

from tests.support.memory_cluster import fetched, values_of
from tests.support.settled_cluster import settled


@pytest.mark.guarantee("R4")
@pytest.mark.parametrize("api_wait_ms", [0, 500])
def test_consumer_sees_only_what_is_committed(api_wait_ms: int) -> None:
    cluster = settled()
    cluster.produce(1, "a")
    cluster.settle()
    cluster.hold = lambda message: message.source == 3
    cluster.produce(1, "b", acks=1)
    cluster.settle()
    assert values_of(fetched(cluster.fetch(1, 0, max_wait_ms=api_wait_ms))) == ["a"]
    tail = cluster.fetch(1, 1, max_wait_ms=api_wait_ms)
    cluster.advance(api_wait_ms)
    assert values_of(fetched(tail)) == []
    visible = cluster.nodes[1].event_log.of("visible")
    assert [(line["upto"], line["hw"]) for line in visible] == [(1, 1)]

"""The high watermark that a broker starts with is the last that it wrote down."""

from __future__ import annotations

from tests.support.settled_cluster import settled


def test_high_watermark_checkpoint_survives_a_kill() -> None:
    cluster = settled()
    cluster.produce(1, "a")
    cluster.advance(6000)
    cluster.kill(2)
    cluster.start(2, tell=False)
    assert cluster.nodes[2].hw == 1


def test_clean_shutdown_leaves_the_last_watermark() -> None:
    cluster = settled()
    cluster.produce(1, "a")
    cluster.settle()
    cluster.nodes[1].up.shutdown(clean=True)
    assert cluster.nodes[1].store.checkpointed[cluster.nodes[1].log.topic_partition] == 1

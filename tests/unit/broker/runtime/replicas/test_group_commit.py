"""A leader's own part of the watermark under group commit: what a flush brought to disk, not what was written since."""

from __future__ import annotations

from tests.support.memory_cluster import MemoryCluster, produced


def test_flush_that_ends_commits_what_was_written_before_it_began() -> None:
    cluster = MemoryCluster(1, 1, {"flush.policy": "group-commit"})
    cluster.settle()
    cluster.stalled_disks = {1}
    before = cluster.produce(1, "before the flush")
    cluster.settle()
    behind = cluster.produce(1, "while it is under way")
    cluster.settle()
    node = cluster.nodes[1]
    assert (node.log.log_end_offset, node.log.recovery_point, node.hw) == (2, 0, 0)

    node.log.finish_commits()
    cluster.settle()

    assert (node.log.log_end_offset, node.log.recovery_point, node.hw) == (2, 1, 1)
    result = produced(before)
    assert result is not None
    assert result.error == 0
    assert not behind.done


def test_log_that_is_held_is_flushed_once_it_is_released() -> None:
    cluster = MemoryCluster(1, 1, {"flush.policy": "group-commit"})
    cluster.settle()
    node = cluster.nodes[1]
    replica = node.up.replicas.by_partition[node.log.topic_partition]
    commits = node.up.group_commit
    commits.hold(replica)
    held = cluster.produce(1, "while another log is about to take its place")
    cluster.settle()
    assert (node.log.log_end_offset, node.log.recovery_point, node.hw) == (1, 0, 0)
    assert not held.done

    commits.release(replica)
    cluster.settle()

    assert (node.log.recovery_point, node.hw) == (1, 1)
    assert held.done

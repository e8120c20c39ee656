"""How far a partition is committed: the high watermark.

HW is exclusive: every offset below it is on all of the required replicas. It never moves back within a leader epoch,
and does not rise while the committed ISR is short of min.insync.replicas (KAFKA-15583).
Source: kafka.cluster.Partition.maybeIncrementLeaderHW; KIP-497 (maximal ISR).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

UNKNOWN_OFFSET = -1


def effective_min_isr(min_insync_replicas: int, replication_factor: int) -> int:
    """min.insync.replicas clamped to the number of replicas that there are."""
    return min(min_insync_replicas, replication_factor)


def high_watermark(leo: Mapping[int, int], required: Collection[int], current: int) -> int:
    """First offset not yet on every required replica; never moves back.

    required: the maximal ISR, leader included, plus caught-up joiners. The min-ISR gate is the caller's. A required
    replica of which nothing is known holds the watermark where it is.
    """
    assert required
    return max(current, min(leo.get(broker, UNKNOWN_OFFSET) for broker in required))


def follower_high_watermark(leader_high_watermark: int, own_leo: int, current: int) -> int:
    """What a follower may take for committed after a response of its leader: never past its own log's end.

    It does not move back while the follower follows; a truncation below it is what lowers it.
    """
    return max(current, min(leader_high_watermark, own_leo))

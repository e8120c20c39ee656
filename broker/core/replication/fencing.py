"""Who is out of date: controllers, brokers, leaders, requests.

Every refusal is an `ErrorCode`; NONE means go on. An older epoch is always refused, a newer one is either taken
(controller, LeaderAndIsr) or refused as not known yet (leader epoch of a request).
Source: KIP-320, KIP-380 (broker epoch), KIP-497; ReplicaManager.becomeLeaderOrFollower, Partition.
"""

from __future__ import annotations

from broker.wire.errors import ErrorCode

NO_EPOCH = -1


def check_current_leader_epoch(requested: int, own: int) -> ErrorCode:
    """A request's current_leader_epoch against the partition's; −1 in the request asks for no check."""
    if requested in (NO_EPOCH, own):
        return ErrorCode.NONE
    if requested < own:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def check_controller_epoch(requested: int, seen_max: int) -> ErrorCode:
    """A controller's request against the largest controller epoch that this broker has seen."""
    return ErrorCode.STALE_CONTROLLER_EPOCH if requested < seen_max else ErrorCode.NONE


def check_broker_epoch(requested: int, registered: int) -> ErrorCode:
    """A controller's request is for one registration of this broker; −1 asks for no check.

    A request for an earlier registration is stale. One for a later registration than this broker knows of can arrive
    before ZooKeeper's response to its own registration: it is refused as stale as well, and the controller sends it
    again.
    """
    if requested in (NO_EPOCH, registered):
        return ErrorCode.NONE
    return ErrorCode.STALE_BROKER_EPOCH


def check_state_change(
    leader_epoch: int, partition_epoch: int, own_leader_epoch: int, own_partition_epoch: int
) -> ErrorCode:
    """Whether LeaderAndIsr's state for a partition is news.

    A larger leader epoch always is. Within one leader epoch only a larger partition epoch is: an equal one may be the
    very state on which an AlterPartition in flight rests, and taking it would forget the pending joiner.
    """
    if leader_epoch > own_leader_epoch:
        return ErrorCode.NONE
    if leader_epoch == own_leader_epoch and partition_epoch > own_partition_epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_CONTROLLER_EPOCH


def check_follower_broker_epoch(requested: int, known: int) -> ErrorCode:
    """A follower's fetch against the newest broker epoch seen of it: an older one is a dead incarnation's."""
    if requested != NO_EPOCH and requested < known:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE

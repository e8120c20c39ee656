"""What ends with a replica's role: its fetching, and every wait for what it has staged or deleted.

Source: Partition.makeFollower, ReplicaManager.stopReplicas (completeDelayedOperationsWhenNotPartitionLeader).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from broker.model.ids import BrokerId, Epoch
from broker.runtime.replicas.append import Appender
from broker.runtime.replicas.delete_records import DeleteRecordsHandler
from broker.runtime.replicas.replica import Replica
from broker.wire.errors import ErrorCode


class Fetchers(Protocol):
    """Fetches what this broker follows."""

    def follow(self, replica: Replica, leader: BrokerId, leader_epoch: Epoch) -> None:
        """Fetch from leader, from the end of the replica's log."""
        ...

    def unfollow(self, replica: Replica) -> None:
        """Fetch the replica from no leader; harmless for one that is not followed."""
        ...


class Resignation:
    """Takes roles from replicas."""

    def __init__(
        self,
        appender: Appender,
        delete_records: DeleteRecordsHandler,
        fetchers: Fetchers,
        write: Callable[[Replica], None],
        on_role_change: Callable[[Replica], None],
    ) -> None:
        """write: puts a leader's staged appends in its file. on_role_change: fetches that wait here are read again."""
        self._appender = appender
        self._delete_records = delete_records
        self._fetchers = fetchers
        self._write = write
        self._on_role_change = on_role_change

    def resign(self, replica: Replica, error: ErrorCode) -> None:
        """No role any more: requests that wait get the error, fetches that wait look again."""
        self._write(replica)
        self._fetchers.unfollow(replica)
        replica.partition.resign()
        self.fail_waits(replica, error)

    def fail_waits(self, replica: Replica, error: ErrorCode) -> None:
        """This replica confirms nothing that it staged or deleted as leader."""
        self._appender.fail_waits(replica, error)
        self._delete_records.fail_waits(replica, error)
        self._on_role_change(replica)

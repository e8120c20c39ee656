"""Which leaders this broker fetches from: one fetcher per leader broker.

Source: kafka.server.ReplicaFetcherManager, AbstractFetcherManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.config.settings import Settings
from broker.model.ids import BrokerId, Epoch
from broker.runtime.event_log import EventLog
from broker.runtime.follower.replica_fetcher import ReplicaFetcher
from broker.runtime.follower.response_processor import ResponseProcessor
from broker.runtime.ports import Loop, Peer
from broker.runtime.replicas.group_commit import GroupCommit
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas
from broker.runtime.replicas.replication_quotas import ReplicationQuotas
from broker.runtime.replicas.truncation import ReplicaTruncation

logger = logging.getLogger(__name__)

Peers = Callable[[BrokerId], Peer | None]
"""The fetch connection to a broker, made on first use with this broker's fetcher client id; None: address unknown."""


class ReplicaFetcherManager:
    """Makes a fetcher when its leader is first followed. `woken`: those that send at the end of this turn, by id."""

    def __init__(
        self,
        replicas: Replicas,
        settings: Settings,
        loop: Loop,
        event_log: EventLog | None,
        peers: Peers,
        broker_epoch: Callable[[], int],
        quotas: ReplicationQuotas,
        group_commit: GroupCommit,
        truncation: ReplicaTruncation,
        processor: ResponseProcessor,
    ) -> None:
        self._replicas = replicas
        self._settings = settings
        self._loop = loop
        self._event_log = event_log
        self._peers = peers
        self._broker_epoch = broker_epoch
        self._quotas = quotas
        self._group_commit = group_commit
        self._truncation = truncation
        self._processor = processor
        self.fetchers: dict[BrokerId, ReplicaFetcher] = {}
        self.woken: dict[int, ReplicaFetcher] = {}

    def follow(self, replica: Replica, leader: BrokerId, leader_epoch: Epoch) -> None:
        """Fetch from leader, from the end of the replica's log."""
        fetcher = self.fetchers.get(leader)
        if fetcher is None:
            fetcher = self.fetchers[leader] = ReplicaFetcher(
                leader,
                self._replicas,
                self._settings,
                self._loop,
                self._event_log,
                self._peers,
                self._broker_epoch,
                self._quotas,
                self._group_commit,
                self._truncation,
                self._processor,
                self.wake,
            )
        fetcher.add(replica, leader_epoch)

    def unfollow(self, replica: Replica) -> None:
        """Fetch the replica from no leader; harmless for one that is not followed."""
        for fetcher in self.fetchers.values():
            if fetcher.follows(replica):
                # Group commit may have held the fetcher back for this replica, whose flush it need not await any more.
                self.wake(fetcher)
            fetcher.remove(replica)

    def close(self) -> None:
        """Forget all fetchers; responses in flight count no more."""
        for fetcher in self.fetchers.values():
            fetcher.close()
        self.fetchers.clear()

    def on_flushed(self, replica: Replica) -> None:
        """Group commit has a follower's log on disk: the next fetch may say so to its leader."""
        for fetcher in self.fetchers.values():
            if fetcher.follows(replica):
                self.wake(fetcher)

    def retry_all(self) -> None:
        """Addresses or live brokers have changed: no fetcher waits for the end of its pause."""
        for fetcher in self.fetchers.values():
            fetcher.retry_now()

    def wake(self, fetcher: ReplicaFetcher) -> None:
        """Let the fetcher send at the end of this turn, after the log writes."""
        self.woken[id(fetcher)] = fetcher

    def finish_turn(self) -> None:
        """After the turn's log writes: what was woken sends what there is to send."""
        if self.woken:
            woken, self.woken = self.woken, {}
            for fetcher in woken.values():
                try:
                    fetcher.maybe_send()
                except Exception as error:
                    # What one leader's fetcher got wrong ends neither the others' replication nor the broker.
                    logger.exception("fetch from broker %d cannot be sent", fetcher.leader)
                    fetcher.fail(f"cannot be sent, {type(error).__name__}")

"""Which replication is throttled, and whether it may go on now. Loop thread.

Only replicas that are named by their topic's `*.replication.throttled.replicas` are, only while the broker has a rate,
and only while the follower is not in sync: a throttle never pushes a replica out of the ISR. What in-sync followers
move counts against the rate all the same. `leader` and `follower` are None while nothing is throttled, so that the
fetch path pays one look for it.
Source: kafka.server.ReplicationQuotaManager, ReplicaManager.shouldLeaderThrottle; KIP-73.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.core.admin.alter_configs import FOLLOWER_REPLICAS, LEADER_REPLICAS
from broker.core.quotas.replication import RateWindow
from broker.model.ids import BrokerId

_ALL = None
Partitions = frozenset[int] | None
"""None: all of the topic's."""


class Throttle:
    """One direction: rate, throttled partitions by topic, what was moved."""

    __slots__ = ("_partitions", "_rate", "_window")

    def __init__(self, rate: int, partitions: Mapping[str, Partitions], window: RateWindow) -> None:
        self._rate = rate
        self._partitions = partitions
        self._window = window

    def covers(self, topic: str, partition: int) -> bool:
        """Whether the topic's settings name this partition's replica on this broker."""
        if topic not in self._partitions:
            return False
        listed = self._partitions[topic]
        return listed is _ALL or partition in listed

    def record(self, count_bytes: int, now_ms: float) -> None:
        """Bytes moved in this direction, of throttled partitions and of in-sync followers."""
        self._window.record(count_bytes, now_ms)

    def exceeded(self, now_ms: float) -> bool:
        """Whether the rate of the window is above what is allowed: throttled partitions pause."""
        return self._window.bytes_per_s(now_ms) > self._rate


class ReplicationQuotas:
    """Both directions of one broker."""

    def __init__(self, broker_id: BrokerId, samples: int, window_ms: float) -> None:
        self._broker_id = broker_id
        self._windows = (RateWindow(samples, window_ms), RateWindow(samples, window_ms))
        self._rates: tuple[int | None, int | None] = (None, None)
        self._listed: tuple[dict[str, Partitions], dict[str, Partitions]] = ({}, {})
        self.leader: Throttle | None = None
        self.follower: Throttle | None = None

    def set_rates(self, leader: int | None, follower: int | None) -> None:
        """Bytes per second; None: no throttle."""
        self._rates = (leader, follower)
        self._arm()

    def set_topic(self, topic: str, overrides: Mapping[str, str]) -> None:
        """A topic's settings as they are now."""
        for listed, name in zip(self._listed, (LEADER_REPLICAS, FOLLOWER_REPLICAS), strict=True):
            partitions = throttled_partitions(overrides.get(name, ""), self._broker_id)
            if partitions is not _ALL and not partitions:
                listed.pop(topic, None)
            else:
                listed[topic] = partitions
        self._arm()

    def _arm(self) -> None:
        throttles = [
            Throttle(rate, listed, window) if rate is not None and listed else None
            for rate, listed, window in zip(self._rates, self._listed, self._windows, strict=True)
        ]
        self.leader, self.follower = throttles


def throttled_partitions(text: str, broker_id: BrokerId) -> Partitions:
    """Partitions whose replica on this broker a list names: `*` for all, or `partition:broker,…`."""
    text = text.strip()
    if text == "*":
        return _ALL
    pairs = [item.split(":") for item in text.split(",") if item]
    return frozenset(int(partition) for partition, broker in pairs if int(broker) == broker_id)

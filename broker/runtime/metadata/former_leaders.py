"""Who led which topics until a moment ago.

librdkafka drops a broker as soon as a Metadata response leaves it out, and with it the partitions that it still counts
as led by that broker, although the same response names their new leader: it looks for them again a second later. So a
broker whose process is gone stays in responses about topics that it led, until the clients that used it have asked.
"""

from __future__ import annotations

from collections.abc import Set

from broker.model.ids import BrokerId
from broker.runtime.ports import Loop

_REMEMBERED_MS = 3000.0
"""librdkafka looks for partitions without a leader every second. franz-go asks at most every five, and turns to a
coordinator that is gone as long as it is told of that broker: remembered for longer, it would do so for five more."""


class FormerLeaders:
    """What `note` was told in the last three seconds."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._until_ms: dict[BrokerId, dict[str, float]] = {}

    def note(self, topic: str, leader: BrokerId) -> None:
        """A partition of the topic has another leader than this one, or none, from now on."""
        now_ms = self._loop.now_ms()
        remembered = self._until_ms.setdefault(leader, {})
        remembered.pop(topic, None)
        remembered[topic] = now_ms + _REMEMBERED_MS
        while remembered[oldest := next(iter(remembered))] <= now_ms:
            del remembered[oldest]

    def led(self, broker: BrokerId, topics: Set[str] | None) -> bool:
        """Whether the broker led a partition of one of the topics until a moment ago; None: of any topic."""
        now_ms = self._loop.now_ms()
        remembered = self._until_ms.get(broker, {})
        asked = remembered if topics is None else remembered.keys() & topics
        return any(remembered[topic] > now_ms for topic in asked)

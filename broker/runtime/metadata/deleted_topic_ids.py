"""Topic ids that never come back, though late requests may still name them.

A connection that was given up can deliver for seconds, not for days: the newest ids are enough, and a cluster whose
topics come and go must not keep them all.
"""

from __future__ import annotations

KEPT = 10_000


class DeletedTopicIds:
    """Ids of topics that the controller of now deleted, or replaced by others of their names; the newest KEPT."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def __contains__(self, topic_id: str) -> bool:
        return topic_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, topic_id: str) -> None:
        """This topic is deleted, or another topic has taken its name; forgets the oldest beyond KEPT."""
        self._ids.pop(topic_id, None)
        self._ids[topic_id] = None
        if len(self._ids) > KEPT:
            del self._ids[next(iter(self._ids))]

    def clear(self) -> None:
        """Forget all: another controller's first update decides anew which topics exist."""
        self._ids.clear()

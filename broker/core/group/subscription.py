"""Which topics a consumer's metadata subscribes to.

Read as version 0 of the consumer protocol, which all later versions begin with.
Source: ConsumerProtocolSubscription.json; kafka.coordinator.group.GroupMetadata.computeSubscribedTopics.
"""

from __future__ import annotations

from typing import Final

from broker.wire.primitives import MalformedFrame, Reader

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_TOPIC_BYTES_MIN: Final = 2


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """None where the bytes are no subscription."""
    reader = Reader(metadata)
    try:
        reader.int16("version")
        topics = frozenset(
            reader.string("topic", compact=False)
            for _ in range(reader.count("topics", compact=False, element_size_min=_TOPIC_BYTES_MIN))
        )
        reader.nullable_bytes("user data", compact=False)
    except MalformedFrame:
        return None
    return topics

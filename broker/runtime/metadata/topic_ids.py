"""New topic ids. Source: org.apache.kafka.common.Uuid; KIP-516."""

from __future__ import annotations

import base64
import uuid


def new_topic_id() -> str:
    """16 random bytes in Kafka's base64 form, not beginning with a dash, which command lines take for an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text

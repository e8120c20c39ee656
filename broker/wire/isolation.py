"""Isolation levels of Fetch and ListOffsets requests. Source: org.apache.kafka.common.IsolationLevel; KIP-98."""

from __future__ import annotations

from typing import Final

READ_UNCOMMITTED: Final = 0
"""Up to the watermark."""

READ_COMMITTED: Final = 1
"""Up to the last stable offset, and the response names the transactions that were aborted."""

"""Timestamps with a special meaning in ListOffsets. Source: ListOffsetsRequest (Kafka); KIP-734."""

LATEST = -1
"""The end of the log."""
EARLIEST = -2
"""Its start."""
MAX_TIMESTAMP = -3
"""The record with the largest timestamp."""
EARLIEST_LOCAL = -4
"""The start of what is not in remote storage alone (KIP-405)."""
LATEST_TIERED = -5
"""The end of what is in remote storage (KIP-1005)."""

"""Timestamps with a special meaning in ListOffsets. Source: ListOffsetsRequest (Kafka); KIP-734."""

LATEST = -1
"""The end of the log."""
EARLIEST = -2
"""Its start."""
MAX_TIMESTAMP = -3
"""The record with the largest timestamp."""

"""Which partition of an internal topic coordinates a group or a transactional id, as clients of Kafka know it.

Pure. Source: java.lang.String.hashCode, org.apache.kafka.common.utils.Utils.abs; GroupMetadataManager.partitionFor,
TransactionStateManager.partitionFor.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

TOPICS: Final[Mapping[str, str]] = {"group": "__consumer_offsets", "transaction": "__transaction_state"}
"""By what is coordinated."""


def partition_of(key: str, partitions: int) -> int:
    """The partition whose leader coordinates the key."""
    value = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    signed = value - (1 << 32) if value & 0x80000000 else value
    return (0 if signed == -0x80000000 else abs(signed)) % partitions


def partitions_of(keys: Collection[str], partitions: int) -> Sequence[int]:
    """Of all these keys, rising; all there are where no key is named."""
    return sorted({partition_of(key, partitions) for key in keys}) if keys and partitions else range(partitions)

"""Which partition of an internal topic a group or a transactional id belongs to. Pure.

Source: java.lang.String.hashCode, org.apache.kafka.common.utils.Utils.abs; GroupMetadataManager.partitionFor,
TransactionStateManager.partitionFor.
"""

from __future__ import annotations

from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"

_MODULUS: Final = 1 << 32
_SIGN: Final = 1 << 31


def java_hash(text: str) -> int:
    """The hash that Java gives a String: over its UTF-16 code units, as a signed 32-bit number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) % _MODULUS
    return value - _MODULUS if value & _SIGN else value


def partition_of(key: str, partitions: int) -> int:
    """The partition, 0 ≤ it < partitions, that a coordinator of this key leads."""
    value = java_hash(key)
    return (0 if value == -_SIGN else abs(value)) % partitions

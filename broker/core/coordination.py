"""Which partition of an internal topic a group or a transactional id belongs to. Pure.

Source: java.lang.String.hashCode, org.apache.kafka.common.utils.Utils.abs; GroupMetadataManager.partitionFor,
TransactionStateManager.partitionFor.
"""

from __future__ import annotations

import sys
from array import array
from operator import mul
from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"

_MODULUS: Final = 1 << 32
_SIGN: Final = 1 << 31
_UNITS: Final = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
_CHUNK: Final = 256
_POWERS: Final = tuple(pow(31, power, _MODULUS) for power in reversed(range(_CHUNK)))
_CHUNK_POWER: Final = pow(31, _CHUNK, _MODULUS)


def java_hash(text: str) -> int:
    """The hash that Java gives a String: over its UTF-16 code units, as a signed 32-bit number.

    By chunks, without a step of Python for each unit: an id may have 32 KiB, and every request asks for its partition.
    """
    units = array("H", text.encode(_UNITS, "surrogatepass"))
    first = len(units) % _CHUNK
    value: int = sum(map(mul, units[:first], _POWERS[_CHUNK - first :]))
    for at in range(first, len(units), _CHUNK):
        value = (value * _CHUNK_POWER + sum(map(mul, units[at : at + _CHUNK], _POWERS))) % _MODULUS
    value %= _MODULUS
    return value - _MODULUS if value & _SIGN else value


def partition_of(key: str, partitions: int) -> int:
    """The partition, 0 ≤ it < partitions, that a coordinator of this key leads."""
    value = java_hash(key)
    return (0 if value == -_SIGN else abs(value)) % partitions

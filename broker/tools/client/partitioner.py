"""Which partition a record goes to: by its key as Kafka's clients hash it, else one at random for a while. No I/O.

Source: org.apache.kafka.common.utils.Utils.murmur2, BuiltInPartitioner (KIP-480, KIP-794).
"""

from __future__ import annotations

from random import Random
from typing import Final

_SEED: Final = 0x9747B28C
_MIX: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """As an unsigned 32-bit number."""
    length = len(data)
    whole = length & ~3
    value = _SEED ^ length
    for start in range(0, whole, 4):
        part = int.from_bytes(data[start : start + 4], "little") * _MIX & _MASK
        part = (part ^ part >> 24) * _MIX & _MASK
        value = (value * _MIX & _MASK) ^ part
    if whole < length:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MIX & _MASK
    value = (value ^ value >> 13) * _MIX & _MASK
    return value ^ value >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The same for the same key in every client of Kafka."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class Sticky:
    """Records without a key: one partition until a batch of it is full, then another at random."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._chosen: dict[str, int] = {}

    def partition(self, topic: str, partitions: list[int]) -> int:
        """One of `partitions`, those with a leader if there are some."""
        chosen = self._chosen.get(topic)
        if chosen is None or chosen not in partitions:
            chosen = self._chosen[topic] = self._random.choice(partitions)
        return chosen

    def batch_full(self, topic: str) -> None:
        """The next record goes where chance sends it."""
        self._chosen.pop(topic, None)

from __future__ import annotations

from random import Random

import pytest

from broker.tools.client.partitioner import Sticky, murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_are_hashed_as_by_kafkas_clients(key: bytes, hashed: int) -> None:
    """The values of Kafka's own test, as signed numbers."""
    assert murmur2(key) == hashed % 2**32
    assert partition_of(key, 7) == (hashed & 0x7FFFFFFF) % 7


def test_records_without_a_key_stay_until_a_batch_is_full() -> None:
    sticky = Sticky(Random(1))
    first = {sticky.partition("t", [0, 1, 2, 3]) for _ in range(20)}
    assert len(first) == 1
    chosen = set()
    for _ in range(50):
        sticky.batch_full("t")
        chosen.add(sticky.partition("t", [0, 1, 2, 3]))
    assert chosen == {0, 1, 2, 3}


def test_partition_that_lost_its_leader_is_left() -> None:
    sticky = Sticky(Random(1))
    left = sticky.partition("t", [0, 1])
    assert sticky.partition("t", [1 - left]) == 1 - left

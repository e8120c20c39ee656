"""The table of a cleaning: as good as a dict, and no larger than allowed."""

from __future__ import annotations

import random

import pytest

from broker.log.cleaner.offset_map import ENTRY_BYTES, OffsetMap


def test_map_behaves_like_a_dict() -> None:
    rng = random.Random(7)
    offsets, model = OffsetMap(ENTRY_BYTES * 1000, 0.9), dict[bytes, int]()
    for offset in range(3000):
        key = rng.randrange(400).to_bytes(rng.choice([2, 5]), "big")
        if len(model) < offsets.capacity:
            assert offsets.put(key, offset)
            model[key] = offset
    assert all(offsets.get(key) == offset for key, offset in model.items())
    assert offsets.entries == len(model)
    assert offsets.get(b"never") is None
    assert offsets.latest_offset == 2999


def test_map_that_is_full_refuses_and_keeps_what_it_has() -> None:
    offsets = OffsetMap(ENTRY_BYTES * 10, 0.5)
    assert offsets.capacity == 5
    assert all(offsets.put(bytes([n]), n) for n in range(5))
    assert not offsets.put(b"x", 5)
    assert not offsets.put(b"\0", 6)
    assert [offsets.get(bytes([n])) for n in range(5)] == [0, 1, 2, 3, 4]
    assert (offsets.get(b"x"), offsets.latest_offset) == (None, 4)


def test_map_with_a_load_factor_of_one_still_ends_its_searches() -> None:
    offsets = OffsetMap(ENTRY_BYTES * 4, 1.0)
    while offsets.put(offsets.entries.to_bytes(1, "big"), offsets.entries):
        pass
    assert offsets.entries == 3
    assert offsets.get(b"absent") is None


def test_map_without_room_for_a_key_names_the_setting() -> None:
    with pytest.raises(ValueError, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        OffsetMap(ENTRY_BYTES, 0.9)

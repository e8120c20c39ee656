"""One random corruption of a small log folder: one file is damaged while nobody has it open."""

from __future__ import annotations

import random
from collections.abc import Callable

from broker.wire.record_batch import iter_batches
from tests.property.log.log_folder import CLEANED, Template

_BLOCK = 64


def _flip(rng: random.Random, data: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _truncate(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data)) :]


def _zero(rng: random.Random, data: bytearray) -> None:
    start = rng.randrange(len(data))
    length = min(len(data) - start, rng.choice((1, 8, 64, 512, 4096)))
    data[start : start + length] = bytes(length)


def _swap(rng: random.Random, data: bytearray) -> None:
    size = min(_BLOCK, len(data) // 2)
    if size == 0:
        return
    a, b = rng.randrange(len(data) - size + 1), rng.randrange(len(data) - size + 1)
    first, second = bytes(data[a : a + size]), bytes(data[b : b + size])
    data[a : a + size], data[b : b + size] = second, first


def _append(rng: random.Random, data: bytearray) -> None:
    data += rng.randbytes(rng.choice((1, 7, 61, 200, 5000)))


def _repeat(rng: random.Random, data: bytearray) -> None:
    """An old piece of the same file again at its end: valid bytes in the wrong place."""
    start = rng.randrange(len(data))
    data += data[start : start + rng.choice((61, 100, 700))]


_KINDS: dict[str, Callable[[random.Random, bytearray], None]] = {
    "flip": _flip,
    "truncate": _truncate,
    "zero": _zero,
    "swap": _swap,
    "append": _append,
    "repeat": _repeat,
}


def _touches_what_no_check_covers(name: str, before: bytes, after: bytearray) -> bool:
    """Whether what lies outside of a batch's CRC changed, as in Kafka's own files: a leader epoch; in a compacted log a
    base offset, where the new one would leave no more than a hole (`integration/log/test_compacted_damage.py` has the
    others).
    """
    if not name.endswith(".log"):
        return False
    batches = list(iter_batches(memoryview(before), verify_crc=True))
    if any(before[at + 12 : at + 16] != after[at + 12 : at + 16] for at, _ in batches):
        return True
    ends = [0, *(header.last_offset + 1 for _, header in batches)]
    starts = [*(header.base_offset for _, header in batches[1:]), 1 << 63]
    return name.startswith(f"{CLEANED}/") and any(
        before[at : at + 8] != after[at : at + 8] and low <= int.from_bytes(after[at : at + 8], "big") < high
        for (at, _), low, high in zip(batches, ends, starts, strict=False)
    )


def corrupt(template: Template, seed: int) -> tuple[str, str, dict[str, bytes]]:
    """(file, kind, files): the folder with one file damaged."""
    rng = random.Random(seed)
    while True:
        name = rng.choice(sorted(template.files))
        kind = rng.choice([*_KINDS, "delete"])
        files = dict(template.files)
        before = files.pop(name)
        if kind == "delete":
            return name, kind, files
        data = bytearray(before)
        if not data:
            continue
        _KINDS[kind](rng, data)
        if bytes(data) != before and not _touches_what_no_check_covers(name, before, data):
            return name, kind, {**files, name: bytes(data)}

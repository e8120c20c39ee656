"""Reads at the tail from memory: the same batches as a walk through the file would give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.log.segments.tail_cache import Tail
from tests.support.examples import examples

_BATCHES = st.lists(st.tuples(st.integers(1, 4), st.integers(61, 200)), min_size=1, max_size=30)


@examples()
@given(_BATCHES, st.integers(0, 130), st.integers(1, 600), st.integers(0, 130), st.booleans())
def test_tail_find_any_request_returns_whole_batches_below_the_limit(
    batches: list[tuple[int, int]], offset: int, max_bytes: int, limit: int, one: bool
) -> None:
    tail = Tail()
    base = position = 0
    rows = []
    for records, size in batches:
        tail.extend([(base, base + records - 1, 0, size)], position)
        rows.append((base, base + records, position, size))
        base, position = base + records, position + size
    offset %= base
    limit = min(limit, base)
    if offset >= limit:
        return
    wanted = [row for row in rows if row[1] > offset]
    length = 0
    for _, end, _, size in wanted:
        if end > limit or (length + size > max_bytes and (length or not one)):
            break
        length += size
    assert tail.find(offset, max_bytes, limit, base, position, one) == (wanted[0][2], length)


def test_tail_find_offset_before_its_memory_is_unknown() -> None:
    tail = Tail()
    for number in range(2000):
        tail.extend([(number, number, 0, 100)], number * 100)
    assert tail.find(3, 1000, 2000, 2000, 200_000, True) is None
    assert tail.find(1990, 250, 2000, 2000, 200_000, True) == (199_000, 200)


def test_tail_find_empty_knows_nothing() -> None:
    assert Tail().find(0, 1, 1, 1, 1, True) is None


def test_tail_cut_forgets_batches_beyond() -> None:
    tail = Tail()
    for number in range(10):
        tail.extend([(number * 10, number * 10 + 9, 0, 100)], number * 100)
    tail.cut(50)
    assert tail.find(45, 1000, 50, 50, 500, True) == (400, 100)


def test_tail_find_offset_in_a_hole_is_never_the_batch_before_it() -> None:
    tail = Tail()
    tail.extend([(10, 12, 0, 100), (20, 22, 0, 200)], 0)
    assert tail.find(13, 1000, 23, 23, 300, True) is None
    assert tail.find(20, 1000, 23, 23, 300, True) == (100, 200)
    tail.extend([(23, 25, 0, 50)], 300)
    assert tail.find(21, 1000, 26, 26, 350, True) == (100, 250)

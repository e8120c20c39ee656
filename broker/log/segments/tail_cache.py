"""Where the newest batches of the active segment stand, so that reads at the tail need no system call.

Bounded; older batches are found through the index. Pure.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from broker.model.ids import Offset

_BATCHES_MAX = 1024
_BATCHES_KEPT = 512


class Tail:
    """Rows (base offset, position) of consecutive batches, without a hole, that end at the segment's end."""

    __slots__ = ("_end", "_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets = array("q")
        self._positions = array("q")
        self._end = -1
        """Offset after the last batch that was added; wrong after a cut, and then the next `extend` clears the cache.
        """

    def extend(self, batches: Iterable[tuple[Offset, Offset, int, int]], position: int) -> None:
        """batches: (base offset, last offset, …, bytes) of each, the first one at `position`."""
        add_offset, add_position = self._offsets.append, self._positions.append
        end = self._end
        for base_offset, last_offset, _, size in batches:
            if base_offset != end:
                # A batch counts as ending where the next begins: the one before a hole would seem to reach over it.
                self.clear()
            add_offset(base_offset)
            add_position(position)
            position += size
            end = last_offset + 1
        self._end = end
        if len(self._offsets) > _BATCHES_MAX:
            del self._offsets[:-_BATCHES_KEPT]
            del self._positions[:-_BATCHES_KEPT]

    def clear(self) -> None:
        """Forget all positions, as where the log is truncated: reads go by the index again."""
        del self._offsets[:]
        del self._positions[:]

    def cut(self, leo: Offset) -> None:
        """Forget batches that begin at or beyond leo."""
        keep = bisect_left(self._offsets, leo)
        del self._offsets[keep:]
        del self._positions[keep:]

    def find(
        self, offset: Offset, max_bytes: int, limit: Offset, leo: Offset, size: int, min_one_batch: bool
    ) -> tuple[int, int] | None:
        """(position, length) of the batches to read, length 0 when none may be; None when offset is too old.

        leo and size: where the last batch ends. offset < limit ≤ leo.
        """
        offsets = self._offsets
        if not offsets or offset < offsets[0]:
            return None
        positions = self._positions
        first = bisect_right(offsets, offset) - 1
        start = positions[first]
        if limit == leo:
            after, end = len(offsets), size
        else:
            # The batch that holds `limit` is out, even when it begins below.
            after = bisect_right(offsets, limit) - 1
            end = positions[after]
        if after <= first:
            return start, 0
        if end - start > max_bytes:
            after = bisect_right(positions, start + max_bytes) - 1
            if after <= first:
                if not min_one_batch:
                    return start, 0
                after = first + 1
            end = positions[after] if after < len(positions) else size
        return start, end - start

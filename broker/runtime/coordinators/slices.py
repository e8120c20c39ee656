"""Long work of a coordinator, some in each turn of the loop: a partition may have 100,000 groups. Loop thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from broker.runtime.ports import Loop

UNITS_PER_TURN: Final = 500
"""Some milliseconds."""

T = TypeVar("T")


def in_slices(loop: Loop, items: Iterator[T], each: Callable[[T], int], then: Callable[[], None]) -> None:
    """Call each with every item, the first ones now and the rest in later turns, and `then` after the last.

    each: returns the units of work that the item was. items: what they come from may change between turns.
    """
    units = 0
    for item in items:
        units += each(item)
        if units >= UNITS_PER_TURN:
            loop.call_soon(lambda: in_slices(loop, items, each, then))
            return
    then()

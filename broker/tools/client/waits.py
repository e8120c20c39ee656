"""Waiting for descriptors, whatever their numbers are: select() takes none above 1,023."""

from __future__ import annotations

import select
from collections.abc import Iterable
from typing import Final

_LONGEST_MS: Final = 2**31 - 1
"""poll() takes no longer wait: one of three weeks may end early."""


def readable(descriptors: Iterable[int], seconds: float | None) -> set[int]:
    """Those that can be read or are broken, after waiting for one for so long (None: without end)."""
    return _ready(descriptors, select.POLLIN, seconds)


def writable(descriptor: int, seconds: float) -> bool:
    """Whether it takes something, or is broken, within so long."""
    return bool(_ready((descriptor,), select.POLLOUT, seconds))


def _ready(descriptors: Iterable[int], event: int, seconds: float | None) -> set[int]:
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, event)
    return {descriptor for descriptor, _ in poller.poll(None if seconds is None else min(seconds * 1000, _LONGEST_MS))}

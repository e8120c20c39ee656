"""How much memory something leaves behind."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable


def kept_bytes(action: Callable[[], object]) -> int:
    """Bytes that are still held after action, of what it allocated."""
    gc.collect()
    tracemalloc.start()
    try:
        action()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

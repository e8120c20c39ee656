"""Ends a run that stands still: one whose output has not grown for minutes, though it says something every few seconds.

The limits of a run are its own, and it cannot keep them where a library that holds Python's lock never returns: a
night would wait for it for ever. Decides when that is so, and how it ends. Must not know what a run is.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from signal import SIGQUIT

STILL_S = 300.0
"""So long without a word."""
GRACE_S = 10.0
"""For it to say where its threads are."""
_LOOK_S = 1.0


def end_of(
    process: subprocess.Popen[bytes],
    log: Path,
    *,
    still_s: float = STILL_S,
    grace_s: float = GRACE_S,
    look_s: float = _LOOK_S,
    clock_s: Callable[[], float] = time.monotonic,
) -> tuple[int, bool]:
    """(its exit code, whether it stood still and was ended for that). log: where its output goes.

    By SIGQUIT, upon which `highwater` writes where each of its threads is; what does not end then is killed.
    """
    size, since_s = -1, clock_s()
    while True:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=look_s), False
        now_s = clock_s()
        if (grown := log.stat().st_size) != size:
            size, since_s = grown, now_s
        elif now_s - since_s >= still_s:
            break
    process.send_signal(SIGQUIT)
    with suppress(subprocess.TimeoutExpired):
        return process.wait(timeout=grace_s), True
    process.kill()
    return process.wait(), True

"""A run as far as its history tells of it: what the console shows, for whoever looks from elsewhere.

Decides how much of a history is read at a time, and that a line which says nothing usable is passed over. Must not know
what a line counts for (`harness.runs.console.stats`) nor how a picture looks. Invariant: each look reads on where the
one before ended, MOST_AT_ONCE bytes at most.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.runs.console.picture import Picture
from harness.runs.console.stats import Stats
from harness.serve.files import opened

MOST_AT_ONCE = 16 << 20
"""Bytes; a few seconds' work at most."""
KEPT = 8
"""Runs whose state is kept between two looks."""


@dataclass(frozen=True, slots=True)
class Seen:
    """picture: as of now; quiet_s: since the last line, None where no line has a time.

    read, size: bytes of the history; passed_over: lines that could not be used.
    """

    picture: Picture
    quiet_s: float | None
    read: int
    size: int
    passed_over: int


class Follower:
    """One history, followed. For one thread at a time. Times count from the run's origin."""

    def __init__(self) -> None:
        self._begin(0)

    def _begin(self, inode: int) -> None:
        self._inode = inode
        self._read = 0
        self._rest = b""
        self._now_s = 0.0
        self._last_s: float | None = None
        self._passed_over = 0
        self._stats = Stats(clock_s=lambda: self._now_s)

    def look(self, root: Path, parts: Sequence[str], now_s: float) -> Seen:
        """Read on, and say what there is to see. Raises Refused."""
        with opened(root, parts) as (descriptor, state):
            if state.st_ino != self._inode or state.st_size < self._read:
                self._begin(state.st_ino)
            data = os.pread(descriptor, MOST_AT_ONCE, self._read)
            size = max(state.st_size, self._read + len(data))
        self._read += len(data)
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > MOST_AT_ONCE:
            # No line of a history is as long.
            self._rest, self._passed_over = b"", self._passed_over + 1
        for line in lines:
            self._take(line)
        if self._read == size:
            self._now_s = max(self._now_s, now_s)
        quiet_s = None if self._last_s is None else max(0.0, self._now_s - self._last_s)
        return Seen(self._stats.picture(), quiet_s, self._read, size, self._passed_over)

    def _take(self, raw: bytes) -> None:
        try:
            line = json.loads(raw)
            at_s = line["time_ns"] / 1e9
            self._now_s = max(self._now_s, at_s)
            self._last_s = max(self._last_s or 0.0, at_s)
            self._stats.on_line(line)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
            self._passed_over += 1


class Followers:
    """The runs that were looked at last. For any number of threads, one at a time."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], Follower] = OrderedDict()

    def look(self, folder: str, stamp: str, now_s: float) -> Seen:
        """At a run's history, now_s after the run's origin. Raises Refused."""
        with self._lock:
            follower = self._known.setdefault((folder, stamp), Follower())
            self._known.move_to_end((folder, stamp))
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
            return follower.look(self._root, (folder, stamp, "history.jsonl"), now_s)

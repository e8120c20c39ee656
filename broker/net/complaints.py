"""Why connections are closed, as warnings of which repeats are counted, not written: a client that sends nonsense for
an hour costs two lines in each interval, and no memory. Loop thread.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Final, Protocol

_log = logging.getLogger("broker.net.connection")

INTERVAL_MS: Final = 10_000.0
KINDS_MAX: Final = 64
_REASON_MAX: Final = 300
_VARIABLE: Final = re.compile(r"'[^']*'?|\"[^\"]*\"?|\d+")
"""What differs between two reasons that are the same to a reader: names in quotes, numbers."""
_ALL_OTHERS: Final = ("", "")


class Timers(Protocol):
    """Of the loop."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> object:
        """Call it once after so long."""
        ...


class Complaints:
    """One warning for each host and kind of reason in an interval, at its end how many there were beside it.

    What comes from more than KINDS_MAX hosts, or for more reasons, is one kind together.
    """

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._repeats: dict[tuple[str, str], int] = {}
        self._last: dict[tuple[str, str], tuple[str, str]] = {}
        """Host and reason of the last repeat of each kind."""

    def first(self, address: str, reason: str) -> bool:
        """Whether a warning of this kind would be written now. address: `host:port` of the other end."""
        return self._kind(address, reason) not in self._repeats

    def closing(self, address: str, reason: str) -> None:
        """Say that a connection is closed, or count it."""
        reason = reason if len(reason) <= _REASON_MAX else f"{reason[:_REASON_MAX]}…"
        kind = self._kind(address, reason)
        if kind in self._repeats:
            self._repeats[kind] += 1
            self._last[kind] = (address.rpartition(":")[0], reason)
            return
        _log.warning("closing connection from %s: %s", address, reason)
        if not self._repeats:
            self._timers.call_later(INTERVAL_MS, self._end_interval)
        self._repeats[kind] = 0

    def _kind(self, address: str, reason: str) -> tuple[str, str]:
        kind = (address.rpartition(":")[0], _VARIABLE.sub("*", reason[:_REASON_MAX]))
        return kind if kind in self._repeats or len(self._repeats) < KINDS_MAX else _ALL_OTHERS

    def _end_interval(self) -> None:
        for kind, (host, reason) in self._last.items():
            where = f"{host} and others" if kind == _ALL_OTHERS else host
            count, seconds = self._repeats[kind], INTERVAL_MS / 1000
            _log.warning(
                "connections from %s closed beside that one in %.0f s: %d, the last: %s", where, seconds, count, reason
            )
        self._repeats.clear()
        self._last.clear()

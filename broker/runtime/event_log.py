"""The broker's event log: what the lab's checkers need to know of this broker's inside, one JSON object per line.

The contract is docs/event-log.md. `emit` only remembers; `flush` writes all lines of the turn with one write(2), and
the loop calls it after the log writes and before anything is sent. Without a file there is no EventLog: callers test
for None, so that nothing is built when it is off.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Mapping

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode


class EventLog:
    """Append-only lines of one incarnation of a broker."""

    __slots__ = (
        "_fd",
        "_lines",
        "_monotonic_ns",
        "_prefix",
        "_sequence",
        "_wall_ns",
        "_with_ids",
        "broker_id",
        "incarnation",
    )

    def __init__(
        self,
        path: str,
        broker_id: int,
        incarnation: str,
        wall_ns: Callable[[], int] = time.time_ns,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        with_ids: Collection[str] = (),
    ) -> None:
        """incarnation: random hex, new for every start; also the fetchers' client id suffix. with_ids: topics of which
        lines name the id, too. Raises OSError.
        """
        # O_NONBLOCK: a named pipe that nobody reads is refused, instead of holding up the start.
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        os.set_blocking(self._fd, True)
        self._end_torn_line(path)
        self._lines: list[str] = []
        self._sequence = 0
        self._wall_ns = wall_ns
        self._monotonic_ns = monotonic_ns
        self.broker_id = broker_id
        self.incarnation = incarnation
        self._with_ids = frozenset(with_ids)
        self._prefix = f'"b":{broker_id},"i":"{incarnation}","s":'

    def partition_name(self, topic: str, partition: int, topic_id: str) -> str:
        """What lines call a partition: `topic-partition`, or `topic~id-partition` where the topic is made anew under
        its name, and its lives are to be told apart. `~` is in no topic's name, `-` in no partition's number.
        """
        return f"{topic}~{topic_id}-{partition}" if topic_id and topic in self._with_ids else f"{topic}-{partition}"

    def emit(self, event: str, **fields: object) -> None:
        """Remember one line until `flush`; fields must be JSON values."""
        body = _encode(fields)[1:] if fields else "}"
        separator = "," if fields else ""
        self._lines.append(
            f'{{"e":"{event}",{self._prefix}{self._sequence},"w":{self._wall_ns()},'
            f'"m":{self._monotonic_ns()}{separator}{body}'
        )
        self._sequence += 1

    def flush(self) -> None:
        """Hand all remembered lines to the kernel. Raises OSError: a log with a gap is worth nothing."""
        if not self._lines:
            return
        data = memoryview(("\n".join(self._lines) + "\n").encode("ascii"))
        self._lines.clear()
        while data:
            data = data[os.write(self._fd, data) :]

    def emit_now(self, event: str, *, of: tuple[str, int, str] | None = None, **fields: object) -> None:
        """For effects that leave the process inside a turn (ZooKeeper's own thread sends at once). of: topic, partition
        and topic id of what the line is about.
        """
        if of is not None:
            fields = {"p": self.partition_name(*of), **fields}
        self.emit(event, **fields)
        self.flush()

    def close(self) -> None:
        """Write what is buffered and close the file."""
        self.flush()
        os.close(self._fd)

    def _end_torn_line(self, path: str) -> None:
        """A line that kill -9 tore must not swallow this incarnation's first one."""
        size = os.fstat(self._fd).st_size
        if size:
            with open(path, "rb") as file:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    os.write(self._fd, b"\n")


def leos_field(leos: Mapping[int, int]) -> dict[str, int]:
    """LEO by broker, with JSON's text keys."""
    return {str(broker): leo for broker, leo in leos.items()}

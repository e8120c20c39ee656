"""Frames to a broker over many connections at once, and what became of each connection.

A connection carries a burst of frames, is then closed on our side for sending, and read to its end: the broker has
everything before it sees that end, and then has to close. One that stays open is a hang.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

from broker.wire.api import ApiKey
from tests.support.fuzz_mutations import mutate
from tests.support.fuzz_requests import UPSETTING, Made, Requests

CONNECTIONS: Final = 48
HANG_S: Final = 30.0
_UNMUTATED: Final = 0.25
_BURSTS: Final = (1, 1, 2, 3, 6)
_PATIENCE_S: Final = (0.0, 0.05, 0.05, 0.3)
"""How long answers are waited for before our side of a connection is closed."""
_OTHERS: Final = 16
_READ_BYTES: Final = 1 << 18


@dataclass
class Counts:
    """connections: by how they ended. seen: mutations by name, and requests by API, as `METADATA v9`."""

    frames: int = 0
    sent_bytes: int = 0
    answers: int = 0
    connections: Counter[str] = field(default_factory=Counter)
    mutations: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        ends = ", ".join(f"{count:,} {how}" for how, count in self.connections.most_common())
        return (
            f"{self.frames:,} frames of {self.sent_bytes:,} bytes, {len(self.requests)} APIs and versions,"
            f" {self.answers:,} answers; connections: {ends}"
        )


@dataclass
class Frame:
    """Bytes to send; made: the request when it is as it was made."""

    data: bytes
    made: Made | None


class Frames:
    """An endless stream of frames, a quarter as they were made.

    forbidden: keys that must not go out by accident; spared: texts in names of topics that no frame may change.
    """

    def __init__(
        self,
        rng: Random,
        requests: Requests,
        counts: Counts,
        forbidden: Collection[ApiKey],
        spared: Collection[str],
    ) -> None:
        self._rng = rng
        self._requests = requests
        self._counts = counts
        self._forbidden = frozenset(map(int, forbidden))
        self._spared = [name.encode() for name in spared]
        self._others: deque[bytes] = deque([requests.make().frame], maxlen=_OTHERS)

    def __iter__(self) -> Iterator[Frame]:
        while True:
            made = self._requests.make()
            self._counts.requests[f"{made.api.name} v{made.version}"] += 1
            if self._rng.random() < _UNMUTATED:
                self._others.append(made.frame)
                yield Frame(made.frame, made)
                continue
            name, data = mutate(self._rng, made.frame, self._rng.choice(self._others))
            if not self._may_go(data):
                continue
            self._counts.mutations[name] += 1
            yield Frame(data, None)

    def _may_go(self, data: bytes) -> bool:
        """Whether nobody else could rightly be upset by it, were it understood."""
        if len(data) < 6:
            return True
        (key,) = struct.unpack_from(">h", data, 4)
        if key in self._forbidden:
            return False
        return key not in UPSETTING or not any(name in data for name in self._spared)


class Hang(AssertionError):
    """The broker neither answers nor closes."""


class _Link:
    """One connection's life."""

    def __init__(self, port: int, burst: list[Frame], patience_s: float, now: float) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=HANG_S)
        self.socket.setblocking(False)
        self.sent = b"".join(frame.data for frame in burst)
        self.unsent = memoryview(self.sent)
        whole = all(frame.made is not None for frame in burst)
        self.asked = {frame.made.correlation_id: frame.made for frame in burst if frame.made is not None and whole}
        """By correlation id, which a damaged request beside them might have, too."""
        self.wanted = len(burst) if whole else None
        """Answers after which nothing more comes; None where the broker may close, or wait, instead."""
        self.received = bytearray()
        self.patience_s = patience_s
        self.moved = now
        self.write_closed = False

    def send(self) -> bool:
        """Some more; whether all of it is sent."""
        try:
            while self.unsent:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]
        except BlockingIOError:
            return False
        return True

    def answers(self) -> Iterator[bytes]:
        """Those that are whole."""
        while len(self.received) >= 4:
            (size,) = struct.unpack_from(">i", self.received)
            assert 4 <= size < 1 << 30, f"the broker sent a frame of {size} bytes"
            if len(self.received) < 4 + size:
                return
            answer = bytes(self.received[4 : 4 + size])
            del self.received[: 4 + size]
            yield answer


class Traffic:
    """Sends frames to the broker on that port; one thread."""

    def __init__(
        self,
        port: int,
        rng: Random,
        requests: Requests,
        forbidden: Collection[ApiKey] = (),
        spared: Collection[str] = (),
    ) -> None:
        """forbidden, spared: as of `Frames`."""
        self.counts = Counts()
        self._port = port
        self._rng = rng
        self._requests = requests
        self._frames = iter(Frames(rng, requests, self.counts, forbidden, spared))
        self._selector = selectors.DefaultSelector()
        self._links: set[_Link] = set()

    def send(self, frames: int, meanwhile: Callable[[], None] = lambda: None) -> None:
        """So many frames, and wait for the ends of their connections. meanwhile: called about once a second.

        Raises Hang, and OSError where the broker takes no connection.
        """
        goal = self.counts.frames + frames
        looked = time.monotonic()
        while self.counts.frames < goal or self._links:
            while self.counts.frames < goal and len(self._links) < CONNECTIONS:
                self._open(min(self._rng.choice(_BURSTS), goal - self.counts.frames))
            for key, events in self._selector.select(0.02):
                self._on_events(key.data, events)
            now = time.monotonic()
            for link in list(self._links):
                self._look(link, now)
            if now - looked > 1:
                looked = now
                meanwhile()

    def _open(self, size: int) -> None:
        burst = [next(self._frames) for _ in range(size)]
        self.counts.frames += size
        self.counts.sent_bytes += sum(len(frame.data) for frame in burst)
        link = _Link(self._port, burst, self._rng.choice(_PATIENCE_S), time.monotonic())
        self._links.add(link)
        self._selector.register(link.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, link)

    def _on_events(self, link: _Link, events: int) -> None:
        link.moved = time.monotonic()
        try:
            if events & selectors.EVENT_WRITE and link.send():
                self._selector.modify(link.socket, selectors.EVENT_READ, link)
            if events & selectors.EVENT_READ:
                data = link.socket.recv(_READ_BYTES)
                if not data:
                    self._end(link, "ended by us" if link.write_closed else "closed by the broker")
                    return
                link.received += data
        except BlockingIOError:
            return
        except (ConnectionResetError, BrokenPipeError):
            # The broker closed while bytes of ours were on their way.
            self._end(link, "closed by the broker")
            return
        self._take_answers(link)

    def _take_answers(self, link: _Link) -> None:
        for answer in link.answers():
            self.counts.answers += 1
            made = link.asked.get(struct.unpack_from(">i", answer)[0])
            if made is not None:
                self._requests.learn(made, answer)
            if link.wanted is not None:
                link.wanted -= 1

    def _look(self, link: _Link, now: float) -> None:
        if not link.write_closed and not link.unsent and (link.wanted == 0 or now - link.moved >= link.patience_s):
            link.write_closed = True
            try:
                link.socket.shutdown(socket.SHUT_WR)
            except OSError:
                self._end(link, "closed by the broker")
        elif now - link.moved > HANG_S:
            raise Hang(f"neither answered nor closed for {HANG_S:.0f} s was a connection with {link.sent[:4000].hex()}")

    def _end(self, link: _Link, how: str) -> None:
        self.counts.connections[how] += 1
        self._selector.unregister(link.socket)
        link.socket.close()
        self._links.discard(link)

    def close(self) -> None:
        for link in list(self._links):
            self._end(link, "left")
        self._selector.close()

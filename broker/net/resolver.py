"""Host names to addresses, off the loop's thread.

A lookup takes as long as the name servers let it, ten seconds and more where they are silent, and nothing else must
wait for it. Names are looked up on threads, few and only while there is something to look up, each name once at a time
however many callers want it. The last address of a name is kept: it serves where a lookup fails, or is late. Addresses
need no lookup (`literal`). Source: Kafka's ClientUtils.resolve, which blocks its network thread.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

THREADS_MAX: Final = 4
LATE_MS: Final = 100.0


class SocketAddress(NamedTuple):
    """What a host's sockets need: the family, and the address as `connect` wants it around the port."""

    family: int
    host: str
    rest: tuple[int, ...] = ()

    def at(self, port: int) -> tuple[str | int, ...]:
        """What socket.connect takes: host and port, and of IPv6 flow and scope."""
        return (self.host, port, *self.rest)


Resolution = SocketAddress | OSError
Found = Callable[[Resolution], None]
LookUp = Callable[[str], SocketAddress]
"""Blocks; any thread. Raises OSError, or ValueError for what can be no name."""


class _Timer(Protocol):
    def cancel(self) -> None: ...


class ResolverLoop(Protocol):
    """What a resolver needs of its loop."""

    def now_ms(self) -> float: ...

    def call_soon(self, callback: Callable[[], None]) -> None: ...

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> _Timer: ...

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None: ...


def literal(host: str) -> SocketAddress | None:
    """The address that `host` spells, None where it is a name."""
    for family, rest in ((socket.AF_INET, ()), (socket.AF_INET6, (0, 0))):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return SocketAddress(family, host, rest)
    return None


def look_up(name: str) -> SocketAddress:
    """The system's first address for a name. Raises OSError; ValueError."""
    family, _, _, _, address = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0]
    host, _, *rest = address
    return SocketAddress(family, str(host), tuple(int(part) for part in rest))


def start_thread(run: Callable[[], None]) -> None:
    """Not waited for at the end of the process. Raises RuntimeError."""
    threading.Thread(target=run, name="resolver", daemon=True).start()


class Lookup:
    """One lookup. Its result comes once, on the loop, and not after `cancel`."""

    __slots__ = ("_found", "_timer")

    def __init__(self, found: Found) -> None:
        self._found: Found | None = found
        self._timer: _Timer | None = None

    @property
    def wanted(self) -> bool:
        """False once the result was handed over, or `cancel` was called."""
        return self._found is not None

    def cancel(self) -> None:
        """Nobody waits for it any more."""
        self._found = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def settle_later(self, timer: _Timer) -> None:
        """Of the resolver: timer settles it, should nothing else."""
        self._timer = timer

    def settle(self, resolution: Resolution) -> None:
        """Of the resolver: this is the result, unless there was one before."""
        found = self._found
        self.cancel()
        if found is not None:
            found(resolution)


class Destination:
    """A host as somebody who connects to it has it: an address, or a name that the resolver looks up."""

    __slots__ = ("_literal", "_name", "_resolver")

    def __init__(self, host: str, resolver: Resolver | None) -> None:
        """resolver: of the loop; names need one."""
        self._literal = literal(host)
        self._name = host
        self._resolver = resolver

    def find(self, found: Found) -> Lookup | None:
        """Have `found` called with the address: before this returns, None then; else as `Resolver.find` does."""
        if self._literal is not None:
            found(self._literal)
            return None
        assert self._resolver is not None, f"{self._name} is a name"
        return self._resolver.find(self._name, found)


class _Name:
    """A lookup that is under way, and who waits for it."""

    __slots__ = ("began_ms", "lookups")

    def __init__(self, began_ms: float) -> None:
        self.began_ms = began_ms
        self.lookups: list[Lookup] = []


class Resolver:
    """One per broker: its links and peers share what it knows. Loop thread, but for the lookups."""

    def __init__(
        self,
        loop: ResolverLoop,
        look_up: LookUp = look_up,
        start: Callable[[Callable[[], None]], None] = start_thread,
    ) -> None:
        """start: run it beside the loop; raises RuntimeError where that is not to be had."""
        self._loop = loop
        self._look_up = look_up
        self._start = start
        self._good: dict[str, SocketAddress] = {}
        self._under_way: dict[str, _Name] = {}
        self._lock = threading.Lock()
        self._queue: deque[str] = deque()
        self._threads = 0
        self._closed = False

    def find(self, name: str, found: Found) -> Lookup:
        """Have `found` called in a later turn: with an address, or with why there is none.

        Where an address of before is known, LATE_MS after the lookup began at the latest; else when the lookup ends.
        """
        lookup = Lookup(found)
        under_way = self._under_way.get(name)
        if under_way is None:
            under_way = self._under_way[name] = _Name(self._loop.now_ms())
            self._begin(name)
        # Those who gave up: a lookup that never ends must not gather them.
        under_way.lookups = [*(other for other in under_way.lookups if other.wanted), lookup]
        good = self._good.get(name)
        if good is not None:
            late_ms = max(0.0, under_way.began_ms + LATE_MS - self._loop.now_ms())
            lookup.settle_later(self._loop.call_later(late_ms, partial(lookup.settle, good)))
        return lookup

    def close(self) -> None:
        """No thread calls the loop after this; one whose lookup hangs is left behind, and ends with it."""
        with self._lock:
            self._closed = True
            self._queue.clear()

    def _begin(self, name: str) -> None:
        with self._lock:
            self._queue.append(name)
            if self._threads >= THREADS_MAX:
                return
            self._threads += 1
        try:
            self._start(self._run)
        except RuntimeError as error:
            # One that runs may have taken it meanwhile.
            with self._lock:
                self._threads -= 1
                if name not in self._queue:
                    return
                self._queue.remove(name)
            self._loop.call_soon(partial(self._resolved, name, OSError(str(error))))

    def _run(self) -> None:
        """A thread: look names up until there is none left."""
        while True:
            with self._lock:
                if not self._queue:
                    self._threads -= 1
                    return
                name = self._queue.popleft()
            resolution: Resolution
            try:
                resolution = self._look_up(name)
            except OSError as error:
                resolution = error
            except Exception as error:
                resolution = OSError(f"{name!r} cannot be looked up: {error}")
            with self._lock:
                if not self._closed:
                    self._loop.call_soon_threadsafe(partial(self._resolved, name, resolution))

    def _resolved(self, name: str, resolution: Resolution) -> None:
        if isinstance(resolution, SocketAddress):
            self._good[name] = resolution
        else:
            resolution = self._good.get(name, resolution)
        for lookup in self._under_way.pop(name).lookups:
            self._loop.call_soon(partial(lookup.settle, resolution))

"""Links between the hosts, which delay, hold up and lose what goes over them.

A lane is one direction of one connection: what is sent arrives in order. While its link is cut it holds everything, as
TCP does, and delivers it after the cut, unless the connection was given up by then. Lanes of one link overtake each
other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from tests.support.simulation.scheduler import Scheduler

Link = tuple[str, str]
"""(from host, to host)."""
_DELAY_MS = (0.1, 2.0)
_AGAIN_MS = 200.0


class Host(Protocol):
    """A process that accepts connections."""

    alive: bool

    def accept(self, connection: Connection) -> None:
        """A client has connected; frames will follow."""
        ...

    def receive(self, connection: Connection, frame: bytes) -> None:
        """One request of a connection that was accepted."""
        ...

    def disconnected(self, connection: Connection) -> None:
        """The client has given the connection up."""
        ...


class Network:
    """All links, and who is at which host."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.hosts: dict[str, Host | None] = {}
        """None: nobody listens there."""
        self.silent: set[str] = set()
        """Hosts without power: they do not even refuse."""
        self._cuts: dict[Link, int] = {}
        self.slow: dict[Link, float] = {}
        """Delays of up to so many ms."""
        self._stalled: dict[Link, list[Lane]] = {}

    def delay_ms(self, link: Link) -> float:
        low, high = _DELAY_MS
        return self.scheduler.rng.uniform(low, self.slow.get(link, high))

    def is_cut(self, link: Link) -> bool:
        return self._cuts.get(link, 0) > 0

    def cut(self, link: Link) -> None:
        self._cuts[link] = self._cuts.get(link, 0) + 1

    def heal(self, link: Link) -> None:
        """End one cut of the link; what it held goes on where no other cut holds it."""
        self._cuts[link] -= 1
        if not self.is_cut(link):
            for lane in self._stalled.pop(link, []):
                lane.resume()

    def stall(self, lane: Lane) -> None:
        self._stalled.setdefault(lane.link, []).append(lane)


class Lane:
    """See the module."""

    def __init__(self, network: Network, link: Link) -> None:
        self.link = link
        self._network = network
        self._last_ms = 0.0
        self._queue: deque[tuple[float, Callable[[], None]]] = deque()
        """What is on its way, and when it arrives; the first one's arrival is scheduled, or a cut holds it."""
        self._stalled = False
        self._closed = False

    def send(self, deliver: Callable[[], None]) -> None:
        """deliver is called when it arrives, if it does."""
        if self._closed:
            return
        self._last_ms = max(self._last_ms, self._network.scheduler.now_ms + self._network.delay_ms(self.link))
        self._queue.append((self._last_ms, deliver))
        if len(self._queue) == 1 and not self._stalled:
            self._schedule()

    def close(self) -> None:
        """Nothing more is sent; what a cut holds is lost, what is on its way arrives."""
        self._closed = True
        if self._stalled:
            self._queue.clear()

    def resume(self) -> None:
        """The link works again: what it held is sent once more, some time later."""
        scheduler = self._network.scheduler
        again_ms = scheduler.rng.uniform(0.0, _AGAIN_MS)
        self._last_ms = max(self._last_ms, scheduler.now_ms + again_ms)
        scheduler.at(again_ms, self._begin_again)

    def _begin_again(self) -> None:
        self._stalled = False
        if self._queue:
            self._arrive()

    def _schedule(self) -> None:
        due_ms, _ = self._queue[0]
        scheduler = self._network.scheduler
        scheduler.at(max(due_ms - scheduler.now_ms, 0.0), self._arrive)

    def _arrive(self) -> None:
        if self._network.is_cut(self.link):
            if self._closed:
                self._queue.clear()
            else:
                self._stalled = True
                self._network.stall(self)
            return
        _, deliver = self._queue.popleft()
        if self._queue:
            self._schedule()
        deliver()


class Connection:
    """From a client to a host. `refused`, `connected`, `heard` and `lost` are the client's, called on arrival."""

    def __init__(self, network: Network, client: str, host: str, address: str) -> None:
        """address: of the client, as the host sees it."""
        self.host = host
        self.address = address
        self.to_host = Lane(network, (client, host))
        self.to_client = Lane(network, (host, client))
        self._network = network
        self.server: Host | None = None
        self.connected: Callable[[], None] = lambda: None
        self.heard: Callable[[bytes], None] = lambda frame: None
        self.lost: Callable[[str], None] = lambda reason: None

    def open(self) -> None:
        """Knock; `connected` or `lost` may follow."""
        self.to_host.send(self._knock)

    def request(self, frame: bytes) -> None:
        self.to_host.send(lambda: self._reach(frame))

    def respond(self, frame: bytes) -> None:
        self.to_client.send(lambda: self.heard(frame))

    def give_up(self) -> None:
        """The client closes the connection; the host hears of it where the link is open."""
        self.to_host.send(self._hang_up)
        self.to_host.close()
        self.connected = lambda: None
        self.heard = lambda frame: None
        self.lost = lambda reason: None

    def reset(self, reason: str) -> None:
        """The host's side is gone."""
        self.to_client.send(lambda: self.lost(reason))
        self.to_client.close()

    def _knock(self) -> None:
        if self.host in self._network.silent:
            return
        server = self._network.hosts.get(self.host)
        if server is None:
            self.reset("refused: nobody listens")
            return
        self.server = server
        server.accept(self)
        self.to_client.send(lambda: self.connected())

    def _reach(self, frame: bytes) -> None:
        if self.host in self._network.silent:
            return
        if self.server is None or not self.server.alive:
            self.reset("reset: connection reset by peer")
        else:
            self.server.receive(self, frame)

    def _hang_up(self) -> None:
        if self.server is not None and self.server.alive:
            self.server.disconnected(self)

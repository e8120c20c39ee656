"""Reaches the right broker, again and again until it works or the time is over.

Knows the brokers' addresses from the last Metadata response, the controller, and coordinators as long as they say that
they are; whoever else is asked for is looked up anew. Where no known broker can be reached the bootstrap list is tried
again.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from broker.tools.client.connection import Address, Connection, R
from broker.tools.client.errors import RETRIABLE, BrokerError, TimedOut, ToolError, Unreachable, Unresolvable, check
from broker.tools.client.settings import ClientSettings
from broker.wire.errors import ErrorCode
from broker.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from broker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from broker.wire.schema import Message

T = TypeVar("T")
GROUP: Final = 0
TRANSACTION: Final = 1
_COORDINATOR_GONE: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Node(NamedTuple):
    """A broker as Metadata tells of it."""

    id: int
    address: Address
    rack: str | None


class Cluster:
    """Not thread-safe. Deadlines: by time.monotonic(), in seconds."""

    def __init__(self, settings: ClientSettings, sleep: Callable[[float], None] = time.sleep) -> None:
        self.settings = settings
        self.nodes: dict[int, Node] = {}
        self._sleep = sleep
        self._controller: int | None = None
        self._coordinators: dict[tuple[int, str], int] = {}
        self._connections: dict[Address, Connection] = {}
        self._warned: set[Address] = set()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def retry(self, what: str, attempt: Callable[[float], T], timeout: float | None = None) -> T:
        """`attempt(deadline of this try)` until it succeeds. what: the operation, for the error.

        Tries again after Unreachable and after BrokerError with a retriable code; raises TimedOut when the time is
        over, and whatever else the attempt raises. timeout: seconds, the client's own where there is none.
        """
        end = time.monotonic() + (self.settings.api_timeout if timeout is None else timeout)
        pause = self.settings.backoff
        while True:
            try:
                return attempt(min(end, time.monotonic() + self.settings.request_timeout))
            except Unreachable as error:
                last: ToolError = error
            except BrokerError as error:
                if error.code not in RETRIABLE:
                    raise
                last = error
            if time.monotonic() + pause >= end:
                if isinstance(last, BrokerError):
                    raise last
                raise TimedOut(what, last)
            self._sleep(pause * random.uniform(0.8, 1.2))
            pause = min(2 * pause, self.settings.backoff_max)

    def any(self, request: Message, response: type[R], deadline: float) -> R:
        """Of whichever broker responds first. Raises Unreachable when none does, and ToolError where no host of the
        bootstrap list has an address, which no other try can mend.
        """
        last = Unreachable("no broker is known")
        unresolved: dict[Address, None] = {}
        for connection in self._candidates():
            try:
                self._open(connection, deadline)
                return connection.exchange(request, response, deadline)
            except Unreachable as error:
                last = error
                if isinstance(error, Unresolvable):
                    unresolved[connection.address] = None
        if not self.nodes and unresolved.keys() >= set(self.settings.bootstrap):
            listed = ",".join(map(str, unresolved))
            raise ToolError(f"No resolvable bootstrap urls given in bootstrap.servers: {listed}")
        raise last

    def _candidates(self) -> list[Connection]:
        """Those that are open first, then others at random, at last the bootstrap list as it stands."""
        known = [self._at(node.address) for node in self.nodes.values()]
        random.shuffle(known)
        known.sort(key=lambda connection: not connection.is_open)
        known += [self._at(address) for address in self.settings.bootstrap]
        return list(dict.fromkeys(connection for connection in known if not connection.outstanding))

    def _at(self, address: Address) -> Connection:
        if address not in self._connections:
            self._connections[address] = Connection(address, self.settings.client_id)
        return self._connections[address]

    def _open(self, connection: Connection, deadline: float) -> None:
        try:
            connection.open(min(deadline, time.monotonic() + self.settings.connect_timeout))
        except Unreachable as error:
            if connection.address not in self._warned:
                self._warned.add(connection.address)
                print(f"WARN Connection to {error}. Node may not be available.", file=sys.stderr)
            raise

    def connect(self, broker_id: int, deadline: float, purpose: str = "") -> Connection:
        """An open connection to one broker. purpose: whoever names another gets a connection of its own.

        Raises Unreachable, also for a broker that Metadata does not know.
        """
        if broker_id not in self.nodes:
            self.metadata_once([], deadline)
        node = self.nodes.get(broker_id)
        if node is None:
            raise Unreachable(f"broker {broker_id} is not known")
        if purpose:
            connection = Connection(node.address, self.settings.client_id)
        else:
            connection = self._at(node.address)
        self._open(connection, deadline)
        return connection

    def at(self, broker_id: int, request: Message, response: type[R], deadline: float, at_most: int | None = None) -> R:
        """Of one broker, in this version at most. Raises Unreachable."""
        return self.connect(broker_id, deadline).exchange(request, response, deadline, at_most)

    def metadata_once(
        self, topics: Sequence[str] | None, deadline: float, *, create: bool = False, ids: Sequence[str] = ()
    ) -> MetadataResponse:
        """One Metadata request. topics: None for all; ids: of topics, instead of names. Raises Unreachable."""
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        if ids:
            asked = [MetadataRequestTopic(topic_id=one, name=None) for one in ids]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=create)
        response = self.any(request, MetadataResponse, deadline)
        if response.brokers:
            self.nodes = {
                one.node_id: Node(one.node_id, Address(one.host, one.port), one.rack) for one in response.brokers
            }
        self._controller = response.controller_id if response.controller_id >= 0 else None
        return response

    def metadata(self, topics: Sequence[str] | None, what: str = "metadata") -> MetadataResponse:
        """The same until some broker responds. Errors of topics are in it. Raises TimedOut."""
        return self.retry(what, lambda deadline: self.metadata_once(topics, deadline))

    def controller(
        self,
        what: str,
        request: Message,
        response: type[R],
        verify: Callable[[R], None],
        timeout: float | None = None,
        at_most: int | None = None,
    ) -> R:
        """Of the controller, looked up again when it moves. verify: raises BrokerError for errors of the response.

        at_most: the last version in which the request can be said.
        """

        def attempt(deadline: float) -> R:
            if self._controller is None:
                self.metadata_once([], deadline)
            if self._controller is None:
                raise Unreachable("no controller is known")
            try:
                found = self.at(self._controller, request, response, deadline, at_most)
                verify(found)
            except (Unreachable, BrokerError) as error:
                if isinstance(error, Unreachable) or error.code == ErrorCode.NOT_CONTROLLER:
                    self._controller = None
                raise
            return found

        return self.retry(what, attempt, timeout)

    def coordinator_id(self, kind: int, key: str, deadline: float) -> int:
        """Broker id of a group's (`GROUP`) or a transactional id's (`TRANSACTION`) coordinator; known ones are kept."""
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        (found,) = self.any(request, FindCoordinatorResponse, deadline).coordinators
        check(found.error_code, found.error_message)
        self.nodes.setdefault(found.node_id, Node(found.node_id, Address(found.host, found.port), None))
        self._coordinators[kind, key] = found.node_id
        return found.node_id

    def forget_coordinator(self, kind: int, key: str) -> None:
        """It has to be looked up again."""
        self._coordinators.pop((kind, key), None)

    def coordinator_once(
        self, kind: int, key: str, request: Message, response: type[R], verify: Callable[[R], None], deadline: float
    ) -> R:
        """One request to a coordinator; whoever says that it is none is forgotten. Raises Unreachable, BrokerError."""
        try:
            found = self.at(self.coordinator_id(kind, key, deadline), request, response, deadline)
            verify(found)
        except (Unreachable, BrokerError) as error:
            if isinstance(error, Unreachable) or error.code in _COORDINATOR_GONE:
                self.forget_coordinator(kind, key)
            raise
        return found

    def coordinator(
        self,
        what: str,
        kind: int,
        key: str,
        request: Message,
        response: type[R],
        verify: Callable[[R], None],
        timeout: float | None = None,
    ) -> R:
        """The same until it succeeds. verify: raises BrokerError for errors of the response."""
        return self.retry(
            what, lambda deadline: self.coordinator_once(kind, key, request, response, verify, deadline), timeout
        )

    def every_broker(
        self, what: str, request: Message, response: type[R], among: Sequence[int] | None = None
    ) -> dict[int, R]:
        """Responses of these brokers, of all live ones for None, by broker id."""
        self.metadata([], what)
        return {
            broker_id: self.retry(what, partial(self.at, broker_id, request, response))
            for broker_id in sorted(self.nodes if among is None else among)
        }

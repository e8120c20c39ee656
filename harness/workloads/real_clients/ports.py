"""What an application needs of a client library: a sender, a consumer of a group, a transactional producer.

`librdkafka` and `java` have one implementation each. Must not know the history. Every object is used by one thread, and
whatever it is given to call is called by that thread, within a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from harness.operations.op import Outcome

BATCH = 50
"""Records that one transaction, or one commit, is of."""


class Record(NamedTuple):
    """A delivered record. value: None where it is not one of this harness."""

    partition: int
    offset: int
    value: int | None
    intact: bool


class CallFailed(Exception):
    """A call of the client failed. error: as the history has it.

    again: the same call may help. aborts: of a transaction, which was certainly not committed and can be aborted.
    """

    def __init__(self, error: str, *, again: bool = False, aborts: bool = False) -> None:
        super().__init__(error)
        self.error = error
        self.again = again
        self.aborts = aborts


class ClientLost(CallFailed):
    """The client is gone, with all that it had under way: its process died, or was killed because it hung."""


OnDelivery = Callable[[int, Outcome, str | None, int | None], None]
"""(number, outcome, error, offset): a record's callback. offset: None where nobody says it."""


class RecordSender(Protocol):
    """A producer with many records under way. Each record has one delivery, but those that are lost with the client."""

    @property
    def broken(self) -> bool:
        """It takes nothing any more."""
        ...

    def send(self, number: int, partition: int, value: bytes) -> None:
        """Hand a record over. Raises ClientLost."""
        ...

    def serve(self, wait_s: float) -> None:
        """Deliveries that have come; where none has, until the first comes, at most wait_s. Raises ClientLost."""
        ...

    def finish(self, limit_s: float) -> None:
        """Wait for what is under way, then drop the client. Raises ClientLost."""
        ...


class Listener(Protocol):
    """Who is told of a member's assignment, within `poll` and `close`."""

    def on_assigned(self, partitions: Sequence[int]) -> None:
        """Under a cooperative protocol: those that are new."""
        ...

    def on_gone(self, f: str, partitions: Sequence[int]) -> None:
        """f: `revoke` or `lost`. Under a cooperative protocol: those that are gone."""
        ...


class Consumer(Protocol):
    """A member of a group, subscribed to the application's topic."""

    @property
    def member(self) -> str:
        """Its id; empty where it is no member."""
        ...

    @property
    def generation(self) -> int:
        """-1 where the client does not say it."""
        ...

    def poll(self, wait_s: float) -> Sequence[Record]:
        """What it hands out, after its callbacks. Raises ClientLost."""
        ...

    def position(self, partition: int) -> int | None:
        """Where it stood after its last poll that had records of the partition; None where it does not say."""
        ...

    def commit(self, offsets: Mapping[int, int]) -> None:
        """By partition, and wait. Raises CallFailed."""
        ...

    def commit_later(self, offsets: Mapping[int, int], done: Callable[[str | None], None]) -> None:
        """The same without waiting; one at a time. done: is given the error, or None, within a later call, unless the
        client is gone by then. Raises CallFailed.
        """
        ...

    def whose(self) -> object:
        """Group, member and generation now, for transactions of the same library."""
        ...

    def seek(self, partition: int, offset: int) -> None:
        """Read on from there; nothing where the partition was taken away meanwhile. Raises ClientLost."""
        ...

    def close(self) -> None:
        """Leave the group; callbacks may come. Raises ClientLost."""
        ...


class Transactional(Protocol):
    """A transactional producer. All raise CallFailed; deliveries have come once a transaction is over."""

    def init(self) -> None:
        """Take the transactional id; waits until its last transaction is over."""
        ...

    def begin(self) -> None:
        """Begin a transaction."""
        ...

    def send(self, number: int, partition: int, value: bytes) -> None:
        """Where it fails, the record has its delivery all the same."""
        ...

    def send_offsets(self, offsets: Mapping[int, int], whose: object) -> None:
        """By partition, as part of the transaction. whose: of a consumer of the same library."""
        ...

    def commit(self) -> None:
        """Commit it, or none of it."""
        ...

    def abort(self) -> None:
        """Abort it."""
        ...

    def serve(self) -> None:
        """Deliveries that have come."""
        ...

    def give_up(self) -> None:
        """Drop the client with what it has open. Raises nothing."""
        ...


class Clients(Protocol):
    """Makes one application thread's clients, one of each kind at a time."""

    @property
    def reader(self) -> str:
        """As the history has it."""
        ...

    def start(self) -> None:
        """Begin whatever takes its time; called before there is load."""
        ...

    def wait_started(self) -> None:
        """Blocks until the first client can be made at once, after `start`."""
        ...

    def sender(self, on_delivery: OnDelivery) -> RecordSender:
        """A new producer. Raises ClientLost."""
        ...

    def consumer(self, listener: Listener) -> Consumer:
        """A new member of the group. Raises ClientLost."""
        ...

    def transactional(self, on_delivery: OnDelivery) -> Transactional:
        """A new producer with the thread's transactional id. Raises ClientLost."""
        ...

    def close(self) -> None:
        """After the thread's last call."""
        ...

"""The partitions of an internal topic that this broker leads, and the state that their logs hold.

Becoming leader of such a partition makes this broker the coordinator of all that belongs to the partition, once the
state is loaded: its log is read, some of it a turn, to where this leadership began, and as far beyond as it is
committed. Then the high watermark has to reach where the leadership began, for what is not committed may yet be lost.
Until then requests get COORDINATOR_LOAD_IN_PROGRESS. Those partitions are read first, and at full speed, that somebody
waits for. The others are read in what time that leaves, and never in more than a part of the loop's time, the shorter
ones first: after another broker's end everything that its clients wait for goes through this loop, and logs grow for as
long as a cluster lives. Markers are written meanwhile; who writes one says so once it is committed (`loaded`). With the
leadership the state goes. Loop thread.
Source: GroupMetadataManager.doLoadGroupsAndOffsets, GroupCoordinator.onElection, onResignation. Kafka serves a state
before its end is committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Generic, Protocol, TypeVar

from broker.core.replication.leader import Leader
from broker.model.ids import Epoch, Offset
from broker.model.log_errors import CorruptLog, LogDirFailed, LogUnread, NoDescriptorFree
from broker.runtime.ports import Loop, Timer
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas
from broker.wire.compression import CodecMissing, CompressionError, are_all_installed
from broker.wire.coordinator_records.scan import Found, read_batch, scan
from broker.wire.errors import ErrorCode
from broker.wire.record_batch import BatchHeader, CorruptBatch, is_cut_off, read_header

logger = logging.getLogger(__name__)

_SLICE_BYTES: Final = 128 << 10
"""What is read of one partition at once, and about as much as a turn reads of all: some milliseconds."""
_READ_BYTES: Final = 8 << 10
"""What could be read in the time that a read takes by itself."""
_UNWANTED_BYTES: Final = 32 << 10
"""What a turn reads of partitions that nobody waits for."""
_REST: Final = 3.0
"""How long such reading rests, in times of what the turn's reading took."""
_COMMITTED_CHECK_MS: Final = 5.0
_REPORT_AFTER_MS: Final = 1000.0
_RETRY_MS: Final = 200.0


class PartitionState(Protocol):
    """What a partition's log says, while it is loaded and from then on."""

    def take(self, found: Iterable[Found]) -> None:
        """The next records of the log. Raises CorruptBatch where they cannot be read."""
        ...

    def bring_up(self) -> bool:
        """Everything was taken and is committed: make some of it ready, and say whether all is. Called turn after turn,
        between which the log may get more: markers of transactions do not wait. Raises CorruptBatch as `take`.
        """
        ...

    def loaded(self) -> None:
        """All is ready: requests come from now on."""
        ...

    def unload(self) -> None:
        """This broker coordinates the partition no more, whether it is loaded or not; whatever waits has to end."""
        ...


S = TypeVar("S", bound=PartitionState)


class _Coordinated(Generic[S]):
    __slots__ = ("began_ms", "began_offset", "epoch", "next_offset", "ready", "replica", "state", "timer")

    def __init__(self, replica: Replica, role: Leader, state: S, began_ms: float) -> None:
        self.replica = replica
        self.epoch: Epoch = role.leader_epoch
        self.began_offset: Offset = role.epoch_start_offset
        """What lies before it in the log is another leadership's."""
        self.state = state
        self.began_ms = began_ms
        self.next_offset: Offset = replica.log.log_start_offset
        self.ready = False
        self.timer: Timer | None = None


class CoordinatorPartitions(Generic[S]):
    """Of one internal topic. `on_role_change` is called with every replica whose role has changed."""

    def __init__(self, topic: str, replicas: Replicas, loop: Loop, new_state: Callable[[int, Epoch], S]) -> None:
        """new_state: of a partition and the leader epoch under which this broker coordinates the partition."""
        self._topic = topic
        self._replicas = replicas
        self._loop = loop
        self._new_state = new_state
        self._coordinated: dict[int, _Coordinated[S]] = {}
        self._loading_since: dict[int, float] = {}
        self._next: list[tuple[int, _Coordinated[S]]] = []
        """Who goes on loading."""
        self._wanted: set[int] = set()
        """Partitions that are being loaded, and that somebody has asked for."""
        self._in_turn = False
        self._turn_comes = False
        self._resting: Timer | None = None
        """Until the turn that comes, where that is after a rest."""
        self._rest_ms = 0.0
        self._listeners: list[Callable[[], None]] = []

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Called in a turn of its own when a load has ended, well or not."""
        self._listeners.append(listener)

    def loading_since(self) -> Mapping[int, float]:
        """Partitions whose state this broker does not know yet, and since when, by the loop's clock, somebody waits for
        them; where nobody does, since when they are loaded.
        """
        return self._loading_since

    def want(self, partition: int) -> None:
        """Somebody waits for this partition, which is being loaded."""
        if partition not in self._loading_since or partition in self._wanted:
            return
        self._wanted.add(partition)
        self._loading_since[partition] = self._loop.now_ms()
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
            self._loop.call_soon(self._load_some)

    def find(self, partition: int) -> S | ErrorCode:
        """The partition's state, or why this broker has none."""
        found = self._coordinated.get(partition)
        if found is None or self._replicas.fenced_now():
            return ErrorCode.NOT_COORDINATOR
        if found.ready:
            return found.state
        self.want(partition)
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def loaded(self, partition: int) -> S | None:
        """The state to keep in step with the log, also while requests are refused; None: it is read when loaded."""
        found = self._coordinated.get(partition)
        return found.state if found is not None and found.ready else None

    def epoch(self, partition: int) -> Epoch:
        """The leader epoch under which the partition is coordinated here, −1 where it is not."""
        found = self._coordinated.get(partition)
        return -1 if found is None else found.epoch

    def ready(self) -> Iterator[tuple[int, S]]:
        """All that is loaded."""
        for partition, found in list(self._coordinated.items()):
            if found.ready:
                yield partition, found.state

    def unfinished(self) -> list[S]:
        """All that is being loaded."""
        return [found.state for found in self._coordinated.values() if not found.ready]

    @property
    def loading(self) -> bool:
        """Whether this broker coordinates a partition whose state it does not know yet."""
        return bool(self._loading_since)

    def on_role_change(self, replica: Replica) -> None:
        """Take the partition's state up, or let it go; nothing for other topics."""
        topic, partition = replica.topic_partition
        if topic != self._topic:
            return
        role = replica.partition.role
        found = self._coordinated.get(partition)
        if not isinstance(role, Leader) or replica.offline:
            if found is not None:
                self._drop(partition, found)
        elif found is None or found.replica is not replica:
            if found is not None:
                self._drop(partition, found)
            self._begin(partition, replica, role)
        else:
            # Still the leader: the log is what it was, and so is what was read from it.
            found.epoch = role.leader_epoch

    def _drop(self, partition: int, found: _Coordinated[S]) -> None:
        del self._coordinated[partition]
        self._no_more_loading(partition)
        if found.timer is not None:
            found.timer.cancel()
        logger.info("%s-%d: coordinated here no more, leader epoch %d", self._topic, partition, found.epoch)
        found.state.unload()

    def _begin(self, partition: int, replica: Replica, role: Leader) -> None:
        state = self._new_state(partition, role.leader_epoch)
        found = _Coordinated(replica, role, state, self._loop.now_ms())
        self._coordinated[partition] = found
        self._loading_since[partition] = found.began_ms
        self._go_on(partition, found, 0.0)

    def _go_on(self, partition: int, found: _Coordinated[S], delay_ms: float) -> None:
        def enqueue() -> None:
            self._next.append((partition, found))
            self._plan_turn()

        if delay_ms:
            found.timer = self._loop.call_later(delay_ms, enqueue)
        else:
            enqueue()

    def _plan_turn(self) -> None:
        """Go on at once for what is waited for, and after a rest for the others; no more than one turn is planned."""
        if self._in_turn or self._turn_comes:
            return
        if self._rest_ms and not any(partition in self._wanted for partition, _ in self._next):
            self._resting = self._loop.call_later(self._rest_ms, self._load_some)
        else:
            self._loop.call_soon(self._load_some)
        self._turn_comes = True

    def _load_some(self) -> None:
        """A slice of the most urgent, until enough was read for a turn: many may come at once, when a broker dies."""
        self._turn_comes, self._resting, self._in_turn = False, None, True
        began_ms = self._loop.now_ms()
        waiting, self._next = self._next, []
        waiting.sort(key=self._urgency, reverse=True)
        wanted = bool(waiting) and waiting[-1][0] in self._wanted
        left = _SLICE_BYTES if wanted else _UNWANTED_BYTES
        try:
            while waiting and left > 0 and (not wanted or waiting[-1][0] in self._wanted):
                partition, found = waiting.pop()
                if self._coordinated.get(partition) is found:
                    left -= max(self._load(partition, found, max(left, _READ_BYTES)), _READ_BYTES)
        finally:
            # Also where one failed in a way that nobody foresaw: the others go on.
            self._in_turn = False
            self._rest_ms = 0.0 if wanted else _REST * (self._loop.now_ms() - began_ms)
            self._next.extend(waiting)
            if self._next:
                self._plan_turn()

    def _urgency(self, waiting: tuple[int, _Coordinated[S]]) -> tuple[bool, Offset]:
        """The least is loaded first."""
        partition, found = waiting
        return partition not in self._wanted, found.replica.log.log_end_offset - found.next_offset

    def _load(self, partition: int, found: _Coordinated[S], max_bytes: int) -> int:
        """Read one slice, of a whole batch at least, or see that nothing is left to read or to wait for. Returns the
        bytes read.
        """
        log = found.replica.log
        limit = min(log.log_end_offset, max(found.began_offset, found.replica.high_watermark))
        try:
            if found.next_offset < log.log_start_offset:
                found.next_offset = log.log_start_offset
            slice_ = log.read_bytes(found.next_offset, max_bytes, limit, True)
            self._take(found, slice_)
            read = not slice_ and found.replica.high_watermark >= found.began_offset
            ready = read and found.state.bring_up()
        except NoDescriptorFree as busy:
            logger.warning("%s: its state cannot be read yet: %s", found.replica.name, busy)
            self._go_on(partition, found, _RETRY_MS)
            return 0
        except (LogDirFailed, CorruptLog) as failure:
            self._replicas.take_offline(found.replica, failure)
            return 0
        except CodecMissing as missing:
            # Another broker may have it, and this one later.
            self._cannot_be_read(found, missing, are_all_installed)
            return 0
        except (CorruptBatch, OSError) as failure:
            # Every copy has these bytes: the read has looked at their CRCs.
            self._cannot_be_read(found, failure, lambda: False)
            return 0
        if ready:
            self._finish(partition, found)
        else:
            self._go_on(partition, found, 0.0 if slice_ or read else _COMMITTED_CHECK_MS)
        return len(slice_)

    def _cannot_be_read(self, found: _Coordinated[S], why: Exception, may_be_over: Callable[[], bool]) -> None:
        where = f"offset {found.next_offset}"
        unread = LogUnread(found.replica.topic_partition, where, str(why), may_be_over)
        self._replicas.take_offline(found.replica, unread)

    def _take(self, found: _Coordinated[S], slice_: memoryview) -> None:
        """Hand the records of whole batches on. Raises CorruptBatch, CodecMissing."""
        data, at = bytes(slice_), 0
        while at < len(data):
            records: list[Found] = []
            at, next_offset = scan(data, at, records)
            if next_offset >= 0:
                found.state.take(records)
                found.next_offset = next_offset
            if is_cut_off(slice_, at):
                return
            header = read_header(slice_, at)
            found.state.take(_records_of(found.replica.name, header, slice_[at : at + header.size]))
            found.next_offset = header.last_offset + 1
            at += header.size

    def _finish(self, partition: int, found: _Coordinated[S]) -> None:
        found.ready = True
        took_ms = self._loop.now_ms() - found.began_ms
        level = logging.WARNING if took_ms > _REPORT_AFTER_MS else logging.INFO
        logger.log(
            level,
            "%s-%d: coordinated here in leader epoch %d, state loaded up to offset %d in %.0f ms",
            self._topic,
            partition,
            found.epoch,
            found.next_offset,
            took_ms,
        )
        try:
            found.state.loaded()
        finally:
            self._no_more_loading(partition)

    def _no_more_loading(self, partition: int) -> None:
        self._wanted.discard(partition)
        if self._loading_since.pop(partition, None) is not None:
            for listener in self._listeners:
                self._loop.call_soon(listener)


def _records_of(partition: str, header: BatchHeader, batch: memoryview) -> list[Found]:
    """None of a batch that nobody can read: under a right CRC a client wrote it so, and every replica has it so. Raises
    CodecMissing: another broker may have the codec.
    """
    try:
        return read_batch(header, batch)
    except CodecMissing:
        raise
    except (CorruptBatch, CompressionError) as unreadable:
        logger.warning("%s: a batch at offset %d is passed over: %s", partition, header.base_offset, unreadable)
        return []

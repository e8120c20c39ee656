"""Coordinators of one partition of `__transaction_state`, leaders of data and clients, with all that may go wrong.

Coordinators, their senders of markers and the rules of leaders are the broker's own; logs and network are modelled.
Every message is delivered, lost, or delivered with its response lost, in an order that chance chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random

from broker.config.settings import Settings
from broker.model.ids import BrokerId, TopicPartition
from broker.runtime.ports import Peer
from broker.runtime.transaction.coordinator import TransactionCoordinator
from broker.runtime.transaction.housekeeping import TransactionHousekeeping
from broker.runtime.transaction.marker_sender import MarkerSender
from broker.runtime.transaction.ports import MarkerOf
from broker.runtime.transaction.state import TransactionPartition
from broker.wire.control_records import EndOfTransaction
from broker.wire.coordinator_records.scan import read_batch
from broker.wire.errors import ErrorCode
from broker.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from broker.wire.record_batch import read_header
from broker.wire.records import NewRecord, encode_batch
from tests.property.runtime.transaction_logs import DataLog, Done, StateLog
from tests.support.fake_loop import FakeLoop
from tests.support.fake_peer import FakePeer, SentRequest
from tests.support.transaction_parts import STATE_0, FakeCluster

BROKERS = (1, 2, 3)
PARTITIONS = [TopicPartition("t", index) for index in range(3)]
TIMEOUT_MS = 25_000
NOT_HERE = ErrorCode.NOT_COORDINATOR

Message = tuple[Callable[[], None], Callable[[], None]]
"""(deliver, lose)."""


class Ids:
    def __init__(self) -> None:
        self.next_id = 100

    def next_producer_id(self, on_id: Callable[[int], None], on_failure: Callable[[str], None]) -> None:
        self.next_id += 1
        on_id(self.next_id)


class Broker:
    """Coordinates while it leads `__transaction_state-0`, and has loaded it."""

    def __init__(self, world: TransactionWorld, broker_id: int) -> None:
        self.world = world
        self.broker_id = broker_id
        self.home: TransactionPartition | None = None
        self.loading: list[NewRecord] | None = None
        """What the log held when this broker came to lead it, until it is loaded."""
        settings = Settings.parse({"zookeeper.connect": "zk:2181"})
        self.coordinator = TransactionCoordinator(
            settings.transactions,
            None,  # type: ignore[arg-type]
            world.cluster,
            self,  # type: ignore[arg-type]
            world.ids,
            world.loop,
            lambda: int(world.loop.now),
        )
        self.coordinator.partitions.find = self._find  # type: ignore[method-assign]
        self.coordinator.partitions.ready = self._ready  # type: ignore[method-assign, assignment]
        self.coordinator.markers = MarkerSender(
            broker_id, world.cluster, self._peer, self, world.loop, lambda _: world.state.epoch, 30_000
        )
        TransactionHousekeeping(self.coordinator, self, world.loop, lambda: False).start()  # type: ignore[arg-type]

    def _find(self, partition: int) -> TransactionPartition | ErrorCode:
        if self.home is None:
            return NOT_HERE
        return self.home if self.loading is None else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def _ready(self) -> list[tuple[int, TransactionPartition]]:
        return [(0, self.home)] if self.home is not None and self.loading is None else []

    # -- coordinating ----------------------------------------------------------------------------------------------

    def lead(self, records: Sequence[NewRecord]) -> None:
        self.home = TransactionPartition(0, self.coordinator._on_loaded)
        self.loading = list(records)

    def resign(self) -> None:
        home, self.home, self.loading = self.home, None, None
        if home is not None:
            home.unload()

    def load(self) -> None:
        """Where all that it holds is committed."""
        if self.home is not None and self.loading is not None and self.world.state.committed >= len(self.loading):
            records, self.loading = self.loading, None
            if records:
                batch = memoryview(bytearray(encode_batch(records, timestamps=1)))
                self.home.take(read_batch(read_header(batch), batch))
            while not self.home.bring_up():
                pass
            self.home.loaded()

    def add(self, partition: int, records: Sequence[NewRecord], done: Done) -> None:
        """As `CoordinatorAppends`."""
        state = self.world.state
        if state.leader != self.broker_id:
            self.world.loop.call_soon(lambda: done(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1))
        elif state.refusing:
            self.world.loop.call_soon(lambda: done(ErrorCode.NOT_ENOUGH_REPLICAS, -1))
        else:
            state.stage(records, done)

    # -- markers ---------------------------------------------------------------------------------------------------

    def _peer(self, broker: BrokerId) -> Peer:
        return Link(self.world, self.world.brokers[broker])

    def write(self, markers: Sequence[WritableTxnMarker], done: Callable[[Mapping[MarkerOf, ErrorCode]], None]) -> None:
        """As `MarkerWriter`, for the partitions that this broker leads."""
        which = [
            (marker, MarkerOf(marker.producer_id, topic.name, index))
            for marker in markers
            for topic in marker.topics
            for index in topic.partition_indexes
        ]
        results: dict[MarkerOf, ErrorCode] = {}

        def written(of: MarkerOf, error: ErrorCode, _: int) -> None:
            results[of] = error
            if len(results) == len(which):
                done(results)

        for marker, of in which:
            log = self.world.data[TopicPartition(of.topic, of.partition)]
            if log.leader != self.broker_id:
                written(of, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
                continue
            end = EndOfTransaction(marker.transaction_result, marker.coordinator_epoch)
            log.write_marker(marker.producer_id, marker.producer_epoch, end, partial(written, of))


class Link(FakePeer):
    """Requests for markers, from one broker to another."""

    def __init__(self, world: TransactionWorld, target: Broker) -> None:
        super().__init__()
        self._world = world
        self._target = target

    def receive(self, request: SentRequest) -> None:
        lose = partial(request.on_failure, "reset: gone")

        def deliver() -> None:
            self._target.write(request.decode(WriteTxnMarkersRequest).markers, respond)

        def respond(results: Mapping[MarkerOf, ErrorCode]) -> None:
            self._world.send(lambda: request.respond(_response(results)), lose)

        self._world.send(deliver, lose)


def _response(results: Mapping[MarkerOf, ErrorCode]) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                of.producer_id,
                [WritableTxnMarkerTopicResult(of.topic, [WritableTxnMarkerPartitionResult(of.partition, error)])],
            )
            for of, error in results.items()
        ]
    )


class TransactionWorld:
    """`step` lets one thing happen, `heal` all that is left."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.loop = FakeLoop()
        self.ids = Ids()
        self.state = StateLog(1)
        self.data = {each: DataLog(index + 1) for index, each in enumerate(PARTITIONS)}
        self.cluster = FakeCluster({STATE_0: 1, **{each: log.leader for each, log in self.data.items()}})
        self.logs: list[StateLog | DataLog] = [self.state, *self.data.values()]
        self.messages: list[Message] = []
        self.slow: list[Message] = []
        """Under way for as long as a time-out may take."""
        self.brokers = {broker_id: Broker(self, broker_id) for broker_id in BROKERS}
        self.brokers[1].lead([])

    def send(self, deliver: Callable[[], None], lose: Callable[[], None]) -> None:
        (self.slow if self.rng.random() < 0.03 else self.messages).append((deliver, lose))

    @property
    def coordinator(self) -> Broker:
        """The broker that leads `__transaction_state-0`."""
        return self.brokers[self.state.leader]

    # -- what happens ----------------------------------------------------------------------------------------------

    def step(self) -> None:
        rng = self.rng
        roll = rng.random()
        log = rng.choice(self.logs)
        if roll < 0.50:
            self.deliver(lossy=True)
        elif roll < 0.85:
            log.commit(rng.randint(log.committed, len(log.entries)))
        elif roll < 0.90:
            self.coordinator.load()
        elif roll < 0.905:
            self.loop.advance(10_001)
        elif roll < 0.97:
            self.loop.advance(rng.choice([50, 100]))
            log.refusing = False
        elif roll < 0.98:
            (log if rng.random() < 0.5 else self.state).time_out()
        elif roll < 0.985:
            log.refusing = True
        elif roll < 0.995:
            self.move_data()
        else:
            self.move_coordinator()
        self.run()

    def run(self) -> None:
        while self.loop.run_soon():
            pass

    def deliver(self, lossy: bool) -> None:
        if self.slow and (not lossy or self.rng.random() < 0.02):
            self.messages.append(self.slow.pop(self.rng.randrange(len(self.slow))))
        if self.messages:
            deliver, lose = self.messages.pop(self.rng.randrange(len(self.messages)))
            (lose if lossy and self.rng.random() < 0.05 else deliver)()

    def move_data(self) -> None:
        partition = self.rng.choice(PARTITIONS)
        self.data[partition].move(self.rng.choice(BROKERS), self.rng)
        self.cluster.leaders[partition] = self.data[partition].leader
        for broker in self.brokers.values():
            broker.coordinator.markers.on_metadata()

    def move_coordinator(self) -> None:
        """The one before hears of it late perhaps, and what it has sent may come in when all else has been done."""
        if self.rng.random() < 0.5:
            self.slow += self.messages
            self.messages = []
        before, successor = self.coordinator, self.brokers[self.rng.choice(BROKERS)]
        unload_first = self.rng.random() < 0.5
        if unload_first:
            before.resign()
        self.state.move(successor.broker_id, self.rng)
        before.resign()
        self.cluster.leaders[STATE_0] = successor.broker_id
        successor.lead(self.state.entries)

    def heal(self) -> None:
        """Nothing fails any more, and time goes on until every time-out is over."""
        for log in self.logs:
            log.refusing = False
        for _ in range(12):
            for _ in range(200):
                self.run()
                for log in self.logs:
                    log.commit(len(log.entries))
                self.coordinator.load()
                self.run()
                if not (self.messages or self.slow):
                    break
                self.deliver(lossy=False)
            self.loop.advance(10_001)

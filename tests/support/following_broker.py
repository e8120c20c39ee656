"""One broker that follows in two partitions, and the leaders that it fetches from: the test answers for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from broker.config.settings import Settings
from broker.model.ids import BrokerId
from broker.runtime.ports import Peer
from broker.runtime.replica_manager import ReplicaManager
from broker.runtime.replicas.ports import AlterPartitionSender
from broker.wire.api import ApiKey
from broker.wire.messages import fetch
from broker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from broker.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from broker.wire.record_batch import stamp
from broker.wire.records import NewRecord, encode_batch
from tests.support.fake_loop import FakeLoop
from tests.support.fake_peer import FakePeer, SentRequest
from tests.support.memory_brokers import ProducerIds
from tests.support.memory_log import MemoryLog, MemoryStore
from tests.support.memory_node import TOPIC, TOPIC_ID, RecordingEventLog

VERSION = 15
SESSION = 77


class Sent:
    """One fetch request of the follower."""

    def __init__(self, sent: SentRequest) -> None:
        self.request = fetch.decode_request(VERSION, memoryview(sent.body))
        self._on_response = sent.on_response
        self.fail = sent.on_failure

    @property
    def forgotten(self) -> list[int]:
        return [part.partition for part in self.request.forgotten]

    @property
    def positions(self) -> dict[int, int]:
        """Fetch offset by partition, of those that are named."""
        return {part.partition: part.fetch_offset for part in self.request.partitions}

    def respond(self, *results: fetch.FetchPartitionResult, session_id: int = SESSION, error: int = 0) -> None:
        chunks = fetch.encode_response(VERSION, list(results), session_id=session_id, error=error)
        self._on_response(memoryview(b"".join(bytes(chunk) for chunk in chunks)))


class Leader(FakePeer):
    """The peer; keeps the fetches that it is sent, and answers ListOffsets with `end`, or 0 for the start."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Sent] = []
        self.end = 0

    def receive(self, request: SentRequest) -> None:
        if request.api_key == ApiKey.LIST_OFFSETS:
            partition = request.decode(ListOffsetsRequest).topics[0].partitions[0]
            offset = self.end if partition.timestamp == -1 else 0
            found = ListOffsetsPartitionResponse(partition.partition_index, 0, -1, offset, 0)
            request.respond(ListOffsetsResponse(0, [ListOffsetsTopicResponse(TOPIC, [found])]))
        else:
            self.sent.append(Sent(request))


class Topics:
    def overrides(self, topic: str) -> Mapping[str, str]:
        return {}

    def has_partition(self, topic: str, partition: int) -> bool:
        return True

    def leader_of(self, topic: str, partition: int) -> tuple[int, int]:
        return -1, -1

    def name_of(self, topic_id: str) -> str | None:
        return None

    def endpoint_of(self, broker: int) -> tuple[str, int, str | None] | None:
        return None

    def live_brokers(self) -> Collection[int] | None:
        return None


class NoController(AlterPartitionSender):
    def send(self, *_: object) -> None:
        raise AssertionError("a follower proposes nothing")


class Follower:
    """Broker 2, which follows broker 1 in two partitions of a topic."""

    def __init__(self, addresses_known: bool = True, more: Mapping[str, str] | None = None) -> None:
        self.loop = FakeLoop()
        self.store = MemoryStore()
        self.leader = Leader()
        self.leaders = {1: self.leader, 3: Leader()}
        self.addresses_known = addresses_known
        needed = {"broker.id": "2", "zookeeper.connect": "zk:2181", "log.dirs": "/none"}
        settings = Settings.parse({**needed, **(more or {})})
        self.manager = ReplicaManager(
            settings,
            self.loop,
            self.store,
            RecordingEventLog(2, "02"),
            NoController(),
            self._peer,
            Topics(),
            ProducerIds(),
            lambda: 9,
            wall_ms=lambda: 0,
        )
        self.manager.startup()

    def _peer(self, broker: BrokerId) -> Peer | None:
        return self.leaders[broker] if self.addresses_known else None

    def follow(self, *partitions: int, leader_epoch: int = 0, leader: int = 1) -> None:
        states = [
            LeaderAndIsrPartitionState(index, 1, leader, leader_epoch, [leader, 2], leader_epoch, [leader, 2])
            for index in partitions
        ]
        topics = [LeaderAndIsrTopicState(TOPIC, TOPIC_ID, states)]
        response = self.manager.apply_leader_and_isr(LeaderAndIsrRequest(9, False, 1, 9, 0, topics, []), 6)
        assert all(part.error_code == 0 for part in response.topics[0].partition_errors)
        self.turn()

    def turn(self) -> None:
        self.loop.run_soon()
        self.manager.end_of_turn()

    def log(self, partition: int) -> MemoryLog:
        log = self.manager.replicas.by_partition[(TOPIC, partition)].log
        assert isinstance(log, MemoryLog)
        return log

    def open_session(self) -> None:
        self.leader.sent[-1].respond()
        self.turn()


def result(partition: int, *values: str, base: int = 0, epoch: int = 0, hw: int = 0) -> fetch.FetchPartitionResult:
    """One partition of a fetch response, with one batch per value."""
    records = bytearray()
    for place, value in enumerate(values):
        batch = bytearray(encode_batch([NewRecord(None, value.encode())], timestamps=1))
        stamp(memoryview(batch), 0, base + place, epoch)
        records += batch
    return fetch.FetchPartitionResult(
        "", TOPIC_ID, partition, 0, hw, hw, 0, records=[memoryview(records)] if records else []
    )

"""A coordinator of groups on one broker without network: real appends into logs in memory, committed when told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from broker.core.coordination import OFFSETS_TOPIC
from broker.core.group.settings import GroupSettings
from broker.core.replication.partition import PartitionState
from broker.model.ids import TopicPartition
from broker.runtime.group.coordinator import GroupCoordinator, GroupCoordinatorSettings
from broker.runtime.group.group_admin import GroupAdminHandlers
from broker.runtime.group.membership import MembershipHandlers
from broker.runtime.group.offset_fetch import OffsetFetchHandler
from broker.runtime.group.offset_handlers import OffsetHandlers, TransactionVerifier
from broker.runtime.metadata.cache import MetadataCache
from broker.runtime.replicas.append import Appender
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey, response_header_version
from broker.wire.compression import Compression
from broker.wire.errors import ErrorCode
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from broker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from broker.wire.records import Record, decode_records
from broker.wire.schema import Message
from tests.support.fake_loop import FakeLoop
from tests.support.memory_log import MemoryLog
from tests.support.memory_node import FakeSlot
from tests.support.metadata_updates import EPOCH, partition, update

TOPIC = "t"
PARTITIONS = 3
RETENTION_MS = 3_600_000
CHECK_MS = 60_000
COMMIT_TIMEOUT_MS = 5_000

M = TypeVar("M", bound=Message)


class _AllTopics:
    """Satisfies `replicas.ports.TopicConfigs`."""

    def overrides(self, topic: str) -> Mapping[str, str]:
        return {}

    def has_partition(self, topic: str, partition: int) -> bool:
        return True

    def leader_of(self, topic: str, partition: int) -> tuple[int, int]:
        return 1, 0

    def live_brokers(self) -> None:
        return None

    def endpoint_of(self, broker: int) -> None:
        return None

    def name_of(self, topic_id: str) -> None:
        return None


class GroupWorld:
    """`committing`: whether the end of a turn also commits what is in the log."""

    def __init__(
        self,
        settings: GroupSettings | None = None,
        log: MemoryLog | None = None,
        verifier: TransactionVerifier | None = None,
    ) -> None:
        """verifier: of transactions; without one they are not verified."""
        self.loop = FakeLoop()
        self.wall_ms = 1_700_000_000_000
        self.committing = True
        self.cache = MetadataCache("cluster", "PLAINTEXT", lambda: EPOCH, lambda topic: {}, lambda topic: None)
        self.cache.update(
            update({OFFSETS_TOPIC: [partition(1, [1])], TOPIC: [partition(1, [1], index=i) for i in range(PARTITIONS)]})
        )
        self.replicas = Replicas(1, self.loop, None, _AllTopics(), lambda: float("inf"), lambda replica, failure: None)
        appender = Appender(self.replicas, self.loop, None, lambda: self.wall_ms)
        appender.verifies_transactions = False
        self.appender = appender
        self.log = log or MemoryLog(TopicPartition(OFFSETS_TOPIC, 0), "")
        self.replica = Replica(1, self.log, 0)
        self.replicas.add(self.replica)
        self._suffixes = 0
        self.coordinator = GroupCoordinator(
            GroupCoordinatorSettings(
                settings or GroupSettings(initial_rebalance_delay_ms=0),
                offset_metadata_max=100,
                commit_timeout_ms=COMMIT_TIMEOUT_MS,
                retention_ms=RETENTION_MS,
                retention_check_ms=CHECK_MS,
                compression=Compression.NONE,
            ),
            self.cache,
            self.replicas,
            appender,
            self.loop,
            self._suffix,
        )
        self.coordinator.start()
        self.cache.add_deletion_listener(self.coordinator.topic_deleted)
        membership = MembershipHandlers(self.coordinator)
        offsets = OffsetHandlers(self.coordinator, lambda: self.wall_ms, verifier)
        admin = GroupAdminHandlers(self.coordinator)
        self.handlers = {
            ApiKey.JOIN_GROUP: membership.handle_join,
            ApiKey.SYNC_GROUP: membership.handle_sync,
            ApiKey.HEARTBEAT: membership.handle_heartbeat,
            ApiKey.LEAVE_GROUP: membership.handle_leave,
            ApiKey.OFFSET_COMMIT: offsets.handle_commit,
            ApiKey.TXN_OFFSET_COMMIT: offsets.handle_txn_commit,
            ApiKey.OFFSET_DELETE: offsets.handle_delete,
            ApiKey.OFFSET_FETCH: OffsetFetchHandler(self.coordinator).handle,
            ApiKey.DESCRIBE_GROUPS: admin.handle_describe,
            ApiKey.LIST_GROUPS: admin.handle_list,
            ApiKey.DELETE_GROUPS: admin.handle_delete,
        }
        self._epoch = 0

    def _suffix(self) -> str:
        self._suffixes += 1
        return f"id{self._suffixes}"

    # -- leadership ------------------------------------------------------------------------------------------------

    def lead(self, *, load: bool = True) -> None:
        """This broker leads the partition of `__consumer_offsets`, alone in the ISR; load: until it is loaded."""
        self._epoch += 1
        state = PartitionState(1, 1, self._epoch, (1,), self._epoch, (1,))
        self.replica.partition.apply(state, self.log.log_end_offset, 1, 10_000, self.loop.now)
        self.coordinator.partitions.on_role_change(self.replica)
        if load:
            self.settle()

    def resign(self) -> None:
        """Another broker leads it."""
        self.resign_unsettled()
        self.settle()

    def resign_unsettled(self) -> None:
        """The turn in which it does."""
        self._epoch += 1
        state = PartitionState(1, 2, self._epoch, (1, 2), self._epoch, (1, 2))
        self.replica.partition.apply(state, self.log.log_end_offset, 1, 10_000, self.loop.now)
        self.appender.fail_waits(self.replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.coordinator.partitions.on_role_change(self.replica)

    # -- time ------------------------------------------------------------------------------------------------------

    def end_turn(self) -> None:
        """As ReplicaManager.end_of_turn, for one partition."""
        self.coordinator.appends.flush()
        self.appender.close_turn()
        role = self.replica.leader
        if self.replica.dirty and role is not None:
            self.replica.dirty = False
            self.replicas.dirty.clear()
            self.log.write()
        if role is not None and self.committing:
            role.advance_leo(self.log.log_end_offset)
            self.replicas.maybe_advance(self.replica, role)
            self.appender.on_committed(self.replica, role)
        self.appender.finish_turn()

    def settle(self) -> None:
        for _ in range(200):
            self.end_turn()
            if not self.loop.run_soon():
                return
        raise AssertionError("still busy")

    def advance(self, ms: float) -> None:
        """Let time pass, by both clocks."""
        until = self.loop.now + ms
        began = self.loop.now
        wall_ms = self.wall_ms
        self.settle()
        while self.loop.run_due(until):
            self.wall_ms = wall_ms + int(self.loop.now - began)
            self.settle()
        self.loop.now = until
        self.wall_ms = wall_ms + int(ms)
        self.settle()

    # -- requests --------------------------------------------------------------------------------------------------

    def send(self, body: Message, version: int, client: str = "client") -> FakeSlot:
        """The response is in the slot once it comes. Ends a turn."""
        slot = self.send_unsettled(body, version, client)
        self.settle()
        return slot

    def send_unsettled(
        self, body: Message, version: int, client: str = "client", slot: FakeSlot | None = None
    ) -> FakeSlot:
        """The same in the middle of a turn."""
        api = body.API
        slot = slot or FakeSlot()
        view = memoryview(bytearray(body.encode(version)))
        flexible = response_header_version(api, version) == 1
        self.handlers[api](Request(api, version, 1, client, view, slot, flexible))
        return slot

    def ask(self, body: Message, version: int, response: type[M]) -> M:
        """The response, which has to come at once."""
        return answer(self.send(body, version), version, response)

    def commit(
        self, offset: int, partition: int = 0, *, group: str = "g", version: int = 8, **more: object
    ) -> FakeSlot:
        """One offset, of nobody in particular."""
        entry = OffsetCommitRequestPartition(partition, offset, -1, str(more.pop("metadata", "")))
        return self.send(
            OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(TOPIC, [entry])], **more),  # type: ignore[arg-type]
            version,
        )

    def committed(self, partition: int = 0, *, group: str = "g", stable: bool = False) -> tuple[int, ErrorCode]:
        """(offset, error) as OffsetFetch gives them."""
        body = OffsetFetchRequest(group, [OffsetFetchRequestTopic(TOPIC, [partition])], require_stable=stable)
        response = self.ask(body, 7, OffsetFetchResponse)
        if response.error_code:
            return -1, ErrorCode(response.error_code)
        one = response.topics[0].partitions[0]
        return one.committed_offset, ErrorCode(one.error_code)

    @property
    def records(self) -> list[Record]:
        """All that is in the log."""
        return [record for *_, batch in self.log.batches for record in decode_records(batch)]


def answer(slot: FakeSlot, version: int, response: type[M]) -> M:
    """What a slot got."""
    assert slot.response is not None, "no response yet"
    header = 5 if response_header_version(response.API, version) == 1 else 4
    return response.decode(version, slot.response[header:])


def commit_error(slot: FakeSlot, version: int = 8) -> ErrorCode:
    """Of the only partition of a commit."""
    return ErrorCode(answer(slot, version, OffsetCommitResponse).topics[0].partitions[0].error_code)

"""Plugs the coordinators of a broker together: what they append with, what they follow, what they serve.

Part of the composition root. Everything runs on the loop's thread.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping

from broker.config.settings import Settings
from broker.core.coordination import OFFSETS_TOPIC, TRANSACTION_TOPIC
from broker.core.group.settings import GroupSettings
from broker.net.loop import EpollLoop
from broker.runtime.coordinators.held import HELD, HeldRequests
from broker.runtime.group.coordinator import GroupCoordinator, GroupCoordinatorSettings
from broker.runtime.group.group_admin import GroupAdminHandlers
from broker.runtime.group.membership import MembershipHandlers
from broker.runtime.group.offset_fetch import OffsetFetchHandler
from broker.runtime.group.offset_handlers import OffsetHandlers
from broker.runtime.replica_manager import ReplicaManager
from broker.runtime.requests.request import Request
from broker.runtime.transaction.coordinator import TransactionCoordinator
from broker.runtime.transaction.ports import Peers
from broker.runtime.transaction.room import TransactionRoom
from broker.runtime.transaction.waiting_verifier import WaitingVerifier
from broker.server.control_plane import ControlPlane
from broker.wire.api import ApiKey
from broker.wire.compression import Compression

Handler = Callable[[Request], None]


class Coordinators:
    """Of groups and of transactions."""

    def __init__(
        self,
        settings: Settings,
        control: ControlPlane,
        manager: ReplicaManager,
        loop: EpollLoop,
        peers: Callable[[str], Peers],
    ) -> None:
        """Before the manager's end of turn becomes a hook of the loop: what is appended here belongs to the turn.

        peers: connections to other brokers for a purpose.
        """
        cache = control.cache
        self.groups = GroupCoordinator(
            _group_settings(settings), cache, manager.replicas, manager.appender, loop, lambda: str(uuid.uuid4())
        )
        self._membership = MembershipHandlers(self.groups)
        self._offsets = OffsetHandlers(self.groups, manager.appender.wall_ms, manager.gate)
        self._offset_fetch = OffsetFetchHandler(self.groups)
        self._admin = GroupAdminHandlers(self.groups)
        manager.add_role_listener(self.groups.partitions.on_role_change)
        cache.add_deletion_listener(self.groups.topic_deleted)
        loop.add_before_send(self.groups.appends.flush)
        self.transactions = TransactionRoom(
            settings,
            manager.replicas,
            manager.appender,
            cache,
            peers("markers"),
            peers("verification"),
            control.producer_ids,
            manager.producer_ids,
            loop,
            manager.appender.wall_ms,
        )
        self.transactions.writer.on_offsets_marker = self.groups.end_transaction
        manager.add_role_listener(self.transactions.coordinator.partitions.on_role_change)
        cache.add_listener(self.transactions.sender.on_metadata)
        loop.add_before_send(self.transactions.appends.flush)
        self._held = {
            OFFSETS_TOPIC: self._holds(OFFSETS_TOPIC, self.groups, control, loop),
            TRANSACTION_TOPIC: self._holds(TRANSACTION_TOPIC, self.transactions.coordinator, control, loop),
        }
        verifier = WaitingVerifier(self.transactions.verifier, self._held[TRANSACTION_TOPIC], loop)
        self._check_after_changes(verifier.check, self.transactions.coordinator, control)
        manager.gate.verifier = verifier

    def _holds(
        self, topic: str, coordinator: GroupCoordinator | TransactionCoordinator, control: ControlPlane, loop: EpollLoop
    ) -> HeldRequests:
        cache, partitions = control.cache, coordinator.partitions
        held = HeldRequests(
            partitions,
            coordinator.partition_of,
            lambda partition: cache.leader_of(topic, partition)[0],
            control.suspicion,
            loop,
        )
        self._check_after_changes(held.check, coordinator, control)
        return held

    def _check_after_changes(
        self, check: Callable[[], None], coordinator: GroupCoordinator | TransactionCoordinator, control: ControlPlane
    ) -> None:
        coordinator.partitions.add_listener(check)
        control.cache.add_listener(check)
        if control.suspicion is not None:
            control.suspicion.add_doubt_listener(check)

    def start(self) -> None:
        """Begin the periodic duties."""
        self.groups.start()
        self.transactions.housekeeping.start()

    def handlers(self) -> dict[ApiKey, Handler]:
        """What this part serves."""
        groups: dict[ApiKey, Handler] = {
            ApiKey.JOIN_GROUP: self._membership.handle_join,
            ApiKey.SYNC_GROUP: self._membership.handle_sync,
            ApiKey.HEARTBEAT: self._membership.handle_heartbeat,
            ApiKey.LEAVE_GROUP: self._membership.handle_leave,
            ApiKey.OFFSET_COMMIT: self._offsets.handle_commit,
            ApiKey.TXN_OFFSET_COMMIT: self._offsets.handle_txn_commit,
            ApiKey.OFFSET_FETCH: self._offset_fetch.handle,
            ApiKey.OFFSET_DELETE: self._offsets.handle_delete,
            ApiKey.DESCRIBE_GROUPS: self._admin.handle_describe,
            ApiKey.LIST_GROUPS: self._admin.handle_list,
            ApiKey.DELETE_GROUPS: self._admin.handle_delete,
        }
        return {
            **_before(self._held[OFFSETS_TOPIC], groups),
            **_before(self._held[TRANSACTION_TOPIC], self.transactions.handlers()),
        }


def _before(held: HeldRequests, handlers: Mapping[ApiKey, Handler]) -> dict[ApiKey, Handler]:
    return {api: held.before(handler) if api in HELD else handler for api, handler in handlers.items()}


def _group_settings(settings: Settings) -> GroupCoordinatorSettings:
    return GroupCoordinatorSettings(
        GroupSettings(
            min_session_timeout_ms=settings.group_min_session_timeout_ms,
            max_session_timeout_ms=settings.group_max_session_timeout_ms,
            max_size=settings.group_max_size,
            initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        ),
        offset_metadata_max=settings.offset_metadata_max_bytes,
        commit_timeout_ms=settings.offsets_commit_timeout_ms,
        retention_ms=settings.offsets_retention_minutes * 60_000,
        retention_check_ms=settings.offsets_retention_check_interval_ms,
        compression=Compression(settings.offsets_topic_compression_codec),
    )

"""Plugs a broker's log, replication and network together.

Part of the composition root: the one place where `broker.log` and `broker.net` meet `broker.runtime`. Everything runs
on the loop's thread, but for slow file work (checkpoints, swaps), deletions, and flushes of group commit, each of which
has threads of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from broker.config.settings import Settings
from broker.core.quotas.replication import RateWindow
from broker.log.cleaner.process import ProcessRunner
from broker.log.cleaner.schedule import CleanerSettings, LogCleaner
from broker.log.environment import Environment
from broker.log.files.open_segments import OpenSegments
from broker.log.log_manager import LogManager
from broker.model.ids import BrokerId
from broker.model.log_errors import CorruptLog, LogDirFailed
from broker.net.connection import Connection
from broker.net.listener import Listener, kept_descriptors
from broker.net.loop import EpollLoop
from broker.net.peer import FETCHED_BYTES_MAX, BrokerPeer
from broker.net.resolver import Resolver
from broker.net.send import FileFailure
from broker.runtime.admin.log_dirs import LogDirHandlers
from broker.runtime.event_log import EventLog
from broker.runtime.metadata.cache import Address
from broker.runtime.ports import Peer, ResponseSlot
from broker.runtime.replica_manager import ReplicaManager
from broker.runtime.replicas.cleanable_replicas import CleanableReplicas
from broker.runtime.replicas.controller_requests import ControllerRequests
from broker.runtime.replicas.moves import ReplicaMoves
from broker.runtime.replicas.replica_reports import ReplicaReports
from broker.runtime.requests.context import RequestContext
from broker.runtime.requests.dispatch import Dispatcher
from broker.runtime.requests.inter_broker import InterBrokerGate
from broker.server.control_plane import ControlPlane, Handler
from broker.server.coordinators import Coordinators
from broker.server.peer_addresses import PeerAddresses
from broker.server.workers import DeletionWorker, FileWorker, FlushWorkers
from broker.wire.api import ApiKey
from broker.zk.registration import registered_hosts

_FLUSH_CHECK_MS = 1000.0
_RECHECK_MS = 1000.0


def _open_segments_max() -> int:
    """Half of the descriptors that connections leave to files; the others are for new segments and whatever comes."""
    return max(1, kept_descriptors() // 2)


class BrokerPeers:
    """One connection per broker, at the address of the last UpdateMetadata."""

    def __init__(
        self, loop: EpollLoop, resolver: Resolver, address: Callable[[BrokerId], Address | None], client_id: str
    ) -> None:
        self._loop = loop
        self._resolver = resolver
        self._address = address
        self._client_id = client_id
        self._peers: dict[BrokerId, tuple[Address, BrokerPeer]] = {}

    def __call__(self, broker: BrokerId) -> Peer | None:
        address = self._address(broker)
        known = self._peers.get(broker)
        if address is None:
            return None
        if known is not None and known[0] == address:
            return known[1]
        if known is not None:
            known[1].close()
        peer = BrokerPeer(
            self._loop,
            address.host,
            address.port,
            self._client_id,
            resolver=self._resolver,
            response_bytes_max=FETCHED_BYTES_MAX,
        )
        self._peers[broker] = (address, peer)
        return peer


class DataPlane:
    """Log store, replica manager, listeners of one broker."""

    def __init__(
        self,
        settings: Settings,
        loop: EpollLoop,
        topic_configs: Mapping[str, Mapping[str, str]],
        on_log_failure: Callable[[LogDirFailed | CorruptLog], None],
        cluster_id: str,
    ) -> None:
        """Locks the log dirs and opens their logs.

        Raises LogDirInUse, WrongIdentity, LogDirFailed, ValueError, and OSError where no thread can be started.
        """
        self.settings = settings
        self._loop = loop
        self._on_log_failure = on_log_failure
        self._files = FileWorker(loop)
        self._flushes = FlushWorkers(loop, settings.log_dirs)
        self._deletions = DeletionWorker(loop)
        self.store = LogManager(
            settings.log_dirs,
            Environment(
                loop.now_ms,
                loop.call_later,
                self._files.run,
                self._flushes.run,
                self._deletions.run,
                OpenSegments(_open_segments_max(), lambda: loop.turn),
            ),
            defaults=settings.topic_defaults,
            topic_configs=topic_configs,
            on_dir_failed=self._on_dir_failed,
            identity=(settings.broker_id, cluster_id),
        )
        self.manager: ReplicaManager | None = None
        self.cleaner: LogCleaner | None = None
        self._cleaner_processes = ProcessRunner(loop.call_soon_threadsafe)
        self._listeners: list[Listener] = []
        self._effective = settings
        """With what was changed at run time."""
        self._rechecked_ms = -_RECHECK_MS

    def build(self, control: ControlPlane, resolver: Resolver, event_log: EventLog | None, incarnation: str) -> None:
        """Join with the control plane, whose caches and senders the replicas use."""
        manager = self.manager = ReplicaManager(
            self.settings,
            self._loop,
            self.store,
            event_log,
            control.alter_partition,
            BrokerPeers(
                self._loop,
                resolver,
                control.cache.address,
                f"broker-{self.settings.broker_id}-fetcher-{incarnation}",
            ),
            control.cache,
            control.producer_ids,
            lambda: control.registration.broker_epoch,
            self._on_log_failure,
            control.registration.session_deadline_ms,
            wall_ms=lambda: time.time_ns() // 1_000_000,
            obeyed=control.obeyed,
        )
        self._cleanable = CleanableReplicas(manager.replicas, self.store.moving.is_moving)
        self.moves = ReplicaMoves(
            self.store.moving,
            manager.replicas,
            manager.group_commit,
            self._loop,
            RateWindow(
                self.settings.alter_log_dirs_replication_quota_window_num,
                self.settings.alter_log_dirs_replication_quota_window_size_seconds * 1000,
            ),
            manager.write,
            self._cleanable.on_damage,
        )
        control.cache.add_listener(lambda: manager.on_live_brokers(control.cache.brokers.keys()))
        # The logs were opened with what was read before; notifications of what changed since may be gone.
        control.configs.add_first_listener(self.store.learn_config)
        control.configs.add_listener(lambda topic, _: manager.hosting.on_topic_config(topic))
        control.dynamic.add_listener(lambda: self._on_broker_config(control, manager))
        self._on_broker_config(control, manager)

        def peers(purpose: str) -> BrokerPeers:
            client_id = f"broker-{self.settings.broker_id}-{purpose}"
            return BrokerPeers(self._loop, resolver, control.cache.address, client_id)

        self.coordinators = Coordinators(self.settings, control, manager, self._loop, peers)
        self._loop.add_before_send(manager.end_of_turn)
        requests = ControllerRequests(manager.role_changes)
        reports = ReplicaReports(
            manager.replicas,
            self.store,
            control.cache,
            manager.remade_logs,
            lambda: control.registration.broker_epoch,
            manager.controller_fence,
        )
        control.cache.add_listener(reports.on_metadata)
        handlers: dict[ApiKey, Handler] = {
            **control.handlers(),
            ApiKey.LEADER_AND_ISR: control.gated(requests.handle_leader_and_isr),
            ApiKey.STOP_REPLICA: requests.handle_stop_replica,
            ApiKey.REPLICA_REPORT: reports.handle,
            **self._client_handlers(manager),
            **self.coordinators.handlers(),
        }
        read = None
        if self.settings.inter_broker_addresses_only:
            read = PeerAddresses(self._loop, partial(registered_hosts, control.client)).read
        gate = InterBrokerGate(control.cache.listener, self._loop.now_ms, read)
        self._dispatcher = Dispatcher({api: gate.before(api, handler) for api, handler in handlers.items()})

    def _client_handlers(self, manager: ReplicaManager) -> dict[ApiKey, Handler]:
        log_dirs = LogDirHandlers(self.settings.log_dirs, self.store, manager.replicas, self.moves, self._loop)
        return {
            ApiKey.PRODUCE: manager.handle_produce,
            ApiKey.FETCH: manager.handle_fetch,
            ApiKey.LIST_OFFSETS: manager.handle_list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: manager.handle_offset_for_leader_epoch,
            ApiKey.DELETE_RECORDS: manager.handle_delete_records,
            ApiKey.DESCRIBE_PRODUCERS: manager.handle_describe_producers,
            ApiKey.DESCRIBE_LOG_DIRS: log_dirs.handle_describe_log_dirs,
            ApiKey.ALTER_REPLICA_LOG_DIRS: log_dirs.handle_alter_replica_log_dirs,
        }

    def _on_broker_config(self, control: ControlPlane, manager: ReplicaManager) -> None:
        """Settings of this broker changed at run time, and with them the defaults of topics without overrides."""
        manager.quotas.set_rates(*control.dynamic.throttle_rates)
        self.moves.set_rate(control.dynamic.log_dirs_rate)
        self._effective = control.dynamic.effective
        if self.cleaner is not None:
            self.cleaner.settings = _cleaner_settings(self._effective)
        if self.store.update_defaults(self.settings.topic_defaults):
            manager.hosting.on_defaults(control.configs.knows)

    def listen(self) -> None:
        """Bind every listener; requests wait until the loop runs. Raises OSError naming the address."""
        dispatch = self._dispatcher.dispatch

        def on_frame(connection: Connection, frame: memoryview, slot: ResponseSlot) -> None:
            dispatch(frame, slot, connection.context)

        for endpoint in self.settings.listeners:
            self._listeners.append(
                Listener(
                    self._loop,
                    endpoint.host,
                    endpoint.port,
                    on_frame,
                    request_bytes_max=self.settings.socket_request_max_bytes,
                    idle_ms_max=self.settings.connections_max_idle_ms,
                    send_buffer_bytes=self.settings.socket_send_buffer_bytes,
                    receive_buffer_bytes=self.settings.socket_receive_buffer_bytes,
                    on_file_failure=self._on_file_failure,
                    context_of=partial(RequestContext, endpoint.name),
                )
            )

    @property
    def ports(self) -> list[int]:
        """Bound ports, in the order of the listeners."""
        return [listener.port for listener in self._listeners]

    def start(self) -> None:
        """Take over the logs and begin the periodic duties."""
        assert self.manager is not None
        self.manager.startup()
        self.moves.start()
        self.coordinators.start()
        self._every(self.settings.log_retention_check_interval_ms, self._apply_retention)
        if self.settings.log_cleaner_enable:
            self.cleaner = self._make_cleaner()
            self._every(self.settings.log_cleaner_backoff_ms, self.cleaner.check)
        self._every(_FLUSH_CHECK_MS, partial(self.store.flush_due, self._on_damage))
        self._every(_FLUSH_CHECK_MS, self.store.close_unread)

    def _every(self, interval_ms: float, duty: Callable[[], None]) -> None:
        def run() -> None:
            self._loop.call_later(interval_ms, run)
            duty()

        self._loop.call_later(interval_ms, run)

    def _make_cleaner(self) -> LogCleaner:
        replicas = self._cleanable
        return LogCleaner(
            self.store,
            replicas,
            self._cleaner_processes,
            _cleaner_settings(self._effective),
            lambda: time.time_ns() / 1e6,
            replicas.on_damage,
        )

    def _apply_retention(self) -> None:
        assert self.manager is not None
        sound = [replica for replica in self.manager.replicas.by_partition.values() if not replica.offline]
        starts = [replica.log.log_start_offset for replica in sound]
        high_watermarks = {replica.topic_partition: replica.high_watermark for replica in sound}
        self.store.delete_old_segments(time.time_ns() / 1e6, high_watermarks, self._on_damage)
        for replica, before in zip(sound, starts, strict=True):
            if replica.log.log_start_offset > before:
                self.manager.on_log_start(replica)

    def _on_damage(self, damage: CorruptLog) -> None:
        replica = self.manager.replicas.by_partition.get(damage.topic_partition) if self.manager is not None else None
        if self.manager is not None and replica is not None:
            self.manager.replicas.take_offline(replica, damage)

    def _on_file_failure(self, _: FileFailure) -> None:
        """The bytes of a response could not be read from a log file; which log is not known here.

        So every log checks its segments again when they are next read: the client repeats its request, and that read
        finds the damage and takes the replica offline. At most once in _RECHECK_MS, because every segment is checked.
        """
        now_ms = self._loop.now_ms()
        if self.manager is None or now_ms - self._rechecked_ms < _RECHECK_MS:
            return
        self._rechecked_ms = now_ms
        for replica in self.manager.replicas.by_partition.values():
            if not replica.offline:
                replica.log.forget_checked()

    def _on_dir_failed(self, failure: LogDirFailed) -> None:
        """Called from within the operation that failed: the dir's replicas go offline once that operation has ended."""
        self._on_log_failure(failure)
        self._loop.call_soon(partial(self._take_offline, failure))

    def _take_offline(self, failure: LogDirFailed) -> None:
        if self.manager is not None:
            self.moves.on_dir_failed(failure.log_dir)
            self.manager.on_log_dir_failed(failure)

    def close(self, clean: bool) -> None:
        """Stop serving, then close the logs; clean: with the last checkpoints and the mark. Idempotent."""
        self._stop_serving(clean)
        self.store.close(clean)

    def close_unused(self) -> None:
        """After a start that failed. Idempotent."""
        self._stop_serving(clean=False)
        self.store.close_unused()

    def _stop_serving(self, clean: bool) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        if self.manager is not None and not self.manager.replicas.stopped:
            self.manager.shutdown(clean)
        if self.cleaner is not None:
            self.cleaner.close()
        self._cleaner_processes.close()
        self._files.close()
        self._flushes.close()
        self._deletions.close()


def _cleaner_settings(settings: Settings) -> CleanerSettings:
    rate = settings.log_cleaner_io_max_bytes_per_second
    return CleanerSettings(
        settings.log_cleaner_threads,
        settings.log_cleaner_dedupe_buffer_size,
        settings.log_cleaner_io_buffer_load_factor,
        settings.log_cleaner_io_buffer_size,
        float("inf") if rate is None else rate,
    )

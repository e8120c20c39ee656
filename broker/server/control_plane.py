"""Plugs a broker's ZooKeeper side together: session, registration, controller, metadata, admin.

Part of the composition root: the one place where `broker.zk` meets `broker.runtime`. `prepare` blocks and runs before
the loop; everything else runs on the loop's thread. A start is `prepare` (identity: broker id and cluster id), logs and
replica manager, listeners bound, `register`, the loop. A shutdown is `controlled_shutdown`, then `close`.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from broker.config.settings import Settings, topic_bool, topic_int
from broker.core.controller.cluster_state import NO_BROKER_EPOCH, Broker, BrokerEndpoint
from broker.model.ids import BrokerId
from broker.runtime.admin.alter_configs import AlterConfigHandlers
from broker.runtime.admin.client_quotas import handle_alter_client_quotas, handle_describe_client_quotas
from broker.runtime.admin.controller_operations import ControllerAdminHandlers
from broker.runtime.admin.create_partitions import PartitionHandlers
from broker.runtime.admin.delete_topics import DeleteTopicsHandlers
from broker.runtime.admin.describe_configs import ConfigHandlers
from broker.runtime.admin.scram_credentials import (
    handle_alter_user_scram_credentials,
    handle_describe_user_scram_credentials,
)
from broker.runtime.admin.topics import TopicHandlers
from broker.runtime.controller.controller import Controller
from broker.runtime.controller.handlers import ControllerHandlers
from broker.runtime.controller.outbox import Emit
from broker.runtime.controller.settings import ControllerSettings, RebalanceSettings
from broker.runtime.coordinators.find import FindCoordinatorHandler
from broker.runtime.lifecycle.controlled_shutdown import ControlledShutdown
from broker.runtime.lifecycle.failure_detector import FailureDetector, OpenLink
from broker.runtime.lifecycle.registration import BrokerRegistration, SessionChange
from broker.runtime.metadata.cache import Address, MetadataCache
from broker.runtime.metadata.dynamic_broker_config import DynamicConfig
from broker.runtime.metadata.handlers import MetadataHandlers
from broker.runtime.metadata.obeyed_epoch import ObeyedEpoch
from broker.runtime.metadata.topic_configs import TopicConfigCache, gate
from broker.runtime.metadata.usable_overrides import usable_overrides
from broker.runtime.ports import Loop, Peer
from broker.runtime.produce.producer_id_blocks import ProducerIdBlocks
from broker.runtime.replicas.alter_partition_manager import AlterPartitionManager
from broker.runtime.replicas.log_dir_failure import LogFailureNotice
from broker.runtime.requests.leader_doubts import LeaderDoubts
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey
from broker.zk.admin_store import ZkAdminStore
from broker.zk.client import ZkClient
from broker.zk.controller_store import ZkControllerStore
from broker.zk.registration import Registration, cluster_id, generate_broker_id, prepare
from broker.zk.session import SessionEvent
from broker.zk.session_file import SessionFile
from broker.zk.topic_store import ZkTopicStore
from broker.zk.worker import ZkWorker

_log = logging.getLogger("broker")

# After a cut, TCP finds a connection again only when its retransmission timer fires. The controller's requests are safe
# to repeat, so a silent connection is given up early and a new one opened.
_CONTROLLER_ATTEMPT_MAX_MS = 2000.0
_SUSPECT_CHECK_MS = 100.0
_RESIGN_S = 1.0

Handler = Callable[[Request], None]
Connect = Callable[[str, int, str], Peer]
"""connect(host, port, client id)."""
_SESSION_CHANGES = {
    SessionEvent.CONNECTED: SessionChange.RECONNECTED,
    SessionEvent.NEW_SESSION: SessionChange.RENEWED,
    SessionEvent.SUSPENDED: SessionChange.DISCONNECTED,
    SessionEvent.LOST: SessionChange.LOST,
}


class ControlPlane:
    """Everything of one broker that talks to ZooKeeper or to the controller."""

    def __init__(self, settings: Settings, broker_id: BrokerId, session_dir: str) -> None:
        """broker_id: from the settings or meta.properties, −1 to have one generated. session_dir: locked by us."""
        self.settings = settings
        self.broker_id = broker_id
        self.cluster_id = ""
        self._session_dir = session_dir
        self.client = ZkClient(
            settings.zookeeper_connect,
            settings.zookeeper_session_timeout_ms,
            settings.zookeeper_connection_timeout_ms,
        )
        self.worker = ZkWorker()
        self._built = False
        self._closed = False

    def prepare(self) -> None:
        """Connect and settle the identity. Raises StoreUnavailable."""
        self.client.start()
        prepare(self.client)
        self.cluster_id = cluster_id(self.client)
        if self.broker_id < 0:
            self.broker_id = generate_broker_id(self.client)

    def all_topic_configs(self) -> dict[str, dict[str, str]]:
        """Every topic's overrides as they are now, for opening the logs. Blocks; after `prepare`."""
        store = ZkTopicStore(self.client, self.broker_id)
        configs = store.topic_configs(sorted(store.topic_names()))
        return {topic: usable_overrides(topic, overrides) for topic, overrides in configs.items()}

    @property
    def epochs(self) -> Sequence[int]:
        """Broker epochs under which this process was registered; see Registration."""
        return self._registrar.epochs if self._built else ()

    @property
    def epoch_before(self) -> int | None:
        """Broker epoch of this broker's last registration before this process; None where ZooKeeper knows of none."""
        return self._registrar.epoch_before

    def build(
        self,
        loop: Loop,
        connect: Connect,
        emit: Emit | None,
        advertised: tuple[BrokerEndpoint, ...],
        on_registered: Callable[[int], None],
        on_fenced: Callable[[], None],
        on_suspect: Callable[[bool], None],
        on_unfit: Callable[[Exception], None],
        open_link: OpenLink | None = None,
    ) -> None:
        """After `prepare`. Callbacks run on the loop's thread. open_link: None: no other broker's process is watched.

        on_registered(broker epoch): registered again after a lost session; on_fenced: the session is lost;
        on_suspect(passed), called often: whether the session's local deadline has passed; on_unfit: this broker must
        end, as another one has taken its id, or the controller's thread failed.
        """
        self._loop = loop
        self._connect = connect
        self._on_suspect = on_suspect
        self._attempt_ms = min(float(self.settings.controller_socket_timeout_ms), _CONTROLLER_ATTEMPT_MAX_MS)
        store = ZkTopicStore(self.client, self.broker_id)
        admin_store = ZkAdminStore(self.client)
        self.obeyed = ObeyedEpoch(emit)
        self._build_caches(store, admin_store, advertised[0].listener)
        self._build_controller(store, emit, on_unfit)
        self._build_registration(advertised, on_registered, on_fenced, on_unfit)
        self._build_senders(store, open_link)
        self._build_handlers(store, admin_store)
        self.client.add_session_listener(self._on_session)
        self._built = True

    def _build_caches(self, store: ZkTopicStore, admin_store: ZkAdminStore, listener: str) -> None:
        """Settings of broker and topics, and the cluster's metadata."""
        self.dynamic = DynamicConfig(self.settings, self.broker_id, admin_store, self.worker, self._loop)
        self.dynamic.read_first()
        self.configs = TopicConfigCache(store, self.worker, self._loop)
        self.cache = MetadataCache(
            self.cluster_id,
            listener,
            lambda: self.registration.broker_epoch,
            self.configs.overrides,
            self.configs.forget,
            self.obeyed,
        )

    def _build_controller(self, store: ZkTopicStore, emit: Emit | None, on_unfit: Callable[[Exception], None]) -> None:
        """The candidate for controller, and its notifications of changed settings."""
        settings, id_, connect = self.settings, self.broker_id, self._connect
        self.topics = TopicHandlers(
            settings,
            self.cache,
            store,
            self.worker,
            self._loop,
            lambda: self.controller.active,
            random.Random(),
            self.dynamic,
        )
        self._deletions = DeleteTopicsHandlers(
            settings.delete_topic_enable,
            store,
            self.worker,
            self._loop,
            lambda: self.controller.active,
            lambda ids, then, wanted: self.controller.names_of(ids, then, wanted),
        )
        self.controller = Controller(
            ControllerSettings(
                id_,
                topic_bool({}, settings, "unclean.leader.election.enable"),
                settings.delete_topic_enable,
                self._attempt_ms,
                _rebalance(settings),
                topic_int({}, settings, "min.insync.replicas"),
            ),
            ZkControllerStore(self.client, _wall_clock_ms),
            self._loop,
            lambda broker: connect(broker.endpoints[0].host, broker.endpoints[0].port, f"controller-{id_}"),
            emit,
            self.cache.controller_moved,
            self._deletions.on_deleted,
            on_broken=on_unfit,
            known_topic_id=self.cache.topic_id,
        )
        self.configs.add_listener(self.controller.topic_config_changed)
        self.configs.add_notification_listener(self.controller.topic_config_changed)
        self.configs.add_entity_listener(self.dynamic.on_entity)
        self.dynamic.add_listener(
            lambda: self.controller.defaults_changed(
                topic_bool({}, settings, "unclean.leader.election.enable"),
                topic_int({}, settings, "min.insync.replicas"),
            )
        )

    def _build_registration(
        self,
        advertised: tuple[BrokerEndpoint, ...],
        on_registered: Callable[[int], None],
        on_fenced: Callable[[], None],
        on_unfit: Callable[[Exception], None],
    ) -> None:
        """What keeps `/brokers/ids/N` this broker's."""
        broker = Broker(self.broker_id, NO_BROKER_EPOCH, advertised, self.settings.rack, reports=True)
        self._registrar = Registration(self.client, broker, SessionFile(Path(self._session_dir)), _wall_clock_ms)
        self.registration = BrokerRegistration(
            self._registrar,
            self.worker,
            self.controller,
            self._loop,
            lambda: self.client.session_deadline_ms,
            on_registered,
            on_fenced,
            on_unfit,
        )

    def _build_senders(self, store: ZkTopicStore, open_link: OpenLink | None) -> None:
        """What reports to the controller on this broker: ISR changes, suspicions, failed log dirs, its own shutdown."""
        settings, id_, loop, connect = self.settings, self.broker_id, self._loop, self._connect

        def connect_controller(address: Address) -> Peer:
            return connect(address.host, address.port, f"broker-{id_}-to-controller")

        self.alter_partition = AlterPartitionManager(
            id_, lambda: self.registration.broker_epoch, self.cache, loop, connect_controller, self._attempt_ms
        )
        self.suspicion: FailureDetector | None = None
        if open_link is not None and settings.failure_suspicion_enable:
            self.suspicion = FailureDetector(
                id_,
                self.cache,
                loop,
                open_link,
                lambda address: connect(address.host, address.port, f"broker-{id_}-evidence"),
                self.controller,
            )
            self.cache.add_listener(self.suspicion.on_metadata)
        self._log_failure = LogFailureNotice(store, self.worker, loop)
        self._shutdown = ControlledShutdown(
            settings,
            id_,
            lambda: self.registration.broker_epoch,
            self.cache,
            loop,
            connect_controller,
            self._attempt_ms,
            self.registration.suspect,
        )

    def _build_handlers(self, store: ZkTopicStore, admin_store: ZkAdminStore) -> None:
        """The handlers behind `handlers`."""
        settings, id_, loop = self.settings, self.broker_id, self._loop
        self.producer_ids = ProducerIdBlocks(store, self.worker, loop)
        leader_doubts = LeaderDoubts(loop, self.suspicion)
        self.cache.add_listener(leader_doubts.check)
        if self.suspicion is not None:
            self.suspicion.add_doubt_listener(leader_doubts.check)
        self._metadata = MetadataHandlers(
            self.cache,
            self.topics.auto_create if settings.auto_create_topics_enable else None,
            loop,
            leader_doubts,
            frozenset if self.suspicion is None else self.suspicion.gone,
        )
        self._configs = ConfigHandlers(settings, id_, self.cache, self.configs, self.dynamic)
        self._alter_configs = AlterConfigHandlers(settings, id_, admin_store, self.worker, loop, store.topic_exists)
        self._partitions = PartitionHandlers(self.cache, admin_store, self.worker, loop, lambda: self.controller.active)
        self._controller_admin = ControllerAdminHandlers(self.controller, self.cache, loop)
        self._controller_handlers = ControllerHandlers(self.controller)
        self._find_coordinator = FindCoordinatorHandler(self.cache, self.topics.auto_create, leader_doubts)

    def handlers(self) -> dict[ApiKey, Handler]:
        """What this part serves. LeaderAndIsr and StopReplica are the replica manager's; see `gated`."""
        suspicion = self.suspicion
        return {
            **({} if suspicion is None else {ApiKey.PEER_EVIDENCE: suspicion.handle_evidence}),
            ApiKey.METADATA: self._metadata.handle_metadata,
            ApiKey.UPDATE_METADATA: self._metadata.handle_update_metadata,
            ApiKey.DESCRIBE_CLUSTER: self._metadata.handle_describe_cluster,
            ApiKey.FIND_COORDINATOR: self._find_coordinator.handle,
            ApiKey.CREATE_TOPICS: self.topics.handle_create_topics,
            ApiKey.DELETE_TOPICS: self._deletions.handle_delete_topics,
            ApiKey.DESCRIBE_CONFIGS: self._configs.handle_describe_configs,
            ApiKey.ALTER_CONFIGS: self._alter_configs.handle_alter_configs,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self._alter_configs.handle_incremental_alter_configs,
            ApiKey.CREATE_PARTITIONS: self._partitions.handle_create_partitions,
            ApiKey.ELECT_LEADERS: self._controller_admin.handle_elect_leaders,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: self._controller_admin.handle_alter_partition_reassignments,
            ApiKey.LIST_PARTITION_REASSIGNMENTS: self._controller_admin.handle_list_partition_reassignments,
            ApiKey.DESCRIBE_CLIENT_QUOTAS: handle_describe_client_quotas,
            ApiKey.ALTER_CLIENT_QUOTAS: handle_alter_client_quotas,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: handle_describe_user_scram_credentials,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS: handle_alter_user_scram_credentials,
            ApiKey.ALTER_PARTITION: self._controller_handlers.handle_alter_partition,
            ApiKey.CONTROLLED_SHUTDOWN: self._controller_handlers.handle_controlled_shutdown,
        }

    def gated(self, handler: Handler) -> Handler:
        """The LeaderAndIsr handler, held back until the settings of the topics that it names are known."""
        return gate(self.configs, handler)

    def register(self, ports: Mapping[str, int]) -> int:
        """Own `/brokers/ids/N` and stand for controller; returns the broker epoch. ports: bound ones, by listener.

        Raises BrokerIdInUse, StoreUnavailable.
        """
        self._registrar.listens_at(ports)
        self.worker.start()
        self.controller.start()
        epoch = self.registration.register_first(self.settings.zookeeper_connection_timeout_ms)
        _log.info("broker %d is registered, broker epoch %d", self.broker_id, epoch)
        self.configs.start()
        self._loop.call_later(_SUSPECT_CHECK_MS, self._check_suspect)
        return epoch

    def report_log_failure(self) -> None:
        """Log files of this broker failed: notify the controller, which asks which replicas these are."""
        if self._built and not self._closed:
            self._log_failure.report()

    def controlled_shutdown(self, then: Callable[[], None]) -> None:
        """Ask the controller to move our leaderships away, as often as the settings say; then call `then`."""
        self._shutdown.run(then)

    def resign(self) -> None:
        """Give the controllership up, and stand for it no more; runs beside what follows. Idempotent."""
        if self._built:
            if self.suspicion is not None:
                self.suspicion.close()
            self.controller.shutdown(0)
            # Nor is the broker registered anew: nothing would act on the new registration.
            self.registration.shutdown()

    def close(self) -> None:
        """Resign, and end the session: the registration goes at once. Blocks; the loop may run or not. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self.resign()
        if self._built:
            self.alter_partition.close()
            self.controller.join(_RESIGN_S)
        self.client.close()
        if self._built:
            self.controller.join(_RESIGN_S)
            self.worker.stop()

    def _on_session(self, event: SessionEvent) -> None:
        """kazoo's thread."""
        if self._closed:
            return
        change = _SESSION_CHANGES[event]
        self.registration.on_session(change)
        if change in (SessionChange.RECONNECTED, SessionChange.RENEWED):
            self._loop.call_soon_threadsafe(self.configs.start)
            self._loop.call_soon_threadsafe(self.dynamic.refresh)

    def _check_suspect(self) -> None:
        if self._closed:
            return
        # First: whatever comes of this look, nobody but the next one lets the broker serve again.
        self._loop.call_later(_SUSPECT_CHECK_MS, self._check_suspect)
        self._on_suspect(self.registration.suspect())


def _rebalance(settings: Settings) -> RebalanceSettings | None:
    if not settings.auto_leader_rebalance_enable:
        return None
    return RebalanceSettings(
        float(settings.leader_imbalance_check_interval_seconds), settings.leader_imbalance_per_broker_percentage
    )


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000

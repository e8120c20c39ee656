"""Candidates for controller on a real ZooKeeper and a real loop; the brokers that they talk to are recorded answers."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.core.controller.cluster_state import Broker, BrokerEndpoint, LeaderAndIsr
from broker.model.ids import TopicPartition
from broker.net.loop import EpollLoop
from broker.runtime.controller.controller import Controller
from broker.runtime.controller.settings import ControllerSettings
from broker.wire.api import ApiKey
from broker.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from broker.wire.messages.replica_report import ReplicaReportRequest, ReplicaReportResponse, ReportedPartition
from broker.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from broker.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from broker.zk import codecs, paths, topic_codecs
from broker.zk.client import ZkClient
from broker.zk.controller_store import ZkControllerStore
from broker.zk.registration import Registration, prepare
from broker.zk.session import SessionEvent
from broker.zk.session_file import SessionFile
from tests.support.fake_peer import FakePeer, SentRequest
from tests.support.folder_server import FolderServer
from tests.support.wait import eventually
from tests.support.zookeeper import ZooKeeperServer

_numbers = itertools.count()
_server = FolderServer()
_MESSAGES: dict[int, tuple[Any, Any]] = {
    ApiKey.LEADER_AND_ISR: (LeaderAndIsrRequest, LeaderAndIsrResponse),
    ApiKey.UPDATE_METADATA: (UpdateMetadataRequest, UpdateMetadataResponse),
    ApiKey.STOP_REPLICA: (StopReplicaRequest, StopReplicaResponse),
    ApiKey.REPLICA_REPORT: (ReplicaReportRequest, ReplicaReportResponse),
}


class RecordingPeer(FakePeer):
    """Answers every request without an error, unless the cluster says that the broker is unreachable."""

    def __init__(self, cluster: Cluster, broker: Broker) -> None:
        super().__init__()
        self._cluster = cluster
        self._broker = broker

    def receive(self, request: SentRequest) -> None:
        if self._broker.id in self._cluster.unreachable:
            self._cluster.loop.call_soon(lambda: request.on_failure("refused"))
            return
        request_type, response_type = _MESSAGES[request.api_key]
        message = request.decode(request_type)
        self._cluster.received[self._broker.id].append(message)
        self._cluster.log.append((f"to-{self._broker.id}", message))
        error = self._cluster.errors.pop((self._broker.id, request.api_key), 0)
        response = response_type(error_code=error)
        if request.api_key == ApiKey.REPLICA_REPORT:
            response.partitions = [
                reported
                for topic in message.topics
                for index in topic.partitions
                if (reported := self._cluster.reports.get((self._broker.id, topic.topic_name, index))) is not None
            ]
        self._cluster.loop.call_soon(lambda: request.respond(response))


class Node:
    """One broker's ZooKeeper session, registration and controller candidate."""

    def __init__(
        self, cluster: Cluster, broker_id: int, folder: Path, session_timeout_ms: int, reports: bool = False
    ) -> None:
        self.id = broker_id
        self.cluster = cluster
        self.client = ZkClient(cluster.hosts, session_timeout_ms, 10_000)
        self.client.start()
        prepare(self.client)
        self.store = ZkControllerStore(self.client, lambda: 0)
        folder.mkdir(exist_ok=True)
        endpoint = BrokerEndpoint("PLAINTEXT", "127.0.0.1", 9000 + broker_id, "PLAINTEXT")
        broker = Broker(broker_id, -1, (endpoint,), reports=reports)
        self.registration = Registration(self.client, broker, SessionFile(folder), lambda: 0)
        self.known_controllers: list[int | None] = []
        self.known_topic_ids: dict[str, str] = {}
        self.controller = Controller(
            ControllerSettings(broker_id, False, True, 1000.0),
            self.store,
            cluster.loop,
            lambda target: RecordingPeer(cluster, target),
            lambda event, **fields: cluster.log.append((event, {"b": broker_id, **fields})),
            self.known_controllers.append,
            known_topic_id=lambda topic: self.known_topic_ids.get(topic, ""),
        )
        self.client.add_session_listener(self._on_session)
        self.epoch = -1

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.CONNECTED:
            self.controller.reconnected()
        elif event is SessionEvent.NEW_SESSION:
            self.controller.session_lost()

    def start(self) -> Node:
        self.epoch = self.registration.register()
        self.controller.start()
        self.controller.registered()
        return self

    def stop(self) -> None:
        self.controller.shutdown(5.0)
        self.client.close()
        self.controller.join(20)

    def kill(self) -> None:
        """End without resigning; the session's znodes go with it."""
        self.client.close()
        self.controller.shutdown(5.0)
        self.controller.join(20)


class Cluster:
    """Everything that one test sees."""

    def __init__(self, hosts: str, folder: Path, session_timeout_ms: int = 10_000) -> None:
        self.hosts = hosts
        self.folder = folder
        self.session_timeout_ms = session_timeout_ms
        self.loop = EpollLoop()
        self.received: dict[int, list[Any]] = defaultdict(list)
        self.log: list[tuple[str, Any]] = []
        self.unreachable: set[int] = set()
        self.errors: dict[tuple[int, int], int] = {}
        self.reports: dict[tuple[int, str, int], ReportedPartition] = {}
        """What brokers say of their replicas when they are asked; who is not in here says nothing."""
        self.nodes: list[Node] = []
        self._thread = threading.Thread(target=self.loop.run, daemon=True)
        self._thread.start()
        self.client = ZkClient(hosts, session_timeout_ms, 10_000)
        self.client.start()
        prepare(self.client)

    def node(self, broker_id: int, session_timeout_ms: int | None = None, reports: bool = False) -> Node:
        """Open, not started; with the cluster's session timeout unless told. reports: it says what its stops cost."""
        timeout_ms = self.session_timeout_ms if session_timeout_ms is None else session_timeout_ms
        node = Node(self, broker_id, self.folder / f"{broker_id}", timeout_ms, reports)
        self.nodes.append(node)
        return node

    def add(self, broker_id: int) -> Node:
        """Started. The first of all is controller by then, whatever its thread had to wait for."""
        node = self.node(broker_id).start()
        if self.nodes == [node]:
            eventually(lambda: node.controller.active, f"broker {broker_id} is controller")
        return node

    def remove(self, node: Node) -> None:
        self.nodes.remove(node)

    def create_topic(
        self, name: str, partitions: dict[int, tuple[int, ...]], config: dict[str, str] | None = None
    ) -> None:
        from broker.core.controller.cluster_state import Topic

        if config:
            self.client.create(paths.topic_config(name), codecs.encode_config(config))
        self.client.create(paths.topic(name), topic_codecs.encode_topic(Topic(name, topic_id(name), partitions)))

    def state(self, name: str, partition: int = 0) -> LeaderAndIsr | None:
        topic_partition = TopicPartition(name, partition)
        node = self.client.get(paths.partition_state(topic_partition))
        return None if node is None else topic_codecs.decode_partition_state(topic_partition, node.data, node.version)

    def await_leader(self, name: str, leader: int, partition: int = 0) -> LeaderAndIsr:
        def check() -> LeaderAndIsr | None:
            state = self.state(name, partition)
            return state if state is not None and state.leader == leader else None

        return eventually(check, f"leader {leader} of {name}-{partition}")

    def active(self) -> Node:
        return eventually(
            lambda: next((node for node in self.nodes if node.controller.active), None), "an active controller"
        )

    def roles(self, broker_id: int) -> list[tuple[str, int, int, int]]:
        """(topic, partition, leader, leader epoch) of every LeaderAndIsr state sent to a broker."""
        return [
            (topic.topic_name, part.partition_index, part.leader, part.leader_epoch)
            for message in list(self.received[broker_id])
            if isinstance(message, LeaderAndIsrRequest)
            for topic in message.topic_states
            for part in topic.partition_states
        ]

    def close(self) -> None:
        for node in self.nodes:
            node.stop()
        self.client.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


def topic_id(name: str) -> str:
    return (name + "A" * 22)[:22]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    _server.end_before(item, nextitem)


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> ZooKeeperServer:
    return _server.running(tmp_path_factory.mktemp("zookeeper"))


@pytest.fixture
def cluster(server: ZooKeeperServer, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(f"{server.connect}/controller-{next(_numbers)}", tmp_path)
    yield made
    made.close()

"""Brokers that are a control plane and nothing else: replicas are agreed to, never kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from broker.config.settings import Settings
from broker.core.controller.cluster_state import BrokerEndpoint
from broker.model.ids import TopicPartition
from broker.net.connection import Connection
from broker.net.listener import Listener
from broker.net.loop import EpollLoop
from broker.net.peer import BrokerPeer
from broker.net.slot import Slot
from broker.runtime.requests.request import Request, respond
from broker.server.control_plane import ControlPlane
from broker.wire.advertised import api_versions_response
from broker.wire.api import ADVERTISED, ApiKey, response_header_version
from broker.wire.headers import decode_request_header
from broker.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from broker.wire.messages.replica_report import ReplicaReportRequest, ReplicaReportResponse, ReportedPartition
from broker.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse


class PlaneBroker:
    """One such broker, on a loop thread of its own."""

    def __init__(self, hosts: str, folder: Path, broker_id: int, settings: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.settings = Settings.parse(
            {
                "broker.id": str(broker_id),
                "zookeeper.connect": hosts,
                "zookeeper.session.timeout.ms": "1500",
                "controlled.shutdown.retry.backoff.ms": "100",
                "log.dirs": str(folder),
                **settings,
            }
        )
        self.loop = EpollLoop()
        self.listener = Listener(self.loop, "127.0.0.1", 0, self._on_frame)
        self.plane = ControlPlane(self.settings, broker_id, str(folder))
        self.events: list[tuple[str, object]] = []
        self.roles: dict[TopicPartition, tuple[int, int]] = {}
        self.config_at_role: dict[TopicPartition, Mapping[str, str]] = {}
        self.deleted: list[TopicPartition] = []
        self._thread = threading.Thread(target=self.loop.run, daemon=True)
        self._running = False
        self._peers: list[BrokerPeer] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.listener.port}"

    def start(self) -> PlaneBroker:
        plane = self.plane
        plane.prepare()
        plane.build(
            self.loop,
            self._connect,
            lambda event, **fields: self.events.append((event, fields)),
            (BrokerEndpoint("PLAINTEXT", "127.0.0.1", self.listener.port, "PLAINTEXT"),),
            lambda epoch: self.events.append(("registered-again", epoch)),
            lambda: self.events.append(("fenced", None)),
            lambda passed: self.events.append(("suspect", passed)),
            lambda error: self.events.append(("unfit", error)),
        )
        self._handlers = {
            **plane.handlers(),
            ApiKey.LEADER_AND_ISR: plane.gated(self._leader_and_isr),
            ApiKey.STOP_REPLICA: self._stop_replica,
            ApiKey.REPLICA_REPORT: self._replica_report,
        }
        plane.register({"PLAINTEXT": self.listener.port})
        self._thread.start()
        self._running = True
        return self

    def on_loop(self, call: Callable[[], None]) -> None:
        """Run on the loop's thread and wait for it."""
        done = threading.Event()

        def run() -> None:
            call()
            done.set()

        self.loop.call_soon_threadsafe(run)
        assert done.wait(20)

    def stop(self) -> None:
        self.plane.close()
        if self._running:
            self.on_loop(self.listener.close)
            for peer in self._peers:
                self.on_loop(peer.close)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
        else:
            self.listener.close()
        self.loop.close()

    def _connect(self, host: str, port: int, client_id: str) -> BrokerPeer:
        peer = BrokerPeer(self.loop, host, port, client_id)
        self._peers.append(peer)
        return peer

    def _on_frame(self, connection: Connection, frame: memoryview, slot: Slot) -> None:
        key, version, correlation_id, client_id, start = decode_request_header(frame)
        flexible = response_header_version(key, version) == 1
        request = Request(key, version, correlation_id, client_id or "", frame[start:], slot, flexible)
        if key == ApiKey.API_VERSIONS:
            respond(request, api_versions_response(ADVERTISED).encode(version))
        else:
            self._handlers[ApiKey(key)](request)

    def _leader_and_isr(self, request: Request) -> None:
        body = LeaderAndIsrRequest.decode(request.api_version, request.body)
        for topic in body.topic_states:
            for part in topic.partition_states:
                topic_partition = TopicPartition(topic.topic_name, part.partition_index)
                self.roles[topic_partition] = (part.leader, part.leader_epoch)
                self.config_at_role[topic_partition] = dict(self.plane.cache.overrides(topic.topic_name))
        respond(request, LeaderAndIsrResponse().encode(request.api_version))

    def _stop_replica(self, request: Request) -> None:
        body = StopReplicaRequest.decode(request.api_version, request.body)
        self.deleted += [
            TopicPartition(topic.topic_name, part.partition_index)
            for topic in body.topic_states
            for part in topic.partition_states
            if part.delete_partition
        ]
        respond(request, StopReplicaResponse().encode(request.api_version))

    def _replica_report(self, request: Request) -> None:
        """Every replica is as it was."""
        body = ReplicaReportRequest.decode(request.api_version, request.body)
        reported = [ReportedPartition(topic.topic_name, index) for topic in body.topics for index in topic.partitions]
        respond(request, ReplicaReportResponse(partitions=reported).encode(request.api_version))

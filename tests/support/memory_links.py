"""Links between brokers of one process, which may hold and lose requests and answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.core.replication.isr import Proposal
from broker.model.ids import TopicPartition
from broker.runtime.replicas.ports import AlterPartitionResult
from broker.runtime.requests.request import Request
from broker.wire.api import response_header_version
from broker.wire.chunks import Chunk, chunk_length
from broker.wire.errors import ErrorCode
from tests.support.fake_peer import FakePeer, SentRequest
from tests.support.memory_node import FakeSlot, Node

if TYPE_CHECKING:
    from tests.support.memory_brokers import MemoryBrokers


@dataclass
class Held:
    """A message on a link, in flight or held. size: bytes of an answer to a fetch."""

    source: int
    target: int
    kind: str
    deliver: Callable[[], None]
    lose: Callable[[], None]
    size: int = 0


class LinkPeer(FakePeer):
    """Sends through the cluster's links."""

    def __init__(self, cluster: MemoryBrokers, source: Node, target: int) -> None:
        super().__init__()
        self._cluster = cluster
        self._source = source
        self._target = target

    def receive(self, sent: SentRequest) -> None:
        cluster, source, target = self._cluster, self._source, self._target
        client_id = f"broker-{source.broker_id}-fetcher-{source.event_log.incarnation}"
        header_version = response_header_version(sent.api_key, sent.api_version)
        correlation = self.correlation
        life = source.incarnation
        finished: list[bool] = []

        def answered(chunks: Sequence[Chunk]) -> None:
            read = cluster.in_flight(target, source.broker_id, chunks)

            def arrive() -> None:
                data = read()
                if not finished and source.incarnation == life and source.manager is not None:
                    finished.append(True)
                    sent.on_response(memoryview(data)[4 + header_version :])

            size = sum(map(chunk_length, chunks))
            cluster.links.append(Held(target, source.broker_id, "answer", arrive, failed, size))

        def arrive() -> None:
            node = cluster.nodes[target]
            if node.manager is None:
                failed()
                return
            slot = FakeSlot(answered)
            request = Request(
                sent.api_key,
                sent.api_version,
                correlation,
                client_id,
                memoryview(bytearray(sent.body)),
                slot,
                header_version == 1,
            )
            cluster.dispatch(node, request)

        def failed() -> None:
            if not finished and source.incarnation == life and source.manager is not None:
                finished.append(True)
                source.inbox.append(lambda: sent.on_failure("reset: connection closed"))

        cluster.nodes[target].connected.append(failed)
        cluster.links.append(Held(source.broker_id, target, "request", arrive, failed))


class DirectSender:
    """AlterPartition to the cluster's controller, as a message on a link to broker 0."""

    def __init__(self, cluster: MemoryBrokers, node: Node) -> None:
        self._cluster = cluster
        self._node = node

    def send(
        self,
        topic_partition: TopicPartition,
        topic_id: str,
        proposal: Proposal,
        on_result: Callable[[AlterPartitionResult], None],
    ) -> None:
        cluster, node = self._cluster, self._node
        life = node.incarnation

        def reply(answer: AlterPartitionResult) -> None:
            if node.incarnation == life and node.manager is not None:
                node.inbox.append(lambda: on_result(answer))

        def lost() -> None:
            reply(AlterPartitionResult(ErrorCode.REQUEST_TIMED_OUT))

        def arrive() -> None:
            answer = cluster.alter(node.broker_id, proposal)
            cluster.links.append(Held(0, node.broker_id, "altered", lambda: reply(answer), lost))

        cluster.links.append(Held(node.broker_id, 0, "alter", arrive, lost))

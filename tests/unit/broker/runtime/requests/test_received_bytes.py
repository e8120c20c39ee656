"""A request that waits holds nothing of what was received: every byte of it would keep a whole receive buffer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.runtime.metadata.cache import MetadataCache
from broker.runtime.metadata.handlers import MetadataHandlers
from broker.runtime.metadata.topic_configs import TopicConfigCache, gate
from broker.runtime.produce.producer_ids import ProducerIdHandler
from broker.runtime.requests.chain import Handler
from broker.runtime.requests.dispatch import Dispatcher
from broker.runtime.requests.request import Request, respond
from broker.wire.api import SUPPORTED, ApiKey
from broker.wire.headers import encode_request_header
from broker.wire.messages import fetch
from broker.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from broker.wire.messages.describe_cluster import DescribeClusterRequest
from broker.wire.messages.init_producer_id import InitProducerIdRequest
from broker.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrTopicState
from broker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.messages.produce import ProducePartition, ProduceRequest, encode_request
from broker.wire.records import NewRecord, encode_batch
from tests.support.fake_loop import FakeLoop
from tests.support.memory_cluster import MemoryCluster
from tests.support.memory_node import TOPIC, TOPIC_ID, FakeSlot

pytestmark = pytest.mark.guarantee("many-connections")

APIS = [(api, versions.last) for api, versions in SUPPORTED.items() if api is not ApiKey.API_VERSIONS]


def dispatcher(handler: Handler) -> Dispatcher:
    """Every API has the same handler."""
    return Dispatcher(dict.fromkeys(SUPPORTED, handler))


def received(api: ApiKey, version: int, body: bytes, client_id: str | None = "client") -> bytearray:
    return bytearray(encode_request_header(api, version, 7, client_id) + body)


def assert_nobody_has_a_view(buffer: bytearray) -> None:
    buffer.clear()  # raises BufferError while there is one


@pytest.mark.parametrize(("api", "version"), APIS)
@pytest.mark.parametrize("client_id", [None, "client"], ids=["unusual-header", "usual-header"])
def test_request_that_its_handler_keeps_has_no_body_any_more(api: ApiKey, version: int, client_id: str | None) -> None:
    kept: list[Request] = []
    bodies: list[bytes] = []

    def handle(request: Request) -> None:
        kept.append(request)
        bodies.append(bytes(request.body))

    buffer = received(api, version, b"what was sent", client_id)
    dispatcher(handle).dispatch(memoryview(buffer), FakeSlot())
    assert bodies == [b"what was sent"], "the handler itself has it"
    assert_nobody_has_a_view(buffer)
    assert kept[0].api_key == api


class NoIds:
    """ZooKeeper has yet to answer."""

    def next_producer_id(self, on_id: Callable[[int], None], on_failure: Callable[[str], None]) -> None:
        self.waiting = on_id, on_failure


def nothing_heard() -> MetadataHandlers:
    cache = MetadataCache("cluster", "PLAINTEXT", lambda: 1, lambda topic: {}, lambda topic: None)
    return MetadataHandlers(cache, None, FakeLoop())


def waiting(api: ApiKey, version: int, body: bytes, handler: Handler) -> FakeSlot:
    """Hand a request to its handler; it waits then, and what was received is free."""
    buffer = received(api, version, body)
    slot = FakeSlot()
    dispatcher(handler).dispatch(memoryview(buffer), slot)
    assert not slot.done, "it has to wait"
    assert_nobody_has_a_view(buffer)
    return slot


def test_metadata_before_the_first_update_holds_nothing_received() -> None:
    body = MetadataRequest([MetadataRequestTopic(name="a-topic")]).encode(9)
    waiting(ApiKey.METADATA, 9, body, nothing_heard().handle_metadata)


def test_describe_cluster_before_the_first_update_holds_nothing_received() -> None:
    waiting(ApiKey.DESCRIBE_CLUSTER, 0, DescribeClusterRequest().encode(0), nothing_heard().handle_describe_cluster)


def test_producer_id_to_come_holds_nothing_received() -> None:
    body = InitProducerIdRequest(None, 1000).encode(2)
    waiting(ApiKey.INIT_PRODUCER_ID, 2, body, ProducerIdHandler(NoIds()).respond_fresh)


@pytest.fixture
def cluster() -> MemoryCluster:
    """With some records; what its brokers send each other is held from now on."""
    cluster = MemoryCluster()
    cluster.settle()
    cluster.produce(1, "a", "b")
    cluster.settle()
    cluster.advance(1000)
    cluster.hold = lambda message: True
    return cluster


def test_fetch_that_waits_holds_nothing_received(cluster: MemoryCluster) -> None:
    part = fetch.FetchPartition(TOPIC, partition=0, fetch_offset=2)
    body = fetch.encode_request(12, fetch.FetchRequest(max_wait_ms=500, partitions=[part]))
    manager = cluster.nodes[1].up
    slot = waiting(ApiKey.FETCH, 12, body, manager.handle_fetch)
    manager.end_of_turn()
    assert not slot.done
    cluster.advance(600)
    assert slot.response is not None


def test_delete_records_that_waits_holds_nothing_received(cluster: MemoryCluster) -> None:
    topics = [DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 1)])]
    body = DeleteRecordsRequest(topics, 5000).encode(2)
    waiting(ApiKey.DELETE_RECORDS, 2, body, cluster.nodes[1].up.handle_delete_records)


def test_produce_that_waits_holds_nothing_received_after_its_turn(cluster: MemoryCluster) -> None:
    # Until the turn's writes its batches are views.
    batch = memoryview(bytearray(encode_batch([NewRecord(None, b"c")], timestamps=1)))
    body = encode_request(9, ProduceRequest(None, -1, 500, [ProducePartition(TOPIC, 0, batch)]))
    buffer, slot = received(ApiKey.PRODUCE, 9, body), FakeSlot()
    manager = cluster.nodes[1].up
    dispatcher(manager.handle_produce).dispatch(memoryview(buffer), slot)
    with pytest.raises(BufferError):
        assert_nobody_has_a_view(buffer)
    manager.end_of_turn()
    assert not slot.done
    assert_nobody_has_a_view(buffer)
    cluster.advance(600)
    assert slot.response is not None


class LateConfigs:
    """Topic settings that have yet to be read."""

    def submit(self, name: str, task: Callable[[], None]) -> None:
        self.task = task

    def topic_configs(self, topics: list[str]) -> dict[str, dict[str, str]]:
        return {topic: {} for topic in topics}


def test_leader_and_isr_held_back_goes_on_with_a_copy_of_its_own() -> None:
    loop, late = FakeLoop(), LateConfigs()
    bodies: list[bytes] = []

    def handle(request: Request) -> None:
        bodies.append(bytes(request.body))
        respond(request, b"")

    body = LeaderAndIsrRequest(9, False, 1, 5, 0, [LeaderAndIsrTopicState(TOPIC, TOPIC_ID, [])], []).encode(6)
    gated = gate(TopicConfigCache(late, late, loop), handle)  # type: ignore[arg-type]
    slot = waiting(ApiKey.LEADER_AND_ISR, 6, body, gated)
    late.task()
    while loop.run_soon():
        pass
    assert bodies == [body]
    assert slot.response is not None

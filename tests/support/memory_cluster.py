"""The brokers of `memory_brokers` with clients: requests to them, and what their answers say."""

from __future__ import annotations

from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey, response_header_version
from broker.wire.isolation import READ_UNCOMMITTED
from broker.wire.messages import fetch, produce
from broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from broker.wire.record_batch import read_header
from broker.wire.records import NewRecord, decode_records, encode_batch
from tests.support.memory_brokers import MemoryBrokers
from tests.support.memory_node import TOPIC, FakeSlot


class MemoryCluster(MemoryBrokers):
    """Each request goes to one broker, which ends its turn; the answer is in the slot once it comes."""

    def produce(self, i: int, *values: str, acks: int = -1, timeout_ms: int = 30000, **batch: int) -> FakeSlot:
        """One batch to broker i; the answer is in the slot once it comes."""
        records = memoryview(
            bytearray(encode_batch([NewRecord(None, value.encode()) for value in values], timestamps=1, **batch))  # type: ignore[arg-type]
        )
        return self.produce_raw(i, records, acks, timeout_ms)

    def produce_raw(self, i: int, records: memoryview, acks: int = -1, timeout_ms: int = 30000) -> FakeSlot:
        body = produce.encode_request(
            9, produce.ProduceRequest(None, acks, timeout_ms, [produce.ProducePartition(TOPIC, 0, records)])
        )
        return self.request(i, ApiKey.PRODUCE, 9, body)

    def request(self, i: int, api: ApiKey, version: int, body: bytes) -> FakeSlot:
        slot = FakeSlot()
        node = self.nodes[i]
        self.dispatch(
            node,
            Request(
                api,
                version,
                7,
                "client",
                memoryview(bytearray(body)),
                slot,
                response_header_version(api, version) == 1,
            ),
        )
        node.up.end_of_turn()
        return slot

    def fetch(
        self,
        i: int,
        offset: int,
        *,
        epoch: int = -1,
        max_wait_ms: int = 0,
        max_bytes: int = 1 << 20,
        min_bytes: int = 1,
    ) -> FakeSlot:
        body = fetch.encode_request(
            12,
            fetch.FetchRequest(
                max_wait_ms=max_wait_ms,
                min_bytes=min_bytes,
                partitions=[fetch.FetchPartition(TOPIC, "", 0, epoch, offset, -1, -1, max_bytes)],
            ),
        )
        return self.request(i, ApiKey.FETCH, 12, body)

    def list_offsets(
        self,
        i: int,
        timestamp: int = -1,
        replica_id: int = -1,
        version: int = 7,
        epoch: int = -1,
        isolation: int = READ_UNCOMMITTED,
    ) -> ListOffsetsPartitionResponse:
        body = ListOffsetsRequest(
            replica_id, isolation, [ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, epoch, timestamp)])]
        ).encode(version)
        slot = self.request(i, ApiKey.LIST_OFFSETS, version, body)
        assert slot.response is not None
        header = 4 + response_header_version(ApiKey.LIST_OFFSETS, version)
        return ListOffsetsResponse.decode(version, slot.response[header:]).topics[0].partitions[0]


def produced(slot: FakeSlot) -> produce.ProducePartitionResult | None:
    """The result of a `produce`, None while it waits."""
    if slot.response is None:
        return None
    return produce.decode_response(9, memoryview(slot.response)[5:]).results[0]


def fetched(slot: FakeSlot) -> fetch.FetchPartitionResult | None:
    """The result of a `fetch`, None while it waits."""
    if slot.response is None:
        return None
    return fetch.decode_response(12, memoryview(slot.response)[5:]).results[0]


def values_of(result: fetch.FetchPartitionResult | None) -> list[str]:
    """Record values in a fetch result."""
    assert result is not None
    view = result.records_view
    found: list[str] = []
    position = 0
    while position < len(view):
        header = read_header(view, position)
        for record in decode_records(view[position : position + header.size]):
            assert record.value is not None
            found.append(record.value.decode())
        position += header.size
    return found

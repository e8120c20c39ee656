"""kafka-python's own message classes as the oracle: what we write it reads as meant, what it writes we read."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from kafka.protocol import admin, consumer, metadata, producer
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from broker.wire.api import PRIVATE, SUPPORTED, ApiKey, request_header_version, response_header_version
from broker.wire.compression import Compression
from broker.wire.fields import SPEC
from broker.wire.headers import encode_request_header, encode_response_header
from broker.wire.messages import fetch, produce
from broker.wire.messages.api_versions import ApiVersionsResponse
from broker.wire.primitives import topic_id_from_bytes
from broker.wire.records import NewRecord, decode_records, encode_batch
from broker.wire.schema import Message
from tests.support.examples import examples
from tests.support.wire_values import (
    fetch_requests,
    fetch_results,
    instances,
    message_versions,
    produce_requests,
    produce_results,
)

pytestmark = pytest.mark.guarantee("K1")

FEW = examples(10, suppress_health_check=[HealthCheck.too_slow])
# Bit fields, which kafka-python turns into sets; the bytes are compared all the same.
_SETS = {"topic_authorized_operations", "cluster_authorized_operations", "authorized_operations"}
# Between brokers only; no client library has them.
_NOT_THERE = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION,
    *PRIVATE,
}
COLD = [(cls, version) for cls, version in message_versions() if cls.API not in _NOT_THERE]


def theirs(name: str) -> Any:
    for module in (admin, consumer, metadata, producer):
        if hasattr(module, name):
            return getattr(module, name)
    raise AssertionError(f"kafka-python has no {name}")


def encoded(message: Any, version: int) -> memoryview:
    """Their bytes of a message that they decoded, which left it without the header that encoding asks for."""
    message._header = None
    return memoryview(bytes(message.encode(version=version)))


def assert_same(ours: Any, other: Any, version: int) -> None:
    """Field by field, by name."""
    for field in dataclasses.fields(ours):
        if version not in field.metadata[SPEC].versions or field.name in _SETS:
            continue
        assert_same_value(getattr(ours, field.name), getattr(other, field.name), version, field.name)


def assert_same_value(ours: Any, other: Any, version: int, name: str) -> None:
    if dataclasses.is_dataclass(ours):
        assert_same(ours, other, version)
    elif isinstance(ours, list):
        assert len(ours) == len(other), name
        for one, two in zip(ours, other, strict=True):
            assert_same_value(one, two, version, name)
    elif isinstance(other, uuid.UUID) or name == "topic_id":
        assert ours == ("" if other is None else topic_id_from_bytes(other.bytes)), name
    else:
        assert ours == other, name


@pytest.mark.parametrize(("cls", "version"), COLD, ids=[f"{cls.__name__}-{version}" for cls, version in COLD])
@FEW
@given(data=st.data())
def test_cold_message_means_the_same_in_both_directions(cls: type[Message], version: int, data: st.DataObject) -> None:
    message = data.draw(instances(cls, version))
    for name in _SETS:
        _reset(message, name)
    if isinstance(message, ApiVersionsResponse):
        message.error_code = 0  # with an error they read version 0, as KIP-511 has it
    raw = message.encode(version)
    other = theirs(cls.__name__).decode(raw, version=version)
    assert_same(message, other, version)
    assert cls.decode(version, encoded(other, version), exact=True) == message


def _reset(message: Any, name: str) -> None:
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if field.name == name:
            setattr(message, name, -(2**31))
        elif isinstance(value, list):
            for element in value:
                if dataclasses.is_dataclass(element):
                    _reset(element, name)


@pytest.mark.parametrize("version", range(3, 10))
@FEW
@given(request=produce_requests())
def test_produce_request_means_the_same(version: int, request: produce.ProduceRequest) -> None:
    raw = produce.encode_request(version, request)
    other = producer.ProduceRequest.decode(raw, version=version)
    flat = [
        (topic.name, part.index, None if part.records is None else bytes(part.records))
        for topic in other.topic_data
        for part in topic.partition_data
    ]
    assert (other.transactional_id, other.acks, other.timeout_ms) == request[:3]
    assert flat == [(t, p, None if r is None else bytes(r)) for t, p, r in request.partitions]
    assert produce.decode_request(version, encoded(other, version)) == request


@pytest.mark.parametrize("version", range(3, 10))
@FEW
@given(data=st.data())
def test_produce_response_means_the_same(version: int, data: st.DataObject) -> None:
    results = data.draw(produce_results(version))
    raw = produce.encode_response(version, results, 11)
    other = producer.ProduceResponse.decode(raw, version=version)
    flat = []
    for topic in other.responses:
        for part in topic.partition_responses:
            late = (part.log_start_offset if version >= 5 else -1, part.error_message if version >= 8 else None)
            flat.append((topic.name, part.index, part.error_code, part.base_offset, part.log_append_time_ms, *late))
    assert flat == [tuple(result) for result in results]
    assert other.throttle_time_ms == 11
    assert produce.decode_response(version, encoded(other, version)).results == results


@pytest.mark.parametrize("version", range(4, 16))
@FEW
@given(data=st.data())
def test_fetch_request_means_the_same(version: int, data: st.DataObject) -> None:
    request = data.draw(fetch_requests(version))
    other = consumer.FetchRequest.decode(fetch.encode_request(version, request), version=version)
    replica = (other.replica_state.replica_id, other.replica_state.replica_epoch) if version >= 15 else None
    assert (request.replica_id, request.replica_epoch) == (replica or (other.replica_id, -1))
    assert request[2:6] == (other.max_wait_ms, other.min_bytes, other.max_bytes, other.isolation_level)
    if version >= 7:
        assert (request.session_id, request.session_epoch) == (other.session_id, other.session_epoch)
    flat = [(_topic(t, version), p) for t in other.topics for p in t.partitions]
    assert len(flat) == len(request.partitions)
    for ours, (name, part) in zip(request.partitions, flat, strict=True):
        assert ours.topic + ours.topic_id == name
        assert (ours.partition, ours.fetch_offset, ours.max_bytes) == (
            part.partition,
            part.fetch_offset,
            part.partition_max_bytes,
        )
        if version >= 5:
            assert ours.log_start_offset == part.log_start_offset
        if version >= 9:
            assert ours.current_leader_epoch == part.current_leader_epoch
        if version >= 12:
            assert ours.last_fetched_epoch == part.last_fetched_epoch
    if version >= 7:
        forgotten = [(_topic(t, version), index) for t in other.forgotten_topics_data for index in t.partitions]
        assert [(f.topic + f.topic_id, f.partition) for f in request.forgotten] == forgotten
    if version >= 11:
        assert request.rack_id == other.rack_id
    assert fetch.decode_request(version, encoded(other, version)) == request


def _topic(topic: Any, version: int) -> str:
    if version < 13:
        return str(topic.topic)
    return "" if topic.topic_id is None else topic_id_from_bytes(topic.topic_id.bytes)


@pytest.mark.parametrize("version", range(4, 16))
@FEW
@given(data=st.data())
def test_fetch_response_means_the_same(version: int, data: st.DataObject) -> None:
    results = data.draw(fetch_results(version))
    error, session_id = (71, 12345) if version >= 7 else (0, 0)
    chunks = fetch.encode_response(version, results, error=error, session_id=session_id, throttle_ms=2)
    raw = b"".join(chunks)  # type: ignore[arg-type]
    other = consumer.FetchResponse.decode(raw, version=version)
    assert other.throttle_time_ms == 2
    if version >= 7:
        assert (other.error_code, other.session_id) == (error, session_id)
    flat = [(_topic(t, version), p) for t in other.responses for p in t.partitions]
    assert len(flat) == len(results)
    for ours, (name, part) in zip(results, flat, strict=True):
        assert ours.topic + ours.topic_id == name
        assert (ours.partition, ours.error, ours.high_watermark, ours.last_stable_offset) == (
            part.partition_index,
            part.error_code,
            part.high_watermark,
            part.last_stable_offset,
        )
        assert bytes(ours.records_view) == bytes(part.records or b"")
        aborted = part.aborted_transactions
        assert ours.aborted == (None if aborted is None else [(a.producer_id, a.first_offset) for a in aborted])
        if version >= 5:
            assert ours.log_start_offset == part.log_start_offset
        if version >= 11:
            assert ours.preferred_read_replica == part.preferred_read_replica
        if version >= 12:
            diverging, leader, snapshot = part.diverging_epoch, part.current_leader, part.snapshot_id
            assert _pair(diverging, "epoch", "end_offset") == (ours.diverging_epoch, ours.diverging_end_offset)
            assert _pair(leader, "leader_id", "leader_epoch") == (ours.current_leader_id, ours.current_leader_epoch)
            assert _pair(snapshot, "end_offset", "epoch") == (ours.snapshot_end_offset, ours.snapshot_epoch)


def _pair(struct: Any, first: str, second: str) -> tuple[int, int]:
    return (-1, -1) if struct is None else (getattr(struct, first), getattr(struct, second))


@pytest.mark.parametrize("version", range(4, 16))
@FEW
@given(data=st.data())
def test_fetch_response_of_theirs_is_read(version: int, data: st.DataObject) -> None:
    results = data.draw(fetch_results(version))
    raw = b"".join(fetch.encode_response(version, results))  # type: ignore[arg-type]
    again = encoded(consumer.FetchResponse.decode(raw, version=version), version)
    assert fetch.decode_response(version, again).results == results


@pytest.mark.parametrize("api", sorted(set(SUPPORTED) - _NOT_THERE))
def test_headers_are_theirs_for_every_version(api: ApiKey) -> None:
    name = {ApiKey.OFFSET_FOR_LEADER_EPOCH: "OffsetForLeaderEpoch"}.get(
        api, "".join(word.capitalize() for word in api.name.split("_"))
    )
    for version in range(SUPPORTED[api].first, SUPPORTED[api].last + 1):
        request, response = theirs(f"{name}Request"), theirs(f"{name}Response")
        message = request(version=version)
        message.with_header(correlation_id=9, client_id="me")
        flexible = request.flexible_version_q(version)
        assert bytes(message.encode_header(flexible=flexible)) == encode_request_header(api, version, 9, "me")
        assert request_header_version(api, version) == (2 if flexible else 1)
        answer = response(version=version)
        answer.with_header(correlation_id=9)
        flexible = response.flexible_version_q(version)
        assert bytes(answer.encode_header(flexible=flexible)) == encode_response_header(api, version, 9)
        assert response_header_version(api, version) == (1 if flexible and api != ApiKey.API_VERSIONS else 0)


RECORDS = st.lists(
    st.builds(
        NewRecord,
        st.none() | st.binary(max_size=30),
        st.none() | st.binary(max_size=30),
        st.lists(st.tuples(st.text("ab", max_size=4), st.none() | st.binary(max_size=5)), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=5,
)


@FEW
@given(RECORDS, st.sampled_from([Compression.NONE, Compression.GZIP]), st.integers(0, 2**40))
def test_batch_of_ours_is_read_by_them(records: list[NewRecord], codec: Compression, base_offset: int) -> None:
    times = [1000 + 7 * index for index in range(len(records))]
    raw = encode_batch(records, timestamps=times, base_offset=base_offset, compression=codec)
    other = DefaultRecordBatch(bytearray(raw))
    assert other.validate_crc()
    read = [(r.offset, r.timestamp, r.key, r.value, [tuple(h) for h in r.headers]) for r in other]
    assert read == [
        (base_offset + i, times[i], record.key, record.value, list(record.headers)) for i, record in enumerate(records)
    ]


@FEW
@given(RECORDS, st.sampled_from([Compression.NONE, Compression.GZIP]))
def test_batch_of_theirs_is_read_by_us(records: list[NewRecord], codec: Compression) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=False,
        producer_id=5,
        producer_epoch=1,
        base_sequence=3,
        batch_size=1 << 20,
    )
    for offset, record in enumerate(records):
        builder.append(offset, 2000 + offset, record.key, record.value, list(record.headers))
    read = decode_records(bytes(builder.build()), verify_crc=True)
    assert [NewRecord(*record[2:]) for record in read] == records
    assert [record.timestamp for record in read] == [2000 + offset for offset in range(len(records))]

"""All messages in all versions: what is written is read, and nothing but MalformedFrame comes of bad bytes."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from broker.wire.advertised import api_versions_response, unsupported_version_body
from broker.wire.api import ADVERTISED, SUPPORTED, ApiKey
from broker.wire.chunks import Chunk, FileSlice, chunks_length
from broker.wire.fields import SPEC
from broker.wire.messages import fetch, produce, produce_codec
from broker.wire.messages.api_versions import ApiVersionsResponse
from broker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.messages.delete_topics import DeleteTopicsRequest
from broker.wire.messages.describe_client_quotas import DescribeClientQuotasResponse
from broker.wire.messages.list_offsets import ListOffsetsRequest
from broker.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.wire.messages.update_metadata import UpdateMetadataRequest
from broker.wire.primitives import MalformedFrame, Reader
from broker.wire.schema import Message
from tests.support.examples import examples
from tests.support.wire_values import (
    fetch_requests,
    fetch_results,
    instances,
    message_classes,
    message_versions,
    produce_requests,
    produce_results,
)

FEW = examples(10, suppress_health_check=[HealthCheck.too_slow])
MESSAGE_VERSIONS = message_versions()
PRODUCE_VERSIONS = range(SUPPORTED[ApiKey.PRODUCE].first, SUPPORTED[ApiKey.PRODUCE].last + 1)
FETCH_VERSIONS = range(SUPPORTED[ApiKey.FETCH].first, SUPPORTED[ApiKey.FETCH].last + 1)
all_messages = pytest.mark.parametrize(
    ("cls", "version"), MESSAGE_VERSIONS, ids=[f"{cls.__name__}-{version}" for cls, version in MESSAGE_VERSIONS]
)


@all_messages
@FEW
@given(data=st.data())
def test_message_any_value_roundtrips(cls: type[Message], version: int, data: st.DataObject) -> None:
    message = data.draw(instances(cls, version))
    assert cls.decode(version, message.encode(version)) == message


@all_messages
@FEW
@given(data=st.data())
def test_message_damaged_bytes_are_malformed_or_read(cls: type[Message], version: int, data: st.DataObject) -> None:
    raw = bytearray(data.draw(instances(cls, version)).encode(version))
    _damage(raw, data)
    with contextlib.suppress(MalformedFrame):
        cls.decode(version, raw)


@all_messages
@FEW
@given(raw=st.binary(max_size=80))
def test_message_arbitrary_bytes_are_malformed_or_read(cls: type[Message], version: int, raw: bytes) -> None:
    with contextlib.suppress(MalformedFrame):
        cls.decode(version, raw)


def _damage(raw: bytearray, data: st.DataObject) -> None:
    if raw:
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
        del raw[data.draw(st.integers(0, len(raw))) :]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@FEW
@given(request=produce_requests())
def test_produce_request_any_value_roundtrips(version: int, request: produce.ProduceRequest) -> None:
    raw = produce.encode_request(version, request)
    assert produce.decode_request(version, memoryview(raw)) == request


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@FEW
@given(data=st.data())
def test_produce_response_any_value_roundtrips(version: int, data: st.DataObject) -> None:
    results = data.draw(produce_results(version))
    raw = produce.encode_response(version, results, 7)
    assert produce.decode_response(version, memoryview(raw)) == produce.ProduceResponse(results, 7)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@examples(200, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_produce_request_damaged_is_read_as_the_careful_reader_reads_it(version: int, data: st.DataObject) -> None:
    partition = produce.ProducePartition("topic", 1, memoryview(bytes(data.draw(st.integers(0, 300)))))
    raw = bytearray(produce.encode_request(version, produce.ProduceRequest(None, -1, 5, [partition])))
    _damage(raw, data)
    view = memoryview(raw)
    try:
        careful = produce_codec._decode_any(version >= 9, view)
    except MalformedFrame:
        with pytest.raises(MalformedFrame):
            produce.decode_request(version, view)
    else:
        assert produce.decode_request(version, view) == careful


def test_produce_request_records_are_a_writable_view_of_the_frame() -> None:
    request = produce.ProduceRequest(None, 1, 5, [produce.ProducePartition("t", 0, memoryview(b"abcd"))])
    for version in PRODUCE_VERSIONS:
        frame = bytearray(produce.encode_request(version, request))
        (partition,) = produce.decode_request(version, memoryview(frame)).partitions
        assert partition.records is not None
        partition.records[:] = b"wxyz"
        assert b"wxyz" in frame


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@FEW
@given(data=st.data())
def test_fetch_request_any_value_roundtrips(version: int, data: st.DataObject) -> None:
    request = data.draw(fetch_requests(version))
    assert fetch.decode_request(version, memoryview(fetch.encode_request(version, request))) == request


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@FEW
@given(data=st.data())
def test_fetch_response_any_value_roundtrips(version: int, data: st.DataObject) -> None:
    results = data.draw(fetch_results(version))
    error, session_id = (70, 9) if version >= 7 else (0, 0)
    chunks = fetch.encode_response(version, results, error=error, session_id=session_id, throttle_ms=3)
    raw = b"".join(chunks)  # type: ignore[arg-type]
    assert fetch.decode_response(version, memoryview(raw)) == fetch.FetchResponse(3, error, session_id, results)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@FEW
@given(data=st.data())
def test_fetch_damaged_bytes_are_malformed_or_read(version: int, data: st.DataObject) -> None:
    raw = bytearray(fetch.encode_request(version, data.draw(fetch_requests(version))))
    _damage(raw, data)
    with contextlib.suppress(MalformedFrame):
        fetch.decode_request(version, memoryview(raw))
    answer_bytes = bytearray(b"".join(fetch.encode_response(version, data.draw(fetch_results(version)))))  # type: ignore[arg-type]
    _damage(answer_bytes, data)
    with contextlib.suppress(MalformedFrame):
        fetch.decode_response(version, memoryview(answer_bytes))


def test_fetch_response_length_without_an_end_is_malformed_after_five_bytes() -> None:
    """As many bytes as a frame may have say that the length goes on: read to their end it would take for ever."""
    result = fetch.FetchPartitionResult(topic_id="AAECAwQFBgcICQoLDA0ODw", records=[])
    raw = b"".join(fetch.encode_response(13, [result]))  # type: ignore[arg-type]
    with pytest.raises(MalformedFrame, match="records"):
        fetch.decode_response(13, memoryview(raw[: -len(b"\x01\0\0\0")] + b"\xff" * 20_000_000))


@pytest.mark.parametrize("version", [12, 15])
def test_fetch_request_unknown_partition_tag_is_skipped(version: int) -> None:
    named = {"topic": "t"} if version < 13 else {"topic_id": "AAECAwQFBgcICQoLDA0ODw"}
    partitions = [fetch.FetchPartition(**named, partition=index, fetch_offset=5) for index in range(3)]  # type: ignore[arg-type]
    request = fetch.FetchRequest(partitions=partitions)
    raw = fetch.encode_request(version, request)
    # The second partition's tag section grows by one unknown field of three bytes.
    start = raw.index(b"\0\0\0\1\xff\xff\xff\xff")
    at = start + 32
    assert raw[at] == 0
    tagged = raw[:at] + b"\x01\x63\x03abc" + raw[at + 1 :]
    assert fetch.decode_request(version, memoryview(tagged)) == request


def test_fetch_request_of_kafkas_verification_tool_is_read() -> None:
    """Version 17 with the replica id of a debugging consumer, and a directory id, which is passed over."""
    partition = fetch.FetchPartition(topic_id="AAECAwQFBgcICQoLDA0ODw", partition=3, fetch_offset=5)
    request = fetch.FetchRequest(replica_id=fetch.DEBUGGING_CONSUMER_ID, partitions=[partition])
    raw = fetch.encode_request(17, request)
    at = raw.index(b"\0\0\0\3\xff\xff\xff\xff") + 32
    assert raw[at] == 0
    tagged = raw[:at] + b"\x01\x00\x10" + bytes(16) + raw[at + 1 :]
    assert fetch.decode_request(17, memoryview(tagged)) == request


@pytest.mark.parametrize("rack", [None, "r1"])
def test_fetch_response_says_where_leaders_are_from_version_16_on(rack: str | None) -> None:
    results = [
        fetch.FetchPartitionResult(
            topic_id="AAECAwQFBgcICQoLDA0ODw", error=6, current_leader_id=2, current_leader_epoch=7, records=[]
        )
    ]
    endpoints = [fetch.NodeEndpoint(2, "host-2", 9092, rack)]
    for version in (13, 15, 16, 17):
        raw = b"".join(fetch.encode_response(version, results, endpoints=endpoints))  # type: ignore[arg-type]
        response = fetch.decode_response(version, memoryview(raw))
        assert response.results == results
        assert response.endpoints == (endpoints if version >= 16 else ())
    assert raw.endswith(
        # One tag, its number and size; one node: id, host, port, rack, no tags.
        b"\x01\x00"
        + bytes([18 + (len(rack) if rack else 0)])
        + b"\x02\0\0\0\x02\x07host-2\0\0\x23\x84"
        + (b"\x03r1" if rack else b"\0")
        + b"\0"
    )


def test_fetch_response_file_slices_stay_chunks() -> None:
    records: list[Chunk] = [FileSlice(5, 100, 70_000), b"x" * 10]
    chunks = fetch.encode_response(12, [fetch.FetchPartitionResult("t", records=records)])
    assert records[0] in chunks
    plain = fetch.encode_response(12, [fetch.FetchPartitionResult("t", records=[bytes(70_010)])])
    assert chunks_length(chunks) == chunks_length(plain)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_fetch_request_session_before_v7_is_refused(version: int) -> None:
    with pytest.raises(ValueError, match="no sessions"):
        fetch.encode_request(version, fetch.FetchRequest(session_id=4))


def test_metadata_request_empty_and_null_topics_differ_from_v1() -> None:
    assert MetadataRequest(topics=[]).encode(0) == bytes(4)
    assert MetadataRequest(topics=[]).encode(1) == bytes(4)
    assert MetadataRequest(topics=None).encode(1) == b"\xff\xff\xff\xff"
    with pytest.raises(ValueError, match="null where an array is required"):
        MetadataRequest(topics=None).encode(0)
    assert MetadataRequest(topics=[MetadataRequestTopic(name="a")]).encode(9) == b"\x02\x02a\x00\x01\x00\x00\x00"


_ID, _ID_BYTES = "AAECAwQFBgcICQoLDA0ODw", bytes(range(16))


@pytest.mark.parametrize(("version", "flags"), [(10, b"\0\1\1"), (11, b"\0\1"), (12, b"\0\1")])
def test_metadata_request_by_id_is_these_bytes(version: int, flags: bytes) -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="a"), MetadataRequestTopic(_ID, None)],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=version == 10,
        include_topic_authorized_operations=True,
    )
    raw = b"\3" + bytes(16) + b"\2a\0" + _ID_BYTES + b"\0\0" + flags + b"\0"
    assert request.encode(version) == raw
    assert MetadataRequest.decode(version, raw, exact=True) == request
    with pytest.raises(ValueError, match="null"):
        request.encode(9)


@pytest.mark.parametrize(("version", "end"), [(10, b"\0\0\0\7\0"), (11, b"\0"), (12, b"\0")])
def test_metadata_response_with_an_id_is_these_bytes(version: int, end: bytes) -> None:
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(1, "h", 9092)],
        cluster_id="c",
        controller_id=1,
        topics=[MetadataResponseTopic(0, "a", _ID, True, [MetadataResponsePartition(0, 2, 1, 5, [1], [1], [])], 8)],
    )
    if version == 10:
        response.cluster_authorized_operations = 7
    brokers = b"\2\0\0\0\1\2h\0\0\x23\x84\0\0"
    partition = b"\0\0\0\0\0\2\0\0\0\1\0\0\0\5\2\0\0\0\1\2\0\0\0\1\1\0"
    topic = b"\0\0\2a" + _ID_BYTES + b"\1\2" + partition + b"\0\0\0\x08\0"
    raw = bytes(4) + brokers + b"\2c\0\0\0\1\2" + topic + end
    assert response.encode(version) == raw
    assert MetadataResponse.decode(version, raw, exact=True) == response


def test_metadata_response_has_no_name_only_from_version_12() -> None:
    response = MetadataResponse(topics=[MetadataResponseTopic(100, None, _ID)])
    assert MetadataResponse.decode(12, response.encode(12)) == response
    with pytest.raises(ValueError, match="null"):
        response.encode(11)


def test_message_field_outside_its_version_is_refused_not_dropped() -> None:
    with pytest.raises(ValueError, match=r"ListOffsetsRequest.isolation_level = 1 cannot be encoded in version 1"):
        ListOffsetsRequest(isolation_level=1).encode(1)


def test_message_ignorable_field_outside_its_version_is_dropped() -> None:
    request = UpdateMetadataRequest(type=2)
    assert UpdateMetadataRequest.decode(8, request.encode(8)).type == 2
    with pytest.raises(ValueError, match="type"):
        request.encode(7)
    topics = DeleteTopicsRequest(topic_names=["a"])
    assert DeleteTopicsRequest.decode(5, topics.encode(5)) == topics
    assert DeleteTopicsRequest.decode(6, topics.encode(6)) == DeleteTopicsRequest()


def test_message_number_out_of_range_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="out of its field's range"):
        CreateTopicsRequest(topics=[CreatableTopic(name="t", replication_factor=40_000)]).encode(5)


@pytest.mark.parametrize("version", [0, 1])
def test_message_error_text_that_quotes_too_much_is_cut(version: int) -> None:
    name = "é" * 16383
    text = f"Custom entity type {name!r} is not supported"
    answer = DescribeClientQuotasResponse(error_code=42, error_message=text)
    read = DescribeClientQuotasResponse.decode(version, answer.encode(version)).error_message
    assert read is not None
    assert len(read.encode()) <= 32767
    assert read == text[: len(read) - 1] + "…"
    fits = DescribeClientQuotasResponse(error_code=42, error_message=name)
    assert DescribeClientQuotasResponse.decode(version, fits.encode(version)).error_message == name


@pytest.mark.parametrize("cls", [cls for cls in message_classes() if cls.__name__.endswith("Request")])
def test_message_with_more_elements_than_a_request_may_have_is_malformed_before_they_are_read(
    cls: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.wire.schema.ELEMENTS_MAX", 5)
    monkeypatch.setattr("broker.wire.schema.BROKERS_ELEMENTS_MAX", 10)
    version = SUPPORTED[cls.API].last
    for field in dataclasses.fields(cls):
        spec = field.metadata[SPEC]
        if spec.is_array and version in spec.versions:
            one = spec.element() if spec.element is not None else "" if spec.kind == "string" else 0
            whole = cls(**{field.name: [one] * cls.elements_max()}).encode(version)
            assert len(getattr(cls.decode(version, whole), field.name)) == cls.elements_max()
            more = cls(**{field.name: [one] * (cls.elements_max() + 1)}).encode(version)
            with pytest.raises(MalformedFrame, match=f"{field.name} at byte .*: more array elements than a req"):
                cls.decode(version, more)


@pytest.mark.parametrize(("version", "layout"), [(9, produce), (12, fetch), (4, fetch)])
def test_elements_of_nested_arrays_count_together(version: int, layout: Any) -> None:
    if layout is produce:
        rows = [produce.ProducePartition(f"t{n // 500}", n, None) for n in range(200_001)]
        body = produce.encode_request(version, produce.ProduceRequest(None, 1, 1, rows))
    else:
        asked = [fetch.FetchPartition(topic=f"t{n // 500}", partition=n) for n in range(200_001)]
        body = fetch.encode_request(version, fetch.FetchRequest(partitions=asked))
    with pytest.raises(MalformedFrame, match="more array elements than a request may have in all"):
        layout.decode_request(version, memoryview(bytearray(body)))


def test_message_version_not_offered_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="version 8 is not one of 2-7"):
        CreateTopicsRequest.decode(8, b"")


def test_message_bytes_left_over_are_ignored_unless_exactness_is_required() -> None:
    raw = CreateTopicsRequest().encode(2) + b"\0"
    assert CreateTopicsRequest.decode(2, raw) == CreateTopicsRequest()
    with pytest.raises(MalformedFrame, match="left over"):
        CreateTopicsRequest.decode(2, raw, exact=True)


def test_metadata_request_for_all_topics_as_librdkafka_writes_it_is_understood() -> None:
    assert MetadataRequest.decode(9, bytes.fromhex("0000000001000000")).topics is None


def test_message_unknown_tagged_field_is_skipped() -> None:
    raw = ApiVersionsResponse(error_code=3).encode(3)
    assert raw.endswith(b"\0")
    assert ApiVersionsResponse.decode(3, raw[:-1] + b"\x01\x2a\x02xy").error_code == 3


def test_api_versions_unsupported_has_a_v0_body_with_all_apis() -> None:
    body = unsupported_version_body(ADVERTISED)
    reader = Reader(body)
    assert reader.int16("error") == 35
    assert reader.int32("count") == len(ADVERTISED)
    assert reader.remaining == 6 * len(ADVERTISED)


def test_api_versions_advertises_what_clients_may_use() -> None:
    listed = {key.api_key: (key.min_version, key.max_version) for key in api_versions_response(ADVERTISED).api_keys}
    assert listed[ApiKey.PRODUCE] == (0, 9)
    assert listed[ApiKey.FETCH] == (4, 17)
    assert listed[ApiKey.JOIN_GROUP] == (0, 9)
    assert ApiKey.REPLICA_REPORT not in listed


def test_message_every_class_has_defaults_for_all_fields() -> None:
    for cls in {cls for cls, _ in MESSAGE_VERSIONS}:
        assert cls() == cls()
        assert all(field.name.islower() for field in dataclasses.fields(cls))  # type: ignore[arg-type]

"""Records without a key are refused by compacted topics, with Kafka's words."""

from __future__ import annotations

import sys

import crc32c
import pytest

from broker.wire.compression import Compression
from broker.wire.errors import ErrorCode
from broker.wire.record_batch import HEADER_SIZE
from broker.wire.records import NewRecord, encode_batch
from tests.support.memory_cluster import MemoryCluster, produced
from tests.support.memory_node import TOPIC

pytestmark = pytest.mark.guarantee("L4")


@pytest.fixture
def cluster() -> MemoryCluster:
    cluster = MemoryCluster()
    cluster.topic_config["cleanup.policy"] = "compact,delete"
    cluster.settle()
    return cluster


def _batch(keys: list[bytes | None], codec: Compression = Compression.NONE) -> memoryview:
    return memoryview(bytearray(encode_batch([NewRecord(key, b"v") for key in keys], timestamps=1, compression=codec)))


@pytest.mark.parametrize("codec", list(Compression))
def test_produce_without_a_key_to_a_compacted_topic_is_refused(cluster: MemoryCluster, codec: Compression) -> None:
    result = produced(cluster.produce_raw(1, _batch([b"k", None, b"k", None, None, None], codec)))
    assert result is not None
    assert (result.error, result.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    one = "message='Compacted topic cannot accept message without key in topic partition t-0'"
    assert result.error_message == (
        "One or more records have been rejected due to 4 record errors in total, and only showing the first three "
        f"errors at most: [RecordError(batchIndex=1, {one}), RecordError(batchIndex=3, {one}), "
        f"RecordError(batchIndex=4, {one})]"
    )
    assert cluster.nodes[1].log.staged_end_offset == 0


def test_produce_with_keys_even_empty_ones_is_taken(cluster: MemoryCluster) -> None:
    slot = cluster.produce_raw(1, _batch([b"k", b""], Compression.GZIP))
    cluster.settle()
    result = produced(slot)
    assert result is not None
    assert result.error == 0


def test_produce_of_records_that_do_not_decode_to_a_compacted_topic_is_corrupt(cluster: MemoryCluster) -> None:
    batch = bytearray(_batch([b"k"]))
    batch[HEADER_SIZE] = 0x7F
    batch[17:21] = crc32c.crc32c(bytes(batch[21:])).to_bytes(4, "big")
    result = produced(cluster.produce_raw(1, memoryview(batch)))
    assert result is not None
    assert result.error == ErrorCode.CORRUPT_MESSAGE


def test_policy_that_changes_changes_what_is_refused(cluster: MemoryCluster) -> None:
    cluster.topic_config["cleanup.policy"] = "delete"
    cluster.nodes[1].up.hosting.on_topic_config(TOPIC)
    slot = cluster.produce_raw(1, _batch([None]))
    cluster.settle()
    result = produced(slot)
    assert result is not None
    assert result.error == 0


def test_produce_of_more_records_than_can_be_looked_at_in_time_is_too_large(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.runtime.replicas.keyless_records.RECORDS_MAX", 3)
    accepted = produced(cluster.produce_raw(1, _batch([b"k"] * 3), acks=1))
    assert accepted is not None
    assert accepted.error == 0
    refused = produced(cluster.produce_raw(1, _batch([b"k"] * 4), acks=1))
    assert refused is not None
    assert refused.error == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_produce_in_a_codec_that_is_not_installed_to_a_compacted_topic_gets_that_error(
    cluster: MemoryCluster, codec: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = _batch([b"k"], codec)
    monkeypatch.setitem(sys.modules, "cramjam", None)
    refused = produced(cluster.produce_raw(1, batch, acks=1))
    assert refused is not None
    assert refused.error == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert "cramjam" in (refused.error_message or "")
    plain = produced(cluster.produce_raw(1, _batch([b"k"], Compression.GZIP), acks=1))
    assert plain is not None
    assert plain.error == 0


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec is not Compression.NONE])
def test_produce_that_inflates_beyond_the_bound_to_a_compacted_topic_is_too_large(
    cluster: MemoryCluster, codec: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.wire.compression.INFLATED_BYTES_MAX", 1000)
    refused = produced(cluster.produce_raw(1, _batch([b"k" * 2000], codec), acks=1))
    assert refused is not None
    assert refused.error == ErrorCode.MESSAGE_TOO_LARGE
    assert "more than 1000 bytes" in (refused.error_message or "")


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec is not Compression.NONE])
def test_produce_of_what_its_codec_cannot_have_written_to_a_compacted_topic_is_corrupt(
    cluster: MemoryCluster, codec: Compression
) -> None:
    batch = bytearray(_batch([b"k"], codec))
    batch[HEADER_SIZE:] = bytes(0xFF for _ in batch[HEADER_SIZE:])
    batch[17:21] = crc32c.crc32c(bytes(batch[21:])).to_bytes(4, "big")
    refused = produced(cluster.produce_raw(1, memoryview(batch), acks=1))
    assert refused is not None
    assert refused.error == ErrorCode.CORRUPT_MESSAGE


def test_produce_with_an_impossible_time_to_a_compacted_topic_is_refused(cluster: MemoryCluster) -> None:
    batch = bytearray(encode_batch([NewRecord(b"k", b"1"), NewRecord(b"k", b"2")], timestamps=[0, 1]))
    batch[27:35] = (2**63 - 1).to_bytes(8, "big")
    batch[17:21] = crc32c.crc32c(bytes(batch[21:])).to_bytes(4, "big")
    result = produced(cluster.produce_raw(1, memoryview(batch)))
    assert result is not None
    assert (result.error, result.base_offset) == (ErrorCode.INVALID_TIMESTAMP, -1)
    assert "9223372036854775807 + 1" in (result.error_message or "")

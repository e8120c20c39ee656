"""Bytes that are no requests: the connection that sent them closes, and nobody else notices."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import crc32c
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.headers import encode_request_header
from broker.wire.messages.produce import ProducePartition, ProduceRequest, encode_request
from broker.wire.record_batch import HEADER, BatchHeader
from broker.wire.records import NewRecord, encode_batch
from tests.support.brokers import Cluster, running_cluster
from tests.support.processes import resident_kib
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.guarantee("L4", "frame-lengths", "header-counts")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), brokers=1) as running:
        yield running


def _header(key: int, version: int) -> bytes:
    return encode_request_header(key, version, 1, "hostile")


def _produce(records: bytes) -> bytes:
    part = ProducePartition("hostile", 0, memoryview(bytearray(records)))
    return _header(ApiKey.PRODUCE, 9) + encode_request(9, ProduceRequest(None, 1, 1000, [part]))


def _produce_head() -> bytes:
    """A request up to the length of its records."""
    return _produce(b"x")[: -len(b"\x02x\0\0\0")]


FRAMES = {
    "negative-size": struct.pack(">i", -1) + b"x" * 100,
    "huge-size": struct.pack(">i", 0x7FFFFFFF) + b"x" * 100,
    "above-socket-request-max": struct.pack(">i", 104857601) + b"x" * 100,
    "http": b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "tls-hello": bytes.fromhex("16030100a5010000a10303") + b"\x5a" * 160,
    "empty-frame": struct.pack(">i", 0),
    "short-header": struct.pack(">i", 3) + b"\0\0\0",
    "unknown-api": None,
    "unknown-version": None,
    "array-count-of-billions": None,
    "truncated-body": None,
    "length-without-end": None,
}
_BODIES = {
    "unknown-api": _header(ApiKey.METADATA, 1)[:0] + struct.pack(">hhih", 999, 0, 1, -1),
    "unknown-version": struct.pack(">hhih", ApiKey.FETCH, 99, 1, -1),
    "array-count-of-billions": _header(ApiKey.METADATA, 1) + struct.pack(">i", 0x7FFFFFF0),
    "truncated-body": _produce(b"x" * 100)[:-40],
    # All of a large frame says that the length of the records goes on.
    "length-without-end": _produce_head() + b"\xff" * 20_000_000,
}


def _frame(name: str) -> bytes:
    whole = FRAMES[name]
    if whole is None:
        body = _BODIES[name]
        whole = struct.pack(">i", len(body)) + body
    return whole


def _round_trip(cluster: Cluster, producer: Producer, value: bytes) -> None:
    places: list[tuple[int, int]] = []

    def delivered(error: object, message: object) -> None:
        assert error is None
        places.append((message.partition(), message.offset()))  # type: ignore[attr-defined]

    producer.produce("good", value, partition=0, on_delivery=delivered)
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition("good", *places[0])])
        message = consumer.poll(20)
        assert message is not None
        assert message.value() == value
    finally:
        consumer.close()


@pytest.mark.parametrize("name", list(FRAMES))
def test_hostile_bytes_close_their_connection_and_disturb_no_other(cluster: Cluster, name: str) -> None:
    broker = cluster.brokers[1]
    disconnected: list[object] = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "error_cb": disconnected.append, "linger.ms": 0}
    )
    _round_trip(cluster, producer, b"before")
    with socket.create_connection(("127.0.0.1", broker.port), timeout=20) as hostile:
        hostile.sendall(_frame(name))
        try:
            answer = hostile.recv(4096)
        except ConnectionResetError:
            answer = b""
        assert answer == b"", "closed without a word"
    _round_trip(cluster, producer, b"after")
    assert not disconnected
    assert broker.process is not None
    assert broker.process.poll() is None


def test_batch_that_is_none_is_refused_and_the_connection_stays(cluster: Cluster) -> None:
    broker = cluster.brokers[1]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    producer.produce("hostile", b"so that the topic is there", partition=0)
    assert producer.flush(20) == 0
    with socket.create_connection(("127.0.0.1", broker.port), timeout=20) as hostile:
        for records in (b"\0" * 10, b"\xff" * 200, b"\0" * 200):
            body = _produce(records)
            hostile.sendall(struct.pack(">i", len(body)) + body)
            (size,) = struct.unpack(">i", hostile.recv(4, socket.MSG_WAITALL))
            assert hostile.recv(size, socket.MSG_WAITALL)
    _round_trip(cluster, producer, b"good")


_REFUSALS = (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def _lying(**claims: int) -> bytes:
    """A good batch of three records whose header then claims something else, under a CRC that fits the claim."""
    batch = bytearray(encode_batch([NewRecord(None, b"x" * 50)] * 3, timestamps=1))
    values = BatchHeader._make(HEADER.unpack_from(batch))
    HEADER.pack_into(batch, 0, *values._replace(**claims))
    if "crc" not in claims:
        struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(batch[21:])))
    return bytes(batch)


@pytest.mark.parametrize(
    "claims",
    [
        {"record_count": 2},
        {"record_count": 0},
        {"record_count": -1},
        {"record_count": 2**31 - 1},
        {"last_offset_delta": 2**31 - 1},
        {"last_offset_delta": -1},
        {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2},
        {"record_count": 100, "last_offset_delta": 99},
        *({"attributes": codec, "record_count": 2**30, "last_offset_delta": 2**30 - 1} for codec in range(1, 5)),
        {"batch_length": 2**31 - 1},
        {"batch_length": 0},
        {"batch_length": -(2**31)},
        {"batch_length": 100},
        {"magic": 1},
        {"magic": 3},
        {"attributes": 7},
        {"crc": 0},
        {"producer_id": 5, "producer_epoch": -1, "base_sequence": 0},
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": -1},
    ],
    ids=str,
)
def test_batch_whose_header_lies_is_refused_and_leaves_nothing(cluster: Cluster, claims: dict[str, int]) -> None:
    broker = cluster.brokers[1]
    good = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    good.produce("hostile", b"so that the topic is there", partition=0)
    assert good.flush(20) == 0
    client = RawClient(broker.port)
    before = client.produce("hostile", _lying(), 1)
    assert before.error == 0
    refused = client.produce("hostile", _lying(**claims), 1)
    assert refused.error in _REFUSALS
    assert refused.error_message
    after = client.produce("hostile", _lying(), 1)
    assert (after.error, after.base_offset) == (0, before.base_offset + 3), "no offset was taken by the lie"
    client.close()


def test_claimed_sizes_cost_no_memory(cluster: Cluster) -> None:
    broker = cluster.brokers[1]
    assert broker.process is not None
    pid = broker.process.pid
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    _round_trip(cluster, producer, b"before")
    before = resident_kib(pid)
    half_sent = [socket.create_connection(("127.0.0.1", broker.port), timeout=20) for _ in range(100)]
    try:
        for hostile in half_sent:
            hostile.sendall(struct.pack(">i", 100_000_000) + b"x" * 1000)
        _round_trip(cluster, producer, b"after")
        assert resident_kib(pid) - before < 64 * 1024, "a hundred claims of 100 MB each"
    finally:
        for hostile in half_sent:
            hostile.close()


def test_frames_that_are_bad_for_one_reason_leave_few_lines(cluster: Cluster) -> None:
    broker = cluster.brokers[1]
    client = b"x\n12:00:00.000 CRITICAL broker: all is lost\x1b[2J\0"
    body = struct.pack(">hhih", 999, 0, 1, len(client)) + client
    before = len(broker.output.splitlines())
    for _ in range(500):
        with socket.create_connection(("127.0.0.1", broker.port), timeout=20) as hostile:
            hostile.sendall(struct.pack(">i", len(body)) + body)
            assert hostile.recv(1) == b""
    lines = broker.output.splitlines()[before:]
    assert 1 <= sum("API key 999" in line for line in lines) <= 4, lines
    assert not [line for line in lines if line.startswith("12:00:00.000 CRITICAL")]
    assert all(character.isprintable() for line in lines for character in line), lines

"""Clients of the coordinators that want much, or for ever: memory stays within bounds, and nobody else notices."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.find_coordinator import FindCoordinatorRequest
from broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from broker.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.support.brokers import Broker, running_cluster, wait_until
from tests.support.bystander import Bystander, wait_served
from tests.support.processes import resident_kib
from tests.support.raw_client import RawClient, framed

pytestmark = pytest.mark.guarantee("L4", "frame-lengths")

_JOIN, _LEAVE, _COMMIT, _COMMIT_FLEXIBLE, _INIT = 5, 3, 7, 8, 1
_ID_MAX = 32_767
_MIB = 1024  # in KiB
_SETTINGS = {
    **{f"{log}.replication.factor": "1" for log in ("offsets.topic", "transaction.state.log")},
    **{f"{log}.num.partitions": "1" for log in ("offsets.topic", "transaction.state.log")},
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), brokers=1, settings=_SETTINGS) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1, config={"retention.ms": "-1"})])["t"].result(30)
        broker = running.brokers[1]
        client = RawClient(broker.port)
        for kind in (0, 1):
            request = FindCoordinatorRequest(key="g", key_type=kind)
            client.send(framed(ApiKey.FIND_COORDINATOR, 2, request.encode(2)))
            client.receive()
        client.close()
        wait_served(broker.port, "t", "bystander")
        wait_until(lambda: _opened(broker) == ErrorCode.NONE, "the coordinator of transactions")
        yield broker


def _opened(broker: Broker) -> int:
    with _client(broker) as client:
        client.send(_init("first"))
        return InitProducerIdResponse.decode(_INIT, client.receive()[4:]).error_code


@contextmanager
def _client(broker: Broker) -> Iterator[RawClient]:
    client = RawClient(broker.port)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def _unharmed(broker: Broker) -> Iterator[None]:
    """An ordinary client goes on meanwhile, and has done rounds in it."""
    bystander = Bystander(broker.port, "t", "bystander")
    bystander.start()
    try:
        bystander.wait_rounds(5)
        yield
        bystander.wait_rounds(len(bystander.times_s) + 5)
    finally:
        bystander.stop()


def _pid(broker: Broker) -> int:
    assert broker.process is not None
    return broker.process.pid


def _join(group: str, member: str = "") -> bytes:
    protocols = [JoinGroupRequestProtocol("range", b"x")]
    request = JoinGroupRequest(group, 6000, 6000, member, protocol_type="consumer", protocols=protocols)
    return framed(ApiKey.JOIN_GROUP, _JOIN, request.encode(_JOIN))


def _joined(client: RawClient, group: str, member: str = "") -> JoinGroupResponse:
    client.send(_join(group, member))
    return JoinGroupResponse.decode(_JOIN, client.receive()[4:])


def _commit(group: str, metadata: str = "", version: int = _COMMIT) -> bytes:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=metadata)
    request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("t", partitions=[part])])
    return framed(ApiKey.OFFSET_COMMIT, version, request.encode(version))


def _init(transactional_id: str) -> bytes:
    return framed(ApiKey.INIT_PRODUCER_ID, _INIT, InitProducerIdRequest(transactional_id, 60_000).encode(_INIT))


def _commit_error(answer: bytes) -> int:
    return OffsetCommitResponse.decode(_COMMIT, answer[4:]).topics[0].partitions[0].error_code


def _rounds(client: RawClient, count: int) -> None:
    """A member joins as Kafka's clients do, and leaves."""
    for _ in range(count):
        named = _joined(client, "churn")
        assert named.error_code == ErrorCode.MEMBER_ID_REQUIRED
        joined = _joined(client, "churn", named.member_id)
        assert joined.error_code == ErrorCode.NONE
        leave = LeaveGroupRequest("churn", "", [MemberIdentity(joined.member_id)])
        client.send(framed(ApiKey.LEAVE_GROUP, _LEAVE, leave.encode(_LEAVE)))
        assert LeaveGroupResponse.decode(_LEAVE, client.receive()[4:]).error_code == ErrorCode.NONE


def _churn(broker: Broker, count: int) -> int:
    """How many KiB so many rounds took, once the first were over."""
    with _client(broker) as client, _unharmed(broker):
        _rounds(client, 500)
        before = resident_kib(_pid(broker))
        _rounds(client, count)
        return resident_kib(_pid(broker)) - before


def test_member_that_joins_and_leaves_for_ever_leaves_nothing(broker: Broker) -> None:
    assert _churn(broker, 2000) < 4 * _MIB


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_member_that_joins_and_leaves_fifty_thousand_times_leaves_nothing(broker: Broker) -> None:
    grown = _churn(broker, 50_000)
    print(f"50,000 rounds: {grown} KiB")
    assert grown < 16 * _MIB


def test_ids_of_32_kib_are_taken_once_each(broker: Broker) -> None:
    with _client(broker) as client, _unharmed(broker):
        known = _joined(client, "g" * _ID_MAX)
        assert known.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert _joined(client, "g" * _ID_MAX, known.member_id).error_code == ErrorCode.NONE
        assert _joined(client, "g" * _ID_MAX, "m" * _ID_MAX).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        client.send(_commit("some", "m" * _ID_MAX))
        assert _commit_error(client.receive()) == ErrorCode.OFFSET_METADATA_TOO_LARGE
        before = resident_kib(_pid(broker))
        for number in range(100):
            assert _joined(client, f"{number:05}".ljust(_ID_MAX, "j")).error_code == ErrorCode.MEMBER_ID_REQUIRED
            client.send(_commit(f"{number:05}".ljust(_ID_MAX, "c")))
            assert _commit_error(client.receive()) == ErrorCode.NONE
        ids = 200 * _ID_MAX // 1024
        assert resident_kib(_pid(broker)) - before < 1.5 * ids + 2 * _MIB


def _compact(length: int) -> bytes:
    """The length of a text, in a version whose texts may say any."""
    length += 1
    found = bytearray()
    while length > 127:
        found.append(length & 127 | 128)
        length >>= 7
    return bytes([*found, length])


def _metadata_of(length: int) -> bytes:
    """A whole OffsetCommit with such a text in it."""
    frame = _commit("some", "metadata", _COMMIT_FLEXIBLE)
    at = frame.index(_compact(8) + b"metadata")
    body = frame[4:at] + _compact(length) + b"m" * length + frame[at + 9 :]
    return struct.pack(">i", len(body)) + body


def _peak_kib(broker: Broker) -> int:
    status = Path(f"/proc/{_pid(broker)}/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1])


@contextmanager
def _peak(broker: Broker) -> Iterator[Callable[[], int]]:
    """KiB that the broker had at most above what it had at the beginning."""
    Path(f"/proc/{_pid(broker)}/clear_refs").write_text("5")
    before = _peak_kib(broker)
    yield lambda: _peak_kib(broker) - before


def _closed(client: RawClient, frame: bytes) -> bool:
    try:
        client.send(frame)
        client.receive()
    except (EOFError, ConnectionError):
        return True
    return False


def test_metadata_of_100_mb_is_refused_before_it_is_in_memory_twice(broker: Broker) -> None:
    length = 100_000_000
    frame, lines = _metadata_of(length), len(broker.output.splitlines())
    with _unharmed(broker), _peak(broker) as peak:
        before = resident_kib(_pid(broker))
        with _client(broker) as client:
            assert _closed(client, frame)
        assert 0.9 * length / 1024 < peak() < 1.15 * length / 1024, "it was all there, and once"
        wait_until(lambda: resident_kib(_pid(broker)) - before < 8 * _MIB, "it is given back")
    told = [line for line in broker.output.splitlines()[lines:] if "WARNING" in line or "ERROR" in line]
    assert len(told) == 1, told
    assert "OffsetCommit: malformed frame" in told[0]
    assert "committed_metadata" in told[0]
    assert len(told[0]) < 500


@pytest.mark.parametrize("length", [_ID_MAX + 1, 1_000_000])
def test_text_of_more_than_32_kib_closes_its_connection(broker: Broker, length: int) -> None:
    frame = _metadata_of(length)
    with _unharmed(broker), _client(broker) as client:
        assert _closed(client, frame)


def _asked(client: RawClient, frames: Sequence[bytes], check: Callable[[bytes], bool]) -> None:
    for frame in frames:
        client.send(frame)
    for _ in frames:
        assert check(client.receive())


def _many(broker: Broker, count: int, frame: Callable[[str], bytes], check: Callable[[bytes], bool]) -> float:
    """KiB that each of so many took; a hundred are under way at a time."""
    began = time.monotonic()
    with _client(broker) as client, _unharmed(broker):
        before = resident_kib(_pid(broker))
        for first in range(0, count, 100):
            _asked(client, [frame(f"{count}-{number}") for number in range(first, first + 100)], check)
        each = (resident_kib(_pid(broker)) - before) / count
    print(f"{count}: {each:.2f} KiB each, {time.monotonic() - began:.0f} s")
    return each


def _is_required(answer: bytes) -> bool:
    return JoinGroupResponse.decode(_JOIN, answer[4:]).error_code == ErrorCode.MEMBER_ID_REQUIRED


def _is_committed(answer: bytes) -> bool:
    return _commit_error(answer) == ErrorCode.NONE


def _is_given(answer: bytes) -> bool:
    return InitProducerIdResponse.decode(_INIT, answer[4:]).error_code == ErrorCode.NONE


EACH_MAX_KIB = 6.0
MANY = {
    "groups-of-members": (lambda name: _join(f"joined-{name}"), _is_required),
    "groups-of-offsets": (lambda name: _commit(f"committed-{name}"), _is_committed),
    "transactional-ids": (lambda name: _init(f"id-{name}"), _is_given),
}


@pytest.mark.parametrize("what", list(MANY))
def test_many_names_cost_little_each(broker: Broker, what: str) -> None:
    assert _many(broker, 2000, *MANY[what]) < EACH_MAX_KIB


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("what", list(MANY))
def test_a_hundred_thousand_names_cost_little_each(broker: Broker, what: str) -> None:
    assert _many(broker, 100_000, *MANY[what]) < EACH_MAX_KIB

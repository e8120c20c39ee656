"""The rules of groups beside Apache Kafka's own coordinator: the same random requests, the same answers.

Requests go to Kafka over the wire, each on a connection of its own, and to `broker.core.group` in memory. Member ids
are paired as both sides give them out. No time-out comes into play: a sequence takes less than a session.
"""

from __future__ import annotations

import random
import selectors
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchmarks.systems import Broker
from broker.core.group.effects import JoinResult, LeaveResult, SyncResult
from broker.core.group.requests import LeaveGroup, LeavingMember, Protocols
from broker.core.group.settings import GroupSettings
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.headers import decode_response_header, encode_request_header
from broker.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from broker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from broker.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from broker.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from broker.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from broker.wire.schema import Message
from tests.support.brokers import wait_until
from tests.support.group_members import fresh
from tests.support.groups import DrivenGroup, joining
from tests.support.kafka_brokers import kafka_brokers
from tests.support.raw_client import RawClient
from tests.support.wait import eventually

pytestmark = pytest.mark.guarantee("group-rules")
STEPS = 40
SEQUENCES = 12
SESSION_MS = 30_000
SETTLE_S = 0.02
ANSWER_S = 30.0
UNSURE_S = 0.15
LEFT_ALONE = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID)
"""Ours where Kafka may give no answer: to a request that a later one replaced, or a SyncGroup whose member has left."""
PROTOCOLS: tuple[Protocols, ...] = (
    (("a", b"1"), ("b", b"1")),
    (("a", b"2"), ("b", b"1")),
    (("a", b"1"),),
    (("c", b"1"),),
)
JOIN_VERSIONS = (3, 5, 9)
ONE_BY_ONE = {"num.network.threads": "1", "num.io.threads": "1"}
"""So Kafka carries requests out in the order in which it reads them, though each has a connection of its own."""
VERSIONS = {ApiKey.HEARTBEAT: 4, ApiKey.LEAVE_GROUP: 5, ApiKey.FIND_COORDINATOR: 3}
RESPONSES: dict[ApiKey, type[Message]] = {
    ApiKey.JOIN_GROUP: JoinGroupResponse,
    ApiKey.SYNC_GROUP: SyncGroupResponse,
    ApiKey.HEARTBEAT: HeartbeatResponse,
    ApiKey.LEAVE_GROUP: LeaveGroupResponse,
    ApiKey.FIND_COORDINATOR: FindCoordinatorResponse,
}


@dataclass(frozen=True)
class Id:
    """One member id as both sides have it."""

    kafkas: str
    ours: str
    instance: str | None


@dataclass
class Sent:
    """A request on its way. waiter: ours."""

    client: RawClient
    api: ApiKey
    version: int
    waiter: int
    instance: str | None = None
    member_id: str = ""


class OtherChoice(Exception):
    """Kafka chose among equals, a leader or a protocol, by the order of a hash table: what follows differs."""


@dataclass
class Beside:
    """One group on both sides."""

    rng: random.Random
    port: int
    group: str = field(default_factory=lambda: fresh("r"))
    ids: list[Id] = field(default_factory=list)
    waiting: list[Sent] = field(default_factory=list)
    compared: int = 0

    def __post_init__(self) -> None:
        self.driven = DrivenGroup(GroupSettings(initial_rebalance_delay_ms=0))

    def send(self, request: Message, version: int, waiter: int, instance: str | None = None, own: str = "") -> None:
        sent = Sent(RawClient(self.port), request.API, version, waiter, instance, own)
        frame = encode_request_header(request.API, version, 1, "client") + request.encode(version)
        sent.client.send(struct.pack(">i", len(frame)) + frame)
        self.waiting.append(sent)
        # No answer may come of it so soon; what is sent next must not overtake it.
        eventually(lambda: _unread(sent.client, self.port) == 0, "Kafka reads the request")
        while self.driven.stores:
            self.driven.write()
        self.driven.pass_ms(0)
        self.compare()

    def compare(self) -> None:
        """Both have answered the same requests, with the same."""
        began = time.monotonic()
        expected = {sent.waiter for sent in self.waiting if not self.driven.waits(sent.waiter)}
        sure = {waiter for waiter in expected if not self._may_be_left_alone(waiter)}
        got: dict[int, Message] = {}
        while set(got) != expected or not expected:
            if time.monotonic() - began > (UNSURE_S if sure <= set(got) else ANSWER_S):
                break
            with selectors.DefaultSelector() as selector:
                for sent in self.waiting:
                    if sent.waiter not in got:
                        selector.register(sent.client.socket, selectors.EVENT_READ, sent)
                ready = [key.data for key, _ in selector.select(SETTLE_S)]
            for sent in ready:
                frame = memoryview(sent.client.receive())
                start = decode_response_header(sent.api, sent.version, frame).body_start
                got[sent.waiter] = RESPONSES[sent.api].decode(sent.version, frame[start:])
            if not ready and not expected:
                break
        for sent in [each for each in self.waiting if each.waiter in got or each.waiter in expected]:
            self._compare(sent, got.get(sent.waiter))
        self.waiting = [each for each in self.waiting if each.waiter not in got and each.waiter not in expected]

    def _may_be_left_alone(self, waiter: int) -> bool:
        return getattr(self.driven.replies.get(waiter), "error", None) in LEFT_ALONE

    def _compare(self, sent: Sent, theirs: Message | None) -> None:
        sent.client.close()
        ours = self.driven.replies.get(sent.waiter)
        assert ours is not None, f"Kafka answered, we did not: {theirs}"
        if theirs is None:
            assert self._may_be_left_alone(sent.waiter), f"we answered, Kafka did not: {ours}"
            return
        self.compared += 1
        if isinstance(theirs, JoinGroupResponse):
            assert isinstance(ours, JoinResult)
            self._compare_join(sent, theirs, ours)
        elif isinstance(theirs, SyncGroupResponse):
            assert isinstance(ours, SyncResult)
            assert (theirs.error_code, bytes(theirs.assignment)) == (ours.error, ours.assignment)
            if sent.version >= 5:
                assert (theirs.protocol_type, theirs.protocol_name) == (ours.protocol_type, ours.protocol_name)
        elif isinstance(theirs, LeaveGroupResponse):
            assert isinstance(ours, LeaveResult)
            assert [member.error_code for member in theirs.members] == [member.error for member in ours.members]

    def _compare_join(self, sent: Sent, theirs: JoinGroupResponse, ours: JoinResult) -> None:
        if theirs.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
            # Kafka raises IllegalStateException for an id without an instance that comes with one.
            assert ours.error is ErrorCode.UNKNOWN_MEMBER_ID
            return
        assert (theirs.error_code, theirs.generation_id) == (ours.error, ours.generation), (theirs, ours)
        if ours.error not in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            return
        self._pair(theirs.member_id, ours.member_id, sent.instance)
        if ours.error is ErrorCode.MEMBER_ID_REQUIRED:
            return
        if theirs.protocol_name != ours.protocol_name or (theirs.leader == theirs.member_id) != (
            ours.leader == ours.member_id
        ):
            raise OtherChoice
        assert theirs.skip_assignment == ours.skip_assignment
        assert (
            sorted((m.group_instance_id or "", bytes(m.metadata)) for m in theirs.members)
            == sorted((m.group_instance_id or "", m.metadata) for m in ours.members)
            or sent.version < 5
        )

    def _pair(self, kafkas: str, ours: str, instance: str | None) -> None:
        for known in self.ids:
            assert (known.kafkas == kafkas) == (known.ours == ours)
        if all(known.ours != ours for known in self.ids):
            self.ids.append(Id(kafkas, ours, instance))

    def any_id(self) -> Id:
        return self.rng.choice([*self.ids[-4:], *self.ids[-4:], Id("made up", "made up", None)])

    def any_generation(self) -> int:
        return self.driven.group.generation + self.rng.choice((0, 0, 0, 0, 0, 1, -1))

    def any_instance(self, of: Id) -> str | None:
        return of.instance if self.rng.random() < 0.9 else self.rng.choice((None, "i", "j"))

    def join(self) -> None:
        version = self.rng.choice(JOIN_VERSIONS)
        who = self.any_id() if self.rng.random() < 0.7 else Id("", "", self.rng.choice((None, None, "i", "j")))
        instance = self.any_instance(who) if version >= 5 else None
        protocols = self.rng.choices(PROTOCOLS, (6, 2, 1, 0.3))[0]
        waiter = self.driven.join(
            joining(
                who.ours,
                instance,
                session_timeout_ms=SESSION_MS,
                protocols=protocols,
                requires_known_member_id=version >= 4,
                supports_skipping_assignment=version >= 9,
            )
        )
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=60_000,
            member_id=who.kafkas,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
        )
        self.send(request, version, waiter, instance)

    def sync(self) -> None:
        who, generation = self.any_id(), self.any_generation()
        instance = self.any_instance(who)
        kind, name = self.rng.choice(((None, None), ("consumer", "a"), ("consumer", "a"), ("connect", "a")))
        version = 4 if kind is None else 5
        dealt = [(each, b"%d" % n) for n, each in enumerate(self.ids)]
        waiter = self.driven.sync(
            who.ours, generation, {each.ours: value for each, value in dealt}, instance, kind, name
        )
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=who.kafkas,
            group_instance_id=instance,
            protocol_type=kind,
            protocol_name=name,
            assignments=[SyncGroupRequestAssignment(member_id=each.kafkas, assignment=v) for each, v in dealt],
        )
        self.send(request, version, waiter)

    def heartbeat(self) -> None:
        who, generation = self.any_id(), self.any_generation()
        instance = self.any_instance(who)
        request = HeartbeatRequest(
            group_id=self.group, generation_id=generation, member_id=who.kafkas, group_instance_id=instance
        )
        answer = exchange(self.port, request)
        assert isinstance(answer, HeartbeatResponse)
        assert answer.error_code == self.driven.heartbeat(who.ours, generation, instance)
        self.compared += 1

    def leave(self) -> None:
        who = self.any_id()
        instance = self.any_instance(who)
        by_instance = self.rng.random() < 0.3
        waiter = next(self.driven.waiters)
        self.driven.asked.add(waiter)
        ours = LeaveGroup((LeavingMember("" if by_instance else who.ours, instance),))
        self.driven.took(self.driven.group.leave(waiter, ours, self.driven.now))
        identity = MemberIdentity(member_id="" if by_instance else who.kafkas, group_instance_id=instance)
        self.send(LeaveGroupRequest(group_id=self.group, members=[identity]), VERSIONS[ApiKey.LEAVE_GROUP], waiter)

    def step(self) -> None:
        state = self.driven.state
        actions = (
            (self.join, 6 if state in ("Empty", "PreparingRebalance") else 2),
            (self.sync, 8 if state == "CompletingRebalance" else 2),
            (self.heartbeat, 2),
            (self.leave, 0.7),
        )
        self.rng.choices([each for each, _ in actions], [weight for _, weight in actions])[0]()

    def close(self) -> None:
        for sent in self.waiting:
            sent.client.close()


def _unread(client: RawClient, port: int) -> int:
    """Bytes that the client has sent, and the server at that port has not read: proc_net(5)."""
    ends = [f"{client.socket.getsockname()[1]:04X}", f"{port:04X}"]
    unread = 0
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            _, local, remote, _, queues, *_ = line.split()
            to_send, to_read = (int(size, 16) for size in queues.split(":"))
            between = [address.rpartition(":")[2] for address in (local, remote)]
            unread += to_send if between == ends else to_read if between == ends[::-1] else 0
    return unread


def exchange(port: int, request: Message) -> Message:
    """One request that is answered at once."""
    version = VERSIONS[request.API]
    client = RawClient(port)
    try:
        frame = encode_request_header(request.API, version, 1, "client") + request.encode(version)
        client.send(struct.pack(">i", len(frame)) + frame)
        answer = memoryview(client.receive())
        start = decode_response_header(request.API, version, answer).body_start
        return RESPONSES[request.API].decode(version, answer[start:])
    finally:
        client.close()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of Apache Kafka that coordinates groups."""

    def coordinates(port: int) -> bool:
        answer = exchange(port, FindCoordinatorRequest(key="r"))
        assert isinstance(answer, FindCoordinatorResponse)
        return answer.error_code == ErrorCode.NONE

    with kafka_brokers(Path(tmp_path_factory.mktemp("kafka")), 1, ONE_BY_ONE) as (_, brokers):
        wait_until(lambda: coordinates(brokers[0].port), "Kafka's coordinator", 60)
        request = HeartbeatRequest(group_id="r", generation_id=0, member_id="nobody")

        def loaded() -> bool:
            answer = exchange(brokers[0].port, request)
            assert isinstance(answer, HeartbeatResponse)
            return answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID

        wait_until(loaded, "Kafka's coordinator is loaded", 60)
        yield brokers[0]


def test_random_requests_get_the_answers_that_kafka_gives(kafka: Broker) -> None:
    compared = chosen = 0
    for seed in range(SEQUENCES):
        beside = Beside(random.Random(seed), kafka.port)
        try:
            for _ in range(STEPS):
                beside.step()
        except OtherChoice:
            chosen += 1
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        finally:
            beside.close()
        compared += beside.compared
    assert compared > SEQUENCES * STEPS / 4
    assert chosen < SEQUENCES

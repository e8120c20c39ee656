"""One partition under reassignment: a real controller's term, brokers as plain as can be, deaths at every write.

A broker is a log (a list of records) and what it was told last. Requests reach a broker in order, and those that its
controller had not sent yet are lost with it. A record is committed when its leader, by what followers fetched from it
under its epoch, knows that all of its ISR has it. `check` says what must hold after every step.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from broker.core.controller.cluster_state import NO_LEADER, Broker, BrokerEndpoint, Topic
from broker.core.controller.stored import Watch
from broker.model.ids import TopicPartition
from broker.runtime.controller.request_batch import LEADER_AND_ISR_VERSION, STOP_REPLICA_VERSION, Outgoing
from broker.runtime.controller.term import ControllerTerm
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from broker.wire.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from broker.wire.messages.stop_replica import StopReplicaRequest
from tests.support.memory_store import Data, Died, MemoryStore

TOPIC_ID = "A" * 22
PARTITION = TopicPartition("t", 0)
_ALTER_VERSION = 3


@dataclass
class Node:
    """One broker. log None: it has none of this partition. fetched: LEO by follower, of this epoch as leader."""

    id: int
    alive: bool = True
    epoch: int = 0
    log: list[int] | None = None
    leader: int = NO_LEADER
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: frozenset[int] = frozenset()
    replicas: tuple[int, ...] = ()
    has_role: bool = False
    fetched: dict[int, int] = field(default_factory=dict)
    high_watermark: int = 0
    queue: deque[Outgoing] = field(default_factory=deque)

    @property
    def leads(self) -> bool:
        return self.alive and self.has_role and self.leader == self.id

    def roles_told(self) -> list[tuple[str, LeaderAndIsrPartitionState]]:
        """(topic, state) by partition, of the LeaderAndIsr requests that wait for it."""
        return [
            (topic.topic_name, state)
            for request in self.queue
            if request.api_key == ApiKey.LEADER_AND_ISR
            for topic in LeaderAndIsrRequest.decode(LEADER_AND_ISR_VERSION, request.body).topic_states
            for state in topic.partition_states
        ]

    def forget_role(self) -> None:
        self.has_role = False
        self.leader, self.partition_epoch = NO_LEADER, -1
        self.fetched.clear()


class Outbox:
    """Satisfies `controller.ports.Outbox`."""

    def __init__(self, nodes: dict[int, Node]) -> None:
        self._nodes = nodes
        self.events: list[tuple[str, dict[str, object]]] = []

    def set_brokers(self, brokers: object) -> None: ...

    def send(self, requests: list[Outgoing]) -> None:
        for request in requests:
            node = self._nodes[request.broker]
            if node.alive and node.epoch == request.broker_epoch:
                node.queue.append(request)

    def emit(self, event: str, **fields: object) -> None:
        self.events.append((event, fields))


class Watches:
    """Nothing fires by itself."""

    def __init__(self) -> None:
        self.brokers = self.topics = self.deletions = self.log_dirs = self.elections = self.reassignments = _nothing

    def topic(self, name: str) -> Watch:
        return _nothing


def _nothing() -> None: ...


class ReassignedCluster:
    """See the module. Each method is one step that may end in the controller's death."""

    def __init__(self, replicas: tuple[int, ...], brokers: int) -> None:
        self.data = Data()
        self.nodes = {id_: Node(id_) for id_ in range(1, brokers + 1)}
        for node in self.nodes.values():
            self._register(node)
        self.data.topics["t"] = (Topic("t", TOPIC_ID, {0: replicas}), 0)
        self.committed: list[int] = []
        self.deaths = 0
        self._next_record = 0
        self._elect()

    # Controller

    def _elect(self) -> None:
        """A new controller; it may die while it loads."""
        for node in self.nodes.values():
            node.queue.clear()
        self.store = MemoryStore(self.data)
        self.outbox = Outbox(self.nodes)
        self.term = ControllerTerm(
            self.store.term, 9, self.store, self.outbox, Watches(), False, True, lambda: TOPIC_ID
        )
        self.step(self.term.load)

    def step(self, event: object) -> object:
        """Let the controller handle an event; where it dies, its successor loads. None after a death."""
        assert callable(event)
        try:
            result = event()
            self.term.flush_metadata()
        except Died:
            self.deaths += 1
            self._elect()
            return None
        return result

    def die_at(self, write: int, landed: bool) -> None:
        """Let the controller die at its write-th write from now, before or after it happened."""
        self.store.die_at, self.store.landed = write, landed

    def reassign(self, target: tuple[int, ...] | None) -> object:
        return self.step(lambda: self.term.admin.reassignments.alter({PARTITION: target}))

    # Brokers

    def _register(self, node: Node) -> None:
        node.alive = True
        node.epoch = self.data.next_transaction()
        node.queue.clear()
        self.data.brokers[node.id] = Broker(
            node.id, node.epoch, (BrokerEndpoint("PLAINTEXT", "h", node.id, "PLAINTEXT"),)
        )

    def fail(self, id_: int) -> None:
        node = self.nodes[id_]
        if not node.alive:
            return
        node.alive = False
        node.queue.clear()
        node.forget_role()
        del self.data.brokers[id_]
        self.step(lambda: self.term.brokers_changed())

    def start(self, id_: int) -> None:
        if not self.nodes[id_].alive:
            self._register(self.nodes[id_])
            self.step(lambda: self.term.brokers_changed())

    def deliver(self, id_: int) -> bool:
        """Handle the next request that reached a broker; False when there is none."""
        node = self.nodes[id_]
        if not node.alive or not node.queue:
            return False
        request = node.queue.popleft()
        if request.api_key == ApiKey.LEADER_AND_ISR:
            self._leader_and_isr(node, LeaderAndIsrRequest.decode(LEADER_AND_ISR_VERSION, request.body))
        elif request.api_key == ApiKey.STOP_REPLICA:
            self._stop(node, StopReplicaRequest.decode(STOP_REPLICA_VERSION, request.body))
        return True

    def _leader_and_isr(self, node: Node, request: LeaderAndIsrRequest) -> None:
        for topic in request.topic_states:
            for part in topic.partition_states:
                if (part.leader_epoch, part.partition_epoch) <= (node.leader_epoch, node.partition_epoch):
                    continue
                if part.leader_epoch > node.leader_epoch or not node.has_role:
                    node.fetched = {}
                node.has_role = True
                node.leader, node.leader_epoch = part.leader, part.leader_epoch
                node.partition_epoch = part.partition_epoch
                node.isr, node.replicas = frozenset(part.isr), tuple(part.replicas)
                if node.log is None:
                    assert part.leader != node.id or part.leader_epoch == 0, "an empty replica was made leader"
                    node.log, node.high_watermark = [], 0

    def _stop(self, node: Node, request: StopReplicaRequest) -> None:
        for topic in request.topic_states:
            for part in topic.partition_states:
                node.forget_role()
                if part.delete_partition:
                    node.log = None
                    node.leader_epoch = -1
                    self.step(lambda: self.term.replicas_deleted(node.id, [PARTITION]))

    # Records

    def append(self, id_: int) -> None:
        """A producer writes to whoever believes to lead."""
        node = self.nodes[id_]
        if node.leads and node.log is not None:
            node.log.append(self._next_record)
            self._next_record += 1
            self._commit(node)

    def fetch(self, id_: int) -> None:
        """A follower takes all that its leader has, after a cut to where they agree."""
        node = self.nodes[id_]
        leader = self.nodes.get(node.leader)
        if (
            not (node.alive and node.has_role)
            or leader is None
            or leader is node
            or not leader.leads
            or leader.leader_epoch != node.leader_epoch
            or leader.log is None
            or id_ not in leader.replicas
        ):
            return
        node.log = list(leader.log)
        leader.fetched[id_] = len(leader.log)
        node.high_watermark = leader.high_watermark
        self._commit(leader)

    def _commit(self, leader: Node) -> None:
        """Move the leader's watermark; what it passes is committed for ever."""
        assert leader.log is not None
        ends = [leader.fetched.get(member, 0) for member in leader.isr if member != leader.id]
        leader.high_watermark = max(leader.high_watermark, min([len(leader.log), *ends]))
        known = leader.log[: leader.high_watermark]
        assert known[: len(self.committed)] == self.committed[: len(known)], "two histories were committed"
        if len(known) > len(self.committed):
            self.committed = known

    def alter_isr(self, id_: int, drop: frozenset[int] = frozenset()) -> None:
        """A leader proposes all that have caught up, without those of `drop`."""
        node = self.nodes[id_]
        if not node.leads or node.log is None:
            return
        end = max(node.high_watermark, len(self.committed))
        wanted = {id_} | {
            replica
            for replica in node.replicas
            if node.fetched.get(replica, -1) >= end and self.nodes[replica].alive and replica not in drop
        }
        wanted |= {member for member in node.isr if member not in drop and member != id_}
        request = AlterPartitionRequest(
            id_,
            node.epoch,
            [
                RequestTopicData(
                    TOPIC_ID,
                    [
                        RequestPartitionData(
                            0,
                            node.leader_epoch,
                            [],
                            [BrokerState(one, self.nodes[one].epoch) for one in sorted(wanted)],
                            0,
                            node.partition_epoch,
                        )
                    ],
                )
            ],
        )
        before = node.isr
        node.isr = node.isr | wanted
        answer = self.step(lambda: self.term.isr_changes.alter_partition(request, _ALTER_VERSION))
        if answer is None:
            return
        part = answer.topics[0].partitions[0] if answer.topics else None  # type: ignore[attr-defined]
        if part is None or part.error_code != ErrorCode.NONE:
            # Refused for certain, or news is on its way; the maximal set stays where that is not known.
            node.isr = before if part is not None and part.error_code == ErrorCode.INELIGIBLE_REPLICA else node.isr
        elif part.partition_epoch > node.partition_epoch:
            node.isr, node.partition_epoch = frozenset(part.isr), part.partition_epoch

    # What must hold

    def check(self) -> None:
        topic = self.data.topics["t"][0]
        replicas = topic.partitions[0]
        stored = self.data.states.get(PARTITION)
        if stored is None:
            return
        state = stored.state
        assert state.isr, "the ISR is empty"
        assert set(state.isr) <= set(replicas), f"ISR {state.isr} is not within {replicas}"
        assert state.leader in (NO_LEADER, *state.isr)
        for member in state.isr:
            log = self.nodes[member].log or []
            assert log[: len(self.committed)] == self.committed, f"ISR member {member} lacks committed records"

    def settle(self) -> None:
        """Everybody lives, everything arrives, all followers catch up, until nothing moves any more."""
        self.store.die_at = None
        for id_ in self.nodes:
            self.start(id_)
        for _ in range(30):
            moved = False
            for id_ in self.nodes:
                while self.deliver(id_):
                    moved = True
            for id_ in self.nodes:
                self.fetch(id_)
            for id_ in self.nodes:
                self.alter_isr(id_)
                self.check()
            self.step(lambda: None)
            if not moved and not any(node.queue for node in self.nodes.values()):
                return
        raise AssertionError("the cluster does not come to rest")

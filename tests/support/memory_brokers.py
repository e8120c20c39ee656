"""Brokers' whole replication runtime in one process: real managers and codecs; log, network, clock and controller fake.

Nothing happens by itself: `turn()` lets every broker handle what has arrived and end its turn, `advance(ms)` moves the
clock. Links can hold requests or answers, brokers can be paused, killed (memory gone, log kept) and started again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from broker.config.settings import Settings
from broker.core.controller.elr import ReplicaReport, after_write, choose
from broker.core.replication.isr import Proposal
from broker.core.replication.partition import NO_LEADER, PartitionState
from broker.model.ids import TopicPartition
from broker.runtime.replica_manager import ReplicaManager
from broker.runtime.replicas.ports import AlterPartitionResult
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey
from broker.wire.chunks import Chunk
from broker.wire.errors import ErrorCode
from broker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from tests.support.chunks import chunk_view
from tests.support.fake_loop import FakeLoop
from tests.support.memory_links import DirectSender, Held, LinkPeer
from tests.support.memory_log import MemoryLog
from tests.support.memory_node import TOPIC, TOPIC_ID, Node, RecordingEventLog


class Topics:
    """A broker's metadata cache with one topic."""

    def __init__(self, cluster: MemoryBrokers, node: Node) -> None:
        self._cluster = cluster
        self._node = node

    def overrides(self, topic: str) -> Mapping[str, str]:
        config, own = self._cluster.topic_config, self._node.min_isr
        return config if own is None else {**config, "min.insync.replicas": str(own)}

    def has_partition(self, topic: str, partition: int) -> bool:
        return topic == TOPIC and partition == 0

    def leader_of(self, topic: str, partition: int) -> tuple[int, int]:
        return self._cluster.state.leader, self._cluster.state.leader_epoch

    def name_of(self, topic_id: str) -> str | None:
        known = {TOPIC_ID, *self._cluster.former_ids} if self._cluster.metadata_has_ids else set()
        return TOPIC if topic_id in known else None

    def endpoint_of(self, broker: int) -> tuple[str, int, str | None] | None:
        return (f"host-{broker}", 9092, self._cluster.racks.get(broker)) if broker in self._cluster.nodes else None

    def live_brokers(self) -> Collection[int] | None:
        return None


class ProducerIds:
    def __init__(self) -> None:
        self.next_id = 1000

    def next_producer_id(self, on_id: Callable[[int], None], on_failure: Callable[[str], None]) -> None:
        self.next_id += 1
        on_id(self.next_id)


class MemoryBrokers:
    """`state` is the controller's record of the one partition."""

    def __init__(
        self,
        replicas: int = 3,
        min_isr: int = 1,
        settings: Mapping[str, str] | None = None,
        leader: int = 1,
        start: bool = True,
    ) -> None:
        self.loop = FakeLoop()
        self.wall_ms = 1_700_000_000_000
        self.ids = tuple(range(1, replicas + 1))
        self.topic_config: dict[str, str] = {"min.insync.replicas": str(min_isr)}
        self._settings = {"replica.lag.time.max.ms": "10000", **(settings or {})}
        self.metadata_has_ids = True
        self.former_ids: set[str] = set()
        """Of the topic before it was made anew, which metadata still knows."""
        self.racks: dict[int, str] = {}
        self.nodes = {i: Node(i, self.loop) for i in self.ids}
        self.links: deque[Held] = deque()
        self.held: list[Held] = []
        self.hold: Callable[[Held], bool] = lambda message: False
        self.registered: dict[int, int] = {}
        self._next_epoch = 100
        self.stalled_disks: set[int] = set()
        """Brokers whose flushes do not end."""
        self.controller_epoch = 1
        self.producer_ids = ProducerIds()
        self.state = PartitionState(1, leader, 0, self.ids, 0, self.ids)
        self.elr: tuple[int, ...] = ()
        """Eligible replicas beside the ISR, under the minimum that is in `state`."""
        if start:
            for i in self.ids:
                self.start(i, tell=False)
            self.tell_all()

    # -- brokers ---------------------------------------------------------------------------------------------------

    def start(self, i: int, tell: bool = True) -> None:
        """Register anew and start the runtime over what is on disk."""
        node = self.nodes[i]
        assert node.manager is None
        node.incarnation += 1
        node.inbox.clear()
        self.register(i)
        settings = Settings.parse(
            {
                "broker.id": str(i),
                "zookeeper.connect": "localhost:2181",
                "log.dirs": "/none",
                **self._settings,
            }
        )
        with_ids = settings.lab_event_log_topic_ids
        node.events.append(RecordingEventLog(i, f"{i:02x}{node.incarnation:02x}", with_ids))
        peers: dict[int, LinkPeer] = {}
        node.manager = ReplicaManager(
            settings,
            node.loop,
            node.store,
            node.event_log,
            DirectSender(self, node),
            lambda target: peers.setdefault(target, LinkPeer(self, node, target)),
            Topics(self, node),
            self.producer_ids,
            lambda: node.broker_epoch,
            wall_ms=lambda: self.wall_ms,
        )
        node.manager.startup()
        node.manager.end_of_turn()
        if tell:
            self.elect_if_leaderless()
            self.tell(i)

    def register(self, i: int) -> None:
        """A new registration of broker i, with an epoch of its own."""
        self.nodes[i].broker_epoch = self.registered[i] = self._next_epoch
        self._next_epoch += 1

    def kill(self, i: int) -> None:
        """kill -9: nothing of the process is left but what it wrote."""
        node = self.nodes[i]
        if node.manager is not None:
            node.manager.replicas.stopped = True
        node.manager = None
        node.paused = False
        node.incarnation += 1
        for log in _in_memory(node):
            log.commits.clear()
        gone = [message for message in [*self.links, *self.held] if i in (message.source, message.target)]
        self.links = deque(message for message in self.links if message not in gone)
        self.held = [message for message in self.held if message not in gone]
        for reset in node.connected:
            reset()
        node.connected.clear()

    def lose_power(self, i: int) -> None:
        """Kill, and all that was not flushed is gone."""
        self.kill(i)
        for log in self.nodes[i].store.logs().values():
            log.lose_power()

    # -- controller ------------------------------------------------------------------------------------------------

    def expire(self, i: int) -> None:
        """The controller learns that broker i's session is over."""
        self.registered.pop(i, None)
        state = self.state
        isr = tuple(b for b in state.isr if b != i) or state.isr
        if state.leader == i:
            live = [b for b in state.replicas if b in isr and b in self.registered]
            self.write(leader=live[0] if live else NO_LEADER, leader_epoch=state.leader_epoch + 1, isr=isr)
            self.elect_if_leaderless()
        elif isr != state.isr:
            self.write(isr=isr)

    def elect(self, leader: int) -> None:
        """Make `leader` lead in a new epoch."""
        self.write(leader=leader, leader_epoch=self.state.leader_epoch + 1)

    def elect_if_leaderless(self) -> None:
        """By what the registered replicas say of their stops, as the controller does."""
        state = self.state
        if state.leader == NO_LEADER:
            choice = choose(state.isr, self.elr, state.replicas, self.registered.keys(), self.report)
            if choice is not None:
                self.write(
                    leader=choice.leader, leader_epoch=state.leader_epoch + 1, isr=choice.isr, lossy=choice.lossy
                )

    def broker_hears(self, i: int, min_isr: int) -> None:
        """Of another min.insync.replicas than it had."""
        self.nodes[i].min_isr = min_isr
        self.nodes[i].up.hosting.on_topic_config(TOPIC)

    def controller_hears(self, min_isr: int) -> None:
        """The same; an ISR that meets a smaller one voids eligibility, under a new leader epoch."""
        for node in self.nodes.values():
            node.min_isr = self._min_isr if node.min_isr is None else node.min_isr
        self.topic_config["min.insync.replicas"] = str(min_isr)
        if self.elr and len(self.state.isr) >= self._min_isr:
            self.write(leader_epoch=self.state.leader_epoch + 1)

    @property
    def _min_isr(self) -> int:
        return min(int(self.topic_config["min.insync.replicas"]), len(self.state.replicas))

    def report(self, i: int) -> ReplicaReport | None:
        """A broker's word on its replica; only `lose_tail` and a log made anew make a stop unclean here."""
        topic_partition = TopicPartition(TOPIC, 0)
        store = self.nodes[i].store
        log = store.logs().get(topic_partition)
        if log is None:
            return ReplicaReport(unclean=True)
        epoch = log.epoch_at(log.log_end_offset - 1) if log.log_end_offset > log.log_start_offset else -1
        return ReplicaReport(
            topic_partition in store.unclean,
            epoch,
            log.log_end_offset,
            log.log_start_offset,
            epochs=tuple(log.history),
            shortened=store.is_shortened(topic_partition),
        )

    def lose_tail(self, i: int, records: int) -> None:
        """Power failure of a dead broker: its log keeps so many records, and it knows that some may be missing."""
        self.nodes[i].log.truncate_to(records)
        self.nodes[i].store.mark_unclean(TopicPartition(TOPIC, 0), "power failure")

    def _new_isr(self, isr: tuple[int, ...], lossy: bool = False) -> None:
        """Who is eligible beside it, and who is mended by being in it."""
        state = self.state
        self.elr = () if lossy else after_write(state.isr, self.elr, isr, state.replicas, self._min_isr)
        self.state = replace(state, elr_min_isr=self._min_isr if self.elr else 0)

    def _trust_members(self) -> None:
        if self.state.leader != NO_LEADER:
            for member in self.state.isr:
                node = self.nodes[member]
                if node.manager is not None and TopicPartition(TOPIC, 0) in node.store.unclean:
                    node.store.clear_unclean(TopicPartition(TOPIC, 0))

    def write(self, *, lossy: bool = False, **changes: Any) -> None:
        self._new_isr(changes.get("isr", self.state.isr), lossy)
        self.state = replace(self.state, partition_epoch=self.state.partition_epoch + 1, **changes)
        self._trust_members()
        self.tell_all()

    def tell_all(self) -> None:
        for i in self.ids:
            self.tell(i)

    def tell(self, i: int) -> None:
        """LeaderAndIsr of the present state; waits in the broker's inbox while it is paused."""
        node = self.nodes[i]
        if node.manager is None or node.deaf or i not in self.registered:
            return
        is_new = node.incarnation == 1 and self.state.leader_epoch == 0
        request = self.leader_and_isr(self.state, self.registered[i], is_new)
        node.inbox.append(lambda: self.apply(i, request))

    def apply(self, i: int, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        return self.nodes[i].up.apply_leader_and_isr(request, 6)

    def leader_and_isr(self, state: PartitionState, broker_epoch: int, is_new: bool = False) -> LeaderAndIsrRequest:
        wire = LeaderAndIsrPartitionState(
            0,
            state.controller_epoch,
            state.leader,
            state.leader_epoch,
            list(state.isr),
            state.partition_epoch,
            list(state.replicas),
            is_new=is_new,
            elr_min_isr=state.elr_min_isr,
        )
        return LeaderAndIsrRequest(
            9, False, self.controller_epoch, broker_epoch, 0, [LeaderAndIsrTopicState(TOPIC, TOPIC_ID, [wire])], []
        )

    def alter(self, sender: int, proposal: Proposal) -> AlterPartitionResult:
        """Compare and set, as the controller does."""
        state = self.state
        if proposal.leader_epoch != state.leader_epoch or sender != state.leader:
            return AlterPartitionResult(ErrorCode.FENCED_LEADER_EPOCH)
        if set(proposal.isr) == set(state.isr):
            return AlterPartitionResult(0, state.isr, state.partition_epoch, state.leader_epoch, state.elr_min_isr)
        if proposal.partition_epoch != state.partition_epoch:
            return AlterPartitionResult(ErrorCode.INVALID_UPDATE_VERSION)
        for broker, epoch in proposal.broker_epochs.items():
            if epoch not in (-1, self.registered.get(broker)):
                return AlterPartitionResult(ErrorCode.INELIGIBLE_REPLICA)
        self._new_isr(proposal.isr)
        self.state = state = replace(self.state, isr=proposal.isr, partition_epoch=state.partition_epoch + 1)
        self._trust_members()
        return AlterPartitionResult(0, state.isr, state.partition_epoch, state.leader_epoch, state.elr_min_isr)

    # -- time and messages -----------------------------------------------------------------------------------------

    def dispatch(self, node: Node, request: Request) -> None:
        manager = node.up
        handlers = {
            ApiKey.PRODUCE: manager.handle_produce,
            ApiKey.FETCH: manager.handle_fetch,
            ApiKey.LIST_OFFSETS: manager.handle_list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: manager.handle_offset_for_leader_epoch,
            ApiKey.INIT_PRODUCER_ID: manager.producer_ids.respond_fresh,
            ApiKey.DELETE_RECORDS: manager.handle_delete_records,
            ApiKey.DESCRIBE_PRODUCERS: manager.handle_describe_producers,
        }
        handlers[ApiKey(request.api_key)](request)

    def in_flight(self, source: int, target: int, chunks: Sequence[Chunk]) -> Callable[[], bytes]:
        """What arrives of an answer from broker `source`, once it arrives: its bytes as they are now."""
        data = b"".join(bytes(chunk_view(chunk)) for chunk in chunks)
        return lambda: data

    def turn(self) -> bool:
        """One turn of every broker that is neither dead nor paused; True when anything happened."""
        busy = False
        for _ in range(len(self.links)):
            message = self.links.popleft()
            if self.hold(message) or (message.target in self.nodes and self.nodes[message.target].paused):
                self.held.append(message)
                continue
            message.deliver()
            busy = True
        for node in self.nodes.values():
            if node.manager is None or node.paused:
                continue
            while node.inbox:
                node.inbox.popleft()()
                busy = True
            busy |= self._disk_is_done(node)
            node.manager.end_of_turn()
            busy |= any(log.commits for log in _in_memory(node)) and node.broker_id not in self.stalled_disks
        return busy or any(not self.nodes[m.target].paused for m in self.links if m.target in self.nodes)

    def _disk_is_done(self, node: Node) -> bool:
        """Flushes that were asked for in an earlier turn end, unless the disk is stalled."""
        if node.broker_id in self.stalled_disks:
            return False
        return any(log.finish_commits() for log in _in_memory(node))

    def settle(self, turns: int = 200) -> None:
        """Turn until nothing moves any more without time."""
        for _ in range(turns):
            if not self.turn():
                return
        raise AssertionError(f"still busy after {turns} turns")

    def release(self, which: Callable[[Held], bool] = lambda message: True) -> None:
        """Put held messages back on their links."""
        back = [message for message in self.held if which(message)]
        self.held = [message for message in self.held if message not in back]
        self.links.extendleft(reversed(back))

    def lose(self) -> None:
        """Held messages never arrive; whoever waits for an answer sees its connection reset."""
        held, self.held = self.held, []
        for message in held:
            message.lose()

    def resume(self, i: int) -> None:
        self.nodes[i].paused = False
        self.release(lambda message: message.target == i)

    def advance(self, ms: float) -> None:
        """Let time pass, turning after every timer."""
        until = self.loop.now + ms
        self.settle()
        while self.loop.run_due(until):
            self.settle()
        self.loop.now = until
        self.settle()


def _in_memory(node: Node) -> list[MemoryLog]:
    """Its logs whose disk is fake; a test may put real ones in the store."""
    return [log for log in node.store.logs().values() if isinstance(log, MemoryLog)]

"""Alter-partition sender, producer ids, topic settings, registration and waits, on a clock that moves when told."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import pytest

from broker.core.admin.stored import CHANGES_KEPT
from broker.core.controller.cluster_state import StoreUnavailable
from broker.core.replication.isr import Proposal
from broker.model.ids import TopicPartition
from broker.runtime.lifecycle.registration import BrokerRegistration, SessionChange
from broker.runtime.metadata.cache import Address, MetadataCache
from broker.runtime.metadata.topic_configs import TopicConfigCache, gate
from broker.runtime.ports import Peer
from broker.runtime.produce.producer_id_blocks import WAIT_MS, ProducerIdBlocks
from broker.runtime.produce.producer_ids import ProducerIdHandler
from broker.runtime.replicas.alter_partition_manager import VERSION, ControllerAlterPartition
from broker.runtime.replicas.log_dir_failure import LogFailureNotice
from broker.runtime.replicas.ports import AlterPartitionAnswer
from broker.runtime.requests.condition_waits import Waits
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrTopicState
from broker.wire.messages.update_metadata import UpdateMetadataBroker, UpdateMetadataEndpoint, UpdateMetadataRequest
from tests.support.fake_loop import FakeLoop
from tests.support.memory_node import FakeSlot

ID = "B" * 21 + "A"


class StepWorker:
    """Runs its tasks when told."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], None]] = []

    def submit(self, name: str, task: Callable[[], None]) -> None:
        self.tasks.append(task)

    def run(self) -> None:
        while self.tasks:
            self.tasks.pop(0)()


class HeldPeer:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[AlterPartitionRequest, Callable[[memoryview], None], Callable[[str], None]]] = []
        self.closed = False

    def send(
        self,
        api_key: int,
        api_version: int,
        body: bytes,
        on_response: Callable[[memoryview], None],
        on_failure: Callable[[str], None],
        timeout_ms: float,
    ) -> int:
        self.sent.append((AlterPartitionRequest.decode(VERSION, body), on_response, on_failure))
        return len(self.sent)

    def close(self) -> None:
        self.closed = True


def cache_with_controller(controller: int) -> MetadataCache:
    cache = MetadataCache("c", "PLAINTEXT", lambda: 5, lambda topic: {}, lambda topic: None)
    tell(cache, controller, 1)
    return cache


def tell(cache: MetadataCache, controller: int, epoch: int) -> None:
    endpoints = [UpdateMetadataEndpoint(9000 + controller, "h", "PLAINTEXT", 0)]
    cache.update(
        UpdateMetadataRequest(
            controller_id=controller,
            controller_epoch=epoch,
            broker_epoch=5,
            live_brokers=[UpdateMetadataBroker(controller, endpoints, None)],
        )
    )


def proposal(*isr: int) -> Proposal:
    return Proposal("shrink", isr, 3, 7, {member: 100 + member for member in isr}, "lag")


class Sender:
    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.cache = cache_with_controller(1)
        self.peers: dict[Address, HeldPeer] = {}
        self.answers: list[tuple[int, AlterPartitionAnswer]] = []
        self.sender = ControllerAlterPartition(9, lambda: 55, self.cache, self.loop, self._connect, 1000)

    def _connect(self, address: Address) -> Peer:
        return self.peers.setdefault(address, HeldPeer())

    def propose(self, partition: int) -> None:
        self.sender.send(
            TopicPartition("t", partition), ID, proposal(9, 2), lambda answer: self.answers.append((partition, answer))
        )

    def sent(self, controller: int = 1) -> HeldPeer:
        self.loop.run_soon()
        return self.peers[Address("h", 9000 + controller)]


@pytest.mark.guarantee("isr-changes")
def test_proposals_of_one_turn_go_together_and_later_ones_wait() -> None:
    world = Sender()
    world.propose(0)
    world.propose(1)
    peer = world.sent()
    world.propose(2)
    world.loop.run_soon()
    assert len(peer.sent) == 1
    request, on_response, _ = peer.sent[0]
    assert (request.broker_id, request.broker_epoch) == (9, 55)
    assert [p.partition_index for p in request.topics[0].partitions] == [0, 1]
    assert [(m.broker_id, m.broker_epoch) for m in request.topics[0].partitions[0].new_isr_with_epochs] == [
        (9, 109),
        (2, 102),
    ]
    answer = AlterPartitionResponse(
        topics=[
            ResponseTopicData(
                ID,
                [
                    ResponsePartitionData(0, 0, 9, 3, [9, 2], 0, 8, elr_min_isr=3),
                    ResponsePartitionData(1, ErrorCode.INVALID_UPDATE_VERSION),
                ],
            )
        ]
    )
    on_response(memoryview(answer.encode(VERSION)))
    assert world.answers[0] == (0, AlterPartitionAnswer(0, (9, 2), 8, 3, 3))
    assert world.answers[1][1].error == ErrorCode.INVALID_UPDATE_VERSION
    world.loop.run_soon()
    assert [p.partition_index for p in peer.sent[1][0].topics[0].partitions] == [2]


@pytest.mark.guarantee("isr-changes")
def test_error_of_the_request_is_everyones_answer() -> None:
    world = Sender()
    world.propose(0)
    world.sent().sent[0][1](memoryview(AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER).encode(VERSION)))
    assert world.answers == [(0, AlterPartitionAnswer(ErrorCode.NOT_CONTROLLER))]


@pytest.mark.guarantee("isr-changes")
def test_partition_missing_in_answer_and_lost_answer_are_unknown() -> None:
    world = Sender()
    world.propose(0)
    world.sent().sent[0][1](memoryview(AlterPartitionResponse().encode(VERSION)))
    world.propose(1)
    world.sent().sent[1][2]("timeout")
    assert [answer.error for _, answer in world.answers] == [ErrorCode.REQUEST_TIMED_OUT] * 2


@pytest.mark.guarantee("isr-changes")
def test_new_controller_is_asked_and_old_one_not_waited_for() -> None:
    world = Sender()
    world.propose(0)
    old = world.sent()
    tell(world.cache, 2, 2)
    assert old.closed
    old.sent[0][2]("closed")
    world.propose(1)
    assert len(world.sent(2).sent) == 1


@pytest.mark.guarantee("isr-changes")
def test_without_controller_the_answer_is_unknown() -> None:
    world = Sender()
    world.cache.controller_moved(None)
    world.propose(0)
    assert not world.answers
    world.loop.run_soon()
    assert world.answers[0][1].error == ErrorCode.REQUEST_TIMED_OUT


class Blocks:
    def __init__(self, *blocks: tuple[int, int]) -> None:
        self.blocks = list(blocks)

    def claim_producer_ids(self) -> tuple[int, int]:
        if not self.blocks:
            raise StoreUnavailable("gone")
        return self.blocks.pop(0)


@pytest.mark.guarantee("idempotent-producers")
def test_producer_ids_follow_blocks_in_order_and_failures_are_told() -> None:
    loop, worker = FakeLoop(), StepWorker()
    ids: list[int] = []
    failures: list[str] = []
    source = ProducerIdBlocks(Blocks((10, 11), (30, 30)), worker, loop)
    for _ in range(4):
        source.next_producer_id(ids.append, failures.append)
    for _ in range(3):
        worker.run()
        loop.run_soon()
    assert ids == [10, 11, 30]
    assert failures == ["gone"]


@pytest.mark.guarantee("idempotent-producers")
def test_nobody_waits_for_a_producer_id_for_as_long_as_zookeeper_is_away() -> None:
    loop, worker = FakeLoop(), StepWorker()
    ids: list[int] = []
    failures: list[str] = []
    source = ProducerIdBlocks(Blocks((10, 12), (30, 30)), worker, loop)
    for _ in range(3):
        source.next_producer_id(ids.append, failures.append)
        loop.advance(WAIT_MS * 0.4)
    assert len(failures) == 1
    loop.advance(WAIT_MS)
    assert (ids, len(failures)) == ([], 3)
    # The one claim that was under way is nobody's, and not lost; nor was another one begun.
    worker.run()
    loop.run_soon()
    for _ in range(4):
        source.next_producer_id(ids.append, failures.append)
    worker.run()
    loop.run_soon()
    assert ids == [10, 11, 12, 30]
    assert len(failures) == 3
    loop.advance(WAIT_MS * 2)
    assert len(failures) == 3


@pytest.mark.guarantee("idempotent-producers")
def test_producer_is_told_to_ask_again_where_no_block_can_be_claimed() -> None:
    loop, worker, slot = FakeLoop(), StepWorker(), FakeSlot()
    handler = ProducerIdHandler(ProducerIdBlocks(Blocks(), worker, loop))
    body = memoryview(bytearray(InitProducerIdRequest().encode(4)))
    handler.handle(Request(ApiKey.INIT_PRODUCER_ID, 4, 1, "", body, slot, True))
    worker.run()
    loop.run_soon()
    assert slot.answer is not None
    answer = InitProducerIdResponse.decode(4, memoryview(slot.answer)[5:])
    assert answer == InitProducerIdResponse(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)


class Configs:
    def __init__(self) -> None:
        self.configs: dict[str, dict[str, str]] = {}
        self.changes: dict[str, str | None] = {}
        self.reads = 0
        self.down = False

    def topic_configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        if self.down:
            raise StoreUnavailable("down")
        self.reads += 1
        return {name: dict(self.configs.get(name, {})) for name in names}

    def config_changes(self, watch: Callable[[], None] | None, seen: Collection[str] = ()) -> Mapping[str, str | None]:
        return dict(self.changes)

    def configured_topics(self) -> Sequence[str]:
        return list(self.configs)


def step(loop: FakeLoop, worker: StepWorker) -> None:
    for _ in range(4):
        worker.run()
        loop.run_soon()


def test_settings_are_read_once_per_topic_id() -> None:
    loop, worker, store = FakeLoop(), StepWorker(), Configs()
    cache = TopicConfigCache(store, worker, loop)
    store.configs["t"] = {"min.insync.replicas": "2"}
    done: list[str] = []
    cache.ensure({"t": "id1"}, lambda: done.append("first"))
    assert done == []
    step(loop, worker)
    assert done == ["first"]
    assert cache.overrides("t") == {"min.insync.replicas": "2"}
    cache.ensure({"t": "id1"}, lambda: done.append("known"))
    assert done == ["first", "known"]
    cache.ensure({"t": "id2"}, lambda: done.append("again"))
    assert done == ["first", "known"]
    step(loop, worker)
    assert store.reads == 2


def test_settings_wait_out_zookeeper() -> None:
    loop, worker, store = FakeLoop(), StepWorker(), Configs()
    cache = TopicConfigCache(store, worker, loop)
    store.down = True
    done: list[str] = []
    cache.ensure({"t": "id"}, lambda: done.append("known"))
    step(loop, worker)
    assert not done
    store.down = False
    loop.run_due(loop.now + 1000)
    step(loop, worker)
    assert done == ["known"]


@pytest.mark.parametrize("before", [1, 0])
def test_after_more_notifications_than_are_kept_everything_is_read_again(before: int) -> None:
    loop, worker, store = FakeLoop(), StepWorker(), Configs()
    cache = TopicConfigCache(store, worker, loop)
    known: list[str] = []
    hosted_nowhere: list[tuple[str, Mapping[str, str]]] = []
    entities: list[str] = []
    cache.add_listener(lambda topic, config: known.append(topic))
    cache.add_notification_listener(lambda topic, config: hosted_nowhere.append((topic, config)))
    cache.add_entity_listener(entities.append)
    cache.ensure({"t": "id"}, lambda: None)
    store.changes = dict.fromkeys(f"config_change_{n:010}" for n in range(before))
    cache.start()
    step(loop, worker)
    assert (known, hosted_nowhere, entities) == ([], [], [])
    store.configs = {"t": {"a": "1"}, "elsewhere": {"unclean.leader.election.enable": "false"}}
    store.changes = {f"config_change_{n:010}": "topics/other" for n in range(before + 1, before + 1 + CHANGES_KEPT)}
    cache.start()
    step(loop, worker)
    assert known == ["t"]
    assert ("elsewhere", {"unclean.leader.election.enable": "false"}) in hosted_nowhere
    assert entities == ["brokers/<default>"]


def test_changed_settings_of_known_topics_are_told() -> None:
    loop, worker, store = FakeLoop(), StepWorker(), Configs()
    cache = TopicConfigCache(store, worker, loop)
    told: list[tuple[str, Mapping[str, str]]] = []
    cache.add_listener(lambda topic, config: told.append((topic, config)))
    cache.ensure({"t": "id"}, lambda: None)
    step(loop, worker)
    store.configs["t"] = {"a": "1"}
    store.changes = {"config_change_1": "topics/t", "config_change_2": "topics/unknown", "config_change_3": None}
    cache.start()
    step(loop, worker)
    assert told == [("t", {"a": "1"})]


class FailureStore:
    def __init__(self) -> None:
        self.told = 0
        self.down = False

    def report_log_failure(self) -> None:
        if self.down:
            raise StoreUnavailable("away")
        self.told += 1


def test_log_failures_of_one_moment_are_one_notice_and_later_ones_another() -> None:
    loop, worker, store = FakeLoop(), StepWorker(), FailureStore()
    notice = LogFailureNotice(store, worker, loop)
    for _ in range(100):
        notice.tell()
    loop.run_soon()
    # Something fails while the first notice is being written: the controller may have asked already.
    notice.tell()
    for _ in range(3):
        step(loop, worker)
        loop.run_due(loop.now)
    assert store.told == 2


def test_log_failure_is_told_once_zookeeper_is_back() -> None:
    loop, worker, store = FakeLoop(), StepWorker(), FailureStore()
    store.down = True
    LogFailureNotice(store, worker, loop).tell()
    for _ in range(3):
        step(loop, worker)
        loop.run_due(loop.now + 1000)
    store.down = False
    step(loop, worker)
    loop.run_due(loop.now + 1000)
    step(loop, worker)
    assert store.told == 1


def test_gate_forgets_a_request_whose_sender_has_given_it_up() -> None:
    # What the controller said later, over a new connection, may have been carried out already.
    loop, worker, store = FakeLoop(), StepWorker(), Configs()
    cache = TopicConfigCache(store, worker, loop)
    handled: list[int] = []
    handler = gate(cache, lambda request: handled.append(request.correlation_id))
    slots = [FakeSlot(), FakeSlot()]
    topics = [LeaderAndIsrTopicState("t", ID, [])]
    for number, slot in enumerate(slots):
        body = memoryview(bytearray(LeaderAndIsrRequest(9, False, 1, 5, 0, topics, []).encode(6)))
        handler(Request(ApiKey.LEADER_AND_ISR, 6, number, "controller", body, slot, True))
    slots[0].open = False
    step(loop, worker)
    assert handled == [1]


@pytest.mark.guarantee("bounded-queues")
def test_gate_reads_once_and_keeps_one_request_where_its_sender_repeats_it_while_zookeeper_is_away() -> None:
    loop, worker, store = FakeLoop(), StepWorker(), Configs()
    store.down = True
    handled: list[int] = []
    handler = gate(TopicConfigCache(store, worker, loop), lambda request: handled.append(request.correlation_id))
    slots: list[FakeSlot] = []
    tasks = 0
    topics = [LeaderAndIsrTopicState("t", ID, [])]
    for number in range(100):
        for slot in slots:
            slot.open = False
        slots.append(FakeSlot())
        body = memoryview(bytearray(LeaderAndIsrRequest(9, False, 1, 5, 0, topics, []).encode(6)))
        handler(Request(ApiKey.LEADER_AND_ISR, 6, number, "controller", body, slots[-1], True))
        tasks = max(tasks, len(worker.tasks))
        step(loop, worker)
    store.down = False
    loop.run_due(loop.now + 60_000)
    step(loop, worker)
    assert handled == [99]
    assert (store.reads, tasks) == (1, 1)
    handler(Request(ApiKey.LEADER_AND_ISR, 6, 100, "controller", body, FakeSlot(), True))
    assert handled == [99, 100], "known by now"


class Registrar:
    def __init__(self, *outcomes: int | Exception) -> None:
        self.outcomes = list(outcomes)
        self.withdrawn = 0

    def register(self) -> int:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        self.meanwhile()
        return outcome

    def meanwhile(self) -> None:
        """What happens before the answer is there."""

    def withdraw(self) -> None:
        self.withdrawn += 1


class Candidate:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def registered(self) -> None:
        self.heard.append("registered")

    def session_lost(self) -> None:
        self.heard.append("lost")

    def reconnected(self) -> None:
        self.heard.append("reconnected")


def registration(
    registrar: Registrar,
) -> tuple[BrokerRegistration, FakeLoop, StepWorker, Candidate, list[tuple[str, object]]]:
    loop, worker, candidate = FakeLoop(), StepWorker(), Candidate()
    heard: list[tuple[str, object]] = []
    made = BrokerRegistration(
        registrar,
        worker,
        candidate,
        loop,
        lambda: 5000.0,
        lambda epoch: heard.append(("registered", epoch)),
        lambda: heard.append(("fenced", made.broker_epoch)),
        lambda error: heard.append(("refused", str(error))),
    )
    return made, loop, worker, candidate, heard


def test_renewed_session_fences_before_it_registers_again() -> None:
    made, loop, worker, candidate, heard = registration(Registrar(7, StoreUnavailable("not yet"), 9))
    assert made.register_first() == 7
    made.on_session(SessionChange.RENEWED)
    loop.run_soon()
    assert heard == [("fenced", -1)]
    worker.run()
    loop.run_soon()
    assert heard[1:] == [("registered", 9)]
    assert made.broker_epoch == 9
    assert candidate.heard == ["registered", "lost", "registered"]


def test_reconnection_keeps_the_registration() -> None:
    made, loop, worker, candidate, heard = registration(Registrar(7))
    made.register_first()
    made.on_session(SessionChange.DISCONNECTED)
    made.on_session(SessionChange.RECONNECTED)
    step(loop, worker)
    assert (made.broker_epoch, heard, candidate.heard) == (7, [], ["registered", "reconnected"])


def test_refusal_on_the_way_back_is_final() -> None:
    made, loop, worker, _, heard = registration(Registrar(7, ValueError("another broker has the id")))
    made.register_first()
    made.on_session(SessionChange.RENEWED)
    step(loop, worker)
    assert heard[-1] == ("refused", "another broker has the id")
    assert made.broker_epoch == -1


def test_registration_that_lands_after_the_stop_is_taken_back() -> None:
    class Slow(Registrar):
        def meanwhile(self) -> None:
            if not self.outcomes:
                made.shutdown()

    registrar = Slow(7, 9)
    made, loop, worker, candidate, heard = registration(registrar)
    made.register_first()
    made.on_session(SessionChange.RENEWED)
    step(loop, worker)
    assert registrar.withdrawn == 1
    assert (heard, candidate.heard) == ([("fenced", -1)], ["registered", "lost"])


def test_registration_that_the_loop_has_not_heard_of_by_the_stop_is_noted_and_taken_back() -> None:
    registrar = Registrar(7, 9)
    made, loop, worker, candidate, heard = registration(registrar)
    made.register_first()
    made.on_session(SessionChange.RENEWED)
    loop.run_soon()
    worker.run()
    made.shutdown()
    made.shutdown()
    assert heard == [("fenced", -1), ("registered", 9)], "the logs are left under the last registration"
    step(loop, worker)
    assert registrar.withdrawn == 1
    assert (len(heard), candidate.heard) == (2, ["registered", "lost"])


def test_registration_that_was_taken_up_is_left_to_the_end_of_the_session() -> None:
    registrar = Registrar(7, 9)
    made, loop, worker, _, heard = registration(registrar)
    made.register_first()
    made.on_session(SessionChange.RENEWED)
    step(loop, worker)
    made.shutdown()
    step(loop, worker)
    assert (registrar.withdrawn, heard[-1]) == (0, ("registered", 9))


def test_suspicion_follows_the_local_clock_alone() -> None:
    made, loop, _, _, _ = registration(Registrar(7))
    assert not made.suspect()
    loop.now = 5000.0
    assert made.suspect()


def test_deadline_of_a_new_session_is_nobodys_until_its_registration_is_taken_up() -> None:
    made, loop, worker, _, heard = registration(Registrar(7, 9))
    made.register_first()
    assert made.session_deadline_ms() == 5000.0
    made.on_session(SessionChange.LOST)
    assert made.session_deadline_ms() == -math.inf
    made.on_session(SessionChange.RENEWED)
    assert made.suspect(), "told at once, on the thread that heard of it: the roles are still there"
    loop.run_soon()
    assert made.suspect()
    assert heard == [("fenced", -1)]
    worker.run()
    assert made.suspect(), "registered, but the loop has not heard of it"
    loop.run_soon()
    assert heard[-1] == ("registered", 9)
    assert made.session_deadline_ms() == 5000.0


def test_registration_of_a_session_that_is_over_by_the_time_it_is_heard_of_ends_no_wait() -> None:
    made, loop, worker, _, heard = registration(Registrar(7, 9, 11))
    made.register_first()
    made.on_session(SessionChange.RENEWED)
    loop.run_soon()
    worker.run()
    made.on_session(SessionChange.LOST)
    loop.run_soon()
    assert heard[-1] == ("registered", 9)
    assert made.suspect()
    made.on_session(SessionChange.RENEWED)
    step(loop, worker)
    assert heard[-1] == ("registered", 11)
    assert not made.suspect()


def test_session_that_was_only_cut_off_and_came_back_keeps_its_deadline() -> None:
    made, _, _, _, _ = registration(Registrar(7))
    made.register_first()
    for change in (SessionChange.DISCONNECTED, SessionChange.RECONNECTED):
        made.on_session(change)
        assert made.session_deadline_ms() == 5000.0


def test_session_that_is_lost_before_the_first_registration_is_made_up_for_by_the_next() -> None:
    made, loop, worker, _, _ = registration(Registrar(7, 7))
    made.on_session(SessionChange.LOST)
    made.on_session(SessionChange.RENEWED)
    made.register_first()
    assert made.suspect()
    step(loop, worker)
    assert not made.suspect()


def test_sessions_end_counts_also_while_the_broker_stops() -> None:
    made, _, _, _, _ = registration(Registrar(7))
    made.register_first()
    made.shutdown()
    made.on_session(SessionChange.LOST)
    assert made.suspect()


@pytest.mark.parametrize("holds_in_time", [True, False])
def test_wait_ends_once_either_way(holds_in_time: bool) -> None:
    loop = FakeLoop()
    waits = Waits(loop)
    state = {"holds": False}
    ended: list[str] = []
    waits.until(lambda: state["holds"], 100, lambda: ended.append("held"), lambda: ended.append("late"))
    waits.check()
    assert ended == []
    if holds_in_time:
        state["holds"] = True
        waits.check()
    loop.run_due(loop.now + 200)
    waits.check()
    assert ended == ["held" if holds_in_time else "late"]


def test_wait_that_cannot_be_ended_well_keeps_no_other_from_its_end() -> None:
    waits = Waits(FakeLoop())
    ended: list[str] = []
    holds: list[bool] = []

    def fails() -> None:
        raise ValueError("this cannot be said")

    waits.until(lambda: bool(holds), 100, fails, fails)
    waits.until(lambda: bool(holds), 100, lambda: ended.append("held"), fails)
    holds.append(True)
    waits.check()
    assert ended == ["held"]


def test_wait_without_time_ends_at_once() -> None:
    ended: list[str] = []
    Waits(FakeLoop()).until(lambda: False, 0, lambda: ended.append("held"), lambda: ended.append("late"))
    assert ended == ["late"]

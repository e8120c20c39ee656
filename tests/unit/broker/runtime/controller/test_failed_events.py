"""After an event that failed nothing is decided, or sent, until everything is read again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.core.controller.cluster_state import (
    Broker,
    BrokerEndpoint,
    LeaderAndIsr,
    StoreUnavailable,
    Topic,
)
from broker.core.controller.stored import StateWrite, StoredState, Term
from broker.model.ids import TopicPartition
from broker.runtime.controller.channel_manager import PeerFactory
from broker.runtime.controller.controller import Controller
from broker.runtime.controller.request_batch import Outgoing
from broker.runtime.controller.settings import ControllerSettings
from broker.runtime.lifecycle.failure_detector import Suspect
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from broker.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from tests.support.controller_events import handle_events
from tests.support.fake_loop import FakeLoop
from tests.support.memory_store import Data, MemoryStore
from tests.support.stored_partition import states_in

TOPIC_ID = "A" * 22
PARTITION = TopicPartition("t", 0)


def _nothing(*anything: object, **more: object) -> None: ...


class LosingStore(MemoryStore):
    """The next write of states gets no response. lands: it is carried out all the same."""

    def __init__(self, data: Data) -> None:
        super().__init__(data)
        self.lands: bool | None = None

    def write_states(self, term: Term, writes: Sequence[StateWrite]) -> dict[TopicPartition, LeaderAndIsr | None]:
        lands, self.lands = self.lands, None
        if lands is not False:
            written = dict(super().write_states(term, writes))
            if lands is None:
                return written
        raise StoreUnavailable("no answer")

    def spend_suspicion(self, term: Term, broker: int, broker_epoch: int) -> bool:
        return True


class World:
    """A controller of three brokers, whose events are handled when told."""

    def __init__(self, state: LeaderAndIsr) -> None:
        self.data = Data()
        for id_ in (1, 2, 3):
            self.register(id_)
        self.data.topics["t"] = (Topic("t", TOPIC_ID, {0: (1, 2, 3)}), 0)
        self.data.states[PARTITION] = StoredState(state, self.data.next_transaction())
        self.store = LosingStore(self.data)
        self.loop = FakeLoop()
        self.told: list[tuple[int, int, int]] = []
        """Broker epoch of the receiver, leader and leader epoch of each state that was sent."""
        settings = ControllerSettings(9, False, True, 1000.0)
        nobody = cast(PeerFactory, None)
        self.controller = Controller(settings, self.store, self.loop, nobody, None, lambda controller: None)
        self.controller._outbox = cast(Any, SimpleNamespace(send=self.note, set_brokers=_nothing, emit=_nothing))
        self.controller.registered()
        self.handle()

    @property
    def stored(self) -> LeaderAndIsr:
        return self.data.states[PARTITION].state

    def register(self, id_: int) -> None:
        endpoint = BrokerEndpoint("PLAINTEXT", "h", id_, "PLAINTEXT")
        self.data.brokers[id_] = Broker(id_, self.data.next_transaction(), (endpoint,))

    def note(self, requests: list[Outgoing]) -> None:
        for request in requests:
            for state in states_in([request]):
                self.told.append((request.broker_epoch, state.leader, state.leader_epoch))

    def handle(self) -> None:
        """What the controller's thread does, and then the loop's."""
        handle_events(self.controller, and_metadata=True)
        self.loop.run_soon()

    def reload(self) -> None:
        self.controller._events.put("reload", self.controller._reload)
        self.handle()

    def wait(self) -> None:
        """What was put off has come due."""
        while (due := self.controller._events._delayed.pop_due(math.inf)) is not None:
            due()
            self.handle()

    def brokers_changed(self) -> None:
        self.store.fire("brokers")
        self.controller._watches.brokers()
        self.handle()

    def alter_partition(self, isr: Sequence[int]) -> int:
        """Leader 1 proposes this ISR on top of partition epoch 3: the partition's error code, or the request's."""
        members = [BrokerState(id_, self.data.brokers[id_].epoch) for id_ in isr]
        asked = RequestPartitionData(0, 5, [], members, 0, 3)
        request = AlterPartitionRequest(1, self.data.brokers[1].epoch, [RequestTopicData(TOPIC_ID, [asked])])
        responses: list[AlterPartitionResponse] = []
        self.controller.alter_partition(request, 3, responses.append)
        self.handle()
        return responses[0].error_code or responses[0].topics[0].partitions[0].error_code

    def shut_down(self, id_: int) -> int:
        responses: list[ControlledShutdownResponse] = []
        request = ControlledShutdownRequest(id_, self.data.brokers[id_].epoch)
        self.controller.controlled_shutdown(request, responses.append)
        self.handle()
        return responses[0].error_code


@pytest.mark.guarantee("controller-writes")
def test_joiner_that_may_be_in_the_isr_is_not_called_ineligible() -> None:
    """A leader believes that word, and commits without the joiner from then on."""
    world = World(LeaderAndIsr(1, 5, (1, 2), 1, 3))
    world.store.lands = True
    assert world.alter_partition((1, 2, 3)) == ErrorCode.REQUEST_TIMED_OUT
    assert world.stored.isr == (1, 2, 3)
    world.shut_down(3)
    assert world.alter_partition((1, 2, 3)) == ErrorCode.NOT_CONTROLLER
    world.reload()
    assert world.alter_partition((1, 2, 3)) == ErrorCode.NONE
    assert world.shut_down(3) == ErrorCode.NONE
    assert list(world.stored.isr) == [1, 2]


@pytest.mark.guarantee("C1")
def test_leader_that_came_back_is_not_sent_the_epoch_that_it_led_before_its_end_was_written() -> None:
    world = World(LeaderAndIsr(2, 5, (1, 2, 3), 1, 3))
    world.register(2)
    again = world.data.brokers[2].epoch
    world.store.lands = False
    world.brokers_changed()
    # Something else happens before all is read again.
    world.brokers_changed()
    assert (again, 2, 5) not in world.told
    world.reload()
    assert (world.stored.leader, world.stored.isr) == (1, (1, 3))
    assert (again, 1, 6) in world.told
    assert (again, 2, 5) not in world.told


@pytest.mark.guarantee("C10")
@pytest.mark.parametrize("reached", ["before the load", "after the load"])
def test_suspicion_that_waits_for_a_load_is_not_acted_on_after_its_withdrawal(reached: str) -> None:
    world = World(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.store.lands = False
    assert world.alter_partition((1, 2)) == ErrorCode.REQUEST_TIMED_OUT
    world.controller.act_on_suspicion(Suspect(2, world.data.brokers[2].epoch))
    world.handle()
    if reached == "before the load":
        world.controller.reachable(2)
    world.reload()
    if reached == "after the load":
        world.controller.reachable(2)
        world.handle()
    world.wait()
    term = world.controller._term
    assert term is not None
    assert term.state.suspected == set(), "it could lead no more as long as it is registered"

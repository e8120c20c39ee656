"""ElectLeaders: an unclean election by hand that comes before a replica that has just started has spoken of its log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from broker.core.controller.elr import CLEAN
from broker.core.controller.preferred import ElectionType
from broker.model.ids import TopicPartition
from broker.runtime.admin.controller_operations import ControllerAdminHandlers
from broker.runtime.controller.requested_elections import Result
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from tests.support.fake_loop import FakeLoop
from tests.support.memory_node import FakeSlot
from tests.support.reassigned_cluster import PARTITION, ReassignedCluster

pytestmark = pytest.mark.guarantee("C4")

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
NOBODY = (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "nobody")
Try = Mapping[TopicPartition, Result] | ErrorCode


@dataclass
class Elections:
    """What a controller finds, try after try; the last for ever. silent: where a replica has not spoken."""

    tries: list[Try]
    silent: set[TopicPartition]
    asked: list[tuple[TopicPartition, ...]] = field(default_factory=list)

    @property
    def admin(self) -> Any:
        return self

    @property
    def elections(self) -> Any:
        return self

    def elect(self, wanted: list[TopicPartition], kind: ElectionType) -> Try:
        assert kind is ElectionType.UNCLEAN
        self.asked.append(tuple(wanted))
        return self.tries.pop(0) if len(self.tries) > 1 else self.tries[0]

    def unheard(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self.silent

    def request(
        self, do: Callable[[Any], Any], refuse: Callable[[ErrorCode], Any], answer: Callable[[Any], None]
    ) -> None:
        """As `Controller.request`, at once."""
        refused = self.tries[0] if isinstance(self.tries[0], ErrorCode) else None
        answer(do(self) if refused is None else refuse(refused))


@dataclass
class Cache:
    """Every election is known at once."""

    leader: int = 2

    def add_listener(self, _: Callable[[], None]) -> None: ...

    def leader_of(self, topic: str, partition: int) -> tuple[int, int]:
        return self.leader, 0


def elect(elections: Elections, loop: FakeLoop, timeout_ms: int = 1000) -> FakeSlot:
    handlers = ControllerAdminHandlers(cast(Any, elections), cast(Any, Cache()), loop)
    slot = FakeSlot()
    wanted = [TopicPartitions("t", [0, 1])]
    body = ElectLeadersRequest(ElectionType.UNCLEAN, wanted, timeout_ms).encode(1)
    handlers.handle_elect_leaders(Request(ApiKey.ELECT_LEADERS, 1, 1, "", memoryview(bytearray(body)), slot, False))
    return slot


def errors(slot: FakeSlot) -> list[int]:
    assert slot.response is not None
    response = ElectLeadersResponse.decode(1, slot.response[4:])
    assert response.error_code == 0
    (topic,) = response.replica_election_results
    return [one.error_code for one in topic.partition_result]


def test_election_is_tried_again_until_the_replica_has_reported_and_only_where_nobody_was_found() -> None:
    loop = FakeLoop()
    elections = Elections([{A: 2, B: NOBODY}, {B: NOBODY}, {B: 2}], {B})
    slot = elect(elections, loop)
    assert not slot.done
    while loop.run_due(loop.now + 100):
        pass
    assert elections.asked == [(A, B), (B,), (B,)]
    assert errors(slot) == [0, 0]
    assert loop.now < 1100, "at once, not at the time-out"


def test_replica_that_never_reports_ends_in_the_refusal_at_the_time_out() -> None:
    loop = FakeLoop()
    begun = loop.now
    elections = Elections([{A: 2, B: NOBODY}, {B: NOBODY}], {B})
    slot = elect(elections, loop, timeout_ms=3000)
    while loop.run_due(begun + 2999):
        pass
    assert not slot.done
    while loop.run_due(begun + 3000):
        pass
    assert errors(slot) == [0, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    assert len(elections.asked) < 15, "each wait is twice the one before"


def test_nobody_is_waited_for_where_all_have_reported() -> None:
    slot = elect(Elections([{A: NOBODY, B: NOBODY}], set()), FakeLoop())
    assert errors(slot) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE] * 2


def test_controller_that_moves_meanwhile_leaves_what_was_found() -> None:
    loop = FakeLoop()
    slot = elect(Elections([{A: 2, B: NOBODY}, ErrorCode.NOT_CONTROLLER], {B}), loop)
    while loop.run_due(loop.now + 100):
        pass
    assert errors(slot) == [0, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]


def test_replicas_that_are_awaited_are_those_that_live_and_can_report() -> None:
    cluster = ReassignedCluster((1, 2, 3), 4)
    cluster.settle()
    elections, state = cluster.term.admin.elections, cluster.term.state
    assert not elections.unheard(PARTITION), "brokers of another make say nothing, and are taken at Kafka's word"
    state.brokers[4] = replace(state.brokers[4], reports=True)
    assert not elections.unheard(PARTITION), "it has no replica"
    state.brokers[3] = replace(state.brokers[3], reports=True)
    assert elections.unheard(PARTITION)
    state.reports[(PARTITION, 3)] = CLEAN
    assert not elections.unheard(PARTITION)
    del state.reports[(PARTITION, 3)]
    cluster.fail(3)
    assert not elections.unheard(PARTITION)

"""FindCoordinator names the leader of the key's partition, and has the internal topic made."""

from __future__ import annotations

import pytest

from broker.core.coordination import OFFSETS_TOPIC, partition_of
from broker.runtime.coordinators.find import FindCoordinatorHandler
from broker.runtime.metadata.cache import MetadataCache
from broker.runtime.requests.leader_doubts import LeaderDoubts
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from tests.support.fake_loop import FakeLoop
from tests.support.memory_node import FakeSlot
from tests.support.metadata_updates import EPOCH, partition, update

GROUP = 0


class Asking:
    def __init__(self) -> None:
        self.cache = MetadataCache("cluster", "PLAINTEXT", lambda: EPOCH, lambda topic: {}, lambda topic: None)
        self.made: list[str] = []
        self.handler = FindCoordinatorHandler(self.cache, self._create, LeaderDoubts(FakeLoop(), None))

    def _create(self, topic: str) -> ErrorCode:
        self.made.append(topic)
        return ErrorCode.NONE

    def ask(self, *keys: str, key_type: int = GROUP) -> list[Coordinator]:
        slot = FakeSlot()
        body = bytearray(FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys)).encode(4))
        self.handler.handle(Request(ApiKey.FIND_COORDINATOR, 4, 1, "", memoryview(body), slot, True))
        assert slot.response is not None
        return FindCoordinatorResponse.decode(4, slot.response[5:]).coordinators


@pytest.fixture
def asking() -> Asking:
    asking = Asking()
    asking.cache.update(update({}))
    return asking


def test_the_topic_is_made_upon_the_first_request(asking: Asking) -> None:
    (found,) = asking.ask("g")
    assert (found.key, found.error_code, found.node_id) == ("g", ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assert asking.made == [OFFSETS_TOPIC]


def test_partition_of_which_nothing_is_known_leaves_the_others_their_keys(asking: Asking) -> None:
    asking.cache.update(update({OFFSETS_TOPIC: [partition(1, [1], index=0), partition(2, [2], index=2)]}))
    keys = [f"group-{n}" for n in range(20)]
    leaders = {0: 1, 1: -1, 2: 2}
    assert [one.node_id for one in asking.ask(*keys)] == [leaders[partition_of(key, 3)] for key in keys]


def test_each_key_has_the_leader_of_its_partition(asking: Asking) -> None:
    asking.cache.update(update({OFFSETS_TOPIC: [partition(1, [1, 2], index=0), partition(2, [2, 1], index=1)]}))
    keys = ["g", "h", "group-1", ""]
    found = asking.ask(*keys)
    assert [one.node_id for one in found] == [1 + partition_of(key, 2) for key in keys]
    assert {one.node_id for one in found} == {1, 2}
    for one in found:
        address = asking.cache.address(one.node_id)
        assert address is not None
        assert (one.host, one.port, one.error_code) == (*address, ErrorCode.NONE)
    assert not asking.made


def test_a_partition_without_leader_has_no_coordinator(asking: Asking) -> None:
    asking.cache.update(update({OFFSETS_TOPIC: [partition(-1, [1, 2])]}))
    assert asking.ask("g")[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not asking.made


def test_an_unknown_kind_of_key_is_refused(asking: Asking) -> None:
    (found,) = asking.ask("g", key_type=7)
    assert found.error_code == ErrorCode.INVALID_REQUEST
    assert "7" in (found.error_message or "")


def test_old_versions_ask_for_one_key(asking: Asking) -> None:
    asking.cache.update(update({OFFSETS_TOPIC: [partition(2, [2, 1])]}))
    for version in range(4):
        slot = FakeSlot()
        body = bytearray(FindCoordinatorRequest(key="g").encode(version))
        flexible = version >= 3
        asking.handler.handle(Request(ApiKey.FIND_COORDINATOR, version, 1, "", memoryview(body), slot, flexible))
        assert slot.response is not None
        answer = FindCoordinatorResponse.decode(version, slot.response[5 if flexible else 4 :])
        assert (answer.node_id, answer.error_code) == (2, ErrorCode.NONE)

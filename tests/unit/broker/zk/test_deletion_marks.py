"""Requests to delete a topic meet others of the same name, and the end of the topic that they mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from broker.core.controller.cluster_state import StoreUnavailable, Topic
from broker.zk import admin_codecs, paths, topic_codecs
from broker.zk.operations import Create, Operation, SetData
from broker.zk.topic_store import ZkTopicStore
from tests.support.znodes import Znodes

pytestmark = pytest.mark.guarantee("controller-writes")

ID, OTHER, THIRD = (letter * 21 + "A" for letter in "BCD")
MARK = paths.delete_topic("t")
BY = pytest.mark.parametrize("by_id", [False, True], ids=["by name", "by id"])


class World:
    """A topic `t`, and what happens before writes of a kind."""

    def __init__(self) -> None:
        self.znodes = Znodes()
        self.znodes.before = self._before
        self.store = ZkTopicStore(self.znodes.client, 1)
        self.steps: dict[type[Operation], Callable[[], None]] = {}
        self.put_topic(ID)

    def _before(self, operations: Sequence[Operation]) -> None:
        for operation in operations:
            self.steps.pop(type(operation), lambda: None)()

    def put_topic(self, topic_id: str) -> None:
        self.znodes.put(paths.topic("t"), topic_codecs.encode_topic(Topic("t", topic_id, {0: (1,)})))

    def put_mark(self, topic_id: str | None) -> None:
        self.znodes.put(MARK, admin_codecs.encode_deletion(topic_id))

    def mark_goes(self) -> None:
        self.znodes.nodes.pop(MARK, None)

    def ends_and_is_made_anew(self) -> None:
        self.mark_goes()
        self.put_topic(OTHER)

    @property
    def mark(self) -> str | None:
        """ "" where there is none."""
        return admin_codecs.decode_deletion(self.znodes.nodes[MARK].data) if MARK in self.znodes.nodes else ""


@BY
def test_mark_of_the_topics_own_id_is_no_late_one_and_stays(by_id: bool) -> None:
    world = World()
    world.put_mark(ID)
    assert not world.store.request_deletion("t", ID, by_id=by_id)
    assert world.mark == ID


@BY
def test_no_mark_is_made_where_the_topic_ends_before_another_mark_is_replaced(by_id: bool) -> None:
    world = World()
    world.put_mark(THIRD)
    world.steps[SetData] = world.ends_and_is_made_anew
    assert not world.store.request_deletion("t", ID, by_id=by_id)
    assert world.mark == "", "it would take the topic that was made anew"


@BY
def test_no_mark_is_made_where_the_one_before_went_with_the_topic(by_id: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.put_mark(None)
    get = world.znodes.get

    def ended(path: str) -> object:
        if path == MARK:
            world.ends_and_is_made_anew()
        return get(path)

    monkeypatch.setattr(world.znodes, "get", ended)
    assert not world.store.request_deletion("t", ID, by_id=by_id)
    assert world.mark == ""


@BY
def test_late_mark_that_is_dropped_or_replaced_meanwhile_is_followed_by_ours(by_id: bool) -> None:
    expected = ID if by_id else None
    world = World()
    world.put_mark(OTHER)
    world.steps[SetData] = world.mark_goes
    assert world.store.request_deletion("t", ID, by_id=by_id)
    assert world.mark == expected
    world.znodes.put(MARK, admin_codecs.encode_deletion(OTHER))
    world.steps[SetData] = lambda: world.znodes.put(MARK, admin_codecs.encode_deletion(THIRD), version=1)
    assert world.store.request_deletion("t", ID, by_id=by_id)
    assert world.mark == expected


@BY
def test_mark_of_the_topic_that_was_made_anew_stays(by_id: bool) -> None:
    world = World()
    world.put_topic(OTHER)
    world.put_mark(OTHER)
    assert not world.store.request_deletion("t", ID, by_id=by_id)
    assert world.mark == OTHER


@BY
def test_mark_that_changes_all_the_time_is_given_up(by_id: bool) -> None:
    world = World()
    world.put_mark(OTHER)
    versions = iter(range(1, 100))

    def replaced(operations: Sequence[Operation]) -> None:
        if not any(isinstance(operation, Create) for operation in operations):
            world.znodes.put(MARK, admin_codecs.encode_deletion(OTHER), next(versions))

    world.znodes.before = replaced
    with pytest.raises(StoreUnavailable, match="times in a row"):
        world.store.request_deletion("t", ID, by_id=by_id)


def test_mark_with_an_empty_id_is_not_the_one_of_a_topic_without_an_id() -> None:
    world = World()
    world.put_topic("")
    world.znodes.put(MARK, b'{"version":1,"topic_id":""}')
    assert world.store.request_deletion("t", "", by_id=False)
    assert world.mark is None

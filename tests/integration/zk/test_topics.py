"""Topics and what is left of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from broker.core.controller.cluster_state import Topic
from broker.core.controller.stored import Term
from broker.zk import codecs, paths
from broker.zk.client import ZkClient
from broker.zk.controller_store import ZkControllerStore
from broker.zk.operations import Delete, Operation
from broker.zk.registration import prepare
from broker.zk.topic_store import ZkTopicStore

Connect = Callable[..., ZkClient]
ID, OTHER = "B" * 21 + "A", "C" * 21 + "A"


@pytest.fixture
def client(connect: Connect) -> ZkClient:
    client = connect()
    prepare(client)
    return client


@pytest.mark.parametrize("config", [{}, {"retention.ms": "5"}])
def test_new_topic_takes_nothing_over_from_a_deleted_one(client: ZkClient, config: dict[str, str]) -> None:
    store = ZkTopicStore(client, 1)
    client.create(paths.topic_config("t"), codecs.encode_config({"min.insync.replicas": "2"}))
    assert store.create_topic(Topic("t", ID, {0: (1,)}), config)
    assert store.topic_configs(["t"]) == {"t": config}


@pytest.mark.parametrize("config", [{}, {"retention.ms": "5"}])
def test_topic_that_exists_keeps_its_settings_when_another_wants_its_name(
    client: ZkClient, config: dict[str, str]
) -> None:
    store = ZkTopicStore(client, 1)
    assert store.create_topic(Topic("t", ID, {0: (1,)}), {"min.insync.replicas": "2"})
    assert not store.create_topic(Topic("t", OTHER, {0: (2,)}), config)
    assert store.topic_configs(["t"]) == {"t": {"min.insync.replicas": "2"}}


def test_deleted_topics_settings_go_before_the_topic(client: ZkClient, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = ZkTopicStore(client, 1)
    assert topics.create_topic(Topic("t", ID, {0: (1,)}), {"retention.ms": "5"})
    client.create(paths.topic_partitions("t"), b"")
    store = ZkControllerStore(client, lambda: 0)
    term = store.elect(1)
    assert term is not None
    deleted: list[str] = []

    def write(term: Term, operations: Sequence[Operation]) -> None:
        deleted.extend(operation.path for operation in operations if isinstance(operation, Delete))

    monkeypatch.setattr(store, "_write", write)
    store.finish_deletion(term, "t", ID)
    assert deleted.index(paths.topic_config("t")) < deleted.index(paths.topic("t"))


def test_topic_and_mark_go_in_one_transaction_however_much_goes_before(
    client: ZkClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = ZkTopicStore(client, 1)
    assert topics.create_topic(Topic("t", ID, {0: (1,)}), {})
    assert topics.request_deletion("t", ID, by_id=True)
    for path in (paths.topic_partitions("t"), *(f"/brokers/topics/t/{number}" for number in range(3))):
        client.create(path, b"")
    store = ZkControllerStore(client, lambda: 0)
    term = store.elect(1)
    assert term is not None
    multi, multis = client.multi, []

    def noted(operations: Sequence[Operation]) -> list[int]:
        multis.append([operation.path for operation in operations if isinstance(operation, Delete)])
        return multi(operations)

    monkeypatch.setattr("broker.zk.controller_store._DELETES_PER_MULTI", 5)
    monkeypatch.setattr(client, "multi", noted)
    store.finish_deletion(term, "t", ID)
    assert [len(paths_) for paths_ in multis] == [1, 5]
    assert multis[-1][-2:] == [paths.topic("t"), paths.delete_topic("t")]
    assert client.get(paths.topic("t")) is None
    assert client.get(paths.delete_topic("t")) is None


def test_mark_says_by_what_the_topic_was_asked_for(client: ZkClient) -> None:
    topics, store = ZkTopicStore(client, 1), ZkControllerStore(client, lambda: 0)
    for name, topic_id in (("named", None), ("t", ID), ("gone", ID), ("late", OTHER)):
        if name != "gone":
            assert topics.create_topic(Topic(name, ID, {0: (1,)}), {})
        by_id = topic_id is not None
        assert topics.request_deletion(name, topic_id or ID, by_id=by_id)
        assert not topics.request_deletion(name, topic_id or ID, by_id=by_id), "it is asked for already"
    names = store.deletions(None)
    assert names == {"named", "t", "gone", "late"}
    assert store.asked_ids(names | {"unasked"}) == {
        "named": (None, ID),
        "t": (ID, ID),
        "gone": (ID, None),
        "late": (OTHER, ID),
    }
    node = client.get(paths.delete_topic("named"))
    assert node is not None
    assert node.data == b"", "as Kafka's brokers write it"
    assert [topics.topic_id(name) for name in ("named", "gone")] == [ID, None]


@pytest.mark.parametrize(
    ("there", "asked", "left"),
    [
        (None, ID, None),  # by name, and so for ours as well
        (OTHER, None, None),  # it may be a late one, and this one means any
        (ID, None, ID),  # ours, and one by name may come after its end
        (OTHER, ID, ID),  # late: the topic has our id
        (ID, OTHER, ID),  # ours is late
    ],
)
def test_mark_that_is_there_already_is_replaced_where_it_says_less(
    client: ZkClient, there: str | None, asked: str | None, left: str | None
) -> None:
    topics, store = ZkTopicStore(client, 1), ZkControllerStore(client, lambda: 0)
    assert topics.create_topic(Topic("t", ID, {0: (1,)}), {})
    assert topics.request_deletion("t", there or ID, by_id=there is not None)
    topics.request_deletion("t", asked or ID, by_id=asked is not None)
    assert store.asked_ids({"t"}) == {"t": (left, ID)}


def test_mark_that_was_replaced_after_it_was_read_is_not_dropped(client: ZkClient) -> None:
    topics, store = ZkTopicStore(client, 1), ZkControllerStore(client, lambda: 0)
    term = store.elect(1)
    assert term is not None
    assert topics.create_topic(Topic("t", ID, {0: (1,)}), {})
    assert topics.request_deletion("t", OTHER, by_id=True)
    store.asked_ids({"t"})
    assert topics.request_deletion("t", ID, by_id=True)
    assert not store.drop_deletion(term, "t")
    assert store.asked_ids({"t"}) == {"t": (ID, ID)}
    assert store.drop_deletion(term, "t")
    assert store.deletions(None) == set()
    assert not store.drop_deletion(term, "t"), "what was not read is looked at first"
    assert store.asked_ids({"t"}) == {}

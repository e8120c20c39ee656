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
ID = "B" * 21 + "A"


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
    assert not store.create_topic(Topic("t", "C" * 21 + "A", {0: (2,)}), config)
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
    store.finish_deletion(term, "t")
    assert deleted.index(paths.topic_config("t")) < deleted.index(paths.topic("t"))

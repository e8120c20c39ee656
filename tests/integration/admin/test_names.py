"""Names that no topic and no broker can have: refused with Kafka's errors, and no znode comes of them.

And ids of topics, which outlive their names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeVar

import pytest

from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource, AlterConfigsResponse
from broker.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from broker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from broker.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementallyAlterableConfig,
    IncrementallyAlteredResource,
)
from broker.wire.schema import Message
from tests.integration.admin.asking import create_topic, exchange
from tests.support.brokers import Cluster, running_cluster, wait_until

TOPIC, BROKER = 2, 4
BAD = ["", ".", "..", "a/b", "slx/partitions", "a\nb", "a\0b", "t" * 250]
Response = TypeVar("Response", bound=Message)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), brokers=1) as running:
        wait_until(lambda: running.controller() is not None, "a controller")
        yield running


def ask(cluster: Cluster, request: Message, response: type[Response], version: int) -> Response:
    return response.decode(version, exchange(cluster.brokers[1], request, version=version))


def altered(cluster: Cluster, kind: int, names: list[str], value: str = "1000") -> list[tuple[int, str | None]]:
    edit = IncrementallyAlterableConfig("retention.ms" if kind == TOPIC else "log.retention.ms", 0, value)
    request = IncrementalAlterConfigsRequest([IncrementallyAlteredResource(kind, name, [edit]) for name in names])
    found = ask(cluster, request, IncrementalAlterConfigsResponse, 1)
    return [(one.error_code, one.error_message) for one in found.responses]


def znodes(cluster: Cluster, path: str) -> set[str]:
    """All below a path."""
    found = set()
    for name in cluster.zk.get_children(path):
        child = f"{path}/{name}"
        found |= {child} | znodes(cluster, child)
    return found


def test_no_znode_comes_of_a_name_that_no_topic_has(cluster: Cluster) -> None:
    create_topic(cluster, "slx", [[1]])
    before = {path: znodes(cluster, path) for path in ("/config/topics", "/admin", "/brokers/topics")}
    results = altered(cluster, TOPIC, BAD)
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_CONFIG
    request = ErrorCode.INVALID_REQUEST
    assert [code for code, _ in results] == [request, invalid, invalid, unknown, unknown, invalid, invalid, unknown]
    assert results[4][1] == "The topic 'slx/partitions' does not exist."
    resources = [AlterConfigsResource(TOPIC, name, []) for name in BAD]
    replaced = ask(cluster, AlterConfigsRequest(resources, False), AlterConfigsResponse, 2)
    assert [one.error_code for one in replaced.responses] == [request] + [unknown] * 7
    added = ask(
        cluster,
        CreatePartitionsRequest([CreatePartitionsTopic(name, 3, None) for name in BAD], 5000, False),
        CreatePartitionsResponse,
        3,
    )
    assert [one.error_code for one in added.results] == [unknown] * 8
    deleted = ask(cluster, DeleteTopicsRequest(topic_names=BAD, timeout_ms=5000), DeleteTopicsResponse, 4)
    assert [one.error_code for one in deleted.responses] == [unknown] * 8
    assert {path: znodes(cluster, path) for path in before} == before


def test_no_znode_comes_of_a_name_that_no_broker_has(cluster: Cluster) -> None:
    before = znodes(cluster, "/config/brokers")
    results = altered(cluster, BROKER, ["1/x", "..", "2"])
    assert {code for code, _ in results} == {ErrorCode.INVALID_REQUEST}
    assert results[0][1] == "Broker id must be an integer, but it is: 1/x"
    assert znodes(cluster, "/config/brokers") == before


def test_topic_is_deleted_with_znodes_below_its_own_that_nobody_knows(cluster: Cluster) -> None:
    create_topic(cluster, "haunted", [[1]])
    for path in (
        "/config/topics/haunted/partitions/0",
        "/brokers/topics/haunted/partitions/0/x",
        "/brokers/topics/haunted/y/z",
    ):
        cluster.zk.ensure_path(path)
    deleted = ask(cluster, DeleteTopicsRequest(topic_names=["haunted"], timeout_ms=20_000), DeleteTopicsResponse, 4)
    assert [one.error_code for one in deleted.responses] == [ErrorCode.NONE]
    assert not cluster.zk.exists("/config/topics/haunted")
    assert not cluster.zk.exists("/brokers/topics/haunted")
    create_topic(cluster, "haunted", [[1]])


def id_of(cluster: Cluster, name: str) -> str:
    return str(json.loads(cluster.zk.get(f"/brokers/topics/{name}")[0])["topic_id"])


def delete_by_id(cluster: Cluster, *topic_ids: str) -> list[tuple[str | None, str, int]]:
    request = DeleteTopicsRequest([DeleteTopicState(None, topic_id) for topic_id in topic_ids], timeout_ms=20_000)
    answer = ask(cluster, request, DeleteTopicsResponse, 6)
    return [(one.name, one.topic_id, one.error_code) for one in answer.responses]


def test_topic_is_deleted_by_its_id_and_never_by_that_of_one_before_it(cluster: Cluster) -> None:
    create_topic(cluster, "known", [[1]])
    first, nobodys = id_of(cluster, "known"), "B" * 21 + "A"
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert delete_by_id(cluster, first, nobodys) == [("known", first, ErrorCode.NONE), (None, nobodys, unknown)]
    assert not cluster.zk.exists("/brokers/topics/known")
    create_topic(cluster, "known", [[1]])
    second = id_of(cluster, "known")
    assert second != first
    assert delete_by_id(cluster, first) == [(None, first, unknown)]
    # A request that was looked up in time and is late now: what it leaves is all the controller sees of it.
    mark = "/admin/delete_topics/known"
    cluster.zk.create(mark, json.dumps({"version": 1, "topic_id": first}).encode())
    wait_until(lambda: not cluster.zk.exists(mark), "the mark is dropped")
    assert id_of(cluster, "known") == second
    cluster.wait_state("known", 0, leader=1, isr={1})
    assert delete_by_id(cluster, second) == [("known", second, ErrorCode.NONE)]
    assert not cluster.zk.exists("/brokers/topics/known")

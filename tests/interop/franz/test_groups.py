"""franz-go produces, and consumes with a group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers import Cluster, running_cluster
from tests.support.franz_go import franz as franz
from tests.support.group_members import fresh
from tests.support.line_program import line_program
from tests.support.reading import read_values

pytestmark = [pytest.mark.nightly, pytest.mark.guarantee("K1", "group-rules")]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    settings = {"offsets.topic.num.partitions": "3", "group.initial.rebalance.delay.ms": "0"}
    with running_cluster(tmp_path, settings=settings) as running:
        yield running


def test_franz_go_goes_on_where_its_group_ended(cluster: Cluster, franz: str) -> None:
    topic, group = fresh("t"), fresh("g")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 3, 3)])[topic].result(20)
    cluster.wait_told(topic)
    first, second = ([f"{name}{n}" for n in range(30)] for name in "ab")
    with line_program([franz, cluster.bootstrap, "unused"]) as ask:
        assert ask(f"produce {topic} {' '.join(first)}") == "done"
        assert sorted(ask(f"consume {topic} {group} 30").split()) == sorted(first)
        assert ask(f"produce {topic} {' '.join(second)}") == "done"
        assert sorted(ask(f"consume {topic} {group} 30").split()) == sorted(second)
    assert sorted(read_values(cluster, topic)) == sorted(first + second)

"""A process of the workload `admin` against a broker that is played."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.wire.api import ApiKey
from harness.clients.router import Cluster
from harness.operations.generator import Op
from harness.operations.op import Completion, Invocation
from harness.workloads.admin.client import AdminClient, AdminSettings
from harness.workloads.admin.generators import ALTER, COUNT, DESCRIBE, GROW, UNSET, Wanted
from tests.integration.harness.fake_broker import FakeBroker

pytestmark = pytest.mark.guarantee("H6")


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    fake = FakeBroker(partitions=3)
    yield fake
    fake.close()


@pytest.fixture
def process(cluster: Cluster) -> Iterator[AdminClient]:
    client = AdminClient(7, AdminSettings(cluster, ("hw",), 500, 1, lambda _topic, _count: None), lambda: "main")
    yield client
    client.close()


def carry_out(process: AdminClient, f: str, config: int = 0, number: int = UNSET) -> tuple[Invocation, Completion]:
    invocation = process.resolve(Op(0, 0, f, -1, detail=Wanted(0, config, number)))
    return invocation, process.invoke(invocation)


def test_value_that_was_set_is_described(broker: FakeBroker, process: AdminClient) -> None:
    asked, changed = carry_out(process, ALTER, number=1_000_007)
    assert (asked.topic, asked.partition, asked.node) == ("hw", None, "n1")
    assert asked.fields == {"config": "retention.ms", "setting": 1_000_007}
    assert changed.outcome == "ok"
    asked, described = carry_out(process, DESCRIBE)
    assert asked.fields == {"config": "retention.ms"}
    assert (described.outcome, described.fields) == ("ok", {"setting": 1_000_007})


def test_value_that_is_no_number_is_no_answer(broker: FakeBroker, process: AdminClient) -> None:
    broker.config["retention.ms"] = "a week"
    _, described = carry_out(process, DESCRIBE)
    assert (described.outcome, described.error) == ("info", "malformed")


def test_partitions_are_those_of_metadata(broker: FakeBroker, process: AdminClient) -> None:
    asked, counted = carry_out(process, COUNT)
    assert asked.fields == {}
    assert (counted.outcome, counted.fields) == ("ok", {"count": 3})


def test_growth_without_an_answer_is_unknown_and_the_controller_is_looked_up_again(
    broker: FakeBroker, process: AdminClient
) -> None:
    broker.next(ApiKey.CREATE_PARTITIONS, lambda _header: None)
    asked, grown = carry_out(process, GROW, number=5)
    assert (asked.node, asked.fields) == ("n1", {"count": 5})
    assert (grown.outcome, grown.error) == ("info", "connection-reset")

"""The group's coordinator is killed, or all brokers restart in turn: no acknowledged commit and no record is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from tests.interop.groups.test_members import ALL, Join, Send, committed
from tests.support.brokers import Cluster
from tests.support.group_members import LIBRARIES, Member, Sender, await_members, fresh

pytestmark = [
    pytest.mark.guarantee("K1", "group-rules"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def coordinator(cluster: Cluster, group: str) -> int:
    """Broker id."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    described = admin.describe_consumer_groups([group], request_timeout=20)[group].result(20)
    return int(described.coordinator.id)


def disturbed(cluster: Cluster, topic: str, group: str, both: list[Member], disturb: Callable[[], None]) -> None:
    """What happens in the middle of steady reading and committing; then all must be there."""
    sender = Sender(cluster.bootstrap, topic, len(ALL))
    try:
        await_members(lambda: all(len(member.committed) > 0 for member in both), "both commit", both)
        disturb()
        at = [dict(member.committed) for member in both]
        await_members(
            lambda: all(member.committed != before for member, before in zip(both, at, strict=True)),
            "both commit again",
            both,
        )
    finally:
        sent = sender.stop()
    await_members(lambda: sent <= both[0].values | both[1].values, "all that was acknowledged is read", both)
    ends = [dict(member.committed) for member in both]
    for member in both:
        member.leave()
    told = committed(cluster, group, topic)
    for acknowledged in ends:
        assert all(told[partition] >= offset for partition, offset in acknowledged.items()), (told, ends)


@pytest.mark.parametrize("library", LIBRARIES)
def test_killed_coordinator_costs_neither_commits_nor_records(
    cluster: Cluster, topic: str, library: str, join: Join
) -> None:
    group = fresh("g")
    both = [join(library, group), join(library, group)]
    await_members(
        lambda: both[0].owned | both[1].owned == ALL and bool(both[0].owned and both[1].owned), "shared", both
    )
    killed = coordinator(cluster, group)
    try:
        disturbed(cluster, topic, group, both, cluster.brokers[killed].kill)
        assert coordinator(cluster, group) != killed
    finally:
        cluster.brokers[killed].start()
        cluster.wait_known()
    assert sum(committed(cluster, group, topic).values()) > 0


def test_rolling_restart_costs_neither_commits_nor_records(cluster: Cluster, topic: str, join: Join) -> None:
    group = fresh("g")
    both = [join("confluent-kafka", group), join("confluent-kafka", group)]
    await_members(
        lambda: both[0].owned | both[1].owned == ALL and bool(both[0].owned and both[1].owned), "shared", both
    )

    def restart_all() -> None:
        for broker in cluster.brokers.values():
            broker.stop()
            broker.start()
            cluster.wait_known()
            cluster.wait_state(topic, 0, isr={1, 2, 3})

    disturbed(cluster, topic, group, both, restart_all)


def test_commits_outlive_the_kill_of_every_broker_in_turn(cluster: Cluster, topic: str, join: Join, send: Send) -> None:
    group = fresh("g")
    sent = send(0, 90)
    member = join("confluent-kafka", group)
    await_members(lambda: member.values == sent and sum(member.committed.values()) == 90, "all is read", [member])
    member.leave()
    for broker in cluster.brokers.values():
        broker.kill()
        assert committed(cluster, group, topic) == dict.fromkeys(ALL, 30)
        broker.start()
        cluster.wait_known()
        cluster.wait_state(topic, 0, isr={1, 2, 3})

"""Real clients subscribe: they share partitions, commit, come back, and rebalance as each library does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.support.brokers import Cluster, wait_until
from tests.support.group_members import LIBRARIES, ConfluentClient, Member, await_members, fresh

pytestmark = [
    pytest.mark.guarantee("K1", "group-rules"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
Join = Callable[..., Member]
Send = Callable[[int, int], set[bytes]]
ALL = {0, 1, 2}
MOVED = {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
"""What librdkafka leaves to the application, of OffsetFetch alone: it asks for the coordinator anew, but not again."""


def committed(cluster: Cluster, group: str, topic: str) -> dict[int, int]:
    """As another client is told, however often it has to ask."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "enable.auto.commit": False})
    found: list[TopicPartition] = []

    def answered() -> bool:
        try:
            found[:] = consumer.committed([TopicPartition(topic, partition) for partition in ALL], timeout=20)
        except KafkaException as failure:
            if failure.args[0].code() not in MOVED:
                raise
        return bool(found)

    try:
        wait_until(answered, "a coordinator answers OffsetFetch")
        return {each.partition: each.offset for each in found}
    finally:
        consumer.close()


def in_order(member: Member) -> bool:
    """The member has read each partition's records one after the other."""
    offsets: dict[int, list[int]] = defaultdict(list)
    for partition, offset, _ in member.read:
        offsets[partition].append(offset)
    return all(found == list(range(found[0], found[-1] + 1)) for found in offsets.values())


@pytest.mark.parametrize("library", LIBRARIES)
def test_group_goes_on_where_its_commits_ended(
    cluster: Cluster, topic: str, library: str, join: Join, send: Send
) -> None:
    group = fresh("g")
    before = send(0, 300)
    first = join(library, group)
    # What it owns is looked at after a batch is committed.
    await_members(
        lambda: first.values == before and sum(first.committed.values()) == 300 and first.owned == ALL,
        "all is read, by whom owns all",
        [first],
    )
    assert in_order(first)
    first.leave()
    assert committed(cluster, group, topic) == dict.fromkeys(ALL, 100)
    after = send(300, 390)
    second = join(library, group)
    await_members(lambda: len(second.read) >= 90, "what came since is read", [second])
    assert second.values == after
    assert len(second.read) == 90
    second.leave()


@pytest.mark.parametrize("library", LIBRARIES)
def test_members_share_partitions_and_take_over_those_of_one_that_leaves(library: str, join: Join, send: Send) -> None:
    group = fresh("g")
    first = join(library, group)
    await_members(lambda: first.owned == ALL, "the first owns all", [first])
    second = join(library, group)
    both = [first, second]
    await_members(
        lambda: (
            first.owned | second.owned == ALL
            and bool(first.owned)
            and bool(second.owned)
            and not first.owned & second.owned
        ),
        "both share",
        both,
    )
    sent = send(0, 90)
    await_members(lambda: first.values | second.values == sent, "all is read", both)
    second.leave()
    await_members(lambda: first.owned == ALL, "the first owns all again", [first])
    more = send(90, 120)
    await_members(lambda: more <= first.values, "the first reads all", [first])
    first.leave()


def test_libraries_share_one_group(join: Join, send: Send) -> None:
    group = fresh("g")
    settings: dict[str, dict[str, object]] = {"confluent-kafka": {"partition.assignment.strategy": "roundrobin"}}
    mixed = [join(library, group, **settings.get(library, {})) for library in ("confluent-kafka", "aiokafka")]
    await_members(
        lambda: set.union(*(member.owned for member in mixed)) == ALL and all(member.owned for member in mixed),
        "each owns a part",
        mixed,
    )
    sent = send(0, 90)
    await_members(lambda: set.union(*(member.values for member in mixed)) == sent, "all is read", mixed)
    for member in mixed:
        member.leave()


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_every_assignor_of_librdkafka_shares_partitions(join: Join, send: Send, assignor: str) -> None:
    group = fresh("g")
    three = [join("confluent-kafka", group, **{"partition.assignment.strategy": assignor}) for _ in range(3)]
    await_members(lambda: sorted(sorted(member.owned) for member in three) == [[0], [1], [2]], "each owns one", three)
    sent = send(0, 90)
    await_members(lambda: set.union(*(member.values for member in three)) == sent, "all is read", three)


def test_cooperative_members_keep_what_they_need_not_give_up(join: Join) -> None:
    group = fresh("g")
    cooperative = {"partition.assignment.strategy": "cooperative-sticky"}
    first = join("confluent-kafka", group, **cooperative)
    await_members(lambda: first.owned == ALL, "the first owns all", [first])
    second = join("confluent-kafka", group, **cooperative)
    await_members(lambda: len(second.owned) == 1 and len(first.owned) == 2, "the second has one", [first, second])
    assert isinstance(first.client, ConfluentClient)
    assert [change for change in first.client.changes if change[1]] == [("assign", ALL), ("revoke", second.owned)]


@pytest.mark.parametrize("library", LIBRARIES)
def test_static_member_that_restarts_gets_its_partitions_back_and_disturbs_nobody(
    library: str, join: Join, send: Send
) -> None:
    group = fresh("g")
    other = join("confluent-kafka", group, "other", **{"partition.assignment.strategy": "roundrobin"})
    await_members(lambda: other.owned == ALL, "one owns all", [other])
    settings = {"partition.assignment.strategy": "roundrobin"} if library == "confluent-kafka" else {}
    if library == "kafka-python":
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

        settings = {"partition_assignment_strategy": [RoundRobinPartitionAssignor]}  # type: ignore[dict-item]
    restarted = join(library, group, "restarted", **settings)
    await_members(
        lambda: bool(restarted.owned) and restarted.owned.isdisjoint(other.owned), "shared", [other, restarted]
    )
    had = set(restarted.owned)
    assert isinstance(other.client, ConfluentClient)
    changes = list(other.client.changes)
    restarted.leave()
    again = join(library, group, "restarted", **settings)
    await_members(lambda: again.owned == had, "the same partitions", [again])
    sent = send(0, 90)
    await_members(lambda: other.values | again.values == sent, "all is read", [other, again])
    assert other.client.changes == changes


def test_second_process_with_an_instance_id_fences_the_first(join: Join) -> None:
    group = fresh("g")
    first = join("confluent-kafka", group, "one")
    await_members(lambda: first.owned == ALL, "the first owns all", [first])
    second = join("confluent-kafka", group, "one")
    await_members(lambda: second.owned == ALL, "the second owns all", [second])
    assert isinstance(first.client, ConfluentClient)
    client = first.client
    await_members(lambda: client.fatal is not None, "the first hears of it", [second])
    assert "fenced by other consumer" in str(client.fatal)


def test_member_that_stops_polling_is_out_and_comes_back(cluster: Cluster, topic: str, join: Join) -> None:
    group = fresh("g")
    lazy = ConfluentClient(cluster.bootstrap, group, topic, None, **{"max.poll.interval.ms": 6_000})
    try:
        while lazy.owned() != ALL:
            lazy.poll()
        other = join("confluent-kafka", group)
        await_members(lambda: other.owned == ALL, "the other owns all", [other])
        await_members(lambda: bool(lazy.poll() or lazy.owned()), "the lazy one is back", [other])
        await_members(lambda: not (lazy.poll() or lazy.owned() & other.owned), "both share", [other])
    finally:
        lazy.close()

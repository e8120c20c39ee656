"""Registration, metadata and admin of whole brokers, asked by a real client."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from broker.core.replication.isr import Proposal
from broker.model.ids import TopicPartition
from broker.runtime.replicas.ports import AlterPartitionResult
from broker.wire.errors import ErrorCode
from broker.zk import codecs, paths
from broker.zk.registration import BrokerIdInUse, end_session
from broker.zk.session_file import RecordedSession
from tests.support.wait import eventually
from tests.support.zookeeper import ZooKeeperServer

from .planes import PlaneBroker

pytestmark = pytest.mark.guarantee("R1", "C5", "C7")

_numbers = itertools.count()
Start = Callable[..., PlaneBroker]


@pytest.fixture
def start(server: ZooKeeperServer, tmp_path: Path) -> Iterator[Start]:
    hosts = f"{server.connect}/plane-{next(_numbers)}"
    brokers: list[PlaneBroker] = []

    def start_broker(broker_id: int, folder: str | None = None, **settings: str) -> PlaneBroker:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        broker = PlaneBroker(hosts, tmp_path / (folder or str(broker_id)), broker_id, named)
        brokers.append(broker)
        return broker.start()

    yield start_broker
    for broker in brokers:
        broker.stop()


class Admin:
    """confluent-kafka's admin client, each call waited for."""

    def __init__(self, broker: PlaneBroker) -> None:
        self.client = AdminClient({"bootstrap.servers": broker.address})

    def create(self, name: str, partitions: int = 1, factor: int = 1, **config: str) -> None:
        """config: underscores stand for dots."""
        named = {key.replace("_", "."): value for key, value in config.items()}
        self.wait(self.client.create_topics([NewTopic(name, partitions, factor, config=named)], operation_timeout=20))

    def assign(self, name: str, assignment: list[list[int]]) -> None:
        topic = NewTopic(name, len(assignment), replica_assignment=assignment)
        self.wait(self.client.create_topics([topic], operation_timeout=20))

    def delete(self, name: str) -> None:
        self.wait(self.client.delete_topics([name], operation_timeout=20))

    def wait(self, futures: Mapping[Any, Future[Any]]) -> list[Any]:
        return [future.result(30) for future in futures.values()]


def three(start: Start) -> list[PlaneBroker]:
    brokers = [start(id_) for id_ in (1, 2, 3)]
    for broker in brokers:
        eventually(lambda broker=broker: len(broker.plane.cache.brokers) == 3, "three brokers in the metadata")  # type: ignore[misc]
    return brokers


@pytest.fixture
def brokers(start: Start) -> list[PlaneBroker]:
    return three(start)


@pytest.fixture
def admin(brokers: list[PlaneBroker]) -> Admin:
    return Admin(brokers[2])


def controller_of(brokers: list[PlaneBroker]) -> PlaneBroker:
    return eventually(lambda: next((b for b in brokers if b.plane.controller.active), None))


def test_created_topic_has_leaders_and_settings_before_roles(brokers: list[PlaneBroker], admin: Admin) -> None:
    admin.create("t", 6, 3, min_insync_replicas="2")
    assert controller_of(brokers).plane.cache.has_leaders("t", 6)
    for broker in brokers:
        eventually(lambda broker=broker: broker.plane.cache.has_leaders("t", 6))  # type: ignore[misc]
        eventually(lambda broker=broker: len(broker.roles) == 6)  # type: ignore[misc]
        assert all(config == {"min.insync.replicas": "2"} for config in broker.config_at_role.values())
    leaders = [leader for leader, _ in brokers[0].roles.values()]
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3]
    described = admin.client.list_topics("t", timeout=10).topics["t"]
    assert [len(partition.replicas) for partition in described.partitions.values()] == [3] * 6


def test_replication_factor_above_brokers_is_refused_with_kafkas_text(admin: Admin) -> None:
    with pytest.raises(KafkaException, match=r"Replication factor: 5 larger than available brokers: 3\."):
        admin.create("t", 1, 5)


def test_replicas_are_spread_over_the_racks_that_brokers_name(start: Start) -> None:
    racks = {1: "a", 2: "a", 3: "b"}
    brokers = [start(id_, broker_rack=rack) for id_, rack in racks.items()]
    for broker in brokers:
        eventually(lambda broker=broker: len(broker.plane.cache.brokers) == 3, "three brokers in the metadata")  # type: ignore[misc]
    admin = Admin(brokers[0])
    assert {node.id: node.rack for node in admin.client.describe_cluster().result(30).nodes} == racks
    admin.create("t", 6, 2)
    admin.wait(admin.client.create_partitions([NewPartitions("t", 9)]))
    eventually(lambda: brokers[0].plane.cache.has_leaders("t", 9))
    partitions = brokers[0].plane.cache.topics["t"].partitions
    for number, partition in partitions.items():
        assert {racks[broker] for broker in partition.replicas} == {"a", "b"}, f"{number}: {partition.replicas}"


def test_controller_whose_thread_breaks_ends_its_broker(start: Start) -> None:
    broker = start(1)
    eventually(lambda: broker.plane.controller.active)

    def break_off() -> None:
        raise SystemExit("as no event should")

    broker.plane.controller._events.put("broken", break_off)
    details = eventually(lambda: [detail for event, detail in broker.events if event == "unfit"])
    assert "as no event should" in str(details)


def test_unknown_setting_is_refused_by_name(admin: Admin) -> None:
    with pytest.raises(KafkaException, match=r"Unknown topic config name: no\.such"):
        admin.create("t", no_such="1")


def test_topic_is_deleted_with_its_replicas_and_can_be_made_again(brokers: list[PlaneBroker], admin: Admin) -> None:
    admin.create("t", 2, 3)
    eventually(lambda: "t" in brokers[0].plane.cache.topics)
    first = brokers[0].plane.cache.topics["t"].topic_id
    admin.delete("t")
    assert {TopicPartition("t", 0), TopicPartition("t", 1)} <= set(brokers[0].deleted)
    eventually(lambda: "t" not in brokers[0].plane.cache.topics)
    admin.create("t", 2, 3)
    eventually(lambda: "t" in brokers[0].plane.cache.topics)
    assert brokers[0].plane.cache.topics["t"].topic_id != first


def test_describe_configs_names_sources(admin: Admin) -> None:
    admin.create("t", min_insync_replicas="2")
    (answer,) = admin.wait(admin.client.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "t")]))
    assert isinstance(answer, dict)
    assert (answer["min.insync.replicas"].value, answer["min.insync.replicas"].source) == ("2", 1)
    assert (answer["segment.bytes"].value, answer["segment.bytes"].source) == ("1073741824", 5)
    (broker,) = admin.wait(admin.client.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]))
    assert isinstance(broker, dict)
    assert broker["zookeeper.session.timeout.ms"].value == "1500"
    assert broker["zookeeper.session.timeout.ms"].source == 4


def test_changed_topic_settings_reach_brokers(brokers: list[PlaneBroker], admin: Admin) -> None:
    admin.create("t", 1, 3, min_insync_replicas="2")
    changed: list[tuple[str, dict[str, str]]] = []
    broker = brokers[0]
    broker.on_loop(
        lambda: broker.plane.configs.add_listener(lambda topic, config: changed.append((topic, dict(config))))
    )
    eventually(lambda: broker.plane.cache.overrides("t"))
    client = broker.plane.client
    client.set(paths.topic_config("t"), codecs.encode_config({"min.insync.replicas": "3"}), 0)
    client.create_sequence(paths.CONFIG_CHANGE_PREFIX, codecs.encode_config_change("topics/t"))
    eventually(lambda: changed == [("t", {"min.insync.replicas": "3"})])


def test_metadata_names_cluster_controller_and_brokers(brokers: list[PlaneBroker], admin: Admin) -> None:
    described = admin.client.describe_cluster().result(30)
    assert described.controller.id == controller_of(brokers).plane.broker_id
    assert sorted(node.id for node in described.nodes) == [1, 2, 3]
    assert described.cluster_id == brokers[0].plane.cluster_id


def test_unknown_topic_is_created_by_metadata_where_allowed(brokers: list[PlaneBroker]) -> None:
    cache = brokers[1].plane.cache
    assert brokers[1].plane.topics.auto_create("auto") is ErrorCode.NONE
    eventually(lambda: cache.has_leaders("auto", 1))


def test_expired_session_fences_and_registers_under_new_epoch(brokers: list[PlaneBroker], admin: Admin) -> None:
    admin.create("t", 3, 1)
    broker = next(b for b in brokers if not b.plane.controller.active)
    eventually(lambda: broker.roles)
    before = broker.plane.registration.broker_epoch
    granted = dict(broker.roles)
    credentials = broker.plane.client.credentials
    assert credentials is not None
    end_session(broker.settings.zookeeper_connect, RecordedSession(*credentials))
    eventually(lambda: [event for event, _ in broker.events if event == "registered-again"])
    assert ("fenced", None) in broker.events
    assert broker.plane.registration.broker_epoch > before
    for topic_partition, (_, epoch) in granted.items():
        eventually(lambda tp=topic_partition, epoch=epoch: broker.roles[tp][1] > epoch)  # type: ignore[misc]
    eventually(lambda: broker.plane.cache.has_leaders("t", 3))


def test_session_that_expires_while_a_broker_closes_is_not_followed_by_another_registration(
    brokers: list[PlaneBroker],
) -> None:
    broker = next(b for b in brokers if not b.plane.controller.active)
    other = next(b for b in brokers if b is not broker)
    broker.plane.resign()
    credentials = broker.plane.client.credentials
    assert credentials is not None
    end_session(broker.settings.zookeeper_connect, RecordedSession(*credentials))
    eventually(lambda: broker.plane.client.credentials not in (None, credentials), "a new session")
    eventually(lambda: broker.plane.broker_id not in other.plane.cache.brokers)
    assert not [event for event, _ in broker.events if event in ("registered-again", "fenced")]
    assert broker.plane.broker_id not in other.plane.cache.brokers


def test_second_broker_with_id_of_live_one_does_not_start(start: Start) -> None:
    start(1)
    with pytest.raises(BrokerIdInUse):
        start(1, "elsewhere")


def test_broker_without_id_gets_one(start: Start) -> None:
    assert start(-1, "generated").plane.broker_id > 1000


def test_isr_proposal_reaches_controller_and_its_response_comes_back(brokers: list[PlaneBroker], admin: Admin) -> None:
    admin.assign("t", [[3, 1, 2]])
    broker = brokers[2]
    eventually(lambda: "t" in broker.plane.cache.topics)
    answers: list[AlterPartitionResult] = []
    state = broker.plane.cache.topics["t"]
    epoch = broker.plane.registration.broker_epoch
    proposal = Proposal("shrink", (3, 1), 0, 0, {3: epoch, 1: brokers[0].plane.registration.broker_epoch}, "lag")
    broker.on_loop(
        lambda: broker.plane.alter_partition.send(TopicPartition("t", 0), state.topic_id, proposal, answers.append)
    )
    eventually(lambda: answers)
    assert answers == [AlterPartitionResult(0, (3, 1), 1, 0)]
    other = brokers[1].plane.cache
    eventually(lambda: "t" in other.topics and other.topics["t"].partitions[0].isr == [3, 1])


def test_controlled_shutdown_moves_leaderships_first(brokers: list[PlaneBroker], admin: Admin) -> None:
    admin.assign("t", [[2, 1, 3], [1, 2, 3]])
    done: list[bool] = []
    leaving = brokers[1]
    leaving.on_loop(lambda: leaving.plane.controlled_shutdown(lambda: done.append(True)))
    eventually(lambda: done)
    eventually(lambda: brokers[0].roles.get(TopicPartition("t", 0)) == (1, 1))
    eventually(lambda: brokers[2].plane.cache.topics["t"].partitions[1].isr == [1, 3])


def test_dead_controller_is_replaced_and_carries_on(brokers: list[PlaneBroker], admin: Admin) -> None:
    dead = controller_of(brokers)
    others = [broker for broker in brokers if broker is not dead]
    admin.assign("t", [[b.plane.broker_id for b in [dead, *others]]])
    dead.plane.close()
    new = controller_of(others)

    def follows(broker: PlaneBroker, leader: int) -> bool:
        return broker.roles.get(TopicPartition("t", 0), (-1,))[0] == leader

    for broker in others:
        eventually(partial(follows, broker, others[0].plane.broker_id))
        eventually(lambda broker=broker: broker.plane.cache.controller_id == new.plane.broker_id)  # type: ignore[misc]


def test_producer_ids_are_unique_over_brokers_and_blocks(brokers: list[PlaneBroker]) -> None:
    ids: list[int] = []
    failures: list[str] = []

    def ask(broker: PlaneBroker) -> None:
        for _ in range(1500):
            broker.plane.producer_ids.next_producer_id(ids.append, failures.append)

    for broker in brokers:
        broker.on_loop(lambda broker=broker: ask(broker))  # type: ignore[misc]
    eventually(lambda: len(ids) == 4500)
    assert len(set(ids)) == 4500
    assert not failures

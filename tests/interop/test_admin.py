"""Administration through kafka-python and confluent-kafka, on three real brokers."""

from __future__ import annotations

import uuid
import warnings
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.brokers import Cluster, wait_until

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka import TopicPartition

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.guarantee("C4", "C6", "K1")]


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


@pytest.fixture(scope="module")
def python_admin(cluster: Cluster) -> Any:
    client = kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    yield client
    client.close()


def new_topic(cluster: Cluster, admin: AdminClient, assignment: list[list[int]] | None = None, **config: str) -> str:
    """A topic that every broker tells of: kafka-python takes "no such topic" for "no such setting"."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    settings = {key.replace("_", "."): value for key, value in config.items()}
    replicas = assignment or [[1, 2, 3]]
    topic = NewTopic(name, num_partitions=len(replicas), replica_assignment=replicas, config=settings)
    admin.create_topics([topic])[name].result(20)
    cluster.wait_told(name)
    return name


def test_partitions_are_added_and_led(cluster: Cluster, admin: AdminClient, python_admin: Any) -> None:
    name = new_topic(cluster, admin)
    admin.create_partitions([NewPartitions(name, 4)], validate_only=True)[name].result(20)
    assert len(admin.list_topics(name, timeout=10).topics[name].partitions) == 1
    admin.create_partitions([NewPartitions(name, 3)])[name].result(20)

    def shapes() -> list[tuple[int, int, bool]]:
        described = admin.list_topics(name, timeout=10).topics[name].partitions
        return [(len(one.replicas), len(one.isrs), one.leader > 0) for _, one in sorted(described.items())]

    # The controller's broker has answered; the others hear of the partitions in their own time.
    wait_until(lambda: shapes() == [(3, 3, True)] * 3, lambda: f"three partitions, whole and led: {shapes()}")
    python_admin.create_partitions({name: {"count": 4, "assignments": [[3, 1, 2]]}})
    cluster.wait_state(name, 3, leader=3, isr={1, 2, 3})
    with pytest.raises(KafkaException, match="Topic already has 4 partitions"):
        admin.create_partitions([NewPartitions(name, 4)])[name].result(20)
    with pytest.raises(kafka.errors.InvalidPartitionsError):
        python_admin.create_partitions({name: 2})


def test_topic_settings_change_at_run_time_on_every_broker(cluster: Cluster, admin: AdminClient) -> None:
    name = new_topic(cluster, admin, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])

    def refused(size: int) -> set[int | None]:
        """Partitions that refuse a record of this size."""
        errors: dict[int | None, KafkaError | None] = {}
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "retries": 0, "linger.ms": 0})
        for partition in range(3):
            producer.produce(
                name,
                b"x" * size,
                partition=partition,
                on_delivery=lambda error, message: errors.__setitem__(message.partition(), error),
            )
        assert producer.flush(20) == 0
        assert all(error is None or error.code() == KafkaError.MSG_SIZE_TOO_LARGE for error in errors.values())
        return {partition for partition, error in errors.items() if error is not None}

    def edit(*entries: ConfigEntry) -> None:
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=list(entries))
        admin.incremental_alter_configs([resource])[resource].result(20)

    assert refused(5000) == set()
    edit(
        ConfigEntry("max.message.bytes", "1000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("retention.ms", "5000000", incremental_operation=AlterConfigOpType.SET),
    )
    wait_until(lambda: refused(5000) == {0, 1, 2}, "every leader refuses what is too large")
    edit(ConfigEntry("max.message.bytes", None, incremental_operation=AlterConfigOpType.DELETE))
    wait_until(lambda: refused(5000) == set(), "every leader takes it again")
    described = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)])
    entries = next(iter(described.values())).result(10)
    assert (entries["retention.ms"].value, entries["retention.ms"].source) == (
        "5000000",
        ConfigSource.DYNAMIC_TOPIC_CONFIG.value,
    )
    assert entries["max.message.bytes"].is_default


def test_unknown_and_bad_settings_are_refused_with_kafkas_error(cluster: Cluster, admin: AdminClient) -> None:
    name = new_topic(cluster, admin)
    for key, value, text in [("no.such", "1", "Unknown topic config name"), ("retention.ms", "soon", "retention.ms")]:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        with pytest.raises(KafkaException, match=text) as refused:
            admin.incremental_alter_configs([resource])[resource].result(20)
        assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_alter_configs_of_the_older_kind_replaces_all_overrides(
    cluster: Cluster, admin: AdminClient, python_admin: Any
) -> None:
    name = new_topic(cluster, admin, retention_ms="1234567", min_insync_replicas="2")
    from kafka.admin import ConfigResource as Resource
    from kafka.admin import ConfigResourceType as Type

    python_admin.alter_configs([Resource(Type.TOPIC, name, {"segment.bytes": "1048576"})], incremental=True)
    described = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)])
    before = next(iter(described.values())).result(10)
    assert (before["segment.bytes"].value, before["retention.ms"].value) == ("1048576", "1234567")
    resource = ConfigResource(ResourceType.TOPIC, name, set_config={"min.insync.replicas": "3"})
    admin.alter_configs([resource])[resource].result(20)
    described = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)])
    after = next(iter(described.values())).result(10)
    assert after["min.insync.replicas"].value == "3"
    assert (after["retention.ms"].value, after["segment.bytes"].is_default) == ("604800000", True)


def test_broker_settings_change_at_run_time_where_they_can(cluster: Cluster, admin: AdminClient) -> None:
    name = new_topic(cluster, admin)

    def retention() -> tuple[str, int]:
        described = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)])
        entry = next(iter(described.values())).result(10)["retention.ms"]
        return entry.value, entry.source

    def edit(broker: str, key: str, value: str | None, how: AlterConfigOpType = AlterConfigOpType.SET) -> None:
        entry = ConfigEntry(key, value, incremental_operation=how)
        resource = ConfigResource(ResourceType.BROKER, broker, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(20)

    for broker in cluster.brokers:
        edit(str(broker), "log.retention.ms", "7200000")
    wait_until(lambda: retention() == ("7200000", ConfigSource.DYNAMIC_BROKER_CONFIG.value), "brokers' default")
    described = admin.describe_configs([ConfigResource(ResourceType.BROKER, "2")])
    entries = next(iter(described.values())).result(10)
    assert (entries["log.retention.ms"].value, entries["log.retention.ms"].is_read_only) == ("7200000", False)
    assert entries["num.partitions"].is_read_only
    for broker in cluster.brokers:
        edit(str(broker), "log.retention.ms", None, AlterConfigOpType.DELETE)
    wait_until(lambda: retention() == ("604800000", ConfigSource.DEFAULT_CONFIG.value), "the default of before")
    with pytest.raises(KafkaException, match=r"Cannot update these configs dynamically: num.partitions"):
        edit("1", "num.partitions", "9")


def move_leader_away(cluster: Cluster, python_admin: Any, name: str, partition: int, replicas: list[int]) -> None:
    """Make another than the preferred replica lead, by reordering twice: order alone moves no leader."""
    topic_partition = TopicPartition(name, partition)
    first = python_admin.alter_partition_reassignments({topic_partition: replicas[1:]})
    assert first == {topic_partition: None}
    cluster.wait_state(name, partition, leader=replicas[1], isr=set(replicas[1:]))
    assert python_admin.alter_partition_reassignments({topic_partition: replicas}) == {topic_partition: None}
    cluster.wait_state(name, partition, leader=replicas[1], isr=set(replicas))
    wait_until(lambda: not python_admin.list_partition_reassignments(), "the reassignment's end")


def test_preferred_leaders_are_elected_by_both_clients(cluster: Cluster, admin: AdminClient, python_admin: Any) -> None:
    name = new_topic(cluster, admin, [[1, 2, 3], [2, 3, 1]])
    move_leader_away(cluster, python_admin, name, 0, [1, 2, 3])
    from confluent_kafka import TopicPartition as Named

    results = admin.elect_leaders(ElectionType.PREFERRED, [Named(name, 0), Named(name, 1)]).result(20)
    codes = {(one.topic, one.partition): error and error.code() for one, error in results.items()}
    assert codes == {(name, 0): None, (name, 1): KafkaError.ELECTION_NOT_NEEDED}
    cluster.wait_state(name, 0, leader=1, isr={1, 2, 3})
    move_leader_away(cluster, python_admin, name, 1, [2, 3, 1])
    answer = python_admin.elect_leaders(0)
    elected = {
        (topic.topic, part.partition_id): part.error_code
        for topic in answer.replica_election_results
        for part in topic.partition_result
    }
    assert (elected[(name, 0)], elected[(name, 1)]) == (KafkaError.ELECTION_NOT_NEEDED, 0)
    cluster.wait_state(name, 1, leader=2, isr={1, 2, 3})
    move_leader_away(cluster, python_admin, name, 0, [1, 2, 3])
    results = admin.elect_leaders(ElectionType.PREFERRED, None).result(20)
    assert {(one.topic, one.partition): error for one, error in results.items()} == {(name, 0): None}


def test_partition_is_reassigned_and_its_old_replica_deleted(
    cluster: Cluster, admin: AdminClient, python_admin: Any
) -> None:
    name = new_topic(cluster, admin, [[1, 2]])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for index in range(100):
        producer.produce(name, f"value-{index}".encode(), partition=0)
    assert producer.flush(20) == 0
    partition = TopicPartition(name, 0)
    assert python_admin.alter_partition_reassignments({partition: [3, 2]}) == {partition: None}
    cluster.wait_state(name, 0, leader=3, isr={2, 3})
    folder = cluster.brokers[1].folder / "data" / f"{name}-0"
    wait_until(lambda: not folder.exists(), "the removed replica's log is deleted")
    wait_until(lambda: not python_admin.list_partition_reassignments(), "the reassignment's end")
    wait_until(
        lambda: admin.list_topics(name, timeout=10).topics[name].partitions[0].replicas == [3, 2],
        "the new replicas are told of",
    )
    consumer = kafka.KafkaConsumer(bootstrap_servers=cluster.bootstrap.split(","), enable_auto_commit=False)
    assert consumer.end_offsets([partition]) == {partition: 100}
    consumer.close()
    refused = python_admin.alter_partition_reassignments(
        {partition: None, TopicPartition(name, 7): [1], TopicPartition("no-such", 0): [1, 1]}
    )
    assert {key: error.errno for key, error in refused.items()} == {
        partition: 85,
        TopicPartition(name, 7): 3,
        TopicPartition("no-such", 0): 39,
    }


def test_operations_that_a_client_may_carry_out_are_in_its_response(cluster: Cluster, admin: AdminClient) -> None:
    name = new_topic(cluster, admin)
    found = admin.describe_cluster(include_authorized_operations=True).result(20).authorized_operations
    of_both = {"CREATE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"}
    assert {one.name for one in found} == of_both | {"CLUSTER_ACTION", "IDEMPOTENT_WRITE"}
    topics = admin.describe_topics(TopicCollection([name]), include_authorized_operations=True)
    assert {one.name for one in topics[name].result(20).authorized_operations} == of_both | {"READ", "WRITE", "DELETE"}


def test_what_kafka_python_asks_of_a_cluster_is_answered(
    cluster: Cluster, admin: AdminClient, python_admin: Any
) -> None:
    name = new_topic(cluster, admin)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    producer.produce(name, b"x" * 1000, partition=0)
    assert producer.flush(20) == 0
    described = python_admin.describe_cluster()
    assert {broker["broker_id"] for broker in described["brokers"]} == {1, 2, 3}
    (partition,) = python_admin.describe_producers([TopicPartition(name, 0)]).values()
    (state,) = partition.active_producers
    assert (state.producer_epoch, state.last_sequence) == (0, 0)
    sizes = {
        i: next(broker.folder.glob(f"data/{name}-0/*.log")).stat().st_size for i, broker in cluster.brokers.items()
    }
    assert min(sizes.values()) > 1000
    dirs = {one["broker"]: one["log_dirs"] for one in python_admin.describe_log_dirs()}
    for broker_id, broker in cluster.brokers.items():
        (found,) = dirs[broker_id]
        assert (found["error_code"], found["log_dir"]) == (0, str(broker.folder / "data"))
        assert found["total_bytes"] > found["usable_bytes"] > 0
        (topic,) = [one for one in found["topics"] if one["name"] == name]
        assert topic["partitions"] == [
            {"partition_index": 0, "partition_size": sizes[broker_id], "offset_lag": 0, "is_future_key": False}
        ]


def test_credentials_are_not_there_and_cannot_be_set(admin: AdminClient) -> None:
    everybody: Any = admin.describe_user_scram_credentials()
    assert everybody.result(20) == {}
    named: Any = admin.describe_user_scram_credentials(["u"])
    with pytest.raises(KafkaException) as absent:
        named["u"].result(20)
    assert absent.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    with pytest.raises(KafkaException) as refused:
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion("u", info, b"pw")])["u"].result(20)
    assert refused.value.args[0].code() == KafkaError.UNSUPPORTED_SASL_MECHANISM
    assert "keeps no credentials" in refused.value.args[0].str()

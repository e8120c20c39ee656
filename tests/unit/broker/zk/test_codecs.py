"""Znode layouts, against texts that Apache Kafka writes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from broker.core.controller.cluster_state import Broker, BrokerEndpoint, LeaderAndIsr
from broker.model.ids import TopicPartition
from broker.zk import codecs, paths, topic_codecs

pytestmark = pytest.mark.guarantee("C1")

T0 = TopicPartition("t", 0)


def test_broker_of_kafka_3_decodes() -> None:
    data = (
        b'{"features":{},"listener_security_protocol_map":{"IN":"PLAINTEXT","OUT":"SSL"},"endpoints":'
        b'["IN://h1:9092","OUT://[::1]:9093"],"jmx_port":-1,"port":9092,"host":"h1","version":5,"timestamp":"1"}'
    )
    broker = codecs.decode_broker(3, data, 77)
    assert broker == Broker(
        3, 77, (BrokerEndpoint("IN", "h1", 9092, "PLAINTEXT"), BrokerEndpoint("OUT", "::1", 9093, "SSL"))
    )


def test_broker_version_1_decodes_host_and_port() -> None:
    broker = codecs.decode_broker(1, b'{"version":1,"host":"old","port":9092,"jmx_port":-1}', 5)
    assert broker.endpoints == (BrokerEndpoint("PLAINTEXT", "old", 9092, "PLAINTEXT"),)


@pytest.mark.parametrize("rack", [None, "a"])
@pytest.mark.parametrize("host", ["h", "10.0.0.1", "::1"])
def test_broker_round_trip(rack: str | None, host: str) -> None:
    broker = Broker(1, 9, (BrokerEndpoint("PLAINTEXT", host, 1, "PLAINTEXT"),), rack)
    assert codecs.decode_broker(1, codecs.encode_broker(broker, 5), 9) == broker


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b'{"version":5}',
        b'{"endpoints":["nonsense"]}',
        b'{"endpoints":9092}',
        b'{"endpoints":["PLAINTEXT://h:9092"],"listener_security_protocol_map":["PLAINTEXT"]}',
        '{"endpoints":["PLAINTEXT://h:²"]}'.encode(),
        b'{"endpoints":["PLAINTEXT://h:99999999999"]}',
        b'{"endpoints":["PLAINTEXT://\\ud800:9092"]}',
        b'{"endpoints":["PLAINTEXT://h:9092"],"rack":"\\ud800"}',
        b'{"host":"h","port":null}',
        b'{"host":"h","port":Infinity}',
    ],
)
def test_malformed_broker_names_znode(data: bytes) -> None:
    with pytest.raises(codecs.MalformedZnode, match="/brokers/ids/4"):
        codecs.decode_broker(4, data, 1)


def test_broker_whose_id_goes_into_no_request_is_malformed() -> None:
    with pytest.raises(codecs.MalformedZnode, match="/brokers/ids/99999999999"):
        codecs.decode_broker(99999999999, b'{"endpoints":["PLAINTEXT://h:9092"]}', 1)


def test_topic_rewrite_keeps_unknown_fields_and_reassignment() -> None:
    old = (
        b'{"version":3,"partitions":{"0":[1]},"adding_replicas":{"0":[2]},"new":7,"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ"}'
    )
    read = topic_codecs.decode_topic("t", old)
    assert read.adding == {0: (2,)}
    fields = json.loads(topic_codecs.encode_topic(replace(read, partitions={0: (1, 2)}), old))
    assert fields["new"] == 7
    assert fields["adding_replicas"] == {"0": [2]}
    assert fields["partitions"] == {"0": [1, 2]}


def test_topic_partitions_sort_by_number() -> None:
    topic = topic_codecs.decode_topic("t", b'{"version":1,"partitions":{"10":[1],"2":[2],"0":[3]}}')
    assert list(topic.partitions) == [0, 2, 10]
    assert topic.topic_id == topic_codecs.NO_TOPIC_ID


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":3}',
        b'{"partitions":{"x":[1]}}',
        b'{"partitions":{"0":1}}',
        b'{"partitions":{"0":[null]}}',
        b'{"partitions":{"0":["one"]}}',
        b'{"partitions":{"0":[true]}}',
        b'{"partitions":{"0":[1e999]}}',
        b'{"partitions":{"0":[2147483648]}}',
        b'{"partitions":{"2147483648":[1]}}',
        '{"partitions":{"\u00b2":[1]}}'.encode(),
        b'{"partitions":{"0":[]}}',
        b'{"partitions":{"0":[1]},"adding_replicas":{"0":[[]]}}',
        b'{"partitions":{"0":[1]},"topic_id":"x"}',
        b'{"partitions":' + b"[" * 200_000,
    ],
)
def test_malformed_topic_names_znode(data: bytes) -> None:
    with pytest.raises(codecs.MalformedZnode, match="/brokers/topics/t"):
        topic_codecs.decode_topic("t", data)


def test_partition_state_of_kafka_decodes() -> None:
    data = b'{"controller_epoch":4,"leader":2,"version":1,"leader_epoch":7,"isr":[2,3]}'
    assert topic_codecs.decode_partition_state(T0, data, 11) == LeaderAndIsr(2, 7, (2, 3), 4, 11)


@pytest.mark.parametrize("recovering", [True, False])
def test_partition_state_round_trip_keeps_unknown_fields(recovering: bool) -> None:
    state = LeaderAndIsr(-1, 3, (1,), 2, 5, recovering)
    data = topic_codecs.encode_partition_state(state, b'{"later":1,"leader_recovery_state":1}')
    assert topic_codecs.decode_partition_state(T0, data, 5) == state
    assert json.loads(data)["later"] == 1


def test_partition_state_with_eligible_replicas_round_trips() -> None:
    state = LeaderAndIsr(1, 3, (1,), 2, 5, elr=(2, 3), elr_min_isr=2)
    data = topic_codecs.encode_partition_state(state)
    assert topic_codecs.decode_partition_state(T0, data, 5) == state


@pytest.mark.parametrize(
    "change",
    [
        {"isr": [2]},
        {"leader_epoch": 2},
        {"replicas": "3"},
        {"replicas": []},
        {"min_isr": None},
        {"min_isr": 1},
        {"min_isr": "2"},
        {"min_isr": 2**31},
    ],
)
def test_eligible_replicas_of_another_isr_or_of_no_minimum_are_ignored(change: dict[str, object]) -> None:
    state = LeaderAndIsr(1, 3, (1,), 2, 5, elr=(2, 3), elr_min_isr=2)
    fields = json.loads(topic_codecs.encode_partition_state(state))
    fields["elr"] |= change
    found = topic_codecs.decode_partition_state(T0, json.dumps(fields).encode(), 5)
    assert (found.isr, found.elr, found.elr_min_isr) == ((1,), (), 0)


def test_partition_state_with_registrations_of_its_isr_round_trips() -> None:
    state = LeaderAndIsr(1, 3, (2, 1), 2, 5, isr_epochs={1: 2**40, 2: -1})
    data = topic_codecs.encode_partition_state(state, b'{"isr_epochs":{"isr":[3]}}')
    assert topic_codecs.decode_partition_state(T0, data, 5) == state


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"isr": [1, 2]}, {}),
        ({"leader_epoch": 4}, {}),
        ({"epochs": [7]}, {}),
        ({"epochs": "78"}, {}),
        ({"epochs": [7, None]}, {2: 7}),
    ],
)
def test_registrations_of_another_isr_are_ignored(change: dict[str, object], found: dict[int, int]) -> None:
    state = LeaderAndIsr(1, 3, (2, 1), 2, 5, isr_epochs={1: 8, 2: 7})
    fields = json.loads(topic_codecs.encode_partition_state(state))
    fields["isr_epochs"] |= change
    assert topic_codecs.decode_partition_state(T0, json.dumps(fields).encode(), 5).isr_epochs == found


STATE: dict[str, object] = {"controller_epoch": 4, "leader": 2, "version": 1, "leader_epoch": 7, "isr": [2, 3]}


@pytest.mark.parametrize(
    "change",
    [
        {"isr": []},
        {"isr": [], "leader": -2},
        {"isr": [None]},
        {"isr": ["2"]},
        {"isr": 2},
        {"isr": [2, 2**31]},
        {"leader": 2.5},
        {"leader": 2**31},
        {"leader_epoch": 2**31},
        {"leader_epoch": float("inf")},
        {"controller_epoch": 2**31},
    ],
)
def test_partition_state_of_impossible_values_is_malformed(change: dict[str, object]) -> None:
    data = json.dumps(STATE | change).encode()
    with pytest.raises(codecs.MalformedZnode, match="t-0"):
        topic_codecs.decode_partition_state(T0, data, 0)


def test_partition_state_without_leader_and_isr_is_an_old_kafkas() -> None:
    data = json.dumps(STATE | {"leader": -1, "isr": []}).encode()
    assert topic_codecs.decode_partition_state(T0, data, 11) == LeaderAndIsr(-1, 7, (), 4, 11)


@pytest.mark.parametrize("data", [b"{}", b'{"leader":"x"}', b"nothing"])
def test_malformed_partition_state_names_partition(data: bytes) -> None:
    with pytest.raises(codecs.MalformedZnode, match="t-0"):
        topic_codecs.decode_partition_state(T0, data, 0)


def test_controller_layouts() -> None:
    assert codecs.decode_controller(codecs.encode_controller(5, 1)) == 5
    assert codecs.decode_controller(b"3") == 3
    assert json.loads(codecs.encode_controller(5, 1))["version"] == 2
    assert codecs.decode_controller_epoch(codecs.encode_controller_epoch(12)) == 12


def test_config_layouts() -> None:
    assert codecs.decode_config(None, "/config/topics/t") == {}
    assert codecs.decode_config(codecs.encode_config({"a": "1"}, b'{"x":1}'), "t") == {"a": "1"}
    assert json.loads(codecs.encode_config({}, b'{"x":1,"config":{"old":"1"}}')) == {"x": 1, "version": 1, "config": {}}
    assert codecs.decode_config_change(codecs.encode_config_change("topics/t")) == "topics/t"
    assert codecs.decode_config_change(b'{"version":1,"entity_type":"topics","entity_name":"t"}') == "topics/t"


def test_producer_id_block_round_trip_has_text_bounds() -> None:
    block = codecs.ProducerIdBlock(1, 1000, 1999)
    data = codecs.encode_producer_id_block(block)
    assert json.loads(data)["block_end"] == "1999"
    assert codecs.decode_producer_id_block(data) == block


def test_paths_are_kafkas() -> None:
    assert paths.partition_state(T0) == "/brokers/topics/t/partitions/0/state"
    assert paths.parents("/a/b/c") == ["/a", "/a/b"]


def test_log_dir_event_is_kafkas() -> None:
    assert json.loads(codecs.encode_log_dir_event(7)) == {"version": 1, "broker": 7, "event": 1}
    assert codecs.decode_log_dir_event(b'{"version":1,"broker":7,"event":1}') == 7
    assert codecs.decode_log_dir_event(b'{"version":1}') is None

"""What may be set on topics and brokers, and what edits make of it."""

from __future__ import annotations

import pytest

from broker.config.settings import Settings
from broker.core.admin.alter_configs import (
    BROKER,
    TOPIC,
    ConfigRefused,
    Edit,
    Operation,
    check_config,
    check_edits,
    edited,
    entity_of,
)
from broker.runtime.replicas.replication_quotas import ReplicationQuotas, throttled_partitions
from broker.wire.errors import ErrorCode

SETTINGS = Settings.parse({"zookeeper.connect": "x:1"})
THROTTLED = "leader.replication.throttled.replicas"


def test_edits_set_delete_append_and_subtract() -> None:
    have = {"retention.ms": "5", THROTTLED: "0:1"}
    edits = [
        Edit("segment.bytes", Operation.SET, "100"),
        Edit("retention.ms", Operation.DELETE, None),
        Edit(THROTTLED, Operation.APPEND, "0:1,0:2"),
        Edit("cleanup.policy", Operation.APPEND, "compact"),
    ]
    check_edits(edits)
    assert edited(have, SETTINGS.topic_defaults, edits) == {
        "segment.bytes": "100",
        THROTTLED: "0:1,0:2",
        "cleanup.policy": "delete,compact",
    }
    less = edited(have, {}, [Edit(THROTTLED, Operation.SUBTRACT, "0:1")])
    assert less[THROTTLED] == ""


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        ([Edit("a", 0, "1"), Edit("a", 0, "2")], "Error due to duplicate config keys"),
        ([Edit("a", 0, None)], "Null value not supported for : a"),
        ([Edit("a", 7, "1")], "Unknown operations type 7"),
    ],
)
def test_edits_that_no_resource_can_take_are_invalid_requests(edits: list[Edit], text: str) -> None:
    with pytest.raises(ConfigRefused, match=text) as refused:
        check_edits(edits)
    assert refused.value.error is ErrorCode.INVALID_REQUEST


def test_append_to_what_is_no_list_is_refused() -> None:
    with pytest.raises(ConfigRefused, match=r"append is not allowed for config key: retention\.ms"):
        edited({}, {}, [Edit("retention.ms", Operation.APPEND, "1")])


@pytest.mark.parametrize(
    ("kind", "config", "error", "text"),
    [
        (TOPIC, {"no.such": "1"}, ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such"),
        (TOPIC, {"retention.ms": "x"}, ErrorCode.INVALID_CONFIG, r"name='t'\): Invalid value x for configuration"),
        (TOPIC, {THROTTLED: "0:1," * 200_000}, ErrorCode.INVALID_CONFIG, "at most 524288 bytes"),
        (TOPIC, {THROTTLED: "0-1"}, ErrorCode.INVALID_CONFIG, "must be the literal"),
        (BROKER, {"num.partitions": "2"}, ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically: num"),
        (BROKER, {"min.insync.replicas": "2"}, ErrorCode.INVALID_REQUEST, "for a single broker: min.insync"),
        (BROKER, {"log.segment.bytes": "1"}, ErrorCode.INVALID_REQUEST, "at least 14"),
        (BROKER, {"leader.replication.throttled.rate": "-5"}, ErrorCode.INVALID_REQUEST, "value -5 .* at least 0"),
        (BROKER, {"leader.replication.throttled.rate": "1e3"}, ErrorCode.INVALID_REQUEST, "1e3 .* of type LONG"),
        (BROKER, {"leader.replication.throttled.rate": str(2**63)}, ErrorCode.INVALID_REQUEST, "of type LONG"),
        (BROKER, {"follower.replication.throttled.rate": "\u00b2"}, ErrorCode.INVALID_REQUEST, "of type LONG"),
        (BROKER, {"follower.replication.throttled.rate": "\uff11"}, ErrorCode.INVALID_REQUEST, "of type LONG"),
        (TOPIC, {THROTTLED: "\uff11:2"}, ErrorCode.INVALID_CONFIG, "must be the literal"),
        (
            BROKER,
            {"num.io.threads": "0"},
            ErrorCode.INVALID_REQUEST,
            "^Invalid value 0 for configuration num.io.threads: ",
        ),
        (
            BROKER,
            {"log.retention.ms": "xx"},
            ErrorCode.INVALID_REQUEST,
            "^Invalid value xx for configuration log.retention.ms: Not a number of type LONG$",
        ),
    ],
)
def test_config_that_cannot_be_is_refused(kind: int, config: dict[str, str], error: ErrorCode, text: str) -> None:
    with pytest.raises(ConfigRefused, match=text) as refused:
        check_config(kind, "t", config, SETTINGS)
    assert refused.value.error is error


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (TOPIC, {"min.insync.replicas": "2", THROTTLED: "*"}),
        (TOPIC, {THROTTLED: "0:1,12:3"}),
        (TOPIC, {THROTTLED: ""}),
        (BROKER, {"log.cleaner.threads": "4", "num.io.threads": "16", "background.threads": "1"}),
        (BROKER, {"log.retention.ms": "-1", "follower.replication.throttled.rate": "1000"}),
        (BROKER, {"replica.alter.log.dirs.io.max.bytes.per.second": str(2**63 - 1)}),
    ],
)
def test_config_that_may_be_is_taken(kind: int, config: dict[str, str]) -> None:
    check_config(kind, "t", config, SETTINGS)


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        (TOPIC, {"no.such": "1", "preallocate": "true", "message.timestamp.before.max.ms": "5"}),
        (BROKER, {"no.such": "1", "num.partitions": "2"}),
    ],
)
def test_what_others_stored_and_nobody_goes_by_may_stay_as_it_is(kind: int, stored: dict[str, str]) -> None:
    new = {"segment.bytes" if kind == TOPIC else "log.segment.bytes": "100"}
    check_config(kind, "1", {**stored, **new}, SETTINGS, stored)
    for name in stored:
        with pytest.raises(ConfigRefused, match=name.replace(".", r"\.")):
            check_config(kind, "1", {**stored, **new, name: "3"}, SETTINGS, stored)
        others = {key: value for key, value in stored.items() if key != name}
        check_config(kind, "1", {**others, **new}, SETTINGS, stored)
        with pytest.raises(ConfigRefused, match=name.replace(".", r"\.")):
            check_config(kind, "1", {**stored, **new}, SETTINGS, others)


def test_resources_name_topics_this_broker_or_all_brokers() -> None:
    assert entity_of(TOPIC, "t", 1) == "topics/t"
    assert entity_of(BROKER, "", 1) == "brokers/<default>"
    assert entity_of(BROKER, "1", 1) == "brokers/1"
    for kind, name, text in [
        (TOPIC, "", "Default topic resources are not allowed"),
        (BROKER, "2", "Unexpected broker id, expected 1, but received 2"),
        (BROKER, "x", "Broker id must be an integer, but it is: x"),
        (BROKER, "1/x", "Broker id must be an integer, but it is: 1/x"),
        (BROKER, "²", "Broker id must be an integer"),
        (BROKER, "9" * 5000, "Broker id must be an integer"),
        (BROKER, "4294967297", "Broker id must be an integer"),
        (8, "1", "only supported for topics and brokers"),
    ]:
        with pytest.raises(ConfigRefused, match=text):
            entity_of(kind, name, 1)


def test_names_that_no_topic_has_make_no_entity() -> None:
    for name, incremental, error in [
        ("t/partitions", True, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("..", True, ErrorCode.INVALID_CONFIG),
        ("..", False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a\nb", True, ErrorCode.INVALID_CONFIG),
        ("t" * 250, True, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]:
        with pytest.raises(ConfigRefused) as refused:
            entity_of(TOPIC, name, 1, incremental)
        assert refused.value.error == error, (name, incremental)
    with pytest.raises(ConfigRefused, match="The topic 't/partitions' does not exist"):
        entity_of(TOPIC, "t/partitions", 1)


def test_throttled_partitions_are_those_of_this_broker() -> None:
    assert throttled_partitions("*", 1) is None
    assert throttled_partitions("0:1,1:2,2:1", 1) == frozenset({0, 2})
    assert throttled_partitions("", 1) == frozenset()


def test_throttle_is_armed_only_with_a_rate_and_a_list() -> None:
    throttle = ReplicationQuotas(1, 11, 1000)
    throttle.set_rates(100, None)
    assert throttle.leader is None
    throttle.set_topic("t", {THROTTLED: "0:1", "follower.replication.throttled.replicas": "*"})
    assert throttle.follower is None
    leader = throttle.leader
    assert leader is not None
    assert leader.covers("t", 0)
    assert not leader.covers("t", 1)
    assert not leader.covers("u", 0)
    leader.record(150, 0)
    assert leader.exceeded(10)
    assert not leader.exceeded(1600)
    throttle.set_rates(100, 50)
    assert throttle.follower is not None
    assert throttle.follower.covers("t", 7)
    throttle.set_topic("t", {})
    assert throttle.leader is None

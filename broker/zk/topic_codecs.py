"""Kafka's JSON layouts of a topic's assignment and of a partition's state ↔ values. Pure.

Rewriting keeps fields that this code does not know (a newer Kafka's, or a reassignment's). Source: kafka.zk.TopicZNode,
TopicPartitionStateZNode (3.9).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from broker.core.controller.cluster_state import NO_LEADER, LeaderAndIsr, Topic
from broker.model.ids import BrokerId, TopicPartition
from broker.wire.primitives import topic_id_to_bytes
from broker.zk.codecs import INT32_MAX, MalformedZnode, decode_json, encode_json, int32

NO_TOPIC_ID = ""
"""As the wire codecs say the zero id."""
_RECOVERING = 1
_ELR = "elr"
_ISR_EPOCHS = "isr_epochs"


def encode_topic(topic: Topic, old: bytes | None = None) -> bytes:
    """`/brokers/topics/T`, version 3."""
    kept = decode_json(old, f"/brokers/topics/{topic.name}") if old else {}
    kept["version"] = 3
    kept["partitions"] = _lists(topic.partitions)
    kept["adding_replicas"] = _lists(topic.adding)
    kept["removing_replicas"] = _lists(topic.removing)
    if topic.topic_id != NO_TOPIC_ID:
        kept["topic_id"] = topic.topic_id
    return encode_json(kept)


def decode_topic(name: str, data: bytes) -> Topic:
    """Any version 1-3; a topic without an id (Kafka before 2.8) gets NO_TOPIC_ID."""
    fields = decode_json(data, f"/brokers/topics/{name}")
    partitions = _replicas(name, "partitions", fields.get("partitions"))
    if not all(partitions.values()):
        raise MalformedZnode(f"/brokers/topics/{name}: a partition has no replicas: {data[:200]!r}")
    return Topic(
        name,
        _topic_id(name, fields.get("topic_id") or NO_TOPIC_ID),
        partitions,
        _replicas(name, "adding_replicas", fields.get("adding_replicas") or {}),
        _replicas(name, "removing_replicas", fields.get("removing_replicas") or {}),
    )


def topic_id_in(name: str, data: bytes) -> str:
    """The id in `/brokers/topics/T`, whatever else stands there; NO_TOPIC_ID for none, or one that makes no sense."""
    try:
        return _topic_id(name, decode_json(data, f"/brokers/topics/{name}").get("topic_id") or NO_TOPIC_ID)
    except MalformedZnode:
        return NO_TOPIC_ID


def _topic_id(name: str, raw: object) -> str:
    topic_id = str(raw)
    try:
        topic_id_to_bytes(topic_id)
    except ValueError as error:
        raise MalformedZnode(f"/brokers/topics/{name}: {error}") from None
    return topic_id


def _lists(replicas: Mapping[int, tuple[BrokerId, ...]]) -> dict[str, list[BrokerId]]:
    return {str(partition): list(brokers) for partition, brokers in sorted(replicas.items())}


def _replicas(name: str, field: str, raw: object) -> dict[int, tuple[BrokerId, ...]]:
    what = f"/brokers/topics/{name}: {field}"
    if not isinstance(raw, dict):
        raise MalformedZnode(f"{what} must be an object, found {raw!r}")
    found: dict[int, tuple[BrokerId, ...]] = {}
    for partition in sorted(raw, key=lambda text: (len(text), text)):
        try:
            if not partition.isdecimal() or not isinstance(raw[partition], list):
                raise ValueError("must be number → list of ids")
            found[int32(int(partition))] = tuple(int32(broker) for broker in raw[partition])
        except ValueError as error:
            raise MalformedZnode(f"{what}: {partition!r} → {raw[partition]!r}: {error}") from None
    return found


def encode_partition_state(state: LeaderAndIsr, old: bytes | None = None) -> bytes:
    """`/brokers/topics/T/partitions/P/state`, version 1. Its partition epoch is the znode's version."""
    kept = decode_json(old, "partition state") if old else {}
    kept.pop("leader_recovery_state", None)
    kept.pop(_ELR, None)
    kept.pop(_ISR_EPOCHS, None)
    fields = {
        **kept,
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "version": 1,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
    }
    if state.recovering:
        fields["leader_recovery_state"] = _RECOVERING
    if state.elr:
        fields[_ELR] = {
            "replicas": list(state.elr),
            "isr": list(state.isr),
            "leader_epoch": state.leader_epoch,
            "min_isr": state.elr_min_isr,
        }
    if state.isr_epochs:
        fields[_ISR_EPOCHS] = {
            "isr": list(state.isr),
            "leader_epoch": state.leader_epoch,
            "epochs": [state.isr_epochs.get(member) for member in state.isr],
        }
    return encode_json(fields)


def decode_partition_state(topic_partition: TopicPartition, data: bytes, version: int) -> LeaderAndIsr:
    """version: the znode's version."""
    fields = decode_json(data, f"state of {topic_partition}")
    try:
        isr = tuple(int32(broker) for broker in fields["isr"])
        leader = int32(fields["leader"])
        if leader != NO_LEADER and not isr:
            # Where nobody leads old versions of Kafka left nobody in the ISR.
            raise ValueError("somebody leads and nobody is in sync")
        elr, elr_min_isr = _decode_elr(fields.get(_ELR), isr, fields["leader_epoch"])
        return LeaderAndIsr(
            leader=leader,
            leader_epoch=int32(fields["leader_epoch"]),
            isr=isr,
            controller_epoch=int32(fields["controller_epoch"]),
            partition_epoch=version,
            recovering=fields.get("leader_recovery_state") == _RECOVERING,
            elr=elr,
            elr_min_isr=elr_min_isr,
            isr_epochs=_decode_isr_epochs(fields.get(_ISR_EPOCHS), isr, fields["leader_epoch"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedZnode(f"state of {topic_partition}: {error!r} in {data[:200]!r}") from None


def _belongs(raw: object, isr: tuple[BrokerId, ...], leader_epoch: object) -> TypeGuard[dict[str, Any]]:
    """Whether a field of our own was written with this very ISR and leader epoch.

    A tool may rewrite leader and ISR and keep fields that it does not know: then they say nothing of the new ISR.
    """
    return isinstance(raw, dict) and raw.get("isr") == list(isr) and raw.get("leader_epoch") == leader_epoch


def _decode_isr_epochs(raw: object, isr: tuple[BrokerId, ...], leader_epoch: object) -> dict[BrokerId, int]:
    """The registrations under which members have their places; of none where it is not said."""
    if not _belongs(raw, isr, leader_epoch):
        return {}
    epochs = raw.get("epochs")
    if not isinstance(epochs, list) or len(epochs) != len(isr):
        return {}
    return {member: epoch for member, epoch in zip(isr, epochs, strict=True) if isinstance(epoch, int)}


def _decode_elr(raw: object, isr: tuple[BrokerId, ...], leader_epoch: object) -> tuple[tuple[BrokerId, ...], int]:
    """The eligible replicas, and under which minimum; else none."""
    if not _belongs(raw, isr, leader_epoch):
        return (), 0
    replicas, min_isr = raw.get("replicas"), raw.get("min_isr")
    if not isinstance(replicas, list) or not all(isinstance(broker, int) for broker in replicas):
        return (), 0
    if not isinstance(min_isr, int) or not len(isr) < min_isr <= INT32_MAX:
        return (), 0
    elr = tuple(broker for broker in replicas if broker not in isr)
    return (elr, min_isr) if elr else ((), 0)

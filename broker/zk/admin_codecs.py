"""The znodes in which elections, reassignments and deletions are requested ↔ values. Pure.

Kafka's JSON layouts, but for a deletion: there Kafka's znode is empty, and what stands in ours is our own.
Source: kafka.zk.PreferredReplicaElectionZNode, ReassignPartitionsZNode, DeleteTopicsTopicZNode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker.model.ids import BrokerId, TopicPartition
from broker.zk import paths
from broker.zk.codecs import MalformedZnode, decode_json, encode_json, int32

_NO_TOPICS_ID = "none"
"""Stands for an empty id: "" is what a topic without an id has."""


def encode_preferred_election(partitions: Sequence[TopicPartition]) -> bytes:
    """`/admin/preferred_replica_election`."""
    return encode_json({"version": 1, "partitions": [_named(topic_partition) for topic_partition in partitions]})


def decode_preferred_election(data: bytes) -> list[TopicPartition]:
    """Partitions of `/admin/preferred_replica_election`. Raises MalformedZnode."""
    return [topic_partition for topic_partition, _ in _partitions(paths.PREFERRED_ELECTION, data)]


def encode_reassignment(targets: Mapping[TopicPartition, Sequence[BrokerId]]) -> bytes:
    """`/admin/reassign_partitions`."""
    return encode_json(
        {
            "version": 1,
            "partitions": [{**_named(tp), "replicas": list(replicas)} for tp, replicas in sorted(targets.items())],
        }
    )


def decode_reassignment(data: bytes) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """Target replicas by partition, of `/admin/reassign_partitions`. Raises MalformedZnode."""
    targets = {}
    for topic_partition, entry in _partitions(paths.REASSIGNMENT, data):
        replicas = entry.get("replicas")
        if not isinstance(replicas, list):
            raise MalformedZnode(f"{paths.REASSIGNMENT}: {entry!r}: replicas must be a list of ids")
        try:
            targets[topic_partition] = tuple(int32(broker) for broker in replicas)
        except ValueError as error:
            raise MalformedZnode(f"{paths.REASSIGNMENT}: {entry!r}: {error}") from None
    return targets


def encode_deletion(topic_id: str | None) -> bytes:
    """`/admin/delete_topics/T`: empty, as Kafka writes it, for the topic of this name, whichever that is (None).

    topic_id: for the topic of this id alone. Kafka's controllers look at the name only.
    """
    return b"" if topic_id is None else encode_json({"version": 1, "topic_id": topic_id})


def decode_deletion(data: bytes) -> str | None:
    """The id for which `/admin/delete_topics/T` asks; None where it asks by name.

    Kafka reads no data here, and tools may write what they like: what names no `topic_id` asks by name. One that makes
    no sense is text that no topic has as its id.
    """
    try:
        found = decode_json(data, paths.DELETE_TOPICS).get("topic_id")
    except MalformedZnode:
        return None
    return None if found is None else str(found) or _NO_TOPICS_ID


def _named(topic_partition: TopicPartition) -> dict[str, Any]:
    return {"topic": topic_partition.topic, "partition": topic_partition.partition}


def _partitions(path: str, data: bytes) -> list[tuple[TopicPartition, dict[str, Any]]]:
    entries = decode_json(data, path).get("partitions")
    if not isinstance(entries, list):
        raise MalformedZnode(f"{path}: partitions must be a list, found {entries!r}")
    try:
        return [(TopicPartition(str(entry["topic"]), int32(entry["partition"])), entry) for entry in entries]
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedZnode(f"{path}: {error!r} in {data[:200]!r}") from None

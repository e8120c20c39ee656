"""Requests about whole topics as functions: make one, delete one by its id, ask for the id that a name has.

Decides protocol versions and which fields count. Must not know routing, retries or the history. Each sends one request,
and raises ClientError when there is no response that can be read; an error code of the broker is a value (`error`:
Kafka's name). A topic id is text as Kafka prints it.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.wire.api import ApiKey
from broker.wire.errors import error_name
from broker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from broker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from broker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from harness.clients.connection import Connection
from harness.clients.responses import decoded, malformed

CREATE_TOPICS_VERSION = 7
DELETE_TOPICS_VERSION = 6
METADATA_VERSION = 12
NOT_THERE = "UNKNOWN_TOPIC_OR_PARTITION"
"""Error of Metadata where the broker knows no topic of the name."""


class Told(NamedTuple):
    """topic_id: empty with an error, and where nothing was asked for. at_ns: CLOCK_MONOTONIC when the response had
    come.
    """

    error: str | None
    topic_id: str
    at_ns: int


def make(
    connection: Connection, topic: str, *, partitions: int, replicas: int, timeout_ms: int, deadline_ns: int
) -> Told:
    """Make a topic; the id that it was given. timeout_ms: how long the controller may wait for leaders."""
    request = CreateTopicsRequest([CreatableTopic(topic, partitions, replicas)], timeout_ms)
    body = request.encode(CREATE_TOPICS_VERSION)
    received = connection.exchange(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, body, deadline_ns)
    response = decoded(connection, received, lambda: CreateTopicsResponse.decode(CREATE_TOPICS_VERSION, received.body))
    for result in response.topics:
        if result.name == topic:
            if result.error_code:
                return Told(error_name(result.error_code), "", received.at_ns)
            if not result.topic_id:
                raise malformed(connection, f"topic {topic} was made, and has no id")
            return Told(None, result.topic_id, received.at_ns)
    raise malformed(connection, f"no result for topic {topic}")


def delete(connection: Connection, topic_id: str, *, timeout_ms: int, deadline_ns: int) -> Told:
    """Delete the topic of this id. timeout_ms: how long the controller may wait for the deletion's end."""
    request = DeleteTopicsRequest(topics=[DeleteTopicState(None, topic_id)], timeout_ms=timeout_ms)
    body = request.encode(DELETE_TOPICS_VERSION)
    received = connection.exchange(ApiKey.DELETE_TOPICS, DELETE_TOPICS_VERSION, body, deadline_ns)
    response = decoded(connection, received, lambda: DeleteTopicsResponse.decode(DELETE_TOPICS_VERSION, received.body))
    for result in response.responses:
        if result.topic_id == topic_id:
            return Told(error_name(result.error_code) if result.error_code else None, "", received.at_ns)
    raise malformed(connection, f"no result for topic id {topic_id}")


def id_of(connection: Connection, topic: str, deadline_ns: int) -> Told:
    """The id of the topic that has this name, as that node's Metadata says; empty, without an error, where none has."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    body = request.encode(METADATA_VERSION)
    received = connection.exchange(ApiKey.METADATA, METADATA_VERSION, body, deadline_ns)
    response = decoded(connection, received, lambda: MetadataResponse.decode(METADATA_VERSION, received.body))
    for found in response.topics:
        if found.name == topic:
            error = error_name(found.error_code) if found.error_code else None
            if error == NOT_THERE:
                return Told(None, "", received.at_ns)
            return Told(error, "" if error else found.topic_id, received.at_ns)
    raise malformed(connection, f"no topic {topic} in the response")

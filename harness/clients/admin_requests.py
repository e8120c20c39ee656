"""Requests of administrators as functions: change and describe one setting of a topic, add partitions, count them.

Decides protocol versions and which fields count. Must not know routing, retries or the history. Each sends one request,
and raises ClientError when there is no response that can be read; an error code of the broker is a value (`error`:
Kafka's name).
"""

from __future__ import annotations

import time
from typing import NamedTuple

from broker.wire.api import ApiKey
from broker.wire.errors import error_name
from broker.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from harness.clients.connection import Connection
from harness.clients.requests import metadata
from harness.clients.responses import decoded, malformed
from harness.clients.topic_configs import described_topic_config, edit_topic_config

CREATE_PARTITIONS_VERSION = 3
OF_THE_TOPIC = 1
"""Source of a described value that the topic itself was given (DescribeConfigsResponse.ConfigSource)."""
UNSET = -1
"""Of a setting that the topic was not given."""


class Answered(NamedTuple):
    """number: what was asked for, -1 with an error, and where nothing was asked for. at_ns: CLOCK_MONOTONIC when the
    response had come.
    """

    error: str | None
    number: int
    at_ns: int


def alter_config(connection: Connection, topic: str, config: str, setting: int, deadline_ns: int) -> Answered:
    """Set one setting of a topic to a number, or take the topic's own value away (UNSET)."""
    value = None if setting == UNSET else str(setting)
    error, at_ns = edit_topic_config(connection, topic, config, value, deadline_ns=deadline_ns)
    return Answered(error, -1, at_ns)


def describe_config(connection: Connection, topic: str, config: str, deadline_ns: int) -> Answered:
    """The topic's own value of a setting, UNSET where it has none."""
    error, found, at_ns = described_topic_config(connection, topic, config, deadline_ns=deadline_ns)
    if error is not None:
        return Answered(error, -1, at_ns)
    if found is None:
        raise malformed(connection, f"nothing of {config} of {topic}")
    return Answered(None, _own(connection, topic, config, found.config_source, found.value), at_ns)


def _own(connection: Connection, topic: str, config: str, source: int, value: str | None) -> int:
    if source != OF_THE_TOPIC:
        return UNSET
    if value is None or not value.isdecimal():
        raise malformed(connection, f"{config} of {topic} is {value!r}, and not a whole number")
    return int(value)


def create_partitions(connection: Connection, topic: str, count: int, *, timeout_ms: int, deadline_ns: int) -> Answered:
    """Raise the number of a topic's partitions to `count`. timeout_ms: how long the controller may wait for leaders."""
    wanted = CreatePartitionsRequest([CreatePartitionsTopic(topic, count)], timeout_ms, False)
    body = wanted.encode(CREATE_PARTITIONS_VERSION)
    received = connection.exchange(ApiKey.CREATE_PARTITIONS, CREATE_PARTITIONS_VERSION, body, deadline_ns)
    response = decoded(
        connection, received, lambda: CreatePartitionsResponse.decode(CREATE_PARTITIONS_VERSION, received.body)
    )
    for result in response.results:
        if result.name == topic:
            return Answered(_error(result.error_code), -1, received.at_ns)
    raise malformed(connection, f"no result for the partitions of {topic}")


def count_partitions(connection: Connection, topic: str, deadline_ns: int) -> Answered:
    """How many partitions of a topic that node's Metadata names."""
    state = metadata(connection, topic, deadline_ns)
    return Answered(state.error, -1 if state.error else len(state.partitions), time.monotonic_ns())


def _error(code: int) -> str | None:
    return error_name(code) if code else None

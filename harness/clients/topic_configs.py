"""Settings of a topic at run time: one request to one broker, to set or take back one, or to ask for one.

Must not know who retries or the history. Raises ClientError when there is no response that can be read.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.wire.api import ApiKey
from broker.wire.errors import error_name
from broker.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from broker.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementallyAlterableConfig,
    IncrementallyAlteredResource,
)
from harness.clients.connection import Connection
from harness.clients.responses import decoded, malformed

ALTER_VERSION = 1
DESCRIBE_VERSION = 4
TOPIC = 2
SET, DELETE = 0, 1


class Described(NamedTuple):
    """found: what a broker says of a setting, None where it says nothing or has an error. at_ns: CLOCK_MONOTONIC when
    the response had come.
    """

    error: str | None
    found: DescribeConfigsResourceResult | None
    at_ns: int


def set_topic_config(connection: Connection, topic: str, key: str, value: str, *, deadline_ns: int) -> str | None:
    """Kafka's name of the error, or None: it is set. Other brokers hear of it a little later."""
    error, _ = edit_topic_config(connection, topic, key, value, deadline_ns=deadline_ns)
    return error


def topic_config(connection: Connection, topic: str, key: str, *, deadline_ns: int) -> str | None:
    """The value as that broker has it now; None where it says nothing of it, or an error."""
    found = described_topic_config(connection, topic, key, deadline_ns=deadline_ns).found
    return None if found is None else found.value


def edit_topic_config(
    connection: Connection, topic: str, key: str, value: str | None, *, deadline_ns: int
) -> tuple[str | None, int]:
    """(Kafka's name of the error or None, CLOCK_MONOTONIC when the response had come).

    value: None takes the topic's own away.
    """
    edit = IncrementallyAlterableConfig(key, DELETE if value is None else SET, value)
    body = IncrementalAlterConfigsRequest([IncrementallyAlteredResource(TOPIC, topic, [edit])]).encode(ALTER_VERSION)
    received = connection.exchange(ApiKey.INCREMENTAL_ALTER_CONFIGS, ALTER_VERSION, body, deadline_ns)
    response = decoded(
        connection, received, lambda: IncrementalAlterConfigsResponse.decode(ALTER_VERSION, received.body)
    )
    for result in response.responses:
        if (result.resource_type, result.resource_name) == (TOPIC, topic):
            return error_name(result.error_code) if result.error_code else None, received.at_ns
    raise malformed(connection, f"no result for the settings of {topic}")


def described_topic_config(connection: Connection, topic: str, key: str, *, deadline_ns: int) -> Described:
    """One setting of a topic, as that broker has it now."""
    body = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, topic, [key])]).encode(DESCRIBE_VERSION)
    received = connection.exchange(ApiKey.DESCRIBE_CONFIGS, DESCRIBE_VERSION, body, deadline_ns)
    response = decoded(connection, received, lambda: DescribeConfigsResponse.decode(DESCRIBE_VERSION, received.body))
    for result in response.results:
        if result.resource_name != topic:
            continue
        if result.error_code:
            return Described(error_name(result.error_code), None, received.at_ns)
        for found in result.configs:
            if found.name == key:
                return Described(None, found, received.at_ns)
    return Described(None, None, received.at_ns)

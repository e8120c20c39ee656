"""Settings of a topic at run time: one request to one broker, to set one or to ask for one.

Must not know who retries or the history. Raises ClientError when there is no response that can be read.
"""

from __future__ import annotations

from broker.wire.api import ApiKey
from broker.wire.errors import error_name
from broker.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
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
SET = 0


def set_topic_config(connection: Connection, topic: str, key: str, value: str, *, deadline_ns: int) -> str | None:
    """Kafka's name of the error, or None: it is set. Other brokers hear of it a little later."""
    wanted = IncrementallyAlteredResource(TOPIC, topic, [IncrementallyAlterableConfig(key, SET, value)])
    body = IncrementalAlterConfigsRequest([wanted]).encode(ALTER_VERSION)
    received = connection.exchange(ApiKey.INCREMENTAL_ALTER_CONFIGS, ALTER_VERSION, body, deadline_ns)
    response = decoded(
        connection, received, lambda: IncrementalAlterConfigsResponse.decode(ALTER_VERSION, received.body)
    )
    for result in response.responses:
        if (result.resource_type, result.resource_name) == (TOPIC, topic):
            return error_name(result.error_code) if result.error_code else None
    raise malformed(connection, f"no result for the settings of {topic}")


def topic_config(connection: Connection, topic: str, key: str, *, deadline_ns: int) -> str | None:
    """The value as that broker has it now; None where it says nothing of it, or an error."""
    body = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, topic, [key])]).encode(DESCRIBE_VERSION)
    received = connection.exchange(ApiKey.DESCRIBE_CONFIGS, DESCRIBE_VERSION, body, deadline_ns)
    response = decoded(connection, received, lambda: DescribeConfigsResponse.decode(DESCRIBE_VERSION, received.body))
    for result in response.results:
        for found in result.configs:
            if (result.resource_name, found.name) == (topic, key) and not result.error_code:
                return found.value
    return None

"""What every client of the tools has of settings, by Kafka's names and with Kafka's defaults.

Source: org.apache.kafka.clients.CommonClientConfigs, AdminClientConfig.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from broker.tools.client.connection import Address
from broker.tools.client.errors import ToolError
from broker.tools.client.properties import Properties

_SERVER = re.compile(r"(?:[\w.%-]*://)?(?:\[([\w.%:-]+)\]|([\w.%-]+)):([0-9]{1,5})")


class ClientSettings(NamedTuple):
    """Times in seconds. api_timeout: of a whole operation, with its retries; request_timeout: of each request."""

    bootstrap: tuple[Address, ...]
    client_id: str
    request_timeout: float
    api_timeout: float
    backoff: float
    backoff_max: float
    connect_timeout: float


def client_settings(properties: Properties, client_id: str) -> ClientSettings:
    """client_id: where the properties name none. Raises ToolError, also for what this client cannot do."""
    protocol = properties.text("security.protocol", "PLAINTEXT").upper()
    if protocol != "PLAINTEXT":
        raise ToolError(f"security.protocol={protocol}: this client speaks PLAINTEXT only, without TLS and SASL")
    return ClientSettings(
        parse_bootstrap(properties.text("bootstrap.servers", "")),
        properties.text("client.id", client_id) or client_id,
        properties.number("request.timeout.ms", 30_000) / 1000,
        properties.number("default.api.timeout.ms", 60_000) / 1000,
        properties.number("retry.backoff.ms", 100) / 1000,
        properties.number("retry.backoff.max.ms", 1000) / 1000,
        properties.number("socket.connection.setup.timeout.ms", 10_000, 1) / 1000,
    )


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """`host:port,…`, IPv6 in brackets. Raises ToolError."""
    found = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        match = _SERVER.fullmatch(word)
        if match is None or not 0 < int(match[3]) < 65536:
            raise ToolError(f"Invalid url in bootstrap.servers: {word} (host:port is wanted)")
        found.append(Address(match[1] or match[2], int(match[3])))
    if not found:
        raise ToolError("No resolvable bootstrap urls given in bootstrap.servers (host:port,… is wanted)")
    return tuple(found)

"""Which APIs and versions this broker speaks, and which header goes with which version.

The one table: message classes, the request dispatcher and the ApiVersions response all read it.
Source: Kafka's message JSON (`validVersions`, `flexibleVersions`); KIP-482; KIP-511.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple


class ApiKey(IntEnum):
    """API numbers; those of this broker have an entry in `SUPPORTED`."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    ALTER_PARTITION = 56
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    # Between highwater's own brokers: far above Kafka's numbers, and not advertised.
    REPLICA_REPORT = 30001
    PEER_EVIDENCE = 30002


class VersionRange(NamedTuple):
    """Closed range of versions."""

    first: int
    last: int


# What the codecs read and write.
SUPPORTED: Final[Mapping[ApiKey, VersionRange]] = {
    ApiKey.PRODUCE: VersionRange(3, 9),
    ApiKey.FETCH: VersionRange(4, 17),
    ApiKey.LIST_OFFSETS: VersionRange(1, 9),
    ApiKey.METADATA: VersionRange(0, 12),
    ApiKey.LEADER_AND_ISR: VersionRange(4, 7),
    ApiKey.STOP_REPLICA: VersionRange(3, 4),
    ApiKey.UPDATE_METADATA: VersionRange(6, 8),
    ApiKey.CONTROLLED_SHUTDOWN: VersionRange(3, 3),
    ApiKey.OFFSET_COMMIT: VersionRange(2, 9),
    ApiKey.OFFSET_FETCH: VersionRange(1, 9),
    ApiKey.FIND_COORDINATOR: VersionRange(0, 6),
    ApiKey.JOIN_GROUP: VersionRange(0, 9),
    ApiKey.HEARTBEAT: VersionRange(0, 4),
    ApiKey.LEAVE_GROUP: VersionRange(0, 5),
    ApiKey.SYNC_GROUP: VersionRange(0, 5),
    ApiKey.DESCRIBE_GROUPS: VersionRange(0, 5),
    ApiKey.LIST_GROUPS: VersionRange(0, 5),
    ApiKey.API_VERSIONS: VersionRange(0, 4),
    ApiKey.CREATE_TOPICS: VersionRange(2, 7),
    ApiKey.DELETE_TOPICS: VersionRange(1, 6),
    ApiKey.DELETE_RECORDS: VersionRange(0, 2),
    ApiKey.INIT_PRODUCER_ID: VersionRange(0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: VersionRange(2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: VersionRange(0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: VersionRange(0, 4),
    ApiKey.END_TXN: VersionRange(0, 4),
    ApiKey.WRITE_TXN_MARKERS: VersionRange(0, 1),
    ApiKey.TXN_OFFSET_COMMIT: VersionRange(0, 4),
    ApiKey.DESCRIBE_CONFIGS: VersionRange(1, 4),
    ApiKey.ALTER_CONFIGS: VersionRange(0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: VersionRange(1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: VersionRange(0, 4),
    ApiKey.CREATE_PARTITIONS: VersionRange(0, 3),
    ApiKey.DELETE_GROUPS: VersionRange(0, 2),
    ApiKey.ELECT_LEADERS: VersionRange(0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: VersionRange(0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: VersionRange(0, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: VersionRange(0, 0),
    ApiKey.OFFSET_DELETE: VersionRange(0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: VersionRange(0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: VersionRange(0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: VersionRange(0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: VersionRange(0, 0),
    ApiKey.ALTER_PARTITION: VersionRange(2, 3),
    ApiKey.DESCRIBE_CLUSTER: VersionRange(0, 1),
    ApiKey.DESCRIBE_PRODUCERS: VersionRange(0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: VersionRange(0, 0),
    ApiKey.LIST_TRANSACTIONS: VersionRange(0, 1),
    ApiKey.REPLICA_REPORT: VersionRange(0, 0),
    ApiKey.PEER_EVIDENCE: VersionRange(0, 0),
}

# Where ApiVersions says something else. Produce: a minimum of 3 turns compression off in older librdkafka, so 0-2 are
# advertised and refused.
_ADVERTISED_OTHERWISE: Final[Mapping[ApiKey, VersionRange]] = {
    ApiKey.PRODUCE: VersionRange(0, 9),
}

# Served, but no client is to know of it: ApiVersions does not name it.
PRIVATE: Final = frozenset({ApiKey.REPLICA_REPORT, ApiKey.PEER_EVIDENCE})

ADVERTISED: Final[Mapping[ApiKey, VersionRange]] = {
    api: _ADVERTISED_OTHERWISE.get(api, versions) for api, versions in sorted(SUPPORTED.items()) if api not in PRIVATE
}

BETWEEN_BROKERS: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.ALTER_PARTITION,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.REPLICA_REPORT,
        ApiKey.PEER_EVIDENCE,
    }
)
"""Requests that brokers alone send."""

# Above every version that the 16 bits of a request's header can say.
NEVER_FLEXIBLE: Final = 1 << 15

FLEXIBLE_FROM: Final[Mapping[ApiKey, int]] = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 6,
    ApiKey.METADATA: 9,
    ApiKey.LEADER_AND_ISR: 4,
    ApiKey.STOP_REPLICA: 2,
    ApiKey.UPDATE_METADATA: 6,
    ApiKey.CONTROLLED_SHUTDOWN: 3,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 6,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.JOIN_GROUP: 6,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 4,
    ApiKey.SYNC_GROUP: 4,
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.LIST_GROUPS: 3,
    ApiKey.API_VERSIONS: 3,
    ApiKey.CREATE_TOPICS: 5,
    ApiKey.DELETE_TOPICS: 4,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.INIT_PRODUCER_ID: 2,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.ADD_OFFSETS_TO_TXN: 3,
    ApiKey.END_TXN: 3,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.TXN_OFFSET_COMMIT: 3,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.ALTER_CONFIGS: 2,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 2,
    ApiKey.DESCRIBE_LOG_DIRS: 2,
    ApiKey.CREATE_PARTITIONS: 2,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
    ApiKey.OFFSET_DELETE: NEVER_FLEXIBLE,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: 1,
    ApiKey.ALTER_CLIENT_QUOTAS: 1,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.ALTER_PARTITION: 0,
    ApiKey.DESCRIBE_CLUSTER: 0,
    ApiKey.DESCRIBE_PRODUCERS: 0,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
    ApiKey.LIST_TRANSACTIONS: 0,
    ApiKey.REPLICA_REPORT: 0,
    ApiKey.PEER_EVIDENCE: 0,
}


def is_supported(api_key: int, api_version: int) -> bool:
    """Whether the codecs know this API in this version."""
    versions = SUPPORTED.get(api_key)  # type: ignore[call-overload]
    return versions is not None and versions.first <= api_version <= versions.last


@lru_cache(maxsize=1024)
def request_header_version(api_key: int, api_version: int) -> int:
    """2 (with tagged fields) or 1; an unknown API reads as 1, which is the start of 2."""
    flexible_from = FLEXIBLE_FROM.get(api_key)  # type: ignore[call-overload]
    return 2 if flexible_from is not None and api_version >= flexible_from else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """1 (with tagged fields) or 0. ApiVersions always 0: its reader cannot know the version that was understood."""
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return request_header_version(api_key, api_version) - 1

"""`denial` for log dirs, quotas and credentials: all of them are the cluster's.

Source: as for `denial`; DescribeLogDirsRequest, AlterClientQuotasRequest, AlterUserScramCredentialsRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import alter_client_quotas as acq
from broker.wire.messages import alter_replica_log_dirs as ald
from broker.wire.messages import alter_user_scram_credentials as asc
from broker.wire.messages.describe_client_quotas import DescribeClientQuotasResponse
from broker.wire.messages.describe_log_dirs import DescribeLogDirsResponse
from broker.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsResponse
from broker.wire.schema import Message

_CLUSTER: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _alter_replica_log_dirs(version: int, body: memoryview) -> Message:
    return ald.AlterReplicaLogDirsResponse(
        results=[
            ald.AlterReplicaLogDirTopicResult(
                topic.name, [ald.AlterReplicaLogDirPartitionResult(index, _CLUSTER) for index in topic.partitions]
            )
            for log_dir in ald.AlterReplicaLogDirsRequest.decode(version, body).dirs
            for topic in log_dir.topics
        ]
    )


def _alter_client_quotas(version: int, body: memoryview) -> Message:
    return acq.AlterClientQuotasResponse(
        entries=[
            acq.QuotaAlterationResult(
                _CLUSTER, None, [acq.ResultEntity(entity.entity_type, entity.entity_name) for entity in entry.entity]
            )
            for entry in acq.AlterClientQuotasRequest.decode(version, body).entries
        ]
    )


def _alter_user_scram_credentials(version: int, body: memoryview) -> Message:
    decoded = asc.AlterUserScramCredentialsRequest.decode(version, body)
    users = dict.fromkeys([one.name for one in decoded.deletions] + [one.name for one in decoded.upsertions])
    return asc.AlterUserScramCredentialsResponse(
        results=[asc.AlterUserScramCredentialsResult(user, _CLUSTER, None) for user in users]
    )


def _always(response: Message) -> Callable[[int, memoryview], Message]:
    return lambda _version, _body: response


# DescribeLogDirs before v3 has no place for an error: clients take a response without dirs for this one.
ADMINISTRATION: Final[Mapping[ApiKey, Callable[[int, memoryview], Message]]] = {
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: _always(DescribeLogDirsResponse(error_code=_CLUSTER)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _always(DescribeClientQuotasResponse(error_code=_CLUSTER, entries=None)),
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _always(DescribeUserScramCredentialsResponse(error_code=_CLUSTER)),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
}

"""Replicas that are to be in a certain log dir of their broker: asking for it, and whether they are there (KIP-113)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from broker.tools.client.admin import TopicPartition, by_topic
from broker.tools.client.cluster import Cluster
from broker.tools.client.errors import BrokerError, ToolError, check
from broker.tools.json_files import ANY_LOG_DIR, Placement
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from broker.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

_PAUSE_S = 0.1


class Replica(NamedTuple):
    """One replica, in the order in which Kafka's tool lists them."""

    broker_id: int
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker_id}"


class Terse(ToolError):
    """What the user has to know, printed without the word error."""


class Where(NamedTuple):
    """current: its log dir, None where it is in none; future: where it is being moved to."""

    current: str | None
    future: str | None


def wanted(plan: Sequence[Placement]) -> dict[Replica, str]:
    """Of a plan, the replicas for which it names a log dir."""
    return {
        Replica(broker_id, *one.where): log_dir
        for one in plan
        for broker_id, log_dir in zip(one.replicas, one.log_dirs, strict=True)
        if log_dir != ANY_LOG_DIR
    }


def _partitions(replicas: Iterable[Replica]) -> dict[int, list[TopicPartition]]:
    found: dict[int, list[TopicPartition]] = {}
    for one in sorted(replicas):
        found.setdefault(one.broker_id, []).append((one.topic, one.partition))
    return found


def look_up(cluster: Cluster, replicas: Iterable[Replica]) -> dict[Replica, Where]:
    """Where replicas are. Raises BrokerError, TimedOut."""
    found: dict[Replica, Where] = {}
    for broker_id, partitions in _partitions(replicas).items():
        topics = [DescribableLogDirTopic(topic, indexes) for topic, indexes in by_topic(partitions).items()]
        request = DescribeLogDirsRequest(topics)
        response = cluster.every_broker("describeReplicaLogDirs", request, DescribeLogDirsResponse, [broker_id])
        check(response[broker_id].error_code)
        found |= {Replica(broker_id, *where): Where(None, None) for where in partitions}
        for log_dir in response[broker_id].results:
            for topic in log_dir.topics:
                for one in topic.partitions:
                    replica = Replica(broker_id, topic.name, one.partition_index)
                    known = found.get(replica, Where(None, None))
                    new = {"future": log_dir.log_dir} if one.is_future_key else {"current": log_dir.log_dir}
                    found[replica] = known._replace(**new)
    return found


def states(targets: Mapping[Replica, str], found: Mapping[Replica, Where]) -> tuple[bool, list[str]]:
    """Whether some move still goes on, and the lines of --verify about replicas."""
    lines = []
    ongoing = False
    for replica, target in sorted(targets.items()):
        partition, broker_id = f"{replica.topic}-{replica.partition}", replica.broker_id
        current, future = found[replica]
        if current is None:
            lines.append(
                f"Partition {partition} is not found in any live log dir on broker {broker_id}. "
                "There is likely an offline log directory on the broker."
            )
        elif future is not None:
            ongoing = True
            if future == target:
                lines.append(f"Reassignment of replica {replica} is still in progress.")
            else:
                lines.append(
                    f"Partition {partition} on broker {broker_id} is being moved to log dir {future} "
                    f"instead of {target}."
                )
        elif current == target:
            lines.append(f"Reassignment of replica {replica} completed successfully.")
        else:
            lines.append(
                f"Partition {partition} on broker {broker_id} is not being moved from log dir {current} to {target}."
            )
    return ongoing, lines


def execute(cluster: Cluster, targets: Mapping[Replica, str], timeout_s: float) -> None:
    """Have replicas in these log dirs, once they are on their brokers. Prints; raises ToolError."""
    end = time.monotonic() + timeout_s
    pending = dict(targets)
    while True:
        for replica in sorted(_started(cluster, pending)):
            print(
                f"Successfully started moving log directory to {pending.pop(replica)} "
                f"for replica {replica.topic}-{replica.partition} with broker {replica.broker_id} "
            )
        if not pending:
            return
        if time.monotonic() >= end:
            names = ",".join(str(replica) for replica in sorted(pending))
            plural = "" if len(pending) == 1 else "s"
            raise Terse(f"Timed out before log directory move{plural} could be started for: {names}")
        time.sleep(_PAUSE_S)


def _started(cluster: Cluster, targets: Mapping[Replica, str]) -> list[Replica]:
    started = []
    for broker_id in sorted({replica.broker_id for replica in targets}):
        dirs: dict[str, list[TopicPartition]] = {}
        for replica, target in targets.items():
            if replica.broker_id == broker_id:
                dirs.setdefault(target, []).append((replica.topic, replica.partition))
        request = AlterReplicaLogDirsRequest(
            [
                AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(*one) for one in by_topic(partitions).items()])
                for path, partitions in sorted(dirs.items())
            ]
        )
        response = cluster.every_broker("alterReplicaLogDirs", request, AlterReplicaLogDirsResponse, [broker_id])
        for topic in response[broker_id].results:
            for one in topic.partitions:
                replica = Replica(broker_id, topic.topic_name, one.partition_index)
                if one.error_code == ErrorCode.REPLICA_NOT_AVAILABLE:
                    continue
                if one.error_code:
                    raise ToolError(f"Failed to alter dir for {replica}: {BrokerError(one.error_code).java}")
                started.append(replica)
    return started

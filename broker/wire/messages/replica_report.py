"""ReplicaReport: the controller queries a broker for what its last shutdown may have cost its replicas.

highwater's own, between brokers only; see docs/adr/0010. Kafka's next of kin is KIP-966's GetReplicaLogInfo.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, boolean, int16, int32, int32_array, int64, string, uuid
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class ReportTopic(Struct):
    topic_name: str = string("0+")
    topic_id: str = uuid("0+")
    partitions: list[int] = int32_array("0+")


@dataclass(slots=True)
class ReplicaReportRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.REPLICA_REPORT

    controller_id: int = int32("0+")
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("0+", -1)
    topics: list[ReportTopic] = array(ReportTopic, "0+")


@dataclass(slots=True)
class ReportedEpoch(Struct):
    """A leader epoch, and where it begins in the log."""

    epoch: int = int32("0+")
    start_offset: int = int64("0+")


@dataclass(slots=True)
class ReportedPartition(Struct):
    """unclean: bytes that the replica had acknowledged may be gone. last_epoch: of its last record, −1 when empty.

    known_epoch: the newest that the replica knows of. epochs, shortened: as
    `broker.core.controller.elr.ReplicaReport`. What is tagged older versions neither say nor read.
    """

    topic_name: str = string("0+")
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    unclean: bool = boolean("0+")
    last_epoch: int = int32("0+", -1)
    end_offset: int = int64("0+")
    log_start_offset: int = int64("0+", tag=0, tagged="0+", ignorable=True)
    known_epoch: int = int32("0+", -1, tag=1, tagged="0+", ignorable=True)
    epochs: list[ReportedEpoch] = array(ReportedEpoch, "0+", tag=2, tagged="0+", ignorable=True)
    shortened: bool = boolean("0+", tag=3, tagged="0+", ignorable=True)


@dataclass(slots=True)
class ReplicaReportResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.REPLICA_REPORT

    error_code: int = int16("0+")
    partitions: list[ReportedPartition] = array(ReportedPartition, "0+")

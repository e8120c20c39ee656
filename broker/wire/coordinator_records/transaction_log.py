"""`__transaction_state`: what a coordinator knows of each transactional id.

Source: TransactionLogKey.json, TransactionLogValue.json; kafka.coordinator.transaction.TransactionLog.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from broker.wire.coordinator_records.versioned import Versioned
from broker.wire.fields import int8, int16, int32, int32_array, int64, nullable_array, string
from broker.wire.schema import Struct


class TransactionStatus(IntEnum):
    """The numbers of Kafka's TransactionState."""

    EMPTY = 0
    """Has a producer id and epoch, and no transaction since they were given out."""
    ONGOING = 1
    PREPARE_COMMIT = 2
    """The decision is stored; markers are on their way."""
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    """Every partition has its marker."""
    COMPLETE_ABORT = 5
    DEAD = 6
    """Expired: its tombstone is being stored."""
    PREPARE_EPOCH_FENCE = 7
    """The epoch is being raised, so that an abort fences its producer. Never stored."""

    @property
    def kafkas_name(self) -> str:
        """`PrepareCommit`, as DescribeTransactions and the dump have it."""
        return self.name.title().replace("_", "")


@dataclass(slots=True)
class TransactionLogKey(Versioned):
    """Of one transactional id."""

    LAST: ClassVar[int] = 0
    WRITTEN: ClassVar[int] = 0

    transactional_id: str = string("0+")


@dataclass(slots=True)
class TransactionPartitions(Struct):
    """Partitions of one topic to which the transaction writes."""

    topic: str = string("0+")
    partition_ids: list[int] = int32_array("0+")


@dataclass(slots=True)
class TransactionLogValue(Versioned):
    """Times in ms. transaction_status: a `TransactionStatus`. transaction_partitions: null while that is EMPTY."""

    LAST: ClassVar[int] = 1
    WRITTEN: ClassVar[int] = 0
    FLEXIBLE: ClassVar[int] = 1

    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    transaction_timeout_ms: int = int32("0+")
    transaction_status: int = int8("0+")
    transaction_partitions: list[TransactionPartitions] | None = nullable_array(TransactionPartitions, "0+")
    transaction_last_update_timestamp_ms: int = int64("0+")
    transaction_start_timestamp_ms: int = int64("0+")

"""AddPartitionsToTxn: a transaction will write to these partitions (KIP-98).

v0-3 are a producer's; from v4 a broker asks for several transactions, or only whether their partitions are in them
(KIP-890).

Written by tools/messages.py.
Source: AddPartitionsToTxnRequest.json, AddPartitionsToTxnResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, boolean, int16, int32, int32_array, int64, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class AddPartitionsToTxnTopic(Struct):
    name: str = string("0+")
    partitions: list[int] = int32_array("0+")


@dataclass(slots=True)
class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = string("4+")
    producer_id: int = int64("4+")
    producer_epoch: int = int16("4+")
    verify_only: bool = boolean("4+")
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+")


@dataclass(slots=True)
class AddPartitionsToTxnRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.ADD_PARTITIONS_TO_TXN

    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3")


@dataclass(slots=True)
class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = int32("0+")
    partition_error_code: int = int16("0+")


@dataclass(slots=True)
class AddPartitionsToTxnTopicResult(Struct):
    name: str = string("0+")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(AddPartitionsToTxnPartitionResult, "0+")


@dataclass(slots=True)
class AddPartitionsToTxnResult(Struct):
    transactional_id: str = string("4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "4+")


@dataclass(slots=True)
class AddPartitionsToTxnResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.ADD_PARTITIONS_TO_TXN

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "0-3")

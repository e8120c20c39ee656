"""DescribeTransactions: state, producer and partitions of transactional ids (KIP-664).

Written by tools/messages.py.
Source: DescribeTransactionsRequest.json, DescribeTransactionsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int16, int32, int32_array, int64, string, string_array
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class DescribeTransactionsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_TRANSACTIONS

    transactional_ids: list[str] = string_array("0+")


@dataclass(slots=True)
class TopicData(Struct):
    topic: str = string("0+")
    partitions: list[int] = int32_array("0+")


@dataclass(slots=True)
class DescribedTransaction(Struct):
    error_code: int = int16("0+")
    transactional_id: str = string("0+")
    transaction_state: str = string("0+")
    transaction_timeout_ms: int = int32("0+")
    transaction_start_time_ms: int = int64("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    topics: list[TopicData] = array(TopicData, "0+")


@dataclass(slots=True)
class DescribeTransactionsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_TRANSACTIONS

    throttle_time_ms: int = int32("0+")
    transaction_states: list[DescribedTransaction] = array(DescribedTransaction, "0+")

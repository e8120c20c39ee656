"""ListTransactions: the transactional ids that a broker coordinates; v1 by age (KIP-664, KIP-994).

Written by tools/messages.py.
Source: ListTransactionsRequest.json, ListTransactionsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int16, int32, int64, int64_array, string, string_array
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class ListTransactionsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.LIST_TRANSACTIONS

    state_filters: list[str] = string_array("0+")
    producer_id_filters: list[int] = int64_array("0+")
    duration_filter: int = int64("1+", -1)


@dataclass(slots=True)
class ListedTransaction(Struct):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    transaction_state: str = string("0+")


@dataclass(slots=True)
class ListTransactionsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.LIST_TRANSACTIONS

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    unknown_state_filters: list[str] = string_array("0+")
    transaction_states: list[ListedTransaction] = array(ListedTransaction, "0+")

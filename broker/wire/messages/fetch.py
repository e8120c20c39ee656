"""Fetch: both directions under one name; the layouts are in `fetch_request` and `fetch_response`."""

from broker.wire.messages.fetch_request import (
    CONSUMER_REPLICA_ID,
    DEBUGGING_CONSUMER_ID,
    FINAL_SESSION_EPOCH,
    INITIAL_SESSION_EPOCH,
    NO_SESSION_ID,
    FetchPartition,
    FetchRequest,
    ForgottenPartition,
    decode_request,
    encode_request,
)
from broker.wire.messages.fetch_response import (
    AbortedTransaction,
    FetchPartitionResult,
    FetchResponse,
    NodeEndpoint,
    decode_response,
    encode_response,
)

__all__ = [
    "CONSUMER_REPLICA_ID",
    "DEBUGGING_CONSUMER_ID",
    "FINAL_SESSION_EPOCH",
    "INITIAL_SESSION_EPOCH",
    "NO_SESSION_ID",
    "AbortedTransaction",
    "FetchPartition",
    "FetchPartitionResult",
    "FetchRequest",
    "FetchResponse",
    "ForgottenPartition",
    "NodeEndpoint",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
]

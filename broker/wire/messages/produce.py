"""Produce: both directions under one name; the layouts are in `produce_codec`."""

from broker.wire.messages.produce_codec import (
    decode_request,
    decode_response,
    decode_usual,
    encode_request,
    encode_response,
)
from broker.wire.messages.produce_fields import (
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
    UsualProduce,
)

__all__ = [
    "ProducePartition",
    "ProducePartitionResult",
    "ProduceRequest",
    "ProduceResponse",
    "UsualProduce",
    "decode_request",
    "decode_response",
    "decode_usual",
    "encode_request",
    "encode_response",
]

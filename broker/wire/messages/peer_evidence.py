"""PeerEvidence: a broker that cannot reach another one queries a third broker, which may reach it.

highwater's own, between brokers only; see docs/adr/0011.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import int8, int16, int32, int64, string
from broker.wire.schema import Message


@dataclass(slots=True)
class PeerEvidenceRequest(Message):
    """About the broker that listens at host:port under this id and registration, as the requesting broker knows it."""

    API: ClassVar[ApiKey] = ApiKey.PEER_EVIDENCE

    broker_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    broker_epoch: int = int64("0+")


@dataclass(slots=True)
class PeerEvidenceResponse(Message):
    """evidence: a `broker.core.controller.suspicion.Evidence`."""

    API: ClassVar[ApiKey] = ApiKey.PEER_EVIDENCE

    error_code: int = int16("0+")
    evidence: int = int8("0+")

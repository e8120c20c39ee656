"""Settings of transaction coordinators, and of leaders that verify transactional batches.

Source: TransactionLogConfigs, TransactionStateManagerConfigs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Times in ms, sizes in bytes."""

    partitions: int
    """Of `__transaction_state`; the next three are of that topic too."""
    replication_factor: int
    min_isr: int
    segment_bytes: int
    max_timeout_ms: int
    """The longest time-out that a producer may ask for."""
    id_expiration_ms: int
    abort_interval_ms: int
    """How often open transactions are held against their time-outs."""
    expiry_interval_ms: int
    verification: bool
    """Whether a leader asks the coordinator before it takes a transaction's first batch (KIP-890)."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> TransactionSettings:
        """values: all settings of the broker, converted, by Kafka's names."""
        log = "transaction.state.log."
        return cls(
            values[log + "num.partitions"],
            values[log + "replication.factor"],
            values[log + "min.isr"],
            values[log + "segment.bytes"],
            values["transaction.max.timeout.ms"],
            values["transactional.id.expiration.ms"],
            values["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
            values["transaction.remove.expired.transaction.cleanup.interval.ms"],
            values["transaction.partition.verification.enable"],
        )

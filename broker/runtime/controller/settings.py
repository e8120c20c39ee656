"""What the controller reads of its broker's settings.

Source: KafkaConfig's controller settings, by their Kafka names in broker.config.table.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.model.ids import BrokerId


@dataclass(frozen=True, slots=True)
class RebalanceSettings:
    """When leadership goes back to preferred leaders by itself; percentage: of a broker's own that others may lead."""

    interval_s: float
    percentage: int


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """What the controller reads of the broker's settings."""

    broker_id: BrokerId
    unclean_leader_election: bool
    delete_topic_enable: bool
    socket_timeout_ms: float
    rebalance: RebalanceSettings | None = None
    min_insync_replicas: int = 1

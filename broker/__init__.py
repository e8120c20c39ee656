"""highwater's broker: a replicated, partitioned log that speaks the Kafka protocol."""

from __future__ import annotations

__version__ = "0.1.0"

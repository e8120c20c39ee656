"""Logs that were made anew while their broker was outside of the ISR, and under which registration.

A log that is not known to hold what its replica acknowledged is marked unclean. The mark goes once the replica is let
into the ISR from outside; `replica_reports` takes the mark off. docs/adr/0010.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.model.ids import TopicPartition


class RemadeLogs:
    """`outside`: broker epoch of the registration under which each log was made."""

    def __init__(self, broker_epoch: Callable[[], int]) -> None:
        self._broker_epoch = broker_epoch
        self.outside: dict[TopicPartition, int] = {}

    def note(self, topic_partition: TopicPartition, in_isr: bool) -> None:
        """A log that is marked unclean begins anew. in_isr: the ISR names this broker all the while."""
        self.outside.pop(topic_partition, None)
        if not in_isr:
            self.outside[topic_partition] = self._broker_epoch()

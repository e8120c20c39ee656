"""Whom a controller's term suspects: brokers whose process is gone, though their session is not over (ADR 11).

A registration is suspected once, which ZooKeeper notes before anything is elected by it. Outlives the term's reloads,
for it is not read from anywhere. Belongs to the controller's thread.
"""

from __future__ import annotations

import logging

from broker.core.controller import decisions as rules
from broker.core.controller import suspicion
from broker.core.controller.cluster_state import ClusterState, StoreUnavailable
from broker.model.ids import BrokerId
from broker.runtime.controller.state_writer import PartitionStateWriter

_log = logging.getLogger("broker.controller")


class Suspicions:
    """Broker epochs of the suspected."""

    def __init__(self, writer: PartitionStateWriter) -> None:
        self._writer = writer
        self._epochs: dict[BrokerId, int] = {}
        self._unnoted: set[BrokerId] = set()
        """Of these, those of which it is not known whether their suspicion is noted in ZooKeeper."""

    def carry(self, broker: BrokerId, broker_epoch: int) -> None:
        """Before the load: this registration was suspected, and ZooKeeper has the note, by the takeover with which this
        term began.
        """
        self._epochs[broker] = broker_epoch
        self._emit(broker, broker_epoch)

    def load(self, state: ClusterState) -> None:
        """Mark the suspected brokers in a state that was read anew."""
        state.suspected = state.still_registered(self._epochs)
        for broker in self._unnoted & state.suspected:
            self._writer.store.spend_suspicion(self._writer.term, broker, self._epochs[broker])
        self._unnoted.clear()

    def suspect(self, broker: BrokerId, broker_epoch: int) -> None:
        """Elect away from this broker; once per registration."""
        writer = self._writer
        state = writer.state
        if not state.is_registered(broker, broker_epoch) or broker in state.suspected:
            return
        try:
            spent = writer.store.spend_suspicion(writer.term, broker, broker_epoch)
        except StoreUnavailable:
            # ZooKeeper may have the note, and then nobody suspects this registration again: the reload acts on it.
            self._epochs[broker] = broker_epoch
            self._unnoted.add(broker)
            self._emit(broker, broker_epoch)
            raise
        if not spent:
            _log.info("broker %d was suspected before under this registration: its session decides", broker)
            return
        self._epochs[broker] = broker_epoch
        state.suspected.add(broker)
        self._emit(broker, broker_epoch)
        writer.settle_and_send(lambda: suspicion.suspected(state, broker, writer.term.epoch))

    def reachable(self, broker: BrokerId) -> None:
        """A suspected broker accepts connections: it may lead and join again, and is not suspected a second time."""
        writer = self._writer
        self._epochs.pop(broker, None)
        self._unnoted.discard(broker)
        if broker in writer.state.suspected:
            _log.warning("broker %d was suspected wrongly: it responds", broker)
            writer.state.suspected.discard(broker)
            writer.settle_and_send(lambda: rules.elect_offline(writer.state, writer.term.epoch))

    def _emit(self, broker: BrokerId, broker_epoch: int) -> None:
        self._writer.outbox.emit("suspicion", ce=self._writer.term.epoch, target=broker, be=broker_epoch)

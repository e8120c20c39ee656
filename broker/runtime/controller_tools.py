"""What the parts of a controller's term share: its store, its state, how decisions are written and told.

Belongs to the controller's thread. A term hands these out to parts that live in modules of their own (elections on
request, reassignments, added partitions).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.core.cluster_state import ClusterState
from broker.core.controller import Change
from broker.runtime.controller_ports import ControllerStore, Term
from broker.runtime.controller_requests import RequestBatch
from broker.runtime.ports import TopicPartition

if TYPE_CHECKING:
    from broker.runtime.controller_term import Outbox, Watches


@dataclass(frozen=True, slots=True)
class TermTools:
    """state: as it is now; loading replaces it. settle: decide, write, apply, until nothing is left to decide.

    announce: say a change that is written and applied. reread: take over states that someone else wrote.
    """

    term: Term
    store: ControllerStore
    outbox: Outbox
    watches: Watches
    state: Callable[[], ClusterState]
    new_batch: Callable[[], RequestBatch]
    settle: Callable[[Callable[[], list[Change]], RequestBatch], bool]
    announce: Callable[[Change, RequestBatch], None]
    reread: Callable[[list[TopicPartition]], None]
    forget_topic: Callable[[str], None]

    def send(self, batch: RequestBatch) -> None:
        self.outbox.send(batch.encode(self.state()))

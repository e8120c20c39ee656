"""The rotation: every replica in turn is made to lead all that it holds, by stopping the others, and is drained.

Decides the order of stopping and when a replica leads. Must not know operations. A tail that is acknowledged but
missing on a replica shows only when that replica leads. Runs after the evidence was collected, because it changes
the logs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from harness.clients.admin import Admin, AdminError, has_full_isrs
from harness.clients.connection import ClientError
from harness.clients.requests import ClusterState
from harness.clients.router import Leader
from harness.operations.history import History, drain_phase
from harness.plan.plan import TopicPlan
from harness.workloads.append_poll.drain import Drain


class BrokerControl(Protocol):
    """The part of a system that the rotation needs; both block, and raise when it did not work."""

    def stop_broker(self, node: str) -> str | None:
        """Clean stop (SIGTERM); returns what was wrong with it where the broker had to be killed."""
        ...

    def start_broker(self, node: str) -> None:
        """Returns once the broker responds."""
        ...


class _HandedOver(Exception):
    """A leader gave a partition up while it was read."""


class Rotation:
    """Not thread-safe."""

    def __init__(
        self,
        control: BrokerControl,
        admin: Admin,
        drain: Drain,
        history: History,
        topic: TopicPlan,
        limit_s: float,
        *,
        settle_s: float = 0.0,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """limit_s: for each wait and each round.

        settle_s: pause before each stop, as long as a follower's fetch may wait. A follower learns its leader's
        watermark with its next response; one that is left alone before that stands below min ISR with a watermark that
        it may not raise, and shows its last records to nobody. Nothing outside a broker shows what it has learned.
        """
        self._control = control
        self._admin = admin
        self._drain = drain
        self._history = history
        self._topic = topic
        self._limit_s = limit_s
        self._settle_s = settle_s
        self._say = say
        self._stopped: list[int] = []

    def run(self) -> int:
        """One round for every broker that holds a replica; returns how many readings did not complete.

        A failed round is recorded, and the next one begins. The last round leaves the other brokers stopped.
        """
        try:
            state = self._admin.wait("full ISRs", has_full_isrs(self._topic), self._limit_s)
        except AdminError as error:
            self._history.harness("rotation", error=str(error))
            known = self._admin.state()
            if known is None:
                return 1
            state = known
        held = {
            broker_id: [index for index, p in sorted(state.partitions.items()) if broker_id in p.replicas]
            for broker_id in sorted(self._admin.cluster.addresses)
        }
        holders = [broker_id for broker_id, mine in held.items() if mine]
        return sum(self._round(broker_id, held[broker_id], last=broker_id == holders[-1]) for broker_id in holders)

    def restore(self) -> None:
        """Start the brokers that the rotation left stopped, and wait for full ISRs; failures are recorded."""
        if self._stopped:
            with ThreadPoolExecutor(max_workers=len(self._stopped)) as pool:
                list(pool.map(self._start, self._stopped))
            self._stopped = []
        try:
            self._admin.wait("full ISRs", has_full_isrs(self._topic), self._limit_s)
        except AdminError as error:
            self._history.harness("rotation", error=str(error))

    def _round(self, broker_id: int, mine: list[int], *, last: bool) -> int:
        """How many readings did not complete."""
        node = self._admin.cluster.names[broker_id]
        self._history.begin_phase(drain_phase(node))
        self._say(f"drain with {node} as leader")
        incomplete = 1
        try:
            leads = self._stop_others(broker_id, mine, self._stopped)
            # Where it does not lead all, what it leads is drained within a short limit, and the round is incomplete.
            limit_s = self._limit_s if leads else min(5.0, self._limit_s)
            try:
                incomplete = self._drain.round(mine, self._led_by(broker_id, alone=leads), limit_s)
            except _HandedOver as handed_over:
                # Reading found its files damaged: it is drained as leader once more after its log is restored.
                self._say(f"{node} {handed_over}: once more when it is back")
                self.restore()
                leads = self._stop_others(broker_id, mine, self._stopped)
                incomplete = self._drain.round(mine, self._led_by(broker_id), limit_s)
        except Exception as error:
            self._history.harness("rotation", node=node, error=f"{type(error).__name__}: {error}")
        finally:
            # Most runs end after the last round: nobody needs the others again.
            if not last:
                self.restore()
        return incomplete

    def _stop_others(self, broker_id: int, mine: list[int], stopped: list[int]) -> bool:
        """Stop other brokers, those that lead first, until broker_id leads all of `mine`. True when it does."""
        while True:
            leaders = self._leaders(broker_id, mine)
            if all(leader == broker_id for leader in leaders):
                return True
            running = [b for b in self._admin.cluster.addresses if b != broker_id and b not in stopped]
            if not running:
                return self._wait(broker_id, lambda now: all(leader == broker_id for leader in now), mine)
            other = max(running, key=lambda b: (leaders.count(b), -b))
            time.sleep(self._settle_s)
            # Noted first: a stop that fails half-way is reverted too.
            stopped.append(other)
            self._stop(other)
            self._wait(broker_id, lambda now: all(b >= 0 and b not in stopped for b in now), mine)

    def _stop(self, broker_id: int) -> None:
        node = self._admin.cluster.names[broker_id]
        wrong = self._control.stop_broker(node)
        if wrong is not None:
            self._history.harness("crash", node=node, error=wrong)

    def _wait(self, broker_id: int, good: Callable[[list[int]], bool], mine: list[int]) -> bool:
        try:
            self._admin.wait(
                f"leaders as broker {broker_id} sees them",
                lambda state: good(_leaders_of(state, mine)),
                self._limit_s,
                among=[broker_id],
            )
        except AdminError as error:
            self._history.harness("rotation", node=self._admin.cluster.names[broker_id], error=str(error))
            return False
        return True

    def _leaders(self, broker_id: int, mine: list[int]) -> list[int]:
        try:
            return _leaders_of(self._admin.seen_by(broker_id), mine)
        except ClientError:
            return [-1 for _ in mine]

    def _led_by(self, broker_id: int, *, alone: bool = False) -> Callable[[int], Leader | None]:
        """alone: it led everything when the round began; where it does not now, raise _HandedOver."""

        def resolve(partition: int) -> Leader | None:
            try:
                found = self._admin.seen_by(broker_id).partitions.get(partition)
            except ClientError:
                return None
            if alone and found is not None and found.leader != broker_id:
                raise _HandedOver(f"gave up partition {partition} while it was read (leader now: {found.leader})")
            return Leader(broker_id, found.epoch) if found is not None and found.leader == broker_id else None

        return resolve

    def _start(self, broker_id: int) -> None:
        node = self._admin.cluster.names[broker_id]
        try:
            self._control.start_broker(node)
        except Exception as error:
            self._history.harness("rotation", node=node, error=f"{type(error).__name__}: {error}")


def _leaders_of(state: ClusterState, mine: list[int]) -> list[int]:
    return [state.partitions[index].leader if index in state.partitions else -1 for index in mine]


def current_leaders(admin: Admin) -> Callable[[int], Leader | None]:
    """The leader of a partition as any broker that responds sees it."""

    def resolve(partition: int) -> Leader | None:
        state = admin.state()
        found = state.partitions.get(partition) if state is not None else None
        if found is None or found.leader not in admin.cluster.addresses:
            return None
        return Leader(found.leader, found.epoch)

    return resolve

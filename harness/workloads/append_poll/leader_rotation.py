"""The rotation: every replica in turn is made to lead all that it holds, by stopping the others, and is drained.

Decides the order of stopping and when a replica leads, of one topic or of several. Must not know operations. A tail
that is acknowledged but missing on a replica shows only when that replica leads. Runs after the evidence was collected,
because it changes the logs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
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


@dataclass(frozen=True, slots=True)
class Topic:
    """What asks who leads a topic, and its drain."""

    admin: Admin
    drain: Drain


Held = Mapping[int, Sequence[int]]
"""Which topic, by its place among those of the rotation → its partitions that one broker has a replica of."""


class Rotation:
    """Not thread-safe."""

    def __init__(
        self,
        control: BrokerControl,
        topics: Sequence[Topic],
        history: History,
        plan: TopicPlan,
        limit_s: float,
        *,
        settle_s: float = 0.0,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """plan: of each of the topics. limit_s: for each wait and each drain.

        settle_s: pause before each stop, as long as a follower's fetch may wait. A follower learns its leader's
        watermark with its next response; one that is left alone before that stands below min ISR with a watermark that
        it may not raise, and shows its last records to nobody. Nothing outside a broker shows what it has learned.
        """
        self._control = control
        self._topics = topics
        self._cluster = topics[0].admin.cluster
        self._history = history
        self._plan = plan
        self._limit_s = limit_s
        self._settle_s = settle_s
        self._say = say
        self._stopped: list[int] = []

    def run(self) -> int:
        """One round for every broker that holds a replica; returns how many readings did not complete.

        A failed round is recorded, and the next one begins. The last round leaves the other brokers stopped.
        """
        states = [self._full(topic.admin) for topic in self._topics]
        if None in states:
            return 1
        held = {
            broker_id: {
                nth: [index for index, p in sorted(state.partitions.items()) if broker_id in p.replicas]
                for nth, state in enumerate(states)
                if state is not None
            }
            for broker_id in sorted(self._cluster.addresses)
        }
        holders = [broker_id for broker_id, mine in held.items() if any(mine.values())]
        return sum(self._round(broker_id, held[broker_id], last=broker_id == holders[-1]) for broker_id in holders)

    def _full(self, admin: Admin) -> ClusterState | None:
        """The topic with full ISRs, else as it is known by the end of the limit, which is recorded."""
        try:
            return admin.wait("full ISRs", has_full_isrs(self._plan), self._limit_s)
        except AdminError as error:
            self._history.harness("rotation", error=str(error))
            return admin.state()

    def restore(self) -> None:
        """Start the brokers that the rotation left stopped, and wait for full ISRs; failures are recorded."""
        if self._stopped:
            with ThreadPoolExecutor(max_workers=len(self._stopped)) as pool:
                list(pool.map(self._start, self._stopped))
            self._stopped = []
        for topic in self._topics:
            self._full(topic.admin)

    def _round(self, broker_id: int, mine: Held, *, last: bool) -> int:
        """How many readings did not complete."""
        node = self._cluster.names[broker_id]
        self._history.begin_phase(drain_phase(node))
        self._say(f"drain with {node} as leader")
        incomplete = 1
        try:
            leads = self._stop_others(broker_id, mine, self._stopped)
            # Where it does not lead all, what it leads is drained within a short limit, and the round is incomplete.
            limit_s = self._limit_s if leads else min(5.0, self._limit_s)
            try:
                incomplete = self._drain(broker_id, mine, limit_s, alone=leads)
            except _HandedOver as handed_over:
                # Reading found its files damaged: it is drained as leader once more after its log is restored.
                self._say(f"{node} {handed_over}: once more when it is back")
                self.restore()
                leads = self._stop_others(broker_id, mine, self._stopped)
                incomplete = self._drain(broker_id, mine, limit_s)
        except Exception as error:
            self._history.harness("rotation", node=node, error=f"{type(error).__name__}: {error}")
        finally:
            # Most runs end after the last round: nobody needs the others again.
            if not last:
                self.restore()
        return incomplete

    def _drain(self, broker_id: int, mine: Held, limit_s: float, *, alone: bool = False) -> int:
        """Topic by topic; how many readings did not complete. Raises _HandedOver if alone."""
        return sum(
            self._topics[nth].drain.round(
                list(indices), self._led_by(self._topics[nth].admin, broker_id, alone=alone), limit_s
            )
            for nth, indices in mine.items()
            if indices
        )

    def _stop_others(self, broker_id: int, mine: Held, stopped: list[int]) -> bool:
        """Stop other brokers, those that lead first, until broker_id leads all of `mine`. True when it does."""
        while True:
            leaders = self._leaders(broker_id, mine)
            if all(leader == broker_id for leader in leaders):
                return True
            running = [b for b in self._cluster.addresses if b != broker_id and b not in stopped]
            if not running:
                return self._wait(broker_id, lambda now: all(leader == broker_id for leader in now), mine)
            other = max(running, key=lambda b: (leaders.count(b), -b))
            time.sleep(self._settle_s)
            # Noted first: a stop that fails half-way is reverted too.
            stopped.append(other)
            self._stop(other)
            self._wait(broker_id, lambda now: all(b >= 0 and b not in stopped for b in now), mine)

    def _stop(self, broker_id: int) -> None:
        node = self._cluster.names[broker_id]
        wrong = self._control.stop_broker(node)
        if wrong is not None:
            self._history.harness("crash", node=node, error=wrong)

    def _wait(self, broker_id: int, good: Callable[[list[int]], bool], mine: Held) -> bool:
        """good: of the leaders of one topic's partitions."""
        try:
            for nth, indices in mine.items():
                self._topics[nth].admin.wait(
                    f"leaders as broker {broker_id} sees them",
                    partial(_are, good, indices),
                    self._limit_s,
                    among=[broker_id],
                )
        except AdminError as error:
            self._history.harness("rotation", node=self._cluster.names[broker_id], error=str(error))
            return False
        return True

    def _leaders(self, broker_id: int, mine: Held) -> list[int]:
        """Of all topics' partitions; -1 where the broker names none, or does not respond."""
        found: list[int] = []
        for nth, indices in mine.items():
            try:
                found += _leaders_of(self._topics[nth].admin.seen_by(broker_id), indices)
            except ClientError:
                found += [-1 for _ in indices]
        return found

    def _led_by(self, admin: Admin, broker_id: int, *, alone: bool) -> Callable[[int], Leader | None]:
        """alone: it led everything when the round began; where it does not now, raise _HandedOver."""

        def resolve(partition: int) -> Leader | None:
            try:
                found = admin.seen_by(broker_id).partitions.get(partition)
            except ClientError:
                return None
            if alone and found is not None and found.leader != broker_id:
                raise _HandedOver(f"gave up partition {partition} while it was read (leader now: {found.leader})")
            return Leader(broker_id, found.epoch) if found is not None and found.leader == broker_id else None

        return resolve

    def _start(self, broker_id: int) -> None:
        node = self._cluster.names[broker_id]
        try:
            self._control.start_broker(node)
        except Exception as error:
            self._history.harness("rotation", node=node, error=f"{type(error).__name__}: {error}")


def _are(good: Callable[[list[int]], bool], mine: Sequence[int], state: ClusterState) -> bool:
    return good(_leaders_of(state, mine))


def _leaders_of(state: ClusterState, mine: Sequence[int]) -> list[int]:
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

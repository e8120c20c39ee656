"""Faults of membership: a partition of the run's topic is given other replicas, and later its own again.

Decides which replicas. The controller is asked as any admin client asks it; what is seen is what Metadata says. A
partition without a broker to spare has one replica less meanwhile, else another broker takes the place of the one that
goes, and gets all its data while clients write. Taken back last of all: it needs a controller and all replicas. Must
not know how replicas are moved.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from random import Random

from harness.clients.connection import Address, ClientError, Connection
from harness.clients.reassignments import reassign
from harness.clients.requests import ClusterState, PartitionState, metadata
from nemesis.base import NOTHING_WANTED, ClusterView, Family, Heal, Injection, Observation, Unavailable
from nemesis.kinds import FaultKind, Parameter, Whole
from nemesis.targets import choose
from nemesis.waiting import until

NAME = "membership"
GIVEN_S = 12.0
"""How long a partition may take to have other replicas until it counts as not observed."""
BACK_S = 40.0
REQUEST_S = 2.0
KIND = FaultKind(
    "reassign",
    NAME,
    frozenset(),
    at_random=False,
    does="a partition gives up its replica on the target, another broker gets it if there is one to spare; a target "
    "without a replica takes the place of another. At the end the partition has its own replicas again",
    seen_by="Metadata: the partition's replicas; at the end also its ISR",
    parameters=(Parameter("partition", Whole(), "any of the topic"),),
)


def others(replicas: Sequence[int], brokers: Sequence[int], target: int) -> list[int]:
    """The replicas that a partition is given, preferred leader first. brokers: ids of all.

    The target goes, and the lowest broker without a replica comes in its place, if there is one; a target that has no
    replica comes in the place of the last one.
    """
    if target not in replicas:
        return [*replicas[:-1], target]
    spare = sorted(set(brokers) - set(replicas))[:1]
    return [after for broker in replicas for after in ([broker] if broker != target else spare)]


class Reassign:
    """One partition at a time has other replicas. original: partition → replicas before the first of these faults."""

    kind = KIND

    def __init__(self) -> None:
        self._original: dict[int, list[int]] = {}

    def probe(self, view: ClusterView) -> str | None:
        if view.listener(view.broker_nodes[0].name) is None:
            return "no address at which brokers take requests of an admin client is known"
        if len(view.broker_nodes) == view.replication_factor() < 3:
            return f"{view.replication_factor()} replicas on as many brokers: none can be spared"
        return None

    def draw(
        self, rng: Random, view: ClusterView, target: str, wanted: Mapping[str, object] = NOTHING_WANTED
    ) -> Injection:
        names = [name for name in choose(target, rng, view) if name in {node.name for node in view.broker_nodes}]
        if not names:
            raise Unavailable(f"{target}: only brokers have replicas")
        params = {"partition": rng.randrange(max(1, view.partitions())), **wanted}
        return Injection(self.kind.name, (names[0],), params)

    def claims(self, injection: Injection) -> frozenset[str]:
        return frozenset({"assignment"})

    def start(self, view: ClusterView, injection: Injection) -> Observation:
        partition = _partition(injection)
        cluster = _Cluster(view)
        before = until(lambda: cluster.partition(partition), GIVEN_S)
        if before is None:
            return Observation(False, f"partition {partition}: no broker says which replicas it has")
        replicas = self._original.setdefault(partition, list(before.replicas))
        wanted = others(replicas, cluster.brokers, int(injection.targets[0].removeprefix("n")))
        error = cluster.reassign(partition, wanted, GIVEN_S)
        if error is not None:
            return Observation(False, f"partition {partition} keeps {replicas}: {error}")
        seen = until(lambda: _has(cluster.partition(partition), wanted), GIVEN_S)
        now = cluster.partition(partition)
        return Observation(seen, f"partition {partition}: {replicas} to be {wanted}; now {_show(now)}")

    def stop(self, view: ClusterView, injection: Injection) -> Observation:
        """Wait until the partition has its replicas again, all of them in sync."""
        partition = _partition(injection)
        replicas = self._original.get(partition)
        if replicas is None:
            return Observation(True, f"partition {partition} was given no others")
        cluster = _Cluster(view)

        def back() -> bool:
            now = cluster.partition(partition)
            return _has(now, replicas) and now is not None and set(now.isr) == set(replicas)

        error = cluster.reassign(partition, replicas, BACK_S)
        seen = error is None and until(back, BACK_S)
        why = "" if error is None else f": {error}"
        now = _show(cluster.partition(partition))
        return Observation(seen, f"partition {partition} to be {replicas} again; now {now}{why}")


class _Cluster:
    """The brokers as an admin client of the harness sees them; a connection for each request."""

    def __init__(self, view: ClusterView) -> None:
        self._topic = view.topic()
        listeners = {node.name: view.listener(node.name) for node in view.broker_nodes}
        self._addresses = {
            int(name.removeprefix("n")): Address(*at) for name, at in listeners.items() if at is not None
        }

    @property
    def brokers(self) -> list[int]:
        return sorted(self._addresses)

    def partition(self, index: int) -> PartitionState | None:
        """As the controller sees it, else as any broker does; None when none responds, or has it."""
        states = {broker: state for broker in self.brokers if (state := self._state(broker)) is not None}
        own = [state for broker, state in states.items() if state.controller == broker]
        known = [state.partitions[index] for state in [*own, *states.values()] if index in state.partitions]
        return known[0] if known else None

    def reassign(self, partition: int, replicas: Sequence[int], limit_s: float) -> str | None:
        """Ask whoever controls until it takes the request; the last error after limit_s."""
        end_s = time.monotonic() + limit_s
        error: str | None = "no controller is known"

        def asked() -> bool:
            nonlocal error
            state = next((state for state in map(self._state, self.brokers) if state is not None), None)
            if state is not None and state.controller in self._addresses:
                error = self._ask(state.controller, partition, replicas)
            return error is None

        until(asked, end_s - time.monotonic())
        return error

    def _ask(self, broker_id: int, partition: int, replicas: Sequence[int]) -> str | None:
        connection = Connection(self._addresses[broker_id], "highwater-nemesis")
        deadline_ns = time.monotonic_ns() + int(REQUEST_S * 1e9)
        try:
            connection.connect(deadline_ns)
            return reassign(
                connection,
                self._topic,
                partition,
                replicas,
                timeout_ms=int(REQUEST_S * 1000),
                deadline_ns=deadline_ns,
            )
        except ClientError as failure:
            return failure.error
        finally:
            connection.close()

    def _state(self, broker_id: int) -> ClusterState | None:
        connection = Connection(self._addresses[broker_id], "highwater-nemesis")
        deadline_ns = time.monotonic_ns() + int(REQUEST_S * 1e9)
        try:
            connection.connect(deadline_ns)
            return metadata(connection, self._topic, deadline_ns)
        except ClientError:
            return None
        finally:
            connection.close()


def _has(now: PartitionState | None, replicas: Sequence[int]) -> bool:
    return now is not None and sorted(now.replicas) == sorted(replicas)


def _show(now: PartitionState | None) -> str:
    return "not known" if now is None else f"{list(now.replicas)}, ISR {list(now.isr)}"


def _partition(injection: Injection) -> int:
    partition = injection.params["partition"]
    assert isinstance(partition, int), f"{injection.fault}: partition must be a number, it is {partition!r}"
    return partition


FAMILY = Family(NAME, lambda: (Reassign(),), heal=Heal.LAST)

"""The harness's own view of the cluster, by Metadata: create the run's topic, wait for leaders and full ISRs, see
who leads.

Decides which broker gets a request, and for how long it is repeated. Must not know workloads, faults or the history.
Nothing is cached, and a node that does not respond is passed over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random

from harness.clients.connection import ClientError, Connection
from harness.clients.requests import ClusterState, create_topic, metadata
from harness.clients.router import Cluster
from harness.clients.topic_configs import set_topic_config, topic_config
from harness.plan.plan import TopicPlan

REQUEST_TIMEOUT_S = 1.0
PAUSE_S = 0.2
# Errors of CreateTopics that another try cannot repair. INVALID_REPLICATION_FACTOR is absent: the controller may not
# have taken note of every broker yet.
_HOPELESS = (
    "INVALID_CONFIG",
    "INVALID_PARTITIONS",
    "INVALID_REQUEST",
    "INVALID_TOPIC_EXCEPTION",
    "POLICY_VIOLATION",
    "UNSUPPORTED_VERSION",
)


class AdminError(Exception):
    """The cluster did not reach an awaited state; the text says which, after how long, and what was last seen."""


class Admin:
    """Not thread-safe."""

    def __init__(self, cluster: Cluster, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.cluster = cluster
        self._sleep = sleep
        self._rng = Random(0)
        self._connections = {
            broker_id: Connection(address, "highwater-admin") for broker_id, address in cluster.addresses.items()
        }

    def seen_by(self, broker_id: int) -> ClusterState:
        """The cluster as this broker sees it. Raises ClientError."""
        connection = self._connections[broker_id]
        deadline_ns = time.monotonic_ns() + int(REQUEST_TIMEOUT_S * 1e9)
        connection.connect(deadline_ns)
        return metadata(connection, self.cluster.topic, deadline_ns)

    def state(self, among: Sequence[int] | None = None) -> ClusterState | None:
        """The cluster as some broker that responds sees it; None when none does."""
        order = list(among if among is not None else self.cluster.addresses)
        self._rng.shuffle(order)
        for broker_id in order:
            try:
                return self.seen_by(broker_id)
            except ClientError:
                continue
        return None

    def wait(
        self,
        what: str,
        good: Callable[[ClusterState], bool],
        limit_s: float,
        *,
        every_broker: bool = False,
        among: Sequence[int] | None = None,
    ) -> ClusterState:
        """Repeat Metadata until a response is good; every_broker: until all are. Raises AdminError after limit_s."""
        end_s = time.monotonic() + limit_s
        among_these = list(among if among is not None else self.cluster.addresses)
        seen: ClusterState | str | None = None
        while True:
            if every_broker:
                seen = None
                for broker_id in among_these:
                    try:
                        seen = self.seen_by(broker_id)
                    except ClientError as error:
                        seen = str(error)
                        break
                    if not good(seen):
                        break
                else:
                    assert isinstance(seen, ClusterState)
                    return seen
            else:
                seen = self.state(among_these)
                if seen is not None and good(seen):
                    return seen
            if time.monotonic() >= end_s:
                raise AdminError(f"{what}: not within {limit_s:g} s; last seen: {describe(seen)}")
            self._sleep(PAUSE_S)

    def make_topic(self, topic: TopicPlan, limit_s: float) -> None:
        """Create a topic; return once every broker knows its leaders and every replica is in sync. limit_s: of each
        step. Raises AdminError.
        """
        self.wait("brokers, known to each other", has_all_brokers(self.cluster), limit_s, every_broker=True)
        self.create_topic(topic, limit_s)
        leaders = f"leaders of the new topic {topic.name}, known to every broker"
        self.wait(leaders, has_leaders(topic), limit_s, every_broker=True)
        self.wait(f"full ISRs of the new topic {topic.name}", has_full_isrs(topic), limit_s)

    def create_topic(self, topic: TopicPlan, limit_s: float) -> None:
        """Create the run's topic by requests to the controller until it exists. Raises AdminError."""
        end_s = time.monotonic() + limit_s
        last = "no broker responded"
        while time.monotonic() < end_s:
            state = self.state()
            if state is not None:
                if topic.name == self.cluster.topic and len(state.partitions) == topic.partitions:
                    return
                controller = state.controller
                if controller in self._connections:
                    last = self._create_at(controller, topic)
                    if last == "":
                        return
                    if last.startswith(_HOPELESS):
                        raise AdminError(f"topic {topic.name} cannot be created: {last}")
                else:
                    last = f"controller {controller}"
            self._sleep(PAUSE_S)
        raise AdminError(f"topic {topic.name} was not created within {limit_s:g} s: {last}")

    def set_topic_config(self, key: str, value: str, limit_s: float) -> None:
        """Set it for the run's topic by requests to any broker, until all brokers say that they have it. Raises
        AdminError.
        """
        end_s = time.monotonic() + limit_s
        while True:
            last = self._set_at_any(key, value)
            if not last:
                return
            if time.monotonic() >= end_s:
                raise AdminError(f"{key} of {self.cluster.topic} was not set within {limit_s:g} s: {last}")
            self._sleep(PAUSE_S)

    def _set_at_any(self, key: str, value: str) -> str:
        """Empty when every broker has it, else what is missing. It is set where the first broker lacks it."""
        for broker_id, connection in self._connections.items():
            deadline_ns = time.monotonic_ns() + int(REQUEST_TIMEOUT_S * 1e9)
            try:
                connection.connect(deadline_ns)
                have = topic_config(connection, self.cluster.topic, key, deadline_ns=deadline_ns)
                if have != value:
                    error = set_topic_config(connection, self.cluster.topic, key, value, deadline_ns=deadline_ns)
                    return error or f"broker {broker_id} has {have}"
            except ClientError as failure:
                return str(failure)
        return ""

    def _create_at(self, controller: int, topic: TopicPlan) -> str:
        """Empty when the topic exists now, else what went wrong."""
        connection = self._connections[controller]
        deadline_ns = time.monotonic_ns() + 10_000_000_000
        try:
            connection.connect(deadline_ns)
            error, message = create_topic(
                connection,
                topic.name,
                partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                assignment=topic.assignment,
                config=topic.config,
                timeout_ms=8000,
                deadline_ns=deadline_ns,
            )
        except ClientError as failure:
            return str(failure)
        if error in (None, "TOPIC_ALREADY_EXISTS"):
            return ""
        return f"{error}: {message}" if message else str(error)

    def close(self) -> None:
        """Close the connections to all brokers; idempotent."""
        for connection in self._connections.values():
            connection.close()


def has_all_brokers(cluster: Cluster) -> Callable[[ClusterState], bool]:
    """Every broker of the run is known to be alive."""
    return lambda state: set(state.brokers) == set(cluster.addresses)


def has_leaders(topic: TopicPlan) -> Callable[[ClusterState], bool]:
    """Every partition is there and led."""
    return lambda state: (
        len(state.partitions) == topic.partitions and all(p.leader >= 0 for p in state.partitions.values())
    )


def has_full_isrs(topic: TopicPlan) -> Callable[[ClusterState], bool]:
    """Every partition is led, and every replica is in its ISR."""
    led = has_leaders(topic)
    return lambda state: led(state) and all(len(p.isr) == topic.replication_factor for p in state.partitions.values())


def describe(state: ClusterState | str | None) -> str:
    """A state in a line, for messages."""
    if state is None:
        return "no broker responded"
    if isinstance(state, str):
        return state
    if not state.partitions:
        return f"brokers {list(state.brokers)}, topic {state.error or 'without partitions'}"
    parts = [f"{i}: leader {p.leader} ISR {list(p.isr)}" for i, p in sorted(state.partitions.items())]
    return "; ".join(parts)

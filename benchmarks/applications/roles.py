"""Who has a role, and how a client is made to depend on a broker in that role alone.

A broker that is killed is always a follower of every partition as well; the other roles are with others where there is
a choice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal, get_args

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.process import BenchmarkFailed
from benchmarks.systems import BROKERS, Cluster
from benchmarks.topics import await_all_full
from broker.core.coordination import OFFSETS_TOPIC, TRANSACTION_TOPIC, partition_of

Role = Literal["leader", "controller", "group-coordinator", "transaction-coordinator"]
ROLES: tuple[Role, ...] = get_args(Role)

WORK: dict[Role, str] = {
    "leader": "produce",
    "controller": "produce",
    "group-coordinator": "commit",
    "transaction-coordinator": "transact",
}
"""What clients do while the broker in that role is killed."""

_TOPICS: dict[Role, str] = {"group-coordinator": OFFSETS_TOPIC, "transaction-coordinator": TRANSACTION_TOPIC}
_PREPARE_S = 60.0


@dataclass(frozen=True, slots=True)
class Scene:
    """victim: the broker to kill; leader: of the partition that clients write to or read.

    coordinated: partitions of the internal topic that the victim leads, of how many; both empty where the role is none
    of a coordinator.
    """

    victim: int
    leader: int
    coordinated: frozenset[int] = frozenset()
    partitions: int = 0

    def id_for(self, prefix: str) -> str:
        """A group or transactional id that the victim coordinates; any where it need not."""
        if not self.coordinated:
            return prefix
        return next(
            id_
            for id_ in (f"{prefix}-{number}" for number in range(100_000))
            if partition_of(id_, self.partitions) in self.coordinated
        )


def prepare(cluster: Cluster) -> None:
    """Have the internal topics made, with full ISRs. Raises BenchmarkFailed."""
    servers = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
    consumer = Consumer({**servers, "group.id": "prepare"})
    consumer.committed([TopicPartition("prepare", 0)], timeout=_PREPARE_S)
    consumer.close()
    Producer({**servers, "transactional.id": "prepare"}).init_transactions(_PREPARE_S)
    await_all_full(cluster)


def still_holds(cluster: Cluster, role: Role, place: Scene, topic: str) -> bool:
    """Whether the victim is in that role now; topic: of a client."""
    zookeeper = cluster.zookeeper
    if role == "controller":
        return zookeeper.controller() == place.victim
    if role == "leader":
        states = zookeeper.partitions(topic, 1)
    else:
        states = zookeeper.states(_TOPICS[role], sorted(place.coordinated))
    return all(state is not None and state.leader == place.victim for state in states)


def scene(cluster: Cluster, role: Role) -> Scene:
    """Whom to kill now. Raises BenchmarkFailed where nobody controls."""
    controller = cluster.zookeeper.controller()
    if controller is None:
        raise BenchmarkFailed(f"{cluster.name}: nobody controls")
    if role == "controller":
        return Scene(controller, next(id_ for id_ in BROKERS if id_ != controller))
    others = [id_ for id_ in BROKERS if id_ != controller]
    if role == "leader":
        return Scene(others[0], others[0])
    topic = _TOPICS[role]
    states = cluster.zookeeper.partitions(topic, cluster.zookeeper.partition_count(topic))
    leaders = [-1 if state is None else state.leader for state in states]
    victim = max(others, key=Counter(leaders).__getitem__)
    led = frozenset(partition for partition, leader in enumerate(leaders) if leader == victim)
    if not led:
        raise BenchmarkFailed(f"{cluster.name}: only the controller leads partitions of {topic}")
    return Scene(victim, next(id_ for id_ in others if id_ != victim), led, len(leaders))

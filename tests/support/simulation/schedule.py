"""What one seed does to a cluster: work and faults, one after the other, then all heals and has to come to rest."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from broker.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from broker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from broker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from broker.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from broker.zk import paths
from broker.zk.operations import Delete
from tests.support.simulation.cluster import Cluster, simulated
from tests.support.simulation.judgement import judge, settle
from tests.support.simulation.network import Link
from tests.support.simulation.zk_client import HOST

_TOPICS = ({"t0": 1}, {"t0": 2}, {"t0": 1, "t1": 1})
_START_MS = 3000.0
_STEPS = (40, 90)
_PACES_MS = (30.0, 150.0, 400.0)
_FAULTS_MS = ((50.0, 900.0), (200.0, 6000.0), (200.0, 6000.0))
_EMPHASIS = (0.0, 0.0, 1.0, 1.0, 1.0, 4.0)
_SETTLE_MS = 60_000.0
_REPLICAS = 3
_SETTINGS: Final[tuple[tuple[dict[str, str], ...], ...]] = (
    # One batch for each fetch: to catch up takes time.
    ({}, {}, {"replica.fetch.max.bytes": "1", "replica.fetch.response.max.bytes": "1"}),
    ({}, {}, {"flush.policy": "group-commit"}),
    ({}, {"failure.suspicion.enable": "false"}),
    ({}, {"replica.socket.timeout.ms": "8000"}),
    ({}, {"replica.lag.time.max.ms": "800"}),
)
_MADE_ANEW = 0.7
_ANEW_MS = (50.0, 1500.0)
_TRIES = 12
_TRY_MS = 2000.0
_PARTITIONS_MAX = 3


@dataclass(frozen=True)
class Outcome:
    """trace: what happened. failure: why the run failed, None where it did not."""

    seed: int
    trace: list[str]
    failure: str | None

    def text(self, lines: int = 400) -> str:
        """For whoever has to find out why."""
        shown = self.trace[-lines:]
        return "\n".join([f"seed {self.seed}: {self.failure}", f"the last {len(shown)} events:", *shown])


class Schedule:
    """Draws from the scheduler's chance, as everything in the simulation does."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._rng = cluster.scheduler.rng
        self._healing: list[Callable[[], None]] = []
        """What ends the faults that are in force."""
        self._faults: list[tuple[float, Callable[[], None]]] = [
            (3.0, self._crash),
            (1.0, self._stop),
            (1.5, self._lose_power),
            (2.5, self._cut_between),
            (1.5, self._cut_one_way),
            (2.0, self._cut_from_zookeeper),
            (0.3, self._lose_zookeeper),
            (1.0, self._hang_up),
            (2.0, self._pause),
            (1.0, self._slow),
            (1.0, self._move_controller),
            (2.0, self._reassign),
            (0.5, self._cancel_reassignments),
            (2.0, self._elect_preferred),
            (0.5, self._add_partition),
            (0.5, self._delete_topic),
            (0.7, self._create_topics),
        ]
        # Each seed has some kinds of faults, and some of those often: what needs three of a kind never comes of a
        # mixture of all.
        self._weights = [weight * self._rng.choice(_EMPHASIS) for weight, _ in self._faults]
        self._topics = self._rng.choice(_TOPICS)
        self._fault_ms = self._rng.choice(_FAULTS_MS)

    def run(self) -> None:
        """Raises Violation and what else goes wrong."""
        cluster, rng = self.cluster, self._rng
        for id_ in cluster.ids:
            cluster.start(id_)
        cluster.run(_START_MS)
        self._create_topics()
        cluster.run(1000.0)
        for producer in cluster.producers:
            producer.refresh()
        for topic, partitions in self._topics.items():
            for partition in range(partitions):
                cluster.consume(topic, partition)
        fault_chance = rng.uniform(0.1, 0.6)
        pace_ms = rng.choice(_PACES_MS)
        for _ in range(rng.randint(*_STEPS)):
            if rng.random() < fault_chance:
                self._fault()
            if rng.random() < 0.8:
                self._work()
            cluster.run(rng.expovariate(1 / pace_ms))
        self._heal()
        settle(cluster, _SETTLE_MS)
        self._prove_that_it_serves()
        judge(cluster)

    def _heal(self) -> None:
        self.cluster.scheduler.note("all heals")
        while self._healing:
            self._healing.pop()()
        for id_ in self.cluster.ids:
            self.cluster.start(id_)

    def _prove_that_it_serves(self) -> None:
        """Each partition takes and shows one more record; a client may need some tries to find that all is well."""
        cluster = self.cluster
        observer, producer = cluster.observer, cluster.producers[0]
        before = {name: len(told) for name, told in observer.acknowledged.items()}
        names = {key: f"{key[0]}~{observer.topic_ids[key[0]]}-{key[1]}" for key in self._partitions()}
        for _ in range(_TRIES):
            waiting = [key for key, name in names.items() if len(observer.acknowledged[name]) <= before.get(name, 0)]
            if not waiting:
                break
            producer.refresh()
            cluster.run(_TRY_MS / 2)
            for topic, partition in waiting:
                producer.send(topic, partition, -1)
            cluster.run(_TRY_MS / 2)
        else:
            observer.fail(f"{waiting} take no records, although the cluster is whole")
        cluster.run(_TRY_MS)

    # Work

    def _partitions(self) -> list[tuple[str, int]]:
        return sorted(self.cluster.observer.states)

    def _work(self) -> None:
        partitions = self._partitions()
        for _ in range(self._rng.randint(1, 4)):
            if partitions:
                topic, partition = self._rng.choice(partitions)
                producer = self._rng.choice(self.cluster.producers)
                producer.send(topic, partition, self._rng.choice((-1, -1, 1)))

    # Faults

    def _fault(self) -> None:
        if any(self._weights):
            self._rng.choices([fault for _, fault in self._faults], self._weights)[0]()

    def _for_a_while(self, what: str, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """A fault that ends by itself, or with all others."""
        scheduler = self.cluster.scheduler
        duration_ms = self._rng.uniform(*self._fault_ms)
        scheduler.note(f"fault: {what} for {duration_ms:.0f} ms")

        def heal() -> None:
            scheduler.note(f"healed: {what}")
            end()

        def due() -> None:
            if heal in self._healing:
                self._healing.remove(heal)
                heal()

        self._healing.append(heal)
        begin()
        scheduler.at(duration_ms, due)

    def _alive(self) -> list[int]:
        return [id_ for id_, process in self.cluster.brokers.items() if process is not None]

    def _crash(self) -> None:
        if alive := self._alive():
            id_ = self._rng.choice(alive)
            self._for_a_while(f"b{id_} killed", lambda: self.cluster.kill(id_), lambda: self.cluster.start(id_))

    def _stop(self) -> None:
        if alive := self._alive():
            id_ = self._rng.choice(alive)
            self._for_a_while(f"b{id_} stopped", lambda: self.cluster.stop(id_), lambda: self.cluster.start(id_))

    def _lose_power(self) -> None:
        """Of one broker at a time, for what two lose may be what was acknowledged; of any with group commit."""
        cluster = self.cluster
        cluster.observer.doubtful = {id_ for id_ in cluster.observer.doubtful if not self._in_sync(id_)}
        alive = self._alive()
        if alive and not cluster.observer.doubtful:
            id_ = self._rng.choice(alive)
            self._for_a_while(f"b{id_} without power", lambda: cluster.cut_power(id_), lambda: cluster.start(id_))

    def _in_sync(self, id_: int) -> bool:
        """Whether a broker is in every ISR that it may be in, and so has what it may have lost."""
        process = self.cluster.brokers[id_]
        manager = None if process is None else process.manager
        if process is None or not process.serving or manager is None:
            return False
        return not process.data.store.unclean if process.data is not None else False

    def _cut(self, what: str, links: list[Link]) -> None:
        network = self.cluster.network

        def cut() -> None:
            for link in links:
                network.cut(link)

        def heal() -> None:
            for link in links:
                network.heal(link)

        self._for_a_while(what, cut, heal)

    def _cut_between(self) -> None:
        """One broker from all others, or two from each other; clients may be cut off with them."""
        rng = self._rng
        id_ = rng.choice(self.cluster.ids)
        others = [other for other in self.cluster.ids if other != id_]
        if rng.random() < 0.5:
            others = [rng.choice(others)]
        links = [link for other in others for link in ((f"b{id_}", f"b{other}"), (f"b{other}", f"b{id_}"))]
        self._cut(f"cut b{id_} from {others}", links)

    def _cut_one_way(self) -> None:
        first, second = self._rng.sample([*(f"b{id_}" for id_ in self.cluster.ids), HOST], 2)
        self._cut(f"cut {first} to {second}", [(first, second)])

    def _cut_from_zookeeper(self) -> None:
        id_ = self._rng.choice(self.cluster.ids)
        self._cut(f"cut b{id_} from ZooKeeper", [(f"b{id_}", HOST), (HOST, f"b{id_}")])

    def _lose_zookeeper(self) -> None:
        names = [f"b{id_}" for id_ in self.cluster.ids]
        self._cut("cut all from ZooKeeper", [link for name in names for link in ((name, HOST), (HOST, name))])

    def _hang_up(self) -> None:
        """A connection to ZooKeeper breaks, with what is under way."""
        alive = self._alive()
        if alive:
            id_ = self._rng.choice(alive)
            process = self.cluster.brokers[id_]
            assert process is not None
            self.cluster.scheduler.note(f"fault: b{id_}'s connection to ZooKeeper breaks")
            for client in process.kazoos:
                client.kazoo.hang_up()

    def _pause(self) -> None:
        alive = self._alive()
        if alive:
            id_ = self._rng.choice(alive)
            process = self.cluster.brokers[id_]
            assert process is not None
            scheduler = self.cluster.scheduler
            process.resumes_ms = scheduler.now_ms + self._rng.uniform(*self._fault_ms)
            scheduler.note(f"fault: b{id_} pauses for {process.resumes_ms - scheduler.now_ms:.0f} ms")

    def _slow(self) -> None:
        first, second = self._rng.sample([*(f"b{id_}" for id_ in self.cluster.ids), HOST], 2)
        slow = self.cluster.network.slow
        up_to_ms = self._rng.choice((30.0, 200.0, 900.0))
        self._for_a_while(
            f"{first} to {second} takes up to {up_to_ms:g} ms",
            lambda: slow.__setitem__((first, second), up_to_ms),
            lambda: _forget(slow, (first, second)),
        )

    # Administration

    def _move_controller(self) -> None:
        """As an operator does: by removing the znode."""
        if paths.CONTROLLER in self.cluster.zookeeper.nodes:
            self.cluster.scheduler.note("fault: /controller is deleted")
            self.cluster.zookeeper.multi(0, [Delete(paths.CONTROLLER)])

    def _create_topics(self) -> None:
        there = self.cluster.observer.topic_ids
        wanted = [CreatableTopic(name, count, _REPLICAS) for name, count in self._topics.items() if name not in there]
        if wanted:
            self._ask("create topics", CreateTopicsRequest(topics=wanted), 5, CreateTopicsResponse)

    def _create_anew(self) -> None:
        self.cluster.admin.waiting -= 1
        self._create_topics()

    def _delete_topic(self) -> None:
        if topics := sorted(self.cluster.observer.topic_ids):
            topic = self._rng.choice(topics)
            self._ask(f"delete {topic}", DeleteTopicsRequest(topic_names=[topic]), 5, DeleteTopicsResponse)
            if self._rng.random() < _MADE_ANEW:
                self.cluster.admin.waiting += 1
                self.cluster.scheduler.at(self._rng.uniform(*_ANEW_MS), self._create_anew)

    def _add_partition(self) -> None:
        # Of an internal one nobody may change the number: docs/limits.md.
        topics = sorted({topic for topic, _ in self._partitions() if not topic.startswith("__")})
        if topics:
            topic = self._rng.choice(topics)
            count = sum(one == topic for one, _ in self._partitions()) + 1
            if count <= _PARTITIONS_MAX:
                request = CreatePartitionsRequest([CreatePartitionsTopic(topic, count)], timeout_ms=3000)
                self._ask(f"{topic} gets {count} partitions", request, 3, CreatePartitionsResponse)
                self.cluster.consume(topic, count - 1)

    def _reassign(self) -> None:
        if partitions := self._partitions():
            topic, partition = self._rng.choice(partitions)
            # Not to one alone: what that had acknowledged, its power failure might lose.
            replicas = self._rng.sample(self.cluster.ids, self._rng.randint(2, len(self.cluster.ids)))
            self._ask_to_reassign(topic, partition, replicas)

    def _cancel_reassignments(self) -> None:
        if partitions := self._partitions():
            self._ask_to_reassign(*self._rng.choice(partitions), None)

    def _ask_to_reassign(self, topic: str, partition: int, replicas: list[int] | None) -> None:
        moved = ReassignableTopic(topic, [ReassignablePartition(partition, replicas)])
        request = AlterPartitionReassignmentsRequest(topics=[moved])
        self._ask(f"reassign {topic}-{partition} to {replicas}", request, 0, AlterPartitionReassignmentsResponse)

    def _elect_preferred(self) -> None:
        if partitions := self._partitions():
            topic, partition = self._rng.choice(partitions)
            request = ElectLeadersRequest(0, [TopicPartitions(topic, [partition])], 3000)
            self._ask(f"elect the preferred leader of {topic}-{partition}", request, 2, ElectLeadersResponse)

    def _ask(self, what: str, *request: object) -> None:
        self.cluster.scheduler.note(f"admin: {what}")
        self.cluster.admin.ask(*request)  # type: ignore[arg-type]


def _forget(slow: dict[Link, float], link: Link) -> None:
    slow.pop(link, None)


def run(seed: int, folder: Path) -> Outcome:
    """One whole simulation; a seed decides how many brokers there are as well, and some of their settings."""
    failure = None
    rng = random.Random(seed)
    settings: dict[str, str] = {}
    for options in _SETTINGS:
        settings |= rng.choice(options)
    with simulated(seed, folder, rng.choice((3, 3, 4)), settings) as cluster:
        try:
            Schedule(cluster).run()
        except AssertionError as wrong:
            failure = cluster.scheduler.failures[0] if cluster.scheduler.failures else str(wrong)
        return Outcome(seed, cluster.scheduler.trace, failure)


def first_failure(run: Callable[[int, Path], Outcome], seeds: Collection[int], folder: Path) -> Outcome | None:
    """None where every seed passes, each in a folder of its own."""
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        outcome = run(seed, place)
        if outcome.failure is not None:
            return outcome
    return None
